// Scores that are products of queries by keys, and what all products of score tasks share.
#ifndef PHASOR_KERNELS_CPU_SCORE_PRODUCT_H_
#define PHASOR_KERNELS_CPU_SCORE_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task (contract: ScoreProductTask). Allocates below 1 MiB for heads of 512 channels, in
// proportion beyond; thread-safe. Errors: INVALID_ARGUMENT for extents below 0, rows outside the shape or a null pointer;
// CANCELLED.
absl::Status RunScoreProduct(const ScoreProductTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t ScoreProductRowsPerSlice(const ScoreProductTask& task);

// Likewise for products of any kind that work on blocks of `block` queries: whole blocks where a block is no more than twice
// as many rows as fit.
int64_t ProductRowsPerSlice(const ScoreShape& shape, int64_t block);

// OK, or INVALID_ARGUMENT: what every task of scores asks of its shape, rows and memory.
absl::Status CheckScores(const ScoreShape& shape, RowRange rows, const void* scores);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_SCORE_PRODUCT_H_
