// PoPE and FoPE.
#ifndef PHASOR_KERNELS_CPU_POLAR_H_
#define PHASOR_KERNELS_CPU_POLAR_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Runs rows [rows.begin, rows.end) of a task (contracts: polar_tasks.h). Thread-safe. Errors: INVALID_ARGUMENT for a null
// pointer, a type that is not a float, a row without a position; CANCELLED.
absl::Status RunPolar(const PolarAngleTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunPolar(const MixedAngleTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunPolar(const PolarTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t PolarRowsPerSlice(const PolarAngleTask& task);
int64_t PolarRowsPerSlice(const MixedAngleTask& task);
int64_t PolarRowsPerSlice(const PolarTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_POLAR_H_
