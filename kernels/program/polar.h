// PoPE: radii from the content, angles from the position.
#ifndef PHASOR_KERNELS_PROGRAM_POLAR_H_
#define PHASOR_KERNELS_PROGRAM_POLAR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "kernels/core/turns.h"
#include "kernels/encodings/plan.h"
#include "kernels/encodings/weight.h"
#include "kernels/program.h"
#include "kernels/program/rotation.h"

namespace phasor {

// δ in turns modulo one, row by row; values are clamped to [−2π, 0]. NaN counts as 0.
std::vector<Turns> PhasesOf(const Weight& delta);

// Whole positions of one axis. Row r, head h, channel i of a table [rows, heads, plan.pairs()]: cos and sin of
// position_r·inv_freq_i + phase[h, i], one rounding. In kCompatF32 the angle is fl32(fl32(inv_freq)·fl32(position)) +
// fl32(δ), rounded to f32, as float32 libraries have it.
struct PolarRows {
  const AnglePlan* plan = nullptr;
  const std::vector<Turns>* phases = nullptr;  // [heads, pairs] or [pairs]; null: 0
  const std::vector<float>* deltas = nullptr;  // the same as fl32(δ), for kCompatF32
  int64_t heads = 1;                           // of the table
  RotationPositions positions;
  DType dtype = DType::kF32;  // IsFloat
  void* cos = nullptr;
  void* sin = nullptr;

  absl::Status Fill(RowRange rows, const CancelFlag* cancel) const;
};

// y = [s·cos, s·sin] with s = softplus(x) in the compute type (rounded once), each product rounded, then rounded to dtype.
// Rows are tokens; strides in elements; channels are contiguous; x and y do not overlap.
struct PolarApply {
  DType dtype = DType::kF32;  // IsFloat
  int64_t heads = 0, head_dim = 0;
  const void* x = nullptr;
  void* y = nullptr;  // heads of 2·head_dim
  int64_t x_token_stride = 0, x_head_stride = 0;
  int64_t y_token_stride = 0, y_head_stride = 0;
  const void* cos = nullptr;  // compute type; token t, head h at t·table_stride + h·table_head_stride
  const void* sin = nullptr;
  int64_t table_stride = 0, table_head_stride = 0;

  absl::Status Run(RowRange tokens, const CancelFlag* cancel) const;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_POLAR_H_
