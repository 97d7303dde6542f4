// Vector pieces of the angle tables: cos and sin from integer phases or from f32 angles, and the rounding test.
#if defined(PHASOR_KERNELS_CPU_ANGLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "hwy/highway.h"

#include "kernels/core/narrow.h"
#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Doubles, and the f32 and integers of as many lanes.
using DD = hn::CappedTag<double, 8>;
using DF = hn::Rebind<float, DD>;
using DU64 = hn::RebindToUnsigned<DD>;
using DI64 = hn::RebindToSigned<DD>;
using DU32 = hn::RebindToUnsigned<DF>;
using VD = hn::Vec<DD>;
using VF = hn::Vec<DF>;
using VU64 = hn::Vec<DU64>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DD()));

// a·b + c and a·b − c with one rounding, on every target: Highway's scalar vectors round twice.
HWY_INLINE VD Fma(VD a, VD b, VD c) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(DD(), std::fma(hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#else
  return hn::MulAdd(a, b, c);
#endif
}
HWY_INLINE VD FmaSub(VD a, VD b, VD c) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(DD(), std::fma(hn::GetLane(a), hn::GetLane(b), -hn::GetLane(c)));
#else
  return hn::MulSub(a, b, c);
#endif
}

// To f32, to nearest even; infinite beyond its range. (To 32 bits, Highway's own narrowing rounds well on its vector
// targets.)
HWY_INLINE VF ToF32(VD v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(DF(), Narrow<float>(hn::GetLane(v)));
#else
  return hn::DemoteTo(DF(), v);
#endif
}

// Complex numbers, one per lane.
struct Complex {
  VD cos;
  VD sin;
};

// z·w. Normwise error 2u (Jeannerod, Kornerup, Louvet, Muller, Math. Comp. 86, 2017: one fma per component).
HWY_INLINE Complex MultiplyComplex(Complex z, Complex w) {
  return Complex{FmaSub(z.cos, w.cos, hn::Mul(z.sin, w.sin)), Fma(z.sin, w.cos, hn::Mul(z.cos, w.sin))};
}

// cos and sin of x for |x| ≤ π/4 and a little, x good to 3.5u: within 8u of the true values, relative (Taylor, what is left
// out is below u/2).
HWY_INLINE Complex SinCosNear0(VD x) {
  const DD d;
  const auto c = [d](double value) HWY_ATTR { return hn::Set(d, value); };
  const VD y = hn::Mul(x, x);
  VD s = c(-1.0 / 1307674368000.0);
  s = Fma(s, y, c(1.0 / 6227020800.0));
  s = Fma(s, y, c(-1.0 / 39916800.0));
  s = Fma(s, y, c(1.0 / 362880.0));
  s = Fma(s, y, c(-1.0 / 5040.0));
  s = Fma(s, y, c(1.0 / 120.0));
  s = Fma(s, y, c(-1.0 / 6.0));
  VD k = c(1.0 / 20922789888000.0);
  k = Fma(k, y, c(-1.0 / 87178291200.0));
  k = Fma(k, y, c(1.0 / 479001600.0));
  k = Fma(k, y, c(-1.0 / 3628800.0));
  k = Fma(k, y, c(1.0 / 40320.0));
  k = Fma(k, y, c(-1.0 / 720.0));
  k = Fma(k, y, c(1.0 / 24.0));
  k = Fma(k, y, c(-0.5));
  return Complex{Fma(k, y, c(1.0)), Fma(hn::Mul(x, y), s, x)};
}

// e^(i·(x + quarter·π/2)); the low two bits of `quarter` count.
HWY_INLINE Complex SinCosInQuarter(VD x, VU64 quarter) {
  const DD d;
  const DU64 du;
  const Complex near = SinCosNear0(x);
  const VU64 two = hn::Set(du, uint64_t{2});
  const auto swap = hn::MaskFromVec(hn::BitCast(d, hn::Sub(hn::Zero(du), hn::And(quarter, hn::Set(du, uint64_t{1})))));
  const VD sin_sign = hn::BitCast(d, hn::ShiftLeft<62>(hn::And(quarter, two)));
  const VD cos_sign = hn::BitCast(d, hn::ShiftLeft<62>(hn::And(hn::Add(quarter, hn::Set(du, uint64_t{1})), two)));
  return Complex{hn::Xor(hn::IfThenElse(swap, near.sin, near.cos), cos_sign),
                 hn::Xor(hn::IfThenElse(swap, near.cos, near.sin), sin_sign)};
}

// The product of the low 32 bits of each lane.
HWY_INLINE VU64 MultiplyLow32(VU64 a, VU64 b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(DU64(), (hn::GetLane(a) & 0xffffffff) * (hn::GetLane(b) & 0xffffffff));
#else
  const hn::Repartition<uint32_t, DU64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, b));
#endif
}

