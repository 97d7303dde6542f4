// Rows of a distilled function, as steps.
#ifndef PHASOR_KERNELS_PROGRAM_DISTILLED_ROWS_H_
#define PHASOR_KERNELS_PROGRAM_DISTILLED_ROWS_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/program.h"

namespace phasor {

// Where a row's columns go: [rows, plan.columns()] of `dtype` (IsFloat), dense; or, where `second` is given, the first half
// of the columns to `out` and the other half to `second`, both dense.
struct DistilledRows {
  const DistilledPlan* plan = nullptr;
  PositionSource positions;  // |m − first_position| < 2^31 − 1
  DType dtype = DType::kF32;
  void* out = nullptr;
  void* second = nullptr;
};

// Inputs of the first layer at positions, inputs[r·perceptron.inputs() + k]: each cosine is the correctly rounded one of the
// exact angle, up to 0.5001 units in the last place. Errors: the backend's.
absl::Status DistilledInputs(const Backend& backend, const DistilledPlan& plan, std::span<const double> positions,
                             double* inputs, const CancelFlag* cancel);

// One rounding of the perceptron's f64 outputs to `dtype`. The plan and what the positions point at must outlive the step.
ProgramStep DistilledStep(const DistilledRows& rows, int64_t count);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_DISTILLED_ROWS_H_
