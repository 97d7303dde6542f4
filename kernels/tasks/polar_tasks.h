// Tasks of PoPE and FoPE. Part of backend.h.
#ifndef PHASOR_KERNELS_TASKS_POLAR_TASKS_H_
#define PHASOR_KERNELS_TASKS_POLAR_TASKS_H_

#include <cstdint>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/turns.h"
#include "kernels/encodings/plan_angle.h"
#include "kernels/encodings/plan_polar.h"
#include "kernels/tasks/position_source.h"

namespace phasor {

// Learned phases δ of [heads, pairs], in the forms that tables are made from.
struct PolarPhases {
  std::vector<Turns> turns;      // δ/2π modulo one
  std::vector<double> cos, sin;  // of those turns, correctly rounded
  std::vector<float> radians;    // δ rounded to f32, for kCompatF32
};

// PoPE's tables of keys. Row r, head h, pair i of a table [rows, heads, pairs]: cos and sin of position_r·inv_freq_i + δ[h,
// i], one rounding; an exact zero is +0. In kCompatF32 the angle is fl32(fl32(inv_freq)·fl32(position)) + fl32(δ), rounded
// to f32, cos and sin of it rounded to f32, and cast.
struct PolarAngleTask {
  const AnglePlan* plan = nullptr;      // one axis, A = 1
  const PolarPhases* phases = nullptr;  // of heads·pairs
  int64_t heads = 1;
  PositionSource positions;
  DType dtype = DType::kF32;  // IsFloat
  void* cos = nullptr;
  void* sin = nullptr;
};

// FoPE's tables: rows of a MixedAnglePlan, [rows, heads, pairs], each entry times factors[row]. f64, the product rounded to
// f64 and then to dtype.
struct MixedAngleTask {
  const MixedAnglePlan* plan = nullptr;
  PositionSource positions;
  const double* factors = nullptr;  // [rows]; null: 1
  DType dtype = DType::kF32;        // IsFloat
  void* cos = nullptr;
  void* sin = nullptr;
};

// y = [s·cos, s·sin] with s = softplus(x) in the compute type (math.h), each product rounded, then rounded to dtype; a NaN
// is the canonical one. Rows are tokens; strides in elements; channels are contiguous; x and y do not overlap.
struct PolarTask {
  DType dtype = DType::kF32;  // IsFloat
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t head_dim = 0;
  const void* x = nullptr;
  void* y = nullptr;  // heads of 2·head_dim
  int64_t x_token_stride = 0, x_head_stride = 0;
  int64_t y_token_stride = 0, y_head_stride = 0;
  const void* cos = nullptr;  // compute type; token t, head h at t·table_stride + h·table_head_stride
  const void* sin = nullptr;
  int64_t table_stride = 0, table_head_stride = 0;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_POLAR_TASKS_H_
