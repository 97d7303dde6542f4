// One step of an addition (a vector of numbers) for each element type, on vectors and on the scalar target, and the loops
// for 16-bit tensors that need nothing but the sum.
#if defined(PHASOR_KERNELS_CPU_ADD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ADD_INL_H_
#undef PHASOR_KERNELS_CPU_ADD_INL_H_
#else
#define PHASOR_KERNELS_CPU_ADD_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements whose dropout is decided at a time.
inline constexpr int64_t kDropout = 512;

// One vector of C as the scalar target, and loops everywhere else, see it: Load and Store of `count` elements from `lanes`.
#if HWY_TARGET == HWY_SCALAR

template <typename T>
struct Ops {
  using C = ComputeType<T>;
  using Vector = C;
  static constexpr int64_t Lanes() { return 1; }
  static Vector Load(const T* from, int64_t) {
    T value;
    std::memcpy(&value, from, sizeof(T));
    return Widen<C>(value);
  }
  static void Store(Vector v, T* to, int64_t) {
    const T value = Narrow<T>(v);
    std::memcpy(to, &value, sizeof(T));
  }
  static Vector LoadC(const C* from, int64_t) {
    C value;
    std::memcpy(&value, from, sizeof(C));
    return value;
  }
  static void StoreC(Vector v, C* to, int64_t) { std::memcpy(to, &v, sizeof(C)); }
  static Vector Set(C value) { return value; }
  static Vector Add(Vector a, Vector b) { return a + b; }
  static Vector Sub(Vector a, Vector b) { return a - b; }
  static Vector Mul(Vector a, Vector b) { return a * b; }
  static Vector MulAdd(Vector a, Vector b, Vector c) { return std::fma(a, b, c); }
  static Vector KeepWhere(Vector v, const int32_t* keep) { return *keep != 0 ? v : C{0}; }
};

#else

template <typename T>
struct Ops {
  using C = ComputeType<T>;
  using DF = hn::ScalableTag<C>;
  using Vector = hn::Vec<DF>;
  static HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(DF())); }

  static HWY_INLINE Vector Load(const T* from, int64_t count) {
    const DF df;
    if constexpr (sizeof(T) == 2) {
      const hn::Rebind<uint16_t, DF> du16;
      const auto bits = LoadUpTo(du16, reinterpret_cast<const uint16_t*>(from), count);
      if constexpr (std::is_same_v<T, F16>) {
        return WidenF16(df, bits);
      } else {
        return WidenBF16(df, bits);
      }
    } else {
      return LoadUpTo(df, from, count);
    }
  }
  static HWY_INLINE void Store(Vector v, T* to, int64_t count) {
    const DF df;
    if constexpr (sizeof(T) == 2) {
      const hn::Rebind<uint16_t, DF> du16;
      auto* bits = reinterpret_cast<uint16_t*>(to);
      if constexpr (std::is_same_v<T, F16>) {
        Put(NarrowToF16(df, v), du16, bits, count);
      } else {
        Put(NarrowToBF16(df, v), du16, bits, count);
      }
    } else {
      Put(CanonicalizeNaN(df, v), df, to, count);
    }
  }
  static HWY_INLINE Vector LoadC(const C* from, int64_t count) { return LoadUpTo(DF(), from, count); }
  static HWY_INLINE void StoreC(Vector v, C* to, int64_t count) { Put(v, DF(), to, count); }
  static HWY_INLINE Vector Set(C value) { return hn::Set(DF(), value); }
  static HWY_INLINE Vector Add(Vector a, Vector b) { return hn::Add(a, b); }
  static HWY_INLINE Vector Sub(Vector a, Vector b) { return hn::Sub(a, b); }
  static HWY_INLINE Vector Mul(Vector a, Vector b) { return hn::Mul(a, b); }
  static HWY_INLINE Vector MulAdd(Vector a, Vector b, Vector c) { return hn::MulAdd(a, b, c); }
  // `keep`: all ones or zero, a whole vector of them.
  static HWY_INLINE Vector KeepWhere(Vector v, const int32_t* keep) {
    const DF df;
    const hn::Rebind<int32_t, DF> di32;
    const auto mask = hn::LoadU(di32, keep);
    if constexpr (sizeof(C) == 8) {
      return hn::And(v, hn::BitCast(df, hn::PromoteTo(hn::Rebind<int64_t, DF>(), mask)));
    } else {
      return hn::And(v, hn::BitCast(df, mask));
    }
  }

 private:
  template <class D>
  static HWY_INLINE void Put(hn::Vec<D> v, D d, hn::TFromD<D>* to, int64_t count) {
    if (HWY_LIKELY(count >= static_cast<int64_t>(hn::Lanes(d)))) {
      hn::StoreU(v, d, to);
    } else {
      StoreFirst(v, d, to, count);
    }
  }
};

