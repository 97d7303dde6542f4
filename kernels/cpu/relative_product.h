// Scores that are products of queries or keys by the rows of a table that their distances select.
#ifndef PHASOR_KERNELS_CPU_RELATIVE_PRODUCT_H_
#define PHASOR_KERNELS_CPU_RELATIVE_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task (contract: RelativeProductTask). Only the table rows between the smallest and the
// largest that a block of queries and keys needs are multiplied. Allocates below 4 MiB for heads of 128 channels, in
// proportion beyond; thread-safe. Errors: INVALID_ARGUMENT for extents below 0, rows outside the shape or a null pointer;
// CANCELLED.
absl::Status RunRelativeProduct(const RelativeProductTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t RelativeProductRowsPerSlice(const RelativeProductTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_RELATIVE_PRODUCT_H_
