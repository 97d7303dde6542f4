// Biases by distance: one rounded number per head and distance.
#ifndef PHASOR_KERNELS_CPU_BIAS_VECTOR_H_
#define PHASOR_KERNELS_CPU_BIAS_VECTOR_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Writes rows [rows.begin, rows.end) of `task` (contract: BiasVectorTask); plan_bias.h says what the values are and how they
// are rounded. Straight lines by integers alone, about 10 ns a value; rows of tables 1 ns; KERPLE 60 ns, Sandwich 0.1 µs a
// term and distance, both with a test of the rounding and 320 bits where it leaves a doubt (about 30 µs, once in millions of
// values). Thread-safe.
// Errors: INVALID_ARGUMENT for a null pointer, heads outside the plan's, a slope that is not finite, a distance of 2^32 or
// more, a type that is not a float, a plan without a table; CANCELLED.
absl::Status RunBiasVector(const BiasVectorTask& task, RowRange rows, const CancelFlag* cancel);

// Distances that take about a millisecond or less on one core; ≥ 1.
int64_t BiasVectorRowsPerSlice(const BiasVectorTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_BIAS_VECTOR_H_
