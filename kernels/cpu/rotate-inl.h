// One step of a rotation (a vector of pairs), for each element type and pairing, and the table rows that steps read.
// A step stores NaN as it comes and notes it in a sentinel; whoever called puts the canonical one in its place.
#if defined(PHASOR_KERNELS_CPU_ROTATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ROTATE_INL_H_
#undef PHASOR_KERNELS_CPU_ROTATE_INL_H_
#else
#define PHASOR_KERNELS_CPU_ROTATE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/stores-inl.h"

#if HWY_TARGET == HWY_EMU128
#error "No native fma: build with HWY_BROKEN_EMU128=1, so that the baseline is HWY_SCALAR"
#endif

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Pairs whose table rows are in L1 at a time.
inline constexpr int64_t kBlockPairs = 512;

// cos and sin of one token and up to kBlockPairs pairs, arranged for the steps and padded to whole vectors. NaN is
// canonical; the sign of sin is turned for the inverse, which gives the same bits as its own formula.
template <typename C>
struct TokenTables {
  static constexpr int64_t kOdd = kBlockPairs;  // where odd pairs begin when they are kept apart
  HWY_ALIGN C cos[2 * kBlockPairs + HWY_MAX_BYTES / sizeof(C)];
  HWY_ALIGN C sin[2 * kBlockPairs + HWY_MAX_BYTES / sizeof(C)];
};

template <class DF>
HWY_INLINE hn::Vec<DF> LoadTable(DF df, const hn::TFromD<DF>* from, int64_t count) {
  return CanonicalizeNaN(df, LoadUpTo(df, from, count > 0 ? count : 0));
}

// Elements in order: those whose vector of storage widens to one vector of the compute type.
template <typename T>
struct InOrder {  // float, double
  using Stored = T;
  static constexpr bool kUsesOnce = false;  // whether a loaded vector has one user
  template <class DF>
  using Tag = DF;
  template <class DF>
  static HWY_INLINE hn::Vec<DF> Widen(DF, hn::Vec<DF> v) {
    return v;
  }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> Narrow(DF, hn::Vec<DF> v) {
    return v;
  }
};
template <>
struct InOrder<F16> {
  using Stored = uint16_t;
  static constexpr bool kUsesOnce = true;
  template <class DF>
  using Tag = hn::Rebind<uint16_t, DF>;
  template <class DF>
  static HWY_INLINE hn::Vec<DF> Widen(DF df, hn::Vec<Tag<DF>> v) {
    return WidenF16(df, v);
  }
  template <class DF>
  static HWY_INLINE hn::Vec<Tag<DF>> Narrow(DF df, hn::Vec<DF> v) {
    return NarrowToF16AnyNaN(df, v);
  }
};

// The arithmetic of RotateTask on one vector of pairs.
template <class DF>
HWY_INLINE void RotatePairs(DF, hn::Vec<DF> a, hn::Vec<DF> b, hn::Vec<DF> c, hn::Vec<DF> s, hn::Vec<DF>& ya,
                            hn::Vec<DF>& yb) {
  ya = hn::MulSub(a, c, hn::Mul(b, s));
  yb = hn::MulAdd(b, c, hn::Mul(a, s));
}

// A sentinel is a sum that starts at 1 and is no number or infinite in the end when a result is a NaN (and, harmlessly,
// sometimes when none is); it is never denormal. First results are enough: a NaN comes of a NaN or an infinity among a, b, c
// and s, whose product, a·c or b·s, is then one as well. Two at a time join it by their product.
template <class DF>
HWY_INLINE bool SawNaN(DF df, hn::Vec<DF> sentinel) {
  return !hn::AllFalse(df, hn::IsNaN(hn::Sub(sentinel, sentinel)));
}

