// Biases that are laid out from values by distance: any positions, masks, batches.
#ifndef PHASOR_SERVER_WORK_BIAS_H_
#define PHASOR_SERVER_WORK_BIAS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/bias_parser.h"
#include "server/contiguous_box.h"
#include "server/mask_piece.h"
#include "server/work.h"

namespace phasor::server {

// Everything about a bias window but where its values come from. Constant once it is parsed; pieces share it.
struct BiasLayout {
  BiasRequest request;
  DType dtype = DType::kF32;
  int64_t batch = 0;             // extent of the answer's batch axis; 0: none
  int64_t value_batch = 0;       // batch rows that have values of their own (then = batch); 0: one set for all
  PositionRows query_positions;  // none: bias_offset + q
  PositionRows key_positions;    // none: k
  int64_t bias_offset = 0;
  bool masked = false;
  Masking masking;
  std::optional<AdditiveRows> additive;
  int64_t last_query = 0, last_key = 0;  // the largest positions

  int64_t batch_rows() const { return batch > 0 ? batch : 1; }
  bool full() const { return request.form == BiasForm::kFull; }
  // Rows of the answer: [batch, heads, queries].
  std::array<int64_t, 3> rows() const { return {batch_rows(), request.heads, full() ? request.queries : 1}; }
};

// Subclasses say how values are made. Index maps are biases of one head without a head axis.
class BiasMatrixWork : public Work {
 public:
  // Reads all of the window but its dtype: heads of `num_heads`, the rest of the layout, masks as inputs, outputs, scratch
  // and key. `indices`: no head axis, no masks. `fallback`: the form where none is asked for. `value_batch`: as in the
  // layout.
  absl::Status Parse(const v1::BiasWindow& window, int64_t num_heads, DType dtype, bool indices, BiasForm fallback,
                     int64_t value_batch, ParseContext& context);

  LastPosition last_position(const v1::BiasWindow& window) const {
    return LastOf(window, layout_->last_query, layout_->last_key);
  }

  Cut cut() const final { return Cut::kRows; }
  WorkPiece PieceAt(int64_t row, int64_t most, const Bytes& prepared) const final;
  int64_t PieceBytes(int64_t bytes) const final;

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const final {
    return StepsOfAll(plans, memory);
  }
  int64_t parts() const final { return PartsOf(value_parts()); }
  absl::StatusOr<std::vector<ProgramStep>> StepsOf(int64_t part, std::span<const Resolved* const> plans,
                                                   const WorkMemory& memory) const final;

 protected:
  // Where values go: out[h·head_stride + i] for `heads` heads of the request's from first_head on, of batch row `row`, at
  // distance first + i, or distances[i] where those are given.
  struct Values {
    int64_t row = 0;
    int64_t first_head = 0;
    int64_t heads = 0;
    int64_t first = 0;
    int64_t count = 0;
    std::span<const int64_t> distances;
    std::byte* out = nullptr;
    int64_t head_stride = 0;
  };
  // The step that makes them. What it points at must live as long as plans and this object.
  virtual absl::StatusOr<ProgramStep> ValueStep(std::span<const Resolved* const> plans, const Values& values) const = 0;

  // A new work with what ValueStep needs of this one, for a piece.
  virtual std::shared_ptr<BiasMatrixWork> Blank() const = 0;

  const BiasLayout& layout() const { return *layout_; }

 private:
  absl::Status ParsePositions(const v1::BiasWindow& window, BatchAxis& batch, ParseContext& context);
  void SetPackedPositions();  // where none are given
  absl::Status SetOutputs(bool indices, const Limits& limits);
  void SetKey(bool indices, const std::string& masking_key);
  void SetLast();  // and the bytes of positions
  // What is made, and the scratch that it takes.
  void SetRows(const ContiguousBox& rows, bool piece);

  int64_t value_rows() const { return layout_->value_batch > 0 ? rows_.count[0] : 1; }
  // Batch rows that take a step of their own.
  int64_t value_parts() const { return scattered_ ? rows_.count[0] : value_rows(); }
  // Of value row b, but for where its values go.
  Values ValuesOf(int64_t b) const;
  ProgramStep DistancesStep(int64_t* distances) const;
  ProgramStep LayOutStep(const std::byte* vector, const MaskPiece* mask, const MaskRule* rule, std::byte* out) const;

  std::shared_ptr<BiasLayout> layout_ = std::make_shared<BiasLayout>();
  ContiguousBox rows_;               // of layout_->rows()
  std::optional<MaskPiece> masked_;  // set where there are masks
  bool additive_ = false;            // input 0 is the additive mask
  // Distances that occur in these rows, or those of the vector or row form.
  int64_t first_distance_ = 0;
  int64_t distances_ = 0;
  bool scattered_ = false;  // too many for a vector: values are made entry by entry
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WORK_BIAS_H_
