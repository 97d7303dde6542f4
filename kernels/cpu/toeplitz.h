// Biases that depend on key − query, written out in full from one vector per head.
#ifndef PHASOR_KERNELS_CPU_TOEPLITZ_H_
#define PHASOR_KERNELS_CPU_TOEPLITZ_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Writes rows [rows.begin, rows.end) of `task`, a row being one (head, query) pair (contract: ToeplitzTask). Bits are
// copied. Large results are streamed in whole aligned lines whatever the number of keys and the address of `out`; the vector
// is read unaligned, from cache. Moves the output once; allocates nothing; thread-safe. Errors: INVALID_ARGUMENT for a null
// pointer, an element size other than 2, 4 or 8, or extents below 0; CANCELLED.
absl::Status RunToeplitz(const ToeplitzTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t ToeplitzRowsPerSlice(const ToeplitzTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_TOEPLITZ_H_
