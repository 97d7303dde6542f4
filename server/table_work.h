// Table windows that no tile of the cache serves, as Work.
#ifndef PHASOR_SERVER_TABLE_WORK_H_
#define PHASOR_SERVER_TABLE_WORK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "server/positions.h"
#include "server/work.h"

namespace phasor::server {

// What all of them have: one source, positions, one array or two. Members are filled in by the parser.
class TableWork : public Work {
 public:
  PositionSet positions;
  DType dtype = DType::kF32;

  Cut cut() const override { return Cut::kFirstAxis; }

 protected:
  const EncodingSpec& spec() const { return sources.front().spec.spec; }
};

// cos and sin at positions of several axes, or fractional ones. Outputs: cos and sin, or table; then inv_freq.
class AngleTableWork final : public TableWork {
 public:
  TableForm form = TableForm::kHalf;
  int64_t columns = 0;
  bool inverse = false;

  std::shared_ptr<const Work> Rows(int64_t first, int64_t count) const override;
  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override;
};

// Rows of an absolute encoding. Outputs: table; then inv_freq.
class AbsoluteTableWork final : public TableWork {
 public:
  std::shared_ptr<const Work> Rows(int64_t first, int64_t count) const override;
  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override;
};

// Numbers of the rows that a learned encoding reads. Output: table, I64 or I32.
class IndexTableWork final : public TableWork {
 public:
  std::shared_ptr<const Work> Rows(int64_t first, int64_t count) const override;
  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override;
};

// What a canonical absolute spec says about the layout of its rows that its plan's key does not.
std::string LayoutOf(const EncodingSpec& spec);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TABLE_WORK_H_
