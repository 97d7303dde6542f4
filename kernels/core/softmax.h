// The softmax of a row of scores.
#ifndef PHASOR_KERNELS_CORE_SOFTMAX_H_
#define PHASOR_KERNELS_CORE_SOFTMAX_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/core/host_device.h"
#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sum.h"

namespace phasor {

// y[k] = e^(x[k] − m) / Σ_j e^(x[j] − m), m the greatest of x[0 … count): X and Y are double, float, F16 or BF16; y may be x
// when they are the same type. Computed in double precision, the sum in the fixed order of sum.h, and rounded once to Y.
// Error: below 0.5001 ulp where Y is narrower than double; for double the three roundings (term, sum, quotient) and the
// sum's own, (count/16 + 5)·2^-53 at most.
//
// A row of −∞ alone (fully masked) gives zeros. A NaN or +∞ in the row makes all of it the canonical NaN.
template <typename Y, typename X>
PHASOR_HOST_DEVICE void SoftmaxRow(const X* x, int64_t count, Y* y) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double greatest = -kInfinity;
  bool has_nan = false;
  for (int64_t k = 0; k < count; ++k) {
    const double value = Widen<double>(x[k]);
    if (greatest < value) greatest = value;
    has_nan = has_nan || value != value;
  }
  if (has_nan || greatest == kInfinity || greatest == -kInfinity) {
    const bool masked = !has_nan && greatest == -kInfinity;
    for (int64_t k = 0; k < count; ++k) y[k] = FromBits<Y>(masked ? BitsType<Y>{0} : kCanonicalNaNBits<Y>);
    return;
  }

  const auto term = [greatest](X score) {
    const double value = Widen<double>(score);
    if constexpr (std::is_same_v<Y, double>) {
      return math::ExpOfDifference(value, greatest);
    } else {
      return math::CoarseExp(value - greatest);
    }
  };
  sums::PartialSums<double> partial;
  for (int64_t k = 0; k < count; ++k) partial.Add(k, term(x[k]));
  const double sum = partial.Total();
  for (int64_t k = 0; k < count; ++k) y[k] = Narrow<Y>(term(x[k]) / sum);
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_SOFTMAX_H_
