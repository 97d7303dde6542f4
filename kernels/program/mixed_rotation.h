// FoPE's tables.
#ifndef PHASOR_KERNELS_PROGRAM_MIXED_ROTATION_H_
#define PHASOR_KERNELS_PROGRAM_MIXED_ROTATION_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

#include "kernels/encodings/plan.h"
#include "kernels/program/rotation.h"

namespace phasor {

// Whole positions of one axis. Rows of a MixedAnglePlan's table, [rows, heads, pairs]; every entry times `scale` where there
// is one. Computed in f64, one rounding to dtype (with a scale: the product in f64 before it).
struct MixedRotationRows {
  const MixedAnglePlan* plan = nullptr;
  RotationPositions positions;
  std::optional<PositionScale> scale;
  DType dtype = DType::kF32;  // IsFloat
  void* cos = nullptr;
  void* sin = nullptr;

  absl::Status Fill(RowRange rows, const CancelFlag* cancel) const;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_MIXED_ROTATION_H_
