// Terms of scores that work on whole rows, sums, and the way out.
#ifndef PHASOR_KERNELS_CPU_SCORE_TERMS_H_
#define PHASOR_KERNELS_CPU_SCORE_TERMS_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task (contracts: score_tasks.h). GridProductTask and ContextualPositionTask allocate a
// row of keys or two; RelativeValueTask 16 rows of values. Thread-safe. Errors: INVALID_ARGUMENT for extents below 0, rows
// outside the shape or a null pointer; CANCELLED.
absl::Status RunScoreTerm(const GridProductTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunScoreTerm(const ContextualPositionTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunScoreTerm(const ScoreSumTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunScoreTerm(const ScoreOutputTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunScoreTerm(const RelativeValueTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t ScoreTermRowsPerSlice(const GridProductTask& task);
int64_t ScoreTermRowsPerSlice(const ContextualPositionTask& task);
int64_t ScoreTermRowsPerSlice(const ScoreSumTask& task);
int64_t ScoreTermRowsPerSlice(const ScoreOutputTask& task);
int64_t ScoreTermRowsPerSlice(const RelativeValueTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_SCORE_TERMS_H_
