// Scores that are products: queries by keys, and queries or keys by the rows of a table that their distances select.
#ifndef PHASOR_KERNELS_CPU_SCORE_PRODUCT_H_
#define PHASOR_KERNELS_CPU_SCORE_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task (contracts: ScoreProductTask, RelativeProductTask). Only the table rows between
// the smallest and the largest that a block of queries and keys needs are multiplied. Allocates below 2 MiB for heads of
// 512 channels, in proportion beyond; thread-safe. Errors: INVALID_ARGUMENT for extents below 0, rows outside the shape or
// a null pointer; CANCELLED.
absl::Status RunScoreProduct(const ScoreProductTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunScoreProduct(const RelativeProductTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t ScoreProductRowsPerSlice(const ScoreProductTask& task);
int64_t ScoreProductRowsPerSlice(const RelativeProductTask& task);

// OK, or INVALID_ARGUMENT: what every task of scores asks of its shape, rows and memory.
absl::Status CheckScores(const ScoreShape& shape, RowRange rows, const void* scores);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_SCORE_PRODUCT_H_
