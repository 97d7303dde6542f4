// Biases by distance laid out in one pass: by any positions, with masks.
#ifndef PHASOR_KERNELS_CPU_BIAS_MATRIX_H_
#define PHASOR_KERNELS_CPU_BIAS_MATRIX_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Writes rows [rows.begin, rows.end) of `task` (contract: BiasMatrixTask). Large results are streamed in whole lines. Keys
// at consecutive positions, and keys at one position, are copied as runs; others are gathered. Keeps 16 bytes a run while it
// works; thread-safe. Errors: INVALID_ARGUMENT for a null pointer, a type or rule that does not fit, rows outside the
// task's; CANCELLED.
absl::Status RunBiasMatrix(const BiasMatrixTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t BiasMatrixRowsPerSlice(const BiasMatrixTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_BIAS_MATRIX_H_
