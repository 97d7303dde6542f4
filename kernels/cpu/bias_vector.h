// ALiBi's values by distance: one correctly rounded number per head and distance.
#ifndef PHASOR_KERNELS_CPU_BIAS_VECTOR_H_
#define PHASOR_KERNELS_CPU_BIAS_VECTOR_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Writes distances first_distance + [rows.begin, rows.end) of `task` (contract: BiasVectorTask). Each value is the exact
// slope·d (causal) or −slope·|d| (symmetric), with the slope as the sum of its two doubles, rounded once to nearest even;
// an exact zero is +0. By integers alone, about 10 ns a value. Allocates nothing; thread-safe.
// Errors: INVALID_ARGUMENT for a null pointer, heads outside the plan's, a slope that is not finite, a distance of 2^32 or
// more, a type that is not a float; CANCELLED.
absl::Status RunBiasVector(const BiasVectorTask& task, RowRange rows, const CancelFlag* cancel);

// Distances that take about a millisecond or less on one core; ≥ 1.
int64_t BiasVectorRowsPerSlice(const BiasVectorTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_BIAS_VECTOR_H_
