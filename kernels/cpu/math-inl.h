// The functions of kernels/core/math.h over vectors: the same formulas, so the same bits, on every instruction set.
// Exp(d, v), Pow(d, v, w) and so on, with d a tag of double, or of float for those that math.h has for floats.
#if defined(PHASOR_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_MATH_INL_H_
#undef PHASOR_KERNELS_CPU_MATH_INL_H_
#else
#define PHASOR_KERNELS_CPU_MATH_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/double_double.h"
#include "kernels/core/math.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Vectors of one lane, whose MulAdd would round twice: the scalar functions themselves.
#define PHASOR_VECTOR_FUNCTION(NAME)                       \
  template <class D>                                       \
  HWY_INLINE hn::Vec<D> NAME(D d, hn::Vec<D> v) {          \
    return hn::Set(d, phasor::math::NAME(hn::GetLane(v))); \
  }
#define PHASOR_VECTOR_FUNCTION_ALSO_F32(NAME) PHASOR_VECTOR_FUNCTION(NAME)

template <class DD>
HWY_INLINE hn::Vec<DD> Pow(DD dd, hn::Vec<DD> x, hn::Vec<DD> y) {
  return hn::Set(dd, phasor::math::Pow(hn::GetLane(x), hn::GetLane(y)));
}
template <class DD>
HWY_INLINE hn::Vec<DD> ExpOfDifference(DD dd, hn::Vec<DD> x, hn::Vec<DD> y) {
  return hn::Set(dd, phasor::math::ExpOfDifference(hn::GetLane(x), hn::GetLane(y)));
}

#else  // vectors

