// Angle tables whose positions have several axes.
#ifndef PHASOR_KERNELS_CPU_ANGLE_AXES_H_
#define PHASOR_KERNELS_CPU_ANGLE_AXES_H_

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/angle_setup.h"

namespace phasor {

// RunAngleTask of a checked task with plan->axes > 1: one table per axis, each of that axis's pairs; those that do not lie
// side by side are computed apart and moved to their columns.
absl::Status RunAngleAxes(const AngleTask& task, RowRange rows, const CancelFlag* cancel, AngleSetupCache& setups);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ANGLE_AXES_H_