// e^(2πi·turn·position) for turn = high·2^-64 + low·2^-128 and position < 2^31 (in every lane). Each component is within 8u,
// relative, and 2^-94 absolute: the phase is exact to 96 bits and reduced as an integer.
HWY_INLINE Complex SinCosOfTurns(VU64 high, VU64 low, VU64 position) {
  const DD d;
  const DU64 du;
  const DI64 di;
  const VU64 mask32 = hn::Set(du, uint64_t{0xffffffff});
  const VU64 p0 = MultiplyLow32(low, position);
  const VU64 p1 = hn::Add(MultiplyLow32(hn::ShiftRight<32>(low), position), hn::ShiftRight<32>(p0));
  const VU64 p2 = hn::Add(MultiplyLow32(high, position), hn::ShiftRight<32>(p1));
  const VU64 p3 = hn::Add(MultiplyLow32(hn::ShiftRight<32>(high), position), hn::ShiftRight<32>(p2));
  const VU64 phase = hn::Or(hn::ShiftLeft<32>(p3), hn::And(p2, mask32));
  const VU64 fraction = hn::And(p1, mask32);  // 32 more bits

  const VU64 shifted = hn::Add(phase, hn::Set(du, uint64_t{1} << 61));
  const VU64 quarter = hn::ShiftRight<62>(shifted);
  const auto rest = hn::BitCast(di, hn::Sub(phase, hn::ShiftLeft<62>(quarter)));  // in [−2^61, 2^61): ±1/8 turn
  const VD turns = Fma(hn::ConvertTo(d, hn::BitCast(di, fraction)), hn::Set(d, 0x1p-32), hn::ConvertTo(d, rest));
  return SinCosInQuarter(hn::Mul(turns, hn::Set(d, 0x1.921fb54442d18p-62)), quarter);  // 2π·2^-64
}

// ---- The rounding test: hi = RN(z + e) and lo = RN(z − e) are stored results of both ends of what the true value can be.
// Emit stores hi and remembers in the accumulator where the two differ, or where hi may be wrong by double rounding.

struct Doubts {
  hn::Vec<DU32> bits;
};
HWY_INLINE Doubts NoDoubts() { return Doubts{hn::Zero(DU32())}; }
HWY_INLINE bool Any(Doubts doubts) { return !hn::AllTrue(DU32(), hn::Eq(doubts.bits, hn::Zero(DU32()))); }

HWY_INLINE void Emit(VD z, VD e, float* HWY_RESTRICT out, Doubts& doubts) {
  const DU32 du;
  const VF high = ToF32(hn::Add(z, e));
  const VF low = ToF32(hn::Sub(z, e));
  hn::StoreU(high, DF(), out);
  doubts.bits = hn::Or(doubts.bits, hn::Xor(hn::BitCast(du, high), hn::BitCast(du, low)));
}

#if HWY_TARGET == HWY_SCALAR

template <typename T>
HWY_INLINE void Emit(VD z, VD e, T* HWY_RESTRICT out, Doubts& doubts) {
  const T high = Narrow<T>(hn::GetLane(z) + hn::GetLane(e));
  const T low = Narrow<T>(hn::GetLane(z) - hn::GetLane(e));
  *out = high;
  doubts.bits = hn::Or(doubts.bits, hn::Set(DU32(), static_cast<uint32_t>(high.bits ^ low.bits)));
}

#else

// All ones where v lies in the middle between two neighbours of the 16-bit type: rounding it again, from the f64 that was
// rounded to v, could go wrong.
HWY_INLINE hn::Vec<DU32> IsMidpoint(BF16, VF v) {
  const DU32 du;
  return hn::VecFromMask(du, hn::Eq(hn::ShiftLeft<16>(hn::BitCast(du, v)), hn::Set(du, 0x80000000u)));
}
HWY_INLINE hn::Vec<DU32> IsMidpoint(F16, VF v) {
  const DU32 du;
  const DF df;
  const VF magnitude = hn::Abs(v);
  const auto normal = hn::Eq(hn::ShiftLeft<19>(hn::BitCast(du, v)), hn::Set(du, 0x80000000u));
  const VF half = hn::Set(df, 0.5f);
  const VF quantized = hn::Sub(hn::Add(magnitude, half), half);  // to a multiple of 2^-24, for denormal results
  const auto denormal = hn::Eq(hn::Abs(hn::Sub(magnitude, quantized)), hn::Set(df, 0x1p-25f));
  const auto is_denormal = hn::Lt(magnitude, hn::Set(df, 0x1p-14f));
  return hn::IfThenElse(hn::RebindMask(du, is_denormal), hn::VecFromMask(du, hn::RebindMask(du, denormal)),
                        hn::VecFromMask(du, normal));
}

HWY_INLINE auto Codes(BF16, VF v) { return NarrowToBF16(DF(), v); }
HWY_INLINE auto Codes(F16, VF v) { return NarrowToF16AnyNaN(DF(), v); }

template <typename T>
HWY_INLINE void Emit(VD z, VD e, T* HWY_RESTRICT out, Doubts& doubts) {
  const DU32 du;
  const hn::Rebind<uint16_t, DU32> du16;
  const VF high = ToF32(hn::Add(z, e));
  const VF low = ToF32(hn::Sub(z, e));
  const auto high_codes = Codes(T{}, high);
  const auto low_codes = Codes(T{}, low);
  hn::StoreU(high_codes, du16, reinterpret_cast<uint16_t*>(out));
  const auto differ = hn::PromoteTo(du, hn::Xor(high_codes, low_codes));
  doubts.bits = hn::Or(doubts.bits, hn::Or(differ, hn::Or(IsMidpoint(T{}, high), IsMidpoint(T{}, low))));
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_INL_H_