// A step reads and writes one vector of storage from each half (half-split) or one in all (interleaved), with kTablesPerStep
// vectors of cos and as many of sin.
template <class DF, int kTablesPerStep>
struct Factors {
  hn::Vec<DF> cos[kTablesPerStep];
  hn::Vec<DF> sin[kTablesPerStep];
};
// Those of the step at element e, where the tables hold them in order.
template <class DF, typename C>
HWY_INLINE Factors<DF, 1> FactorsInOrder(DF df, const TokenTables<C>& tables, int64_t e) {
  return {{hn::Load(df, tables.cos + e)}, {hn::Load(df, tables.sin + e)}};
}

template <typename T>
struct HalfSplitStep : InOrder<T> {
  static constexpr Pairing kPairing = Pairing::kHalfSplit;
  static constexpr int kTablesPerStep = 1;
  static constexpr bool kRunsTwo = true;
  using C = ComputeType<T>;
  template <class DF>
  using Tag = typename InOrder<T>::template Tag<DF>;

  template <class DF>
  static HWY_INLINE void Prepare(DF df, const C* cos, const C* sin, int64_t pairs, hn::Vec<DF> flip, TokenTables<C>& to) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t i = 0; i < pairs; i += lanes) {
      hn::Store(LoadTable(df, cos + i, pairs - i), df, to.cos + i);
      hn::Store(hn::Xor(LoadTable(df, sin + i, pairs - i), flip), df, to.sin + i);
    }
  }

  template <class DF>
  static HWY_INLINE Factors<DF, 1> LoadFactors(DF df, const TokenTables<C>& tables, int64_t e) {
    return FactorsInOrder(df, tables, e);
  }

  template <class DF>
  static HWY_INLINE void Run(DF df, hn::Vec<Tag<DF>> a, hn::Vec<Tag<DF>> b, const Factors<DF, 1>& factors,
                             hn::Vec<Tag<DF>>& ya, hn::Vec<Tag<DF>>& yb, hn::Vec<DF>& sentinel) {
    sentinel = hn::Add(sentinel, Rotate(df, a, b, factors, ya, yb));
  }
  template <class DF>
  static HWY_INLINE void RunTwo(DF df, const hn::Vec<Tag<DF>> (&a)[2], const hn::Vec<Tag<DF>> (&b)[2],
                                const Factors<DF, 1>* factors, hn::Vec<Tag<DF>> (&ya)[2], hn::Vec<Tag<DF>> (&yb)[2],
                                hn::Vec<DF>& sentinel) {
    const auto first0 = Rotate(df, a[0], b[0], factors[0], ya[0], yb[0]);
    const auto first1 = Rotate(df, a[1], b[1], factors[1], ya[1], yb[1]);
    sentinel = hn::MulAdd(first0, first1, sentinel);
  }

 private:
  template <class DF>
  static HWY_INLINE hn::Vec<DF> Rotate(DF df, hn::Vec<Tag<DF>> a, hn::Vec<Tag<DF>> b, const Factors<DF, 1>& factors,
                                       hn::Vec<Tag<DF>>& ya, hn::Vec<Tag<DF>>& yb) {
    hn::Vec<DF> ra, rb;
    RotatePairs(df, InOrder<T>::Widen(df, a), InOrder<T>::Widen(df, b), factors.cos[0], factors.sin[0], ra, rb);
    ya = InOrder<T>::Narrow(df, ra);
    yb = InOrder<T>::Narrow(df, rb);
    return ra;
  }
};

// Even and odd pairs apart: widening and narrowing need no shuffles then.
template <>
struct HalfSplitStep<BF16> {
  static constexpr Pairing kPairing = Pairing::kHalfSplit;
  static constexpr int kTablesPerStep = 2;
  static constexpr bool kRunsTwo = false;  // one has two vectors of first results already
  static constexpr bool kUsesOnce = false;
  using C = float;
  using Stored = uint16_t;
  template <class DF>
  using Tag = hn::Repartition<uint16_t, DF>;

