// A product of two doubles with one rounding to another type.
#ifndef PHASOR_KERNELS_CORE_ROUND_PRODUCT_H_
#define PHASOR_KERNELS_CORE_ROUND_PRODUCT_H_

#include <cmath>
#include <type_traits>

#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"

namespace phasor {

// Exact products of doubles have an error term that a double holds, while the product itself is a normal number. Below
// that, every narrower type has a zero.
template <typename T>
PHASOR_HOST_DEVICE inline T RoundedProduct(double a, double b) {
  const double product = a * b;
  if constexpr (std::is_same_v<T, double>) {
    return CanonicalizeNaN(product);
  } else {
    const double magnitude = product < 0 ? -product : product;
    const bool has_error = magnitude > 0x1p-900 && BitsOf(magnitude) < kInfinityBits<double>;
    if (!has_error) return Narrow<T>(product);
    return Narrow<T>(DoubleDouble{product, std::fma(a, b, -product)});
  }
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_ROUND_PRODUCT_H_
