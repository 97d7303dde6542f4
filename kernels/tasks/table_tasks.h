// Tasks of absolute encodings. Part of backend.h.
#ifndef PHASOR_KERNELS_TASKS_TABLE_TASKS_H_
#define PHASOR_KERNELS_TASKS_TABLE_TASKS_H_

#include <array>
#include <cstdint>
#include <span>

#include "kernels/core/dtype.h"
#include "kernels/encodings/plan_tables.h"
#include "kernels/tasks/position_source.h"

namespace phasor {

// Rows of a learned table: out[r·row_stride + c] = the plan's value of row (position_r + offset), or of hidden_row where
// hidden[r] is 1. Positions are whole. Where type and factor leave the numbers alone, their bits are copied. A row that the
// table does not have is INVALID_ARGUMENT.
struct GatherRowsTask {
  const GatherPlan* plan = nullptr;  // with a table
  PositionSource positions;
  int64_t offset = 0;
  std::span<const uint8_t> hidden = {};  // empty: none
  int64_t hidden_row = 0;
  DType dtype = DType::kF32;  // IsFloat
  void* out = nullptr;
  int64_t row_stride = 0;  // elements, ≥ the plan's dim
};

// Row r, pair i: cos and sin of the plan's angle at position r, as AngleTask has them (attention factor 1). Positions are
// > 0 where the plan takes their logarithm.
struct FourierRowsTask {
  const FourierPlan* plan = nullptr;
  PositionSource positions;                              // axis 0
  std::array<PositionSource, kMaxAxes - 1> more_axes{};  // axes 1, 2 …, as many as the plan has
  DType dtype = DType::kF32;                             // IsFloat
  void* cos = nullptr;
  void* sin = nullptr;
  int64_t row_stride = 0;  // elements, ≥ pairs

  const PositionSource& axis(int64_t a) const { return a == 0 ? positions : more_axes[static_cast<size_t>(a - 1)]; }
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_TABLE_TASKS_H_