namespace formulas {

#define PHASOR_MATH_INLINE HWY_INLINE

// The numbers of math_formulas.h: the lanes of a vector of doubles. DD: its tag.
template <class DD>
struct DoubleLanes {
  using DU = hn::RebindToUnsigned<DD>;
  using V = hn::Vec<DD>;
  using U = hn::Vec<DU>;
  using M = hn::Mask<DD>;
  static HWY_INLINE V Set(double c) { return hn::Set(DD(), c); }
  static HWY_INLINE V Fma(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V Fms(V a, V b, V c) { return hn::MulSub(a, b, c); }
  static HWY_INLINE V Fnma(V a, V b, V c) { return hn::NegMulAdd(a, b, c); }
  static HWY_INLINE V Neg(V a) { return hn::Neg(a); }
  static HWY_INLINE V Sqrt(V a) { return hn::Sqrt(a); }
  static HWY_INLINE V Abs(V a) { return hn::Abs(a); }
  static HWY_INLINE V CopySign(V magnitude, V sign) { return hn::CopySign(magnitude, sign); }
  static HWY_INLINE M Less(V a, V b) { return hn::Lt(a, b); }
  static HWY_INLINE M Equal(V a, V b) { return hn::Eq(a, b); }
  static HWY_INLINE M IsNaN(V a) { return hn::IsNaN(a); }
  static HWY_INLINE M Or(M a, M b) { return hn::Or(a, b); }
  static HWY_INLINE V Select(M mask, V yes, V no) { return hn::IfThenElse(mask, yes, no); }
  static HWY_INLINE U Bits(V a) { return hn::BitCast(DU(), a); }
  static HWY_INLINE V FromBits(U u) { return hn::BitCast(DD(), u); }
  static HWY_INLINE U SetBits(uint64_t c) { return hn::Set(DU(), c); }
  static HWY_INLINE U AddBits(U u, U v) { return hn::Add(u, v); }
  static HWY_INLINE U SubBits(U u, U v) { return hn::Sub(u, v); }
  static HWY_INLINE U OrBits(U u, U v) { return hn::Or(u, v); }
  static HWY_INLINE U ShiftLeft52(U u) { return hn::ShiftLeft<52>(u); }
  static HWY_INLINE U ShiftRight52(U u) { return hn::ShiftRight<52>(u); }
};

// clang-format off
#include "kernels/core/math_formulas.h"   // IWYU pragma: keep
#include "kernels/core/math_functions.h"  // IWYU pragma: keep
// clang-format on

#undef PHASOR_MATH_INLINE

// f over the lanes of v as doubles, then one rounding (to 32 bits, Highway's own narrowing is to nearest even on its vector
// targets); NaN canonical.
template <class DF, class F>
HWY_INLINE hn::Vec<DF> InDouble(DF df, hn::Vec<DF> v, F f) {
  hn::Vec<DF> result;
  if constexpr (hn::MaxLanes(df) * sizeof(double) <= HWY_MAX_BYTES) {
    result = hn::DemoteTo(df, f(hn::PromoteTo(hn::Rebind<double, DF>(), v)));
  } else {
    const hn::Half<DF> half;
    const hn::Rebind<double, decltype(half)> dd;
    const auto low = f(hn::PromoteTo(dd, hn::LowerHalf(half, v)));
    const auto high = f(hn::PromoteTo(dd, hn::UpperHalf(half, v)));
    result = hn::Combine(df, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
  }
  const auto canonical = hn::BitCast(df, hn::Set(hn::RebindToUnsigned<DF>(), 0x7fc00000u));
  return hn::IfThenElse(hn::IsNaN(result), canonical, result);
}

}  // namespace formulas

#define PHASOR_VECTOR_FUNCTION(NAME)                     \
  template <class DD>                                    \
  HWY_INLINE hn::Vec<DD> NAME(DD dd, hn::Vec<DD> v) {    \
    return formulas::NAME<formulas::DoubleLanes<DD>>(v); \
  }
#define PHASOR_VECTOR_FUNCTION_ALSO_F32(NAME)                                                                               \
  template <class D>                                                                                                        \
  HWY_INLINE hn::Vec<D> NAME(D d, hn::Vec<D> v) {                                                                           \
    if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {                                                                \
      return formulas::NAME<formulas::DoubleLanes<D>>(v);                                                                   \
    } else {                                                                                                                \
      return formulas::InDouble(                                                                                            \
          d, v, [](auto x) HWY_ATTR { return formulas::Coarse##NAME<formulas::DoubleLanes<hn::DFromV<decltype(x)>>>(x); }); \
    }                                                                                                                       \
  }

template <class DD>
HWY_INLINE hn::Vec<DD> Pow(DD dd, hn::Vec<DD> x, hn::Vec<DD> y) {
  return formulas::Pow<formulas::DoubleLanes<DD>>(x, y);
}

template <class DD>
HWY_INLINE hn::Vec<DD> ExpOfDifference(DD dd, hn::Vec<DD> x, hn::Vec<DD> y) {
  return formulas::ExpOfDifference<formulas::DoubleLanes<DD>>(x, y);
}

#endif  // HWY_TARGET == HWY_SCALAR

PHASOR_VECTOR_FUNCTION_ALSO_F32(Exp)
PHASOR_VECTOR_FUNCTION(CoarseExp)
PHASOR_VECTOR_FUNCTION(Exp2)
PHASOR_VECTOR_FUNCTION(Expm1)
PHASOR_VECTOR_FUNCTION_ALSO_F32(Log)
PHASOR_VECTOR_FUNCTION(Log1p)
PHASOR_VECTOR_FUNCTION(Log2)
PHASOR_VECTOR_FUNCTION(Sqrt)
PHASOR_VECTOR_FUNCTION_ALSO_F32(Sigmoid)
PHASOR_VECTOR_FUNCTION_ALSO_F32(Softplus)
PHASOR_VECTOR_FUNCTION_ALSO_F32(LogSigmoid)
PHASOR_VECTOR_FUNCTION(Tanh)
PHASOR_VECTOR_FUNCTION(Relu)
PHASOR_VECTOR_FUNCTION(Silu)
PHASOR_VECTOR_FUNCTION(Gelu)
PHASOR_VECTOR_FUNCTION(GeluTanh)

#undef PHASOR_VECTOR_FUNCTION
#undef PHASOR_VECTOR_FUNCTION_ALSO_F32

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_MATH_INL_H_
