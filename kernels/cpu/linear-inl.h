// Sums of products in the fixed order of kernels/core/sum.h, a vector of results at a time: every lane is one result and
// goes through the same operations as FixedSum, so the bits are those of the scalar code on every instruction set.
#if defined(PHASOR_KERNELS_CPU_LINEAR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_LINEAR_INL_H_
#undef PHASOR_KERNELS_CPU_LINEAR_INL_H_
#else
#define PHASOR_KERNELS_CPU_LINEAR_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sum.h"
#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a·b + c, rounded once on the scalar target too.
template <class D>
HWY_INLINE hn::Vec<D> FusedMulAdd(D d, hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#else
  (void)d;
  return hn::MulAdd(a, b, c);
#endif
}

// FixedSum::Total of the lanes' partial sums.
template <class D>
HWY_INLINE hn::Vec<D> TotalOf(D d, hn::Vec<D> (&s)[kPartialSums]) {
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) s[i] = hn::Add(s[i], s[i + 8]);
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) s[i] = hn::Add(s[i], s[i + 4]);
  return hn::Add(hn::Add(hn::Add(s[0], s[2]), hn::Add(s[1], s[3])), hn::Zero(d));
}

// Lane p: Σ w[i]·x[i·stride + p], i = 0 … n − 1.
template <class D>
HWY_INLINE hn::Vec<D> DotLanes(D d, const double* w, const double* x, int64_t n, int64_t stride) {
  if (n == 1) {  // partial sums that nothing was added to change no bit but a zero's sign
    return hn::Add(FusedMulAdd(d, hn::Set(d, w[0]), hn::LoadU(d, x), hn::Zero(d)), hn::Zero(d));
  }
  hn::Vec<D> s[kPartialSums];
  HWY_UNROLL(16)
  for (int u = 0; u < kPartialSums; ++u) s[u] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kPartialSums <= n; i += kPartialSums) {
    HWY_UNROLL(16)
    for (int u = 0; u < kPartialSums; ++u) {
      s[u] = FusedMulAdd(d, hn::Set(d, w[i + u]), hn::LoadU(d, x + (i + u) * stride), s[u]);
    }
  }
  HWY_UNROLL(16)
  for (int u = 0; u < kPartialSums; ++u) {
    if (i + u < n) s[u] = FusedMulAdd(d, hn::Set(d, w[i + u]), hn::LoadU(d, x + (i + u) * stride), s[u]);
  }
  return TotalOf(d, s);
}

// Lane p: Σ term(x[i·stride + p]), i = 0 … n − 1; term(v, sum) adds to a partial sum.
template <class D, class Term>
HWY_INLINE hn::Vec<D> SumLanes(D d, const double* x, int64_t n, int64_t stride, Term term) {
  hn::Vec<D> s[kPartialSums];
  HWY_UNROLL(16)
  for (int u = 0; u < kPartialSums; ++u) s[u] = hn::Zero(d);
  for (int64_t i = 0; i < n; i += kPartialSums) {
    HWY_UNROLL(16)
    for (int u = 0; u < kPartialSums; ++u) {
      if (i + u < n) s[u] = term(hn::LoadU(d, x + (i + u) * stride), s[u]);
    }
  }
  return TotalOf(d, s);
}

// to[i] = Narrow<T>(from[i]).
template <typename T>
HWY_INLINE void RoundTo(const double* HWY_RESTRICT from, T* HWY_RESTRICT to, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  [[maybe_unused]] const hn::Rebind<float, decltype(d)> df;
  [[maybe_unused]] const hn::Rebind<uint16_t, decltype(d)> d16;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    if constexpr (std::is_same_v<T, double>) {
      hn::StoreU(CanonicalizeNaN(d, v), d, to + i);
    } else if constexpr (std::is_same_v<T, float>) {
      hn::StoreU(CanonicalizeNaN(df, hn::DemoteTo(df, v)), df, to + i);
    } else if constexpr (std::is_same_v<T, F16>) {
      hn::StoreU(NarrowToF16(df, NarrowF64ToOddF32(df, v)), d16, reinterpret_cast<uint16_t*>(to + i));
    } else {
      hn::StoreU(NarrowToBF16(df, NarrowF64ToOddF32(df, v)), d16, reinterpret_cast<uint16_t*>(to + i));
    }
  }
#endif
  for (; i < count; ++i) to[i] = phasor::Narrow<T>(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_LINEAR_INL_H_
