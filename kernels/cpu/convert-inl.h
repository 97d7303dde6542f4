// Conversions between the float types in vectors: the same bits as kernels/core/narrow.h on every instruction set.
// Highway 1.0.3 narrows to 16 bits by truncation on some of its targets, so its own narrowing is never used for that.
#if defined(PHASOR_KERNELS_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_CONVERT_INL_H_
#undef PHASOR_KERNELS_CPU_CONVERT_INL_H_
#else
#define PHASOR_KERNELS_CPU_CONVERT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

// Not for the scalar target: its 1-lane vectors lack what is needed here, and kernels/core/narrow.h serves it.
#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Any NaN as the canonical quiet one (f32 0x7fc00000, f64 0x7ff8000000000000). DF: tag of float or double.
template <class DF>
HWY_INLINE hn::Vec<DF> CanonicalizeNaN(DF df, hn::Vec<DF> v) {
  const hn::RebindToUnsigned<DF> du;
  constexpr bool kIsDouble = sizeof(hn::TFromD<DF>) == 8;
  constexpr uint64_t kBits = kIsDouble ? 0x7ff8000000000000u : 0x7fc00000u;
  const auto canonical = hn::BitCast(df, hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(kBits)));
  return hn::IfThenElse(hn::IsNaN(v), canonical, v);
}

// ---- f16. One u16 per f32 lane.

// Exact, denormals included. A NaN stays some NaN.
template <class DF>
HWY_INLINE hn::Vec<DF> WidenF16(DF df, hn::Vec<hn::Rebind<uint16_t, DF>> v) {
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), v));
}

// RNE by integer arithmetic; NaN becomes 0x7e00. What every other way of narrowing to f16 is tested against.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> NarrowToF16Integer(DF df, hn::Vec<DF> v) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint16_t, DF> du16;
  const auto bits = hn::BitCast(du, v);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  // Normal results: rebias the exponent, add just under half of the last place (and its last bit: ties go to even), cut.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
  constexpr uint32_t kRebiasAndRound = 0xfffu - (112u << 23);
  const auto normal = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(hn::Set(du, kRebiasAndRound), odd)));
  // Denormal results: adding 0.5 leaves multiples of 2^-24 in the fraction, rounded by the addition.
  const auto half = hn::Set(df, 0.5f);
  const auto denormal = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(du, half));
  // Magnitudes are below 2^31: signed comparisons do.
  const hn::RebindToSigned<DF> di;
  const auto is_below = [&](int32_t limit) HWY_ATTR {
    return hn::MaskFromVec(hn::BitCast(du, hn::VecFromMask(di, hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, limit)))));
  };
  auto result = hn::IfThenElse(is_below(113 << 23), denormal, normal);
  result = hn::IfThenElse(is_below(143 << 23), result, hn::Set(du, 0x7c00u));
  result = hn::IfThenElse(is_below(0x7f800001), hn::Or(result, sign), hn::Set(du, 0x7e00u));
  return hn::TruncateTo(du16, result);
}

// RNE. A NaN stays some NaN: for callers that look for them anyway. The x86 instruction gives the bits of the integer way
// for every one of the 2^32 inputs that is not a NaN (the test walks them).
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> NarrowToF16AnyNaN(DF df, hn::Vec<DF> v) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  constexpr int kNearestEven = 0;
  using V16 = hn::Vec<hn::Rebind<uint16_t, DF>>;
#if HWY_TARGET != HWY_AVX2
  if constexpr (hn::MaxLanes(df) == 16) return V16{_mm512_cvtps_ph(v.raw, kNearestEven)};
#endif
  if constexpr (hn::MaxLanes(df) == 8) {
    return V16{_mm256_cvtps_ph(v.raw, kNearestEven)};
  } else if constexpr (hn::MaxLanes(df) <= 4) {
    return V16{_mm_cvtps_ph(v.raw, kNearestEven)};
  }
#else
  return NarrowToF16Integer(df, v);
#endif
}

// RNE; NaN becomes 0x7e00.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> NarrowToF16(DF df, hn::Vec<DF> v) {
  return NarrowToF16AnyNaN(df, CanonicalizeNaN(df, v));
}

// ---- bf16, in order. One u16 per f32 lane.

