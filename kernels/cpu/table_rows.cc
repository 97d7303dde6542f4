#include "kernels/cpu/table_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "kernels/core/math.h"
#include "kernels/core/round_product.h"
#include "kernels/core/sincos.h"
#include "kernels/core/sum.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

constexpr int64_t kRowsBetweenLooks = 64;
constexpr int64_t kPairsBetweenLooks = 512;  // about 0.5 ms of a sum of several axes

bool Cancelled(const CancelFlag* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

absl::Status CheckCount(const PositionSource& positions, RowRange rows) {
  const size_t count = std::max(positions.ids.size(), positions.fractional_ids.size());
  if (count == 0 || rows.end <= static_cast<int64_t>(count)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("row ", rows.end - 1, " has no position: there are ", count, " ids"));
}

// One row of the table as From to one of To.
template <typename From, typename To>
void GatherRow(const GatherPlan& plan, const From* from, To* to) {
  if (plan.l2_normalize) {
    double norm = math::Sqrt(sums::Dot<double>(from, from, plan.dim));
    if (norm < 1e-12) norm = 1e-12;
    for (int64_t c = 0; c < plan.dim; ++c) to[c] = Narrow<To>(plan.scale * (Widen<double>(from[c]) / norm));
    return;
  }
  if constexpr (std::is_same_v<From, To>) {
    if (plan.scale == 1) {
      std::memcpy(to, from, static_cast<size_t>(plan.dim) * sizeof(To));
      return;
    }
  }
  for (int64_t c = 0; c < plan.dim; ++c) to[c] = RoundedProduct<To>(Widen<double>(from[c]), plan.scale);
}

// A position as the doubles and floats that its functions take.
struct FourierPosition {
  Turns magnitude;  // |ln p| or |p|, turns per unit of the weight
  bool negative = false;
  float f32 = 0;
};

FourierPosition PositionOf(const FourierPlan& plan, double position) {
  FourierPosition result;
  const float narrow = static_cast<float>(position);
  if (plan.precision == Precision::kCompatF32) {
    result.f32 = !plan.log ? narrow : narrow == 1 ? 0.0f : ToFloat(Log(narrow));
    return result;
  }
  const Wide value = !plan.log ? Wide(position) : position == 1 ? Wide(0.0) : Log(position);
  result.negative = value < 0.0;
  result.magnitude = ToTurns(result.negative ? -value : value);
  return result;
}

// A value of the float32 path as a T.
template <typename T>
void StoreCompat(float angle, T* cos, T* sin) {
  const auto cast = [](float v) -> T {
    if constexpr (std::is_same_v<T, double>) {
      return Widen<double>(v);
    } else {
      return Narrow<T>(v);
    }
  };
  *cos = cast(CompatEntry(angle, Component::kCos));
  *sin = cast(CompatEntry(angle, Component::kSin));
}

template <typename T>
bool FourierRow(const FourierPlan& plan, const FourierPosition& position, const CancelFlag* cancel, T* cos, T* sin) {
  for (int64_t i = 0; i < plan.pairs(); ++i) {
    if (i % kPairsBetweenLooks == 0 && Cancelled(cancel)) return false;
    const double weight = plan.weights[static_cast<size_t>(i)];
    if (plan.precision == Precision::kCompatF32) {
      const float angle = ((position.f32 * static_cast<float>(weight)) * 2.0f) * 3.14159274101257324f;
      StoreCompat(angle, cos + i, sin + i);
      continue;
    }
    // The weight stands where positions do, the position where frequencies do.
    const SinCos128 value = SinCosOfFractionalPosition(position.magnitude, position.negative ? -weight : weight);
    cos[i] = RoundTo<T>(value.cos);
    sin[i] = RoundTo<T>(value.sin);
  }
  return true;
}

template <typename T>
constexpr BinaryFormat FormatOf() {
  if constexpr (std::is_same_v<T, double>) return kFormatF64;
  if constexpr (std::is_same_v<T, F16>) return kFormatF16;
  if constexpr (std::is_same_v<T, BF16>) return kFormatBF16;
  return kFormatF32;
}

// cos and sin of so many turns, which are what 320 bits hold of a sum.
template <typename T>
void StoreTurns(const Wide& turns, T* cos, T* sin) {
  const Wide phase = turns - Floor(turns + 0.5);  // −½ … ½
  const bool negative = phase < 0.0;
  const Wide magnitude = negative ? -phase : phase;
  const double size = ToDouble(magnitude);
  if (size != 0 && size < 0x1p-100) {  // beyond what fixed point resolves
    const WideSinCos value = SinCosOfTurns(phase);
    *cos = FromBits<T>(RoundToBits(value.cos, FormatOf<T>()));
    *sin = FromBits<T>(RoundToBits(value.sin, FormatOf<T>()));
    return;
  }
  // A power of two stands where positions do, so that the frequency has its leading bits.
  const int shift = size == 0 ? 0 : std::clamp(-std::ilogb(size) - 1, 0, 64);
  const double position = std::ldexp(negative ? -1.0 : 1.0, -shift);
  const SinCos128 value = SinCosOfFractionalPosition(ToTurns(ScaleByPowerOfTwo(magnitude, shift)), position);
  *cos = RoundTo<T>(value.cos);
  *sin = RoundTo<T>(value.sin);
}

// A row of a plan of several axes, or in radians. `at`: the row's coordinates; per_turn: what a sum is multiplied with.
template <typename T>
bool FourierSumRow(const FourierPlan& plan, const std::array<double, kMaxAxes>& at, const Wide& per_turn,
                   const CancelFlag* cancel, T* cos, T* sin) {
  const int64_t pairs = plan.pairs();
  for (int64_t i = 0; i < pairs; ++i) {
    if (i % kPairsBetweenLooks == 0 && Cancelled(cancel)) return false;
    if (plan.precision == Precision::kCompatF32) {
      float sum = 0;
      for (int64_t a = 0; a < plan.axes; ++a) {
        const float product = static_cast<float>(at[static_cast<size_t>(a)]) *
                              static_cast<float>(plan.weights[static_cast<size_t>(a * pairs + i)]);
        sum = a == 0 ? product : sum + product;
      }
      const float angle = plan.radians ? sum : 6.28318548202514648f * sum;
      StoreCompat(angle, cos + i, sin + i);
      continue;
    }
    Wide sum = 0.0;
    for (int64_t a = 0; a < plan.axes; ++a) {
      const double weight = plan.weights[static_cast<size_t>(a * pairs + i)];
      sum = sum + Wide(at[static_cast<size_t>(a)]) * Wide(weight);
    }
    StoreTurns(plan.radians ? sum * per_turn : sum, cos + i, sin + i);
  }
  return true;
}

double PositionAt(const PositionSource& positions, int64_t row) {
  const auto index = static_cast<size_t>(row);
  if (!positions.fractional_ids.empty()) return positions.fractional_ids[index];
  return static_cast<double>(positions.ids.empty() ? positions.start + row * positions.stride : positions.ids[index]);
}

}  // namespace