#endif

// keep[i] = all ones where element first + i is kept, else 0; i < kDropout.
HWY_INLINE void DecideDropout(const DropoutRule& rule, uint64_t first, int64_t count, uint32_t* words, int32_t* keep) {
  const int64_t skipped = static_cast<int64_t>(first % 4);
  PhiloxWords(rule.seed, rule.offset, first / 4, skipped + count, words);
  // As signed numbers, which compare everywhere: word ≥ threshold is word > threshold − 1.
  const bool all = rule.threshold == 0, none = rule.threshold > UINT32_MAX;
  const auto limit = static_cast<int32_t>(static_cast<uint32_t>(rule.threshold - 1) ^ 0x80000000u);
  for (int64_t i = 0; i < count; ++i) {
    const auto word = static_cast<int32_t>(words[skipped + i] ^ 0x80000000u);
    keep[i] = -static_cast<int32_t>((word > limit) & !none) | -static_cast<int32_t>(all);
  }
}

#if HWY_TARGET != HWY_SCALAR

// Elements of a step of 16-bit tensors.
HWY_INLINE int64_t AddStep16() { return 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

// Each whole step of p, the even elements before the odd ones: how bf16 numbers come out of their words.
HWY_INLINE void SortSteps(const float* p, int64_t n, float* out) {
  const hn::ScalableTag<float> df;
  const int64_t step = AddStep16();
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto low = hn::LoadU(df, p + i), high = hn::LoadU(df, p + i + step / 2);
    hn::StoreU(hn::ConcatEven(df, high, low), df, out + i);
    hn::StoreU(hn::ConcatOdd(df, high, low), df, out + i + step / 2);
  }
  for (; i < n; ++i) out[i] = p[i];
}

// y = scale·x (+ p) of the elements of steps that showed a NaN (or infinities): rare.
template <typename T, bool kSorted>
HWY_NOINLINE void AddSlowly(float scale, const T* x, T* y, const float* p, int64_t n) {
  const int64_t half = AddStep16() / 2;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t place = kSorted ? i / (2 * half) * (2 * half) + i % 2 * half + i % (2 * half) / 2 : i;
    T value;
    std::memcpy(&value, x + i, sizeof(T));
    const float v = Widen<float>(value);
    value = Narrow<T>(p == nullptr ? scale * v : std::fma(scale, v, p[place]));
    std::memcpy(y + i, &value, sizeof(T));
  }
}

// Whether a lane of a or of b is a NaN.
template <class DF>
HWY_INLINE bool AnyNaN(DF df, hn::Vec<DF> a, hn::Vec<DF> b) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  if constexpr (hn::MaxLanes(df) == 16) return _mm512_cmp_ps_mask(a.raw, b.raw, _CMP_UNORD_Q) != 0;
#elif HWY_TARGET == HWY_AVX2
  if constexpr (hn::MaxLanes(df) == 8) return _mm256_movemask_ps(_mm256_cmp_ps(a.raw, b.raw, _CMP_UNORD_Q)) != 0;
#endif
  return !hn::AllFalse(df, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
}

