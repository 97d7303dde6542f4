// Sums whose order is fixed, so that every backend, instruction set and cut of the work gives the same bits.
//
// The order: partial sum p of kPartialSums takes the terms p, p + 16, p + 32 … one after the other, beginning with +0; the
// partial sums are then added as a tree: s[i] + s[i + 8], of these s[i] + s[i + 4], then + 2, + 1. The result is never −0.
// Error of a dot product of n terms: at most (n/16 + 5)·2^−53·Σ|a·b|, to first order.
#ifndef PHASOR_KERNELS_CORE_SUM_H_
#define PHASOR_KERNELS_CORE_SUM_H_

#include <cmath>
#include <cstdint>

#include "kernels/core/host_device.h"

namespace phasor {

inline constexpr int kPartialSums = 16;

// The partial sums of a sum that is on its way.
class FixedSum {
 public:
  // Term number `index`; terms come with indices 0, 1, 2 …
  PHASOR_HOST_DEVICE void Add(int64_t index, double term) { partial_[index % kPartialSums] += term; }
  // The term a·b, not rounded by itself.
  PHASOR_HOST_DEVICE void AddProduct(int64_t index, double a, double b) {
    double& sum = partial_[index % kPartialSums];
    sum = std::fma(a, b, sum);
  }
  PHASOR_HOST_DEVICE double Total() const {
    double s[kPartialSums];
    for (int i = 0; i < kPartialSums; ++i) s[i] = partial_[i];
    for (int width = kPartialSums / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) s[i] += s[i + width];
    }
    return s[0] + 0.0;
  }

 private:
  double partial_[kPartialSums] = {};
};

// Σ a[i]·b[i], i = 0 … n − 1.
PHASOR_HOST_DEVICE inline double FixedDot(const double* a, const double* b, int64_t n) {
  FixedSum sum;
  for (int64_t i = 0; i < n; ++i) sum.AddProduct(i, a[i], b[i]);
  return sum.Total();
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_SUM_H_
