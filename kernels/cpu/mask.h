// Masks, in place.
#ifndef PHASOR_KERNELS_CPU_MASK_H_
#define PHASOR_KERNELS_CPU_MASK_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Masks rows [rows.begin, rows.end) of `task` (contract: MaskTask). Reads and writes what it changes once; allocates
// nothing; thread-safe. Errors: INVALID_ARGUMENT for a null pointer, a type that is not a float, rows outside the task's, a
// rule that does not fit the sizes; CANCELLED.
absl::Status RunMask(const MaskTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t MaskRowsPerSlice(const MaskTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_MASK_H_
