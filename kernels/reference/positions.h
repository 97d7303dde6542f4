// The position of a table's row, for the reference backend.
#ifndef PHASOR_KERNELS_REFERENCE_POSITIONS_H_
#define PHASOR_KERNELS_REFERENCE_POSITIONS_H_

#include <cstdint>
#include <optional>

#include "kernels/core/checked_math.h"
#include "kernels/core/sincos.h"
#include "kernels/encodings/wide.h"
#include "kernels/tasks/position_source.h"

namespace phasor::reference {

inline constexpr int64_t kPositionLimit = int64_t{1} << 31;

// A whole position or a fractional one.
struct Position {
  Wide exact;
  float f32 = 0;
};

inline std::optional<Position> Whole(std::optional<int64_t> position) {
  if (!position || *position <= -kPositionLimit || *position >= kPositionLimit) return std::nullopt;
  return Position{Wide::FromInt(*position), static_cast<float>(*position)};
}

inline std::optional<Position> Fractional(double position) {
  const double magnitude = position < 0 ? -position : position;
  const bool in_range = magnitude == 0 || (magnitude >= kSmallestFraction && magnitude < kPositionLimit);
  if (!in_range) return std::nullopt;
  return Position{position, static_cast<float>(position)};
}

// None where the row has no position, or one out of range.
inline std::optional<Position> PositionOf(const PositionSource& positions, int64_t row) {
  const auto index = static_cast<size_t>(row);
  if (!positions.fractional_ids.empty()) {
    if (index >= positions.fractional_ids.size()) return std::nullopt;
    return Fractional(positions.fractional_ids[index]);
  }
  if (!positions.ids.empty()) {
    if (index >= positions.ids.size()) return std::nullopt;
    return Whole(positions.ids[index]);
  }
  const auto distance = CheckedMul(row, positions.stride);
  return Whole(distance ? CheckedAdd(positions.start, *distance) : std::nullopt);
}

}  // namespace phasor::reference

#endif  // PHASOR_KERNELS_REFERENCE_POSITIONS_H_