// One step in vectors: a and b are scale·x (+ p), of bf16 the even and the odd elements, of f16 the first and the last ones.
template <typename T, bool kAdds, bool kSorted, class DF>
HWY_INLINE void AddStepOf(DF df, hn::Vec<DF> scale, const uint16_t* from, const float* p, hn::Vec<DF>& a, hn::Vec<DF>& b) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  if constexpr (std::is_same_v<T, BF16>) {
    WidenBF16EvenOdd(df, hn::LoadU(hn::Repartition<uint16_t, DF>(), from), a, b);
  } else {
    const hn::Rebind<uint16_t, DF> half;
    a = WidenF16(df, hn::LoadU(half, from));
    b = WidenF16(df, hn::LoadU(half, from + lanes));
  }
  if constexpr (kAdds) {
    auto pa = hn::LoadU(df, p), pb = hn::LoadU(df, p + lanes);
    if constexpr (std::is_same_v<T, BF16> && !kSorted) {
      const auto low = pa;
      pa = hn::ConcatEven(df, pb, low);
      pb = hn::ConcatOdd(df, pb, low);
    }
    a = hn::MulAdd(scale, a, pa);
    b = hn::MulAdd(scale, b, pb);
  } else {
    a = hn::Mul(scale, a);
    b = hn::Mul(scale, b);
  }
}

template <typename T, class DF>
HWY_INLINE void PutStep(DF df, hn::Vec<DF> a, hn::Vec<DF> b, uint16_t* to) {
  if constexpr (std::is_same_v<T, BF16>) {
    hn::StoreU(NarrowToBF16EvenOddAnyNaN(df, a, b), hn::Repartition<uint16_t, DF>(), to);
  } else {
    const hn::Rebind<uint16_t, DF> half;
    hn::StoreU(NarrowToF16AnyNaN(df, a), half, to);
    hn::StoreU(NarrowToF16AnyNaN(df, b), half, to + hn::Lanes(df));
  }
}

// y = scale·x (+ p) in pairs of whole steps, without a check for the end or for NaNs but one a pair. kSorted: p is
// SortSteps'. `ahead`: what to ask the memory for meanwhile, or null. Returns how many elements were done.
template <typename T, bool kAdds, bool kSorted>
int64_t AddWholeSteps(float scale_value, const T* x, T* y, const float* p, int64_t n, const T* ahead) {
  static_assert(sizeof(T) == 2);
  const hn::ScalableTag<float> df;
  const auto scale = hn::Set(df, scale_value);
  const int64_t step = AddStep16();
  const auto* from = reinterpret_cast<const uint16_t*>(x);
  auto* to = reinterpret_cast<uint16_t*>(y);
  int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    hn::Vec<decltype(df)> a, b, c, d;
    if (ahead != nullptr) {  // a step is a line at most
      PrefetchToL2(ahead + i);
      PrefetchToL2(ahead + i + step);
    }
    AddStepOf<T, kAdds, kSorted>(df, scale, from + i, p + i, a, b);
    AddStepOf<T, kAdds, kSorted>(df, scale, from + i + step, p + i + step, c, d);
    if (HWY_UNLIKELY(AnyNaN(df, a, b) || AnyNaN(df, c, d))) {
      AddSlowly<T, kSorted>(scale_value, x + i, y + i, kAdds ? p + i : nullptr, 2 * step);
      continue;
    }
    PutStep<T>(df, a, b, to + i);
    PutStep<T>(df, c, d, to + i + step);
  }
  if (i + step <= n) {
    hn::Vec<decltype(df)> a, b;
    AddStepOf<T, kAdds, kSorted>(df, scale, from + i, p + i, a, b);
    if (HWY_UNLIKELY(AnyNaN(df, a, b))) {
      AddSlowly<T, kSorted>(scale_value, x + i, y + i, kAdds ? p + i : nullptr, step);
    } else {
      PutStep<T>(df, a, b, to + i);
    }
    i += step;
  }
  return i;
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ADD_INL_H_
