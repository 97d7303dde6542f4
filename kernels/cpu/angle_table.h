// Angle tables on the CPU: checks an AngleTask and runs it by the method that suits its positions, type and precision.
#ifndef PHASOR_KERNELS_CPU_ANGLE_TABLE_H_
#define PHASOR_KERNELS_CPU_ANGLE_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/angle_setup.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task, as AngleTask describes them. Exact precision: every f32, f16, bf16 and f64 entry
// correctly rounded (f64 but for a chance of 2^-60 per entry). Errors: INVALID_ARGUMENT, CANCELLED. Thread-safe.
absl::Status RunAngleTask(const AngleTask& task, RowRange rows, const CancelFlag* cancel, AngleSetupCache& setups);

// Rows that take about a millisecond on one core with AVX2; the scalar target takes several times as long.
int64_t AngleRowsPerSlice(const AngleTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ANGLE_TABLE_H_
