// Rows of learned tables, and sinusoids of given frequencies.
#ifndef PHASOR_KERNELS_CPU_TABLE_ROWS_H_
#define PHASOR_KERNELS_CPU_TABLE_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Contracts: GatherRowsTask and FourierRowsTask. Scalar; thread-safe; allocates nothing. Errors: INVALID_ARGUMENT for a row
// that the table does not have, for positions that a task cannot take, and for null outputs; CANCELLED.
absl::Status RunGatherRows(const GatherRowsTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunFourierRows(const FourierRowsTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t GatherRowsPerSlice(const GatherRowsTask& task);
int64_t FourierRowsPerSlice(const FourierRowsTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_TABLE_ROWS_H_
