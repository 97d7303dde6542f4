// Sums, dot products and scans in the fixed order of kernels/core/sum.h, in vectors: the same bits on every instruction set.
#if defined(PHASOR_KERNELS_CPU_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_SUM_INL_H_
#undef PHASOR_KERNELS_CPU_SUM_INL_H_
#else
#define PHASOR_KERNELS_CPU_SUM_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/dtype.h"
#include "kernels/core/sum.h"
#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <typename T, typename X>
HWY_INLINE T Sum(const X* x, int64_t count) {
  return sums::Sum<T>(x, count);
}
template <typename T, typename A, typename B>
HWY_INLINE T Dot(const A* a, const B* b, int64_t count) {
  return sums::Dot<T>(a, b, count);
}

#else

// Lanes of x from an unaligned address as numbers of D (float or double), exactly. X: a type as wide or narrower.
template <class D, typename X>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const X* x) {
  if constexpr (std::is_same_v<X, hn::TFromD<D> >) {
    return hn::LoadU(d, x);
  } else if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return hn::PromoteTo(d, LoadWidened(hn::Rebind<float, D>(), x));
  } else {
    const auto bits = hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(x));
    if constexpr (std::is_same_v<X, F16>) {
      return WidenF16(d, bits);
    } else {
      return WidenBF16(d, bits);
    }
  }
}

// The 16 partial sums of floats or doubles.
template <typename T>
class VectorSums {
 public:
  using D = hn::CappedTag<T, sums::kPartialSums>;
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kVectors = sums::kPartialSums / kLanes;

  HWY_INLINE VectorSums() {
    for (V& v : sums_) v = hn::Zero(D());
  }
  // Elements kLanes·i … of 16.
  HWY_INLINE void AddLanes(int i, V x) { sums_[i] = hn::Add(sums_[i], x); }
  // Elements x[0 … 16) of a multiple of 16 on.
  template <typename X>
  HWY_INLINE void Add(const X* x) {
    for (int i = 0; i < kVectors; ++i) sums_[i] = hn::Add(sums_[i], LoadWidened(D(), x + i * kLanes));
  }
  template <typename A, typename B>
  HWY_INLINE void AddProducts(const A* a, const B* b) {
    for (int i = 0; i < kVectors; ++i) {
      sums_[i] = hn::MulAdd(LoadWidened(D(), a + i * kLanes), LoadWidened(D(), b + i * kLanes), sums_[i]);
    }
  }
  // The same for the first `count` < 16 only; reads all 16.
  template <typename X>
  HWY_INLINE void AddFirst(const X* x, int64_t count) {
    for (int i = 0; i < kVectors; ++i) {
      const V sum = hn::Add(sums_[i], LoadWidened(D(), x + i * kLanes));
      sums_[i] = hn::IfThenElse(FirstOf(i, count), sum, sums_[i]);
    }
  }
  template <typename A, typename B>
  HWY_INLINE void AddFirstProducts(const A* a, const B* b, int64_t count) {
    for (int i = 0; i < kVectors; ++i) {
      const V sum = hn::MulAdd(LoadWidened(D(), a + i * kLanes), LoadWidened(D(), b + i * kLanes), sums_[i]);
      sums_[i] = hn::IfThenElse(FirstOf(i, count), sum, sums_[i]);
    }
  }
  HWY_INLINE T Total() const {
    alignas(64) T partial[sums::kPartialSums];
    for (int i = 0; i < kVectors; ++i) hn::Store(sums_[i], D(), partial + i * kLanes);
    return sums::PartialSums<T>::Fold(partial);
  }

 private:
  static HWY_INLINE hn::Mask<D> FirstOf(int i, int64_t count) {
    const int64_t first = std::clamp<int64_t>(count - i * kLanes, 0, kLanes);
    return hn::FirstN(D(), static_cast<size_t>(first));
  }

  V sums_[kVectors];
};

