#include "server/rotate_work.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"

namespace phasor::server {

absl::StatusOr<XposFactors> XposOf(const XposScale& xpos, std::optional<int64_t> sequence_length) {
  if (const auto factors = XposFactorsOf(xpos, sequence_length)) return *factors;
  return InvalidField("sequence_length", "nothing", "1 … 2^31: xPos without a center takes half of it");
}

absl::Status CheckXposReach(const XposFactors& xpos, const PositionSet& positions, DType dtype, std::string_view field,
                            std::string_view what) {
  if (positions.count == 0) return absl::OkStatus();
  int64_t low = std::min(positions.at(0), positions.at(positions.count - 1));
  int64_t high = std::max(positions.at(0), positions.at(positions.count - 1));
  for (const int64_t id : positions.ids) low = std::min(low, id), high = std::max(high, id);
  const int64_t reach = XposReach(xpos, dtype);
  if (low >= xpos.center - reach && high <= xpos.center + reach) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(low < xpos.center - reach ? low : high),
                      absl::StrCat(xpos.center - reach, " … ", xpos.center + reach, ": beyond, xPos's factor overflows ",
                                   std::string(what)));
}

void RotateWork::Seal() {
  rotation.Seal();
  scratch_bytes = rotation.scratch_bytes();
  position_bytes = positions.bytes();
}

absl::StatusOr<std::vector<ProgramStep>> RotateWork::Steps(std::span<const Resolved* const> plans,
                                                           const WorkMemory& memory) const {
  RotationMemory where{plans, {}, memory.inputs, memory.outputs, memory.scratch};
  for (int64_t axis = 0; axis < positions.axes(); ++axis) {
    where.positions.axes[static_cast<size_t>(axis)] = positions.Source(axis);
  }
  return rotation.Steps(where);
}

}  // namespace phasor::server