absl::Status RunGatherRows(const GatherRowsTask& task, RowRange rows, const CancelFlag* cancel) {
  const GatherPlan& plan = *task.plan;
  if (!plan.table || task.out == nullptr) return absl::InvalidArgumentError("rows of a table that is not there");
  if (!task.positions.fractional_ids.empty()) return absl::InvalidArgumentError("rows of a table at fractional positions");
  if (auto status = CheckCount(task.positions, rows); !status.ok()) return status;
  return VisitFloat(plan.table->dtype, [&](auto from_tag) {
    using From = typename decltype(from_tag)::type;
    return VisitFloat(task.dtype, [&](auto to_tag) -> absl::Status {
      using To = typename decltype(to_tag)::type;
      const auto* table = reinterpret_cast<const From*>(plan.table->data.get());
      auto* out = static_cast<To*>(task.out);
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        if (row % kRowsBetweenLooks == 0 && Cancelled(cancel)) return absl::CancelledError("cancelled");
        const auto index = static_cast<size_t>(row);
        int64_t from =
            (task.positions.ids.empty() ? task.positions.start + row * task.positions.stride : task.positions.ids[index]) +
            task.offset;
        if (!task.hidden.empty() && task.hidden[index] != 0) from = task.hidden_row;
        if (from < 0 || from >= plan.rows) {
          return absl::InvalidArgumentError(absl::StrCat("row ", row, " reads row ", from, " of a table of ", plan.rows));
        }
        GatherRow(plan, table + from * plan.dim, out + row * task.row_stride);
      }
      return absl::OkStatus();
    });
  });
}

absl::Status RunFourierRows(const FourierRowsTask& task, RowRange rows, const CancelFlag* cancel) {
  if (task.cos == nullptr || task.sin == nullptr) return absl::InvalidArgumentError("sinusoids without an output");
  for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
    if (auto status = CheckCount(task.axis(axis), rows); !status.ok()) return status;
  }
  return VisitFloat(task.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::type;
    const Wide per_turn = task.plan->radians ? Wide(1.0) / (Wide(2.0) * Pi()) : Wide(1.0);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      T* const cos = static_cast<T*>(task.cos) + row * task.row_stride;
      T* const sin = static_cast<T*>(task.sin) + row * task.row_stride;
      if (!task.plan->is_plain()) {
        std::array<double, kMaxAxes> at{};
        for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
          at[static_cast<size_t>(axis)] = PositionAt(task.axis(axis), row);
        }
        if (!FourierSumRow(*task.plan, at, per_turn, cancel, cos, sin)) return absl::CancelledError("cancelled");
        continue;
      }
      const double position = PositionAt(task.positions, row);
      if (task.plan->log && !(position > 0)) {
        return absl::InvalidArgumentError(absl::StrCat("the position of row ", row, " is not greater than 0"));
      }
      if (!FourierRow(*task.plan, PositionOf(*task.plan, position), cancel, cos, sin)) {
        return absl::CancelledError("cancelled");
      }
    }
    return absl::OkStatus();
  });
}

int64_t GatherRowsPerSlice(const GatherRowsTask& task) {
  const int64_t dim = task.plan == nullptr ? 1 : std::max<int64_t>(1, task.plan->dim);
  return std::max<int64_t>(1, 500000 / dim);
}

int64_t FourierRowsPerSlice(const FourierRowsTask& task) {
  // A logarithm of 320 bits, and about 150 ns a pair.
  const int64_t pairs = task.plan == nullptr ? 1 : task.plan->pairs();
  if (task.plan != nullptr && !task.plan->is_plain()) return std::max<int64_t>(1, 500 / std::max<int64_t>(1, pairs));
  return std::max<int64_t>(1, 1000000 / (60000 + 150 * pairs));
}

}  // namespace phasor
