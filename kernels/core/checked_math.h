// Size arithmetic on numbers that a caller chose: never wraps, says so instead.
#ifndef PHASOR_KERNELS_CORE_CHECKED_MATH_H_
#define PHASOR_KERNELS_CORE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>
#include <span>

namespace phasor {

// a·b and a+b, or nothing when the result does not fit in int64_t.
inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}
inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// The product of all extents; nothing when one is negative or the product does not fit. Empty shape: 1.
inline std::optional<int64_t> CheckedElements(std::span<const int64_t> shape) {
  std::optional<int64_t> n = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    n = CheckedMul(*n, extent);
    if (!n) return std::nullopt;
  }
  return n;
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_CHECKED_MATH_H_
