// Adding encodings to tensors, in vectors.
#ifndef PHASOR_KERNELS_CPU_ADD_H_
#define PHASOR_KERNELS_CPU_ADD_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of `task` (contract: AddTask). Tokens are taken in blocks whose encodings stay in L2 while
// every batch row gets them, so that a large tensor costs its own bytes alone. Thread-safe; allocates 256 KiB at most, with
// a gate or ends only. Errors: INVALID_ARGUMENT for a null pointer or extents below 0; RESOURCE_EXHAUSTED; CANCELLED.
absl::Status RunAdd(const AddTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t AddRowsPerSlice(const AddTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ADD_H_
