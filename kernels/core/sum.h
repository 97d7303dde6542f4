// Sums whose order is fixed, so that every backend, instruction set and cut of the work gives the same bits: 16 partial sums
// side by side, which every vector width divides, and scans in blocks of 64. kernels/cpu/sum-inl.h has the same in vectors.
#ifndef PHASOR_KERNELS_CORE_SUM_H_
#define PHASOR_KERNELS_CORE_SUM_H_

#include <cmath>
#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"

namespace phasor::sums {

inline constexpr int kPartialSums = 16;
inline constexpr int64_t kScanBlock = 64;

// A sum of elements 0, 1, 2, … of T (float or double). Element k goes to partial sum k mod 16, which starts at +0; each
// partial sum takes its elements in order of k. The total is a tree over the partial sums: p_i + p_(i+8) for i < 8, of
// those q_i + q_(i+4), then + 2, then + 1. Nothing is reordered, and nothing is added for elements that are not there. The
// total is never −0, and a NaN is the canonical one. Error of a dot product of n terms in double precision: at most
// (n/16 + 5)·2^−53·Σ|a·b|, to first order.
template <typename T>
class PartialSums {
 public:
  PHASOR_HOST_DEVICE void Add(int64_t k, T value) { partial_[k % kPartialSums] += value; }
  // The product is not rounded.
  PHASOR_HOST_DEVICE void AddProduct(int64_t k, T a, T b) {
    T& partial = partial_[k % kPartialSums];
    partial = std::fma(a, b, partial);
  }

  // The total of 16 partial sums in order.
  PHASOR_HOST_DEVICE static T Fold(const T* partial) {
    T sums[kPartialSums / 2];
    for (int i = 0; i < 8; ++i) sums[i] = partial[i] + partial[i + 8];
    for (int i = 0; i < 4; ++i) sums[i] += sums[i + 4];
    for (int i = 0; i < 2; ++i) sums[i] += sums[i + 2];
    return CanonicalizeNaN(sums[0] + sums[1] + T{0});
  }
  PHASOR_HOST_DEVICE T Total() const { return Fold(partial_); }

 private:
  T partial_[kPartialSums] = {};
};

// The sum of x[0 … count), each element first turned into T, exactly: T is float for 16-bit elements and floats, double for
// any. 0 elements: +0.
template <typename T, typename X>
PHASOR_HOST_DEVICE T Sum(const X* x, int64_t count) {
  PartialSums<T> sums;
  for (int64_t k = 0; k < count; ++k) sums.Add(k, Widen<T>(x[k]));
  return sums.Total();
}

// The sum of a[k]·b[k], likewise.
template <typename T, typename A, typename B>
PHASOR_HOST_DEVICE T Dot(const A* a, const B* b, int64_t count) {
  PartialSums<T> sums;
  for (int64_t k = 0; k < count; ++k) sums.AddProduct(k, Widen<T>(a[k]), Widen<T>(b[k]));
  return sums.Total();
}

// Scans. Elements [64·b, 64·b + 64) are block b. Within a block the sums are sequential, from its first element on (suffix
// sums: from its last one back); so are the totals of the blocks, from +0 on. A result is the total of the blocks before it
// (after it) plus the sum within its block, so it has gone through 64 + count/64 roundings at most.
//
// The functions scan one piece of a sequence: `count` elements from a multiple of 64 on, with `base` the total of the blocks
// before the piece (suffix: after it), and return what is `base` for the next piece (suffix: for the one before). All pieces
// but the last one of the sequence are whole blocks. out may be x. A NaN is the canonical one.

// out[k] = base + x[0] + … + x[k]
template <typename T>
PHASOR_HOST_DEVICE T PrefixSum(const T* x, int64_t count, T base, T* out) {
  for (int64_t block = 0; block < count; block += kScanBlock) {
    const int64_t end = block + kScanBlock < count ? block + kScanBlock : count;
    T within = x[block];
    const T block_base = base;
    out[block] = CanonicalizeNaN(block_base + within);
    for (int64_t k = block + 1; k < end; ++k) {
      within += x[k];
      out[k] = CanonicalizeNaN(block_base + within);
    }
    base = block_base + within;
  }
  return CanonicalizeNaN(base);
}

// out[k] = x[k] + … + x[count − 1] + base
template <typename T>
PHASOR_HOST_DEVICE T SuffixSum(const T* x, int64_t count, T base, T* out) {
  for (int64_t block = (count - 1) / kScanBlock * kScanBlock; block >= 0 && count > 0; block -= kScanBlock) {
    const int64_t end = block + kScanBlock < count ? block + kScanBlock : count;
    T within = x[end - 1];
    const T block_base = base;
    out[end - 1] = CanonicalizeNaN(block_base + within);
    for (int64_t k = end - 2; k >= block; --k) {
      within += x[k];
      out[k] = CanonicalizeNaN(block_base + within);
    }
    base = block_base + within;
  }
  return CanonicalizeNaN(base);
}

}  // namespace phasor::sums

namespace phasor {

using sums::kPartialSums;
using FixedSum = sums::PartialSums<double>;

// Σ a[k]·b[k], k = 0 … n − 1.
PHASOR_HOST_DEVICE inline double FixedDot(const double* a, const double* b, int64_t n) { return sums::Dot<double>(a, b, n); }

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_SUM_H_