template <typename T, typename X>
HWY_INLINE T Sum(const X* x, int64_t count) {
  VectorSums<T> partial;
  const int64_t whole = count / sums::kPartialSums * sums::kPartialSums;
  for (int64_t k = 0; k < whole; k += sums::kPartialSums) partial.Add(x + k);
  if (whole < count) {
    X tail[sums::kPartialSums] = {};
    std::memcpy(tail, x + whole, static_cast<size_t>(count - whole) * sizeof(X));
    partial.AddFirst(tail, count - whole);
  }
  return partial.Total();
}

template <typename T, typename A, typename B>
HWY_INLINE T Dot(const A* a, const B* b, int64_t count) {
  VectorSums<T> partial;
  const int64_t whole = count / sums::kPartialSums * sums::kPartialSums;
  for (int64_t k = 0; k < whole; k += sums::kPartialSums) partial.AddProducts(a + k, b + k);
  if (whole < count) {
    A a_tail[sums::kPartialSums] = {};
    B b_tail[sums::kPartialSums] = {};
    std::memcpy(a_tail, a + whole, static_cast<size_t>(count - whole) * sizeof(A));
    std::memcpy(b_tail, b + whole, static_cast<size_t>(count - whole) * sizeof(B));
    partial.AddFirstProducts(a_tail, b_tail, count - whole);
  }
  return partial.Total();
}

#endif  // HWY_TARGET != HWY_SCALAR

// ---- Scans. Several blocks side by side: each is a chain of additions that must not be reordered, but they are
// independent.

inline constexpr int kScansAtOnce = 8;

// v[k] ← base + v[k] for a block, NaN canonical.
template <typename T>
HWY_INLINE void AddBase(T base, int64_t count, T* HWY_RESTRICT v) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<T, sums::kPartialSums> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; k + lanes <= count; k += lanes) {
    hn::StoreU(CanonicalizeNaN(d, hn::Add(hn::Set(d, base), hn::LoadU(d, v + k))), d, v + k);
  }
#endif
  for (; k < count; ++k) v[k] = phasor::CanonicalizeNaN(base + v[k]);
}

// x may be out.
template <typename T>
HWY_INLINE T PrefixSum(const T* x, int64_t count, T base, T* out) {
  constexpr int64_t kPiece = kScansAtOnce * sums::kScanBlock;
  int64_t first = 0;
  for (; first + kPiece <= count; first += kPiece) {
    T within[kScansAtOnce];
    for (int j = 0; j < kScansAtOnce; ++j) out[first + j * sums::kScanBlock] = within[j] = x[first + j * sums::kScanBlock];
    for (int64_t k = 1; k < sums::kScanBlock; ++k) {
      for (int j = 0; j < kScansAtOnce; ++j) {
        within[j] += x[first + j * sums::kScanBlock + k];
        out[first + j * sums::kScanBlock + k] = within[j];
      }
    }
    for (int j = 0; j < kScansAtOnce; ++j) {
      AddBase(base, sums::kScanBlock, out + first + j * sums::kScanBlock);
      base += within[j];
    }
  }
  return sums::PrefixSum(x + first, count - first, base, out + first);
}

template <typename T>
HWY_INLINE T SuffixSum(const T* x, int64_t count, T base, T* out) {
  constexpr int64_t kPiece = kScansAtOnce * sums::kScanBlock;
  int64_t first = count / kPiece * kPiece;
  base = sums::SuffixSum(x + first, count - first, base, out + first);
  while (first > 0) {
    first -= kPiece;
    T within[kScansAtOnce];
    for (int j = 0; j < kScansAtOnce; ++j) {
      const int64_t last = first + (j + 1) * sums::kScanBlock - 1;
      out[last] = within[j] = x[last];
    }
    for (int64_t k = sums::kScanBlock - 2; k >= 0; --k) {
      for (int j = 0; j < kScansAtOnce; ++j) {
        within[j] += x[first + j * sums::kScanBlock + k];
        out[first + j * sums::kScanBlock + k] = within[j];
      }
    }
    for (int j = kScansAtOnce - 1; j >= 0; --j) {
      AddBase(base, sums::kScanBlock, out + first + j * sums::kScanBlock);
      base += within[j];
    }
  }
  return phasor::CanonicalizeNaN(base);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_SUM_INL_H_
