// What PoPE's and FoPE's tables need beside their plans.
#ifndef PHASOR_KERNELS_PROGRAM_POLAR_H_
#define PHASOR_KERNELS_PROGRAM_POLAR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/encodings/weight.h"
#include "kernels/program.h"
#include "kernels/program/rotation.h"

namespace phasor {

// δ in the forms that PolarAngleTask takes; values are clamped to [−2π, 0] and NaN counts as 0. They are there when `step`
// has ended, about 2 µs a value. The step holds on to the weight.
struct PreparedPhases {
  std::shared_ptr<const PolarPhases> phases;
  ProgramStep step;
};
PreparedPhases PreparePhases(const WeightRef& delta);

// The step that fills factors[0 … count) with the scale at each position. `positions` must outlive it.
ProgramStep FactorStep(const PositionScale& scale, const PositionSource& positions, int64_t count, double* factors);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_POLAR_H_
