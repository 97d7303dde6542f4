// Biases over windows of an image and learned functions of positions, whole or in pieces.
#ifndef PHASOR_SERVER_WINDOW_BIAS_WORK_H_
#define PHASOR_SERVER_WINDOW_BIAS_WORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/program/window_bias.h"
#include "server/contiguous_box.h"
#include "server/mask_piece.h"
#include "server/window_layout.h"
#include "server/work.h"

namespace phasor::server {

class WindowBiasWork final : public Work {
 public:
  // The whole, with its inputs, output and scratch; all else is the parser's.
  WindowBiasWork(TableSource source, WindowLayout layout, WorkArray array);

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override {
    return StepsOfAll(plans, memory);
  }
  int64_t parts() const override { return PartsOf(computed_rows()); }
  absl::StatusOr<std::vector<ProgramStep>> StepsOf(int64_t part, std::span<const Resolved* const> plans,
                                                   const WorkMemory& memory) const override;
  Cut cut() const override { return Cut::kRows; }
  WorkPiece PieceAt(int64_t row, int64_t most, const Bytes& prepared) const override;
  int64_t PieceBytes(int64_t bytes) const override;
  std::shared_ptr<const Work> Preparation() const override;
  bool prefers_whole() const override;
  int64_t PieceProducts(int64_t bytes) const override;

 private:
  // What pieces share: the layout, and of an additive mask its rows.
  struct Shared {
    WindowLayout layout;
    std::optional<AdditiveRows> additive;
  };
  // A piece, but for its output and scratch.
  WindowBiasWork(TableSource source, std::shared_ptr<const Shared> shared, const ContiguousBox& rows);

  const EncodingSpec& spec() const { return sources.front().spec.spec; }
  const WindowLayout& layout() const { return shared_->layout; }
  // Rows of the answer: [batch, heads, queries].
  std::array<int64_t, 3> AllRows() const;
  // For so many heads and queries.
  int64_t ScratchBytes(int64_t heads, int64_t queries) const;
  BiasPart PartOf(int64_t b, std::byte* out) const;
  ProgramStep CopyStep(std::byte* out) const;
  // Batch rows that are computed by themselves.
  int64_t computed_rows() const {
    const WindowLayout& l = layout();
    return l.rows_differ && !l.indices && l.request.form != BiasForm::kVector ? rows_.count[0] : 1;
  }
  int64_t part_bytes() const { return rows_.count[1] * rows_.count[2] * layout().request.keys * SizeOf(layout().dtype); }

  std::shared_ptr<const Shared> shared_;
  ContiguousBox rows_;
  std::optional<MaskPiece> masked_;
  Bytes prepared_;  // of all of the request's heads; empty: none
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WINDOW_BIAS_WORK_H_