template <class DF>
HWY_INLINE hn::Vec<DF> WidenBF16(DF df, hn::Vec<hn::Rebind<uint16_t, DF>> v) {
  const hn::RebindToUnsigned<DF> du;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, v)));
}

// RNE; NaN becomes 0x7fc0.
template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> NarrowToBF16(DF df, hn::Vec<DF> v) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, CanonicalizeNaN(df, v));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(hn::Set(du, 0x7fffu), odd));
  return hn::TruncateTo(hn::Rebind<uint16_t, DF>(), hn::ShiftRight<16>(rounded));
}

// ---- bf16, even and odd elements apart: no shuffles. `packed` has two u16 per f32 lane.

template <class DF>
HWY_INLINE void WidenBF16EvenOdd(DF df, hn::Vec<hn::Repartition<uint16_t, DF>> packed, hn::Vec<DF>& even, hn::Vec<DF>& odd) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, packed);
  even = hn::BitCast(df, hn::ShiftLeft<16>(bits));
  odd = hn::BitCast(df, hn::And(bits, hn::Set(du, 0xffff0000u)));
}

// RNE. A NaN whose low 16 bits are zero (that of an operation on bf16 numbers is) stays some NaN; no other NaN may come.
// Rounds high and low halves of 32 bits as 16-bit lanes, which is half the work of rounding before packing.
template <class DF>
HWY_INLINE hn::Vec<hn::Repartition<uint16_t, DF>> NarrowToBF16EvenOddAnyNaN(DF df, hn::Vec<DF> even, hn::Vec<DF> odd) {
  const hn::RebindToUnsigned<DF> du;
  const hn::Repartition<uint16_t, DF> du16;
  const auto even_bits = hn::BitCast(du, even);
  const auto odd_bits = hn::BitCast(du, odd);
  const auto high = hn::OddEven(hn::BitCast(du16, odd_bits), hn::BitCast(du16, hn::ShiftRight<16>(even_bits)));
  const auto low = hn::OddEven(hn::BitCast(du16, hn::ShiftLeft<16>(odd_bits)), hn::BitCast(du16, even_bits));
  // Up when low > 0x8000, or low == 0x8000 and high is odd: that bit joins low's last one.
  const auto one = hn::Set(du16, uint16_t{1});
  const auto rest = hn::OrAnd(low, high, one);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return hn::IfThenElse(hn::Gt(rest, hn::Set(du16, uint16_t{0x8000})), hn::Add(high, one), high);
#else
  // (rest + 0x7ffe + 1) / 2 has its top bit set when rest > 0x8000.
  return hn::Add(high, hn::ShiftRight<15>(hn::AverageRound(rest, hn::Set(du16, uint16_t{0x7ffe}))));
#endif
}

// ---- f64.

// To f32, to odd: the exact value when f32 holds it, else the neighbour with the odd last bit. Narrowing that to 16 bits is
// one rounding of the f64.
template <class DF>
HWY_INLINE hn::Vec<DF> NarrowF64ToOddF32(DF df, hn::Vec<hn::Rebind<double, DF>> v) {
  const hn::Rebind<double, DF> dd;
  const hn::RebindToUnsigned<DF> du;
  const hn::Rebind<uint64_t, DF> du64;
  const auto nearest = hn::DemoteTo(df, v);
  const auto back = hn::PromoteTo(dd, nearest);
  // All ones (−1) in the f32 lanes where rounding went away from zero, and where it went towards it.
  const auto narrow_mask = [&](hn::Mask<decltype(dd)> mask)
                               HWY_ATTR { return hn::TruncateTo(du, hn::BitCast(du64, hn::VecFromMask(dd, mask))); };
  const auto away = narrow_mask(hn::Gt(hn::Abs(back), hn::Abs(v)));
  const auto toward = narrow_mask(hn::Lt(hn::Abs(back), hn::Abs(v)));
  const auto bits = hn::BitCast(du, nearest);
  const auto adjusted = hn::Sub(hn::Add(bits, away), toward);
  const auto is_odd = hn::Ne(hn::And(bits, hn::Set(du, 1u)), hn::Zero(du));
  return hn::BitCast(df, hn::IfThenElse(is_odd, bits, adjusted));
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR

#endif  // PHASOR_KERNELS_CPU_CONVERT_INL_H_