  template <class DF>
  static HWY_INLINE void Prepare(DF df, const C* cos, const C* sin, int64_t pairs, hn::Vec<DF> flip, TokenTables<C>& to) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t i = 0; i < pairs; i += 2 * lanes) {
      const int64_t j = i / 2;
      const auto c0 = LoadTable(df, cos + i, pairs - i);
      const auto c1 = LoadTable(df, cos + i + lanes, pairs - i - lanes);
      hn::Store(hn::ConcatEven(df, c1, c0), df, to.cos + j);
      hn::Store(hn::ConcatOdd(df, c1, c0), df, to.cos + to.kOdd + j);
      const auto s0 = hn::Xor(LoadTable(df, sin + i, pairs - i), flip);
      const auto s1 = hn::Xor(LoadTable(df, sin + i + lanes, pairs - i - lanes), flip);
      hn::Store(hn::ConcatEven(df, s1, s0), df, to.sin + j);
      hn::Store(hn::ConcatOdd(df, s1, s0), df, to.sin + to.kOdd + j);
    }
  }

  template <class DF>
  static HWY_INLINE Factors<DF, 2> LoadFactors(DF df, const TokenTables<C>& tables, int64_t e) {
    const C* cos = tables.cos + e / 2;
    const C* sin = tables.sin + e / 2;
    return {{hn::Load(df, cos), hn::Load(df, cos + tables.kOdd)}, {hn::Load(df, sin), hn::Load(df, sin + tables.kOdd)}};
  }

  template <class DF>
  static HWY_INLINE void Run(DF df, hn::Vec<Tag<DF>> a, hn::Vec<Tag<DF>> b, const Factors<DF, 2>& factors,
                             hn::Vec<Tag<DF>>& ya, hn::Vec<Tag<DF>>& yb, hn::Vec<DF>& sentinel) {
    hn::Vec<DF> a_even, a_odd, b_even, b_odd, ya_even, ya_odd, yb_even, yb_odd;
    WidenBF16EvenOdd(df, a, a_even, a_odd);
    WidenBF16EvenOdd(df, b, b_even, b_odd);
    RotatePairs(df, a_even, b_even, factors.cos[0], factors.sin[0], ya_even, yb_even);
    RotatePairs(df, a_odd, b_odd, factors.cos[1], factors.sin[1], ya_odd, yb_odd);
    sentinel = hn::MulAdd(ya_even, ya_odd, sentinel);
    ya = NarrowToBF16EvenOddAnyNaN(df, ya_even, ya_odd);
    yb = NarrowToBF16EvenOddAnyNaN(df, yb_even, yb_odd);
  }
};

// y = x·(c, c) + swapped x·(−s, s): both results of a pair from one fma.
template <typename T>
struct InterleavedStep : InOrder<T> {
  static constexpr Pairing kPairing = Pairing::kInterleaved;
  static constexpr int kTablesPerStep = 1;
  static constexpr bool kRunsTwo = true;
  using C = ComputeType<T>;
  template <class DF>
  using Tag = typename InOrder<T>::template Tag<DF>;

