// Biases from products of projected positions, and from differences of sums.
#ifndef PHASOR_KERNELS_CPU_POSITION_TERMS_H_
#define PHASOR_KERNELS_CPU_POSITION_TERMS_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task, a row being one (head, query) pair (contracts: SumDifferenceTask,
// PositionProductTask). Each lane of a vector is one key and goes through the operations of the reference. Allocates
// nothing; thread-safe. Errors: INVALID_ARGUMENT for null pointers, extents below 0, or rows outside the task; CANCELLED.
absl::Status RunSumDifference(const SumDifferenceTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunPositionProduct(const PositionProductTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t SumDifferenceRowsPerSlice(const SumDifferenceTask& task);
int64_t PositionProductRowsPerSlice(const PositionProductTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_POSITION_TERMS_H_
