// Perceptrons of positions, a block of points at a time.
#ifndef PHASOR_KERNELS_CPU_PERCEPTRON_H_
#define PHASOR_KERNELS_CPU_PERCEPTRON_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [rows.begin, rows.end) of the task (contracts: PerceptronTask, PairPerceptronTask). Each lane of a vector is one
// point and goes through the operations of the reference, so the bits are the same on every instruction set. Allocates the
// numbers between the layers of one block, about 64 KiB or 16 rows of the widest layer; thread-safe. Errors:
// INVALID_ARGUMENT for a null pointer or heads that the perceptron does not have; CANCELLED.
absl::Status RunPerceptron(const PerceptronTask& task, RowRange rows, const CancelFlag* cancel);
absl::Status RunPerceptron(const PairPerceptronTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t PerceptronRowsPerSlice(const PerceptronTask& task);
int64_t PerceptronRowsPerSlice(const PairPerceptronTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_PERCEPTRON_H_
