#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/reference/positions.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

struct Entry {
  uint64_t cos;
  uint64_t sin;
};

// One rounding of the exact product or quotient.
Entry ExactEntry(const AngleTask& task, const Position& position, int64_t pair) {
  const Wide turns = Wide::FromTurns(task.plan->frequencies[pair]) * position.exact;
  const WideSinCos angle = SinCosOfTurns(turns);
  const Wide factor = Wide::Sum(task.plan->attention_factor);
  const BinaryFormat& format = FormatOf(task.dtype);
  if (task.inverse) return {RoundToBits(angle.cos / factor, format), RoundToBits(angle.sin / factor, format)};
  return {RoundToBits(angle.cos * factor, format), RoundToBits(angle.sin * factor, format)};
}

// What a float32 library computes, with cos and sin correctly rounded: every step is one float operation.
Entry CompatEntry(const AngleTask& task, const Position& position, int64_t pair) {
  const float angle = task.plan->inv_freq_f32[pair] * position.f32;
  const WideSinCos exact = SinCosOfTurns(Wide(angle) / (Wide(2.0) * Pi()));  // of −0 as of 0: zeros are +0
  const float factor = task.plan->attention_factor_f32;
  const float cos = task.inverse ? ToFloat(exact.cos) / factor : ToFloat(exact.cos) * factor;
  const float sin = task.inverse ? ToFloat(exact.sin) / factor : ToFloat(exact.sin) * factor;
  const BinaryFormat& format = FormatOf(task.dtype);
  return {RoundToBits(cos, format), RoundToBits(sin, format)};
}

}  // namespace

absl::Status RunRow(const AngleTask& task, int64_t row) {
  if (task.cos == nullptr && task.sin == nullptr) return absl::InvalidArgumentError("angle table without an output");
  std::array<Position, kMaxAxes> coordinates;
  for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
    const auto position = PositionOf(task.axis(axis), row);
    if (!position) {
      return absl::InvalidArgumentError(absl::StrCat("position of row ", row, " is not within ±(2^31 − 1)"));
    }
    coordinates[static_cast<size_t>(axis)] = *position;
  }
  const int64_t element_size = SizeOf(task.dtype);
  for (int64_t i = 0; i < task.plan->pairs(); ++i) {
    const Position& position = coordinates[task.plan->axes == 1 ? 0 : task.plan->axis_of_pair[static_cast<size_t>(i)]];
    const Entry entry =
        task.plan->precision == Precision::kCompatF32 ? CompatEntry(task, position, i) : ExactEntry(task, position, i);
    const int64_t index = row * task.row_stride + i;
    if (task.cos != nullptr) StoreBits(task.cos, index, element_size, entry.cos);
    if (task.sin != nullptr) StoreBits(task.sin, index, element_size, entry.sin);
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
