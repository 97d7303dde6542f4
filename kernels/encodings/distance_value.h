// Values of the biases that are no straight lines, by distance: as sums of two doubles for backends, and in 320 bits for the
// last word on a rounding.
#ifndef PHASOR_KERNELS_ENCODINGS_DISTANCE_VALUE_H_
#define PHASOR_KERNELS_ENCODINGS_DISTANCE_VALUE_H_

#include <cstdint>

#include "kernels/core/double_double.h"
#include "kernels/encodings/plan_bias.h"
#include "kernels/encodings/wide.h"

namespace phasor {

// ---- KERPLE. f64 results are the hi of KerpleValue on every backend; narrower ones RN(WideKerple).

// Value of head h at distance d: relative error below kKerpleError; 0 at d = 0. |d| < 2^32.
inline constexpr double kKerpleError = 0x1p-55;
DoubleDouble KerpleValue(const KerplePlan& plan, int64_t h, int64_t d);
// In 320 bits; exact where a power is a number of 106 bits.
Wide WideKerple(const KerplePlan& plan, int64_t h, int64_t d);

// ---- Sandwich.

// Σ (cos(d·frequency) − 1) = −2·Σ sin²(d·frequency/2): relative error below 2^-86. ~0.1 µs a term.
DoubleDouble SandwichSum(const SandwichPlan& plan, int64_t d);
// factor·sum of head h: relative error below kSandwichError.
inline constexpr double kSandwichError = 0x1p-84;
DoubleDouble SandwichValue(const SandwichPlan& plan, int64_t h, DoubleDouble sum);
// By the formula as it stands, in 320 bits.
Wide WideSandwich(const SandwichPlan& plan, int64_t h, int64_t d);

// ---- Tables: RN(a·b) to `format`'s type is RN of this sum (f64: of its hi). −0 becomes +0 where a factor is 0.
DoubleDouble ExactProduct(double a, double b);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_DISTANCE_VALUE_H_
