#include "kernels/tasks/position_check.h"

#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"

#include "kernels/core/sincos.h"

namespace phasor {
namespace {

constexpr int64_t kPositionLimit = int64_t{1} << 31;

absl::Status CheckPosition(__int128 position, int64_t row) {
  if (position > -kPositionLimit && position < kPositionLimit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("position of row ", row, " is out of range; |position| < 2^31 is allowed"));
}

absl::Status CheckCount(size_t count, int64_t end) {
  if (end <= static_cast<int64_t>(count)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("row ", end - 1, " has no position: there are ", count, " ids"));
}

absl::Status CheckFractions(std::span<const double> ids, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const double id = ids[static_cast<size_t>(row)];
    const double magnitude = id < 0 ? -id : id;
    const bool in_range = magnitude == 0 || (magnitude >= kSmallestFraction && magnitude < kPositionLimit);
    if (!in_range) {
      return absl::InvalidArgumentError(
          absl::StrCat("position of row ", row, " is out of range; 0 or 2^-64 ≤ |position| < 2^31 is allowed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPositions(const PositionSource& positions, int64_t begin, int64_t end) {
  if (!positions.fractional_ids.empty()) {
    if (auto status = CheckCount(positions.fractional_ids.size(), end); !status.ok()) return status;
    return CheckFractions(positions.fractional_ids, begin, end);
  }
  if (!positions.ids.empty()) {
    if (auto status = CheckCount(positions.ids.size(), end); !status.ok()) return status;
    for (int64_t row = begin; row < end; ++row) {
      if (auto status = CheckPosition(positions.ids[static_cast<size_t>(row)], row); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  const auto at = [&](int64_t row) {
    return static_cast<__int128>(positions.start) + static_cast<__int128>(row) * positions.stride;
  };
  if (auto status = CheckPosition(at(begin), begin); !status.ok()) return status;
  return CheckPosition(at(end - 1), end - 1);
}

}  // namespace phasor
