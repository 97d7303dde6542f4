#include <array>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sum.h"
#include "kernels/reference/positions.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

absl::Status NoPosition(int64_t row) {
  return absl::InvalidArgumentError(absl::StrCat("position of row ", row, " is not within ±(2^31 − 1)"));
}

template <typename T>
void Store(void* base, int64_t index, ComputeType<T> value) {
  StoreBits(base, index, sizeof(T), BitsOf(Narrow<T>(value)));
}

template <typename T>
void ApplyHead(const PolarTask& task, int64_t x, int64_t y, int64_t table) {
  using C = ComputeType<T>;
  for (int64_t i = 0; i < task.head_dim; ++i) {
    const C radius = math::Softplus(Widen<C>(FromBits<T>(LoadBits(task.x, x + i, sizeof(T)))));
    const C cos = FromBits<C>(LoadBits(task.cos, table + i, sizeof(C)));
    const C sin = FromBits<C>(LoadBits(task.sin, table + i, sizeof(C)));
    Store<T>(task.y, y + i, radius * cos);
    Store<T>(task.y, y + task.head_dim + i, radius * sin);
  }
}

}  // namespace

absl::Status RunRow(const PolarAngleTask& task, int64_t row) {
  if (task.cos == nullptr || task.sin == nullptr) return absl::InvalidArgumentError("polar table without an output");
  const auto position = PositionOf(task.positions, row);
  if (!position) return NoPosition(row);
  const AnglePlan& plan = *task.plan;
  const BinaryFormat& format = FormatOf(task.dtype);
  for (int64_t h = 0; h < task.heads; ++h) {
    for (int64_t i = 0; i < plan.pairs(); ++i) {
      const auto pair = static_cast<size_t>(i), phase = static_cast<size_t>(h * plan.pairs() + i);
      const int64_t index = row * task.heads * plan.pairs() + static_cast<int64_t>(phase);
      WideSinCos angle;
      if (plan.precision == Precision::kCompatF32) {
        float radians = plan.inv_freq_f32[pair] * position->f32;
        radians += task.phases->radians[phase];
        const WideSinCos exact = SinCosOfTurns(Wide(radians) / (Wide(2.0) * Pi()));
        angle = {ToFloat(exact.sin), ToFloat(exact.cos)};
      } else {
        angle = SinCosOfTurns(Wide::FromTurns(plan.frequencies[pair]) * position->exact +
                              Wide::FromTurns(task.phases->turns[phase]));
      }
      StoreBits(task.cos, index, SizeOf(task.dtype), RoundToBits(angle.cos, format));
      StoreBits(task.sin, index, SizeOf(task.dtype), RoundToBits(angle.sin, format));
    }
  }
  return absl::OkStatus();
}

absl::Status RunRow(const MixedAngleTask& task, int64_t row) {
  if (task.cos == nullptr || task.sin == nullptr) return absl::InvalidArgumentError("mixed table without an output");
  const auto position = PositionOf(task.positions, row);
  if (!position) return NoPosition(row);
  const MixedAnglePlan& plan = *task.plan;
  const double factor = task.factors == nullptr ? 1 : task.factors[row];
  const auto inputs = static_cast<int64_t>(plan.frequencies.size());
  std::vector<double> cosines, sines;
  for (const Turns& frequency : plan.frequencies) {
    const WideSinCos angle = SinCosOfTurns(Wide::FromTurns(frequency) * position->exact);
    cosines.push_back(ToDouble(angle.cos));
    sines.push_back(ToDouble(angle.sin));
  }
  const auto mix = [&](const Weight& coefficients, const std::vector<double>& values, int64_t head, int64_t output) {
    FixedSum sum;
    for (int64_t j = 0; j < inputs; ++j) {
      sum.AddProduct(j, values[static_cast<size_t>(j)], coefficients.at((head * inputs + j) * plan.outputs + output));
    }
    return sum.Total();
  };
  for (int64_t h = 0; h < plan.heads; ++h) {
    for (int64_t d = 0; d < plan.pairs; ++d) {
      const double cos = d < plan.outputs ? mix(*plan.cos_coef, cosines, h, d) : 1;
      const double sin = d < plan.outputs ? mix(*plan.sin_coef, sines, h, d) : 0;
      const int64_t index = (row * plan.heads + h) * plan.pairs + d;
      VisitFloat(task.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        StoreBits(task.cos, index, sizeof(T), BitsOf(Narrow<T>(cos * factor)));
        StoreBits(task.sin, index, sizeof(T), BitsOf(Narrow<T>(sin * factor)));
      });
    }
  }
  return absl::OkStatus();
}

absl::Status RunRow(const PolarTask& task, int64_t token) {
  if (task.x == nullptr || task.y == nullptr || task.cos == nullptr || task.sin == nullptr) {
    return absl::InvalidArgumentError("polar embedding without an input, a table or an output");
  }
  for (int64_t h = 0; h < task.heads; ++h) {
    VisitFloat(task.dtype, [&](auto tag) {
      ApplyHead<typename decltype(tag)::type>(task, token * task.x_token_stride + h * task.x_head_stride,
                                              token * task.y_token_stride + h * task.y_head_stride,
                                              token * task.table_stride + h * task.table_head_stride);
    });
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