  template <class DF>
  static HWY_INLINE void Prepare(DF df, const C* cos, const C* sin, int64_t pairs, hn::Vec<DF> flip, TokenTables<C>& to) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
    for (int64_t i = 0; i < pairs; i += lanes) {
      const auto c = LoadTable(df, cos + i, pairs - i);
      const auto s = hn::Xor(LoadTable(df, sin + i, pairs - i), flip);
      hn::StoreInterleaved2(c, c, df, to.cos + 2 * i);
      hn::StoreInterleaved2(hn::Neg(s), s, df, to.sin + 2 * i);
    }
  }

  template <class DF>
  static HWY_INLINE Factors<DF, 1> LoadFactors(DF df, const TokenTables<C>& tables, int64_t e) {
    return FactorsInOrder(df, tables, e);
  }

  template <class DF>
  static HWY_INLINE void Run(DF df, hn::Vec<Tag<DF>> x, const Factors<DF, 1>& factors, hn::Vec<Tag<DF>>& y,
                             hn::Vec<DF>& sentinel) {
    sentinel = hn::Add(sentinel, Rotate(df, x, factors, y));
  }
  template <class DF>
  static HWY_INLINE void RunTwo(DF df, const hn::Vec<Tag<DF>> (&x)[2], const Factors<DF, 1>* factors,
                                hn::Vec<Tag<DF>> (&y)[2], hn::Vec<DF>& sentinel) {
    const auto both0 = Rotate(df, x[0], factors[0], y[0]);
    const auto both1 = Rotate(df, x[1], factors[1], y[1]);
    sentinel = hn::MulAdd(both0, both1, sentinel);
  }

 private:
  template <class DF>
  static HWY_INLINE hn::Vec<DF> Rotate(DF df, hn::Vec<Tag<DF>> x, const Factors<DF, 1>& factors, hn::Vec<Tag<DF>>& y) {
    const auto v = InOrder<T>::Widen(df, x);
    const auto result = hn::MulAdd(v, factors.cos[0], hn::Mul(hn::Reverse2(df, v), factors.sin[0]));
    y = InOrder<T>::Narrow(df, result);
    return result;
  }
};

template <>
struct InterleavedStep<BF16> {
  static constexpr Pairing kPairing = Pairing::kInterleaved;
  static constexpr int kTablesPerStep = 1;
  static constexpr bool kRunsTwo = true;
  static constexpr bool kUsesOnce = false;
  using C = float;
  using Stored = uint16_t;
  template <class DF>
  using Tag = hn::Repartition<uint16_t, DF>;

  template <class DF>
  static HWY_INLINE void Prepare(DF df, const C* cos, const C* sin, int64_t pairs, hn::Vec<DF> flip, TokenTables<C>& to) {
    HalfSplitStep<float>::Prepare(df, cos, sin, pairs, flip, to);
  }

  template <class DF>
  static HWY_INLINE Factors<DF, 1> LoadFactors(DF df, const TokenTables<C>& tables, int64_t e) {
    return FactorsInOrder(df, tables, e / 2);
  }

  template <class DF>
  static HWY_INLINE void Run(DF df, hn::Vec<Tag<DF>> x, const Factors<DF, 1>& factors, hn::Vec<Tag<DF>>& y,
                             hn::Vec<DF>& sentinel) {
    sentinel = hn::Add(sentinel, Rotate(df, x, factors, y));
  }
  template <class DF>
  static HWY_INLINE void RunTwo(DF df, const hn::Vec<Tag<DF>> (&x)[2], const Factors<DF, 1>* factors,
                                hn::Vec<Tag<DF>> (&y)[2], hn::Vec<DF>& sentinel) {
    const auto first0 = Rotate(df, x[0], factors[0], y[0]);
    const auto first1 = Rotate(df, x[1], factors[1], y[1]);
    sentinel = hn::MulAdd(first0, first1, sentinel);
  }

 private:
  template <class DF>
  static HWY_INLINE hn::Vec<DF> Rotate(DF df, hn::Vec<Tag<DF>> x, const Factors<DF, 1>& factors, hn::Vec<Tag<DF>>& y) {
    hn::Vec<DF> a, b, ya, yb;
    WidenBF16EvenOdd(df, x, a, b);
    RotatePairs(df, a, b, factors.cos[0], factors.sin[0], ya, yb);
    y = NarrowToBF16EvenOddAnyNaN(df, ya, yb);
    return ya;
  }
};

template <typename T, Pairing kPairing>
using StepOf = std::conditional_t<kPairing == Pairing::kHalfSplit, HalfSplitStep<T>, InterleavedStep<T>>;

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR

#endif  // PHASOR_KERNELS_CPU_ROTATE_INL_H_
