// Vector pieces of the angle tables: cos and sin from integer phases or from f32 angles, and the rounding test.
#if defined(PHASOR_KERNELS_CPU_ANGLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/narrow.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/stores-inl.h"

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

// cos and sin of x for |x| ≤ π/4 and a little, x good to 3.5u: within 8u of the true values, relative (Taylor; what is left
// out is below u/2).
HWY_INLINE Complex SinCosFine(VD x) {
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

// cos and sin of r quarter turns for |r| ≤ 1/2 and a little: within 2^-41, relative, when r is good to 2^-48 (interpolation
// at Chebyshev nodes in r²: 2^-45.8 and 2^-41.6).
HWY_INLINE Complex SinCosFast(VD r) {
  const DD d;
  const auto c = [d](double value) HWY_ATTR { return hn::Set(d, value); };
  const VD y = hn::Mul(r, r);
  VD s = c(-0x1.de408fda6efa3p-19);
  s = Fma(s, y, c(0x1.507402ce620f6p-13));
  s = Fma(s, y, c(-0x1.32d2c9e3d6756p-8));
  s = Fma(s, y, c(0x1.466bc675d7aacp-4));
  s = Fma(s, y, c(-0x1.4abbce625ba6fp-1));
  s = Fma(s, y, c(0x1.921fb54442d18p+0));
  VD k = c(-0x1.a1e1efc00f0d5p-16);
  k = Fma(k, y, c(0x1.e1ec5b2512855p-11));
  k = Fma(k, y, c(-0x1.55d3c1abaf4fbp-6));
  k = Fma(k, y, c(0x1.03c1f07e95d6bp-2));
  k = Fma(k, y, c(-0x1.3bd3cc9be35cbp+0));
  return Complex{Fma(k, y, c(1.0)), hn::Mul(r, s)};
}

// z·i^quarter; the low two bits of `quarter` count.
HWY_INLINE Complex TurnByQuarters(Complex z, VU64 quarter) {
  const DD d;
  const DU64 du;
  const auto swap = hn::MaskFromVec(hn::BitCast(d, hn::Sub(hn::Zero(du), hn::And(quarter, hn::Set(du, uint64_t{1})))));
  const VU64 sign = hn::Set(du, uint64_t{1} << 63);
  // Bit 63: whether sin is negative; one quarter on, whether cos is.
  const VU64 half = hn::ShiftLeft<62>(quarter);
  const VU64 next = hn::Add(half, hn::Set(du, uint64_t{1} << 62));
  const VU64 cos = hn::BitCast(du, hn::IfThenElse(swap, z.sin, z.cos));
  const VU64 sin = hn::BitCast(du, hn::IfThenElse(swap, z.cos, z.sin));
  return Complex{hn::BitCast(d, hn::Xor(cos, hn::And(next, sign))), hn::BitCast(d, hn::Xor(sin, hn::And(half, sign)))};
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

// e^(2πi·turn·position) for turn = high·2^-64 + low·2^-128 and position < 2^31 (in every lane). Each component is within 8u
// (kFine; else 2^-41), relative, and 2^-94 absolute: the phase is exact to 96 bits and reduced as an integer.
template <bool kFine>
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
  if constexpr (kFine) {
    return TurnByQuarters(SinCosFine(hn::Mul(turns, hn::Set(d, 0x1.921fb54442d18p-62))), quarter);  // 2π·2^-64
  } else {
    return TurnByQuarters(SinCosFast(hn::Mul(turns, hn::Set(d, 0x1p-62))), quarter);
  }
}

// ---- The rounding test: RN(z + e) = RN(z − e) for the stored type decides the entry, when the true value is strictly
// within z ± e. Emit stores RN(z + e) and collects in Doubts where the two differ. |z| above e must not be denormal in f32
// (callers widen e where it could be); e = 0 asks for a z that the stored type holds. kStream: of f32 only.
template <typename T>
struct Doubts {
  VU64 bits;
};
template <>
struct Doubts<F16> {
  hn::Vec<hn::Rebind<uint16_t, DD>> bits;
};

#if HWY_TARGET == HWY_SCALAR

template <typename T>
HWY_INLINE Doubts<T> NoDoubts() {
  if constexpr (std::is_same_v<T, F16>)
    return Doubts<T>{hn::Zero(hn::Rebind<uint16_t, DD>())};
  else
    return Doubts<T>{hn::Zero(DU64())};
}
template <typename T>
HWY_INLINE bool Any(Doubts<T> doubts) {
  return hn::GetLane(doubts.bits) != 0;
}
// For floats whose error is below 2^-40·|z|: that is at most kRelativeUlps in the last place of the double.
inline constexpr uint64_t kRelativeUlps = uint64_t{1} << 13;
HWY_INLINE void EmitRelative(VD z, float* HWY_RESTRICT out, Doubts<float>& doubts) {
  const uint64_t bits = BitsOf(hn::GetLane(z)) + (uint64_t{1} << 28);
  *out = Narrow<float>(hn::GetLane(z));
  doubts.bits.raw |= ((bits + kRelativeUlps) ^ (bits - kRelativeUlps)) >> 29;
}

template <bool kStream, typename T>
HWY_INLINE void EmitEnds(VD high, VD low, T* HWY_RESTRICT out, Doubts<T>& doubts) {
  const T high_entry = Narrow<T>(hn::GetLane(high));
  const T low_entry = Narrow<T>(hn::GetLane(low));
  *out = high_entry;
  doubts.bits.raw |= static_cast<decltype(doubts.bits.raw)>(BitsOf(high_entry) ^ BitsOf(low_entry));
}
template <bool kStream, typename T>
HWY_INLINE void Emit(VD z, VD e, T* HWY_RESTRICT out, Doubts<T>& doubts) {
  EmitEnds<kStream>(hn::Add(z, e), hn::Sub(z, e), out, doubts);
}

#else

// z − e, by fma: on some CPUs additions and fmas have units of their own, and this kernel is heavy on additions.
HWY_INLINE VD Below(VD z, VD e) { return hn::NegMulAdd(e, hn::Set(DD(), 1.0), z); }

// Bits of a double that a float, or a bf16, does not have. Rounding to it (halves up, in magnitude) is adding half of the
// dropped range to the bits and cutting: both ends round alike when the sums agree in the bits that stay. Halves happen
// only at the ends themselves, where the true value is not.
template <typename T>
inline constexpr int kDroppedBits = 52 - FloatFormat<T>::kFractionBits;

template <typename T>
HWY_INLINE Doubts<T> NoDoubts() {
  return Doubts<T>{hn::Zero(DU64())};
}
template <>
HWY_INLINE Doubts<F16> NoDoubts<F16>() {
  return Doubts<F16>{hn::Zero(hn::Rebind<uint16_t, DD>())};
}

template <typename T>
HWY_INLINE bool Any(Doubts<T> doubts) {
  const DU64 du;
  return !hn::AllTrue(du, hn::Eq(hn::ShiftRight<kDroppedBits<T>>(doubts.bits), hn::Zero(du)));
}
HWY_INLINE bool Any(Doubts<F16> doubts) {
  const hn::Rebind<uint16_t, DD> du16;
  return !hn::AllTrue(du16, hn::Eq(doubts.bits, hn::Zero(du16)));
}

// The bits of z + e, half of the dropped range added.
template <typename T>
HWY_INLINE VU64 RoundBothEnds(VD high, VD low, Doubts<T>& doubts) {
  const DU64 du;
  const VU64 half = hn::Set(du, uint64_t{1} << (kDroppedBits<T> - 1));
  const VU64 high_bits = hn::Add(hn::BitCast(du, high), half);
  const VU64 low_bits = hn::Add(hn::BitCast(du, low), half);
  doubts.bits = hn::Or(doubts.bits, hn::Xor(high_bits, low_bits));
  return high_bits;
}

// For errors below 2^-40·|z|: that is at most so many units in the last place of the double.
inline constexpr uint64_t kRelativeUlps = uint64_t{1} << 13;
HWY_INLINE void EmitRelative(VD z, float* HWY_RESTRICT out, Doubts<float>& doubts) {
  const DU64 du;
  constexpr uint64_t kHalf = uint64_t{1} << (kDroppedBits<float> - 1);
  const VU64 bits = hn::BitCast(du, z);
  const VU64 high_bits = hn::Add(bits, hn::Set(du, kHalf + kRelativeUlps));
  const VU64 low_bits = hn::Add(bits, hn::Set(du, kHalf - kRelativeUlps));
  hn::StoreU(ToF32(z), DF(), out);
  doubts.bits = hn::Or(doubts.bits, hn::Xor(high_bits, low_bits));
}

// kStream: past the cache, `out` aligned to the vector.
template <bool kStream>
HWY_INLINE void EmitEnds(VD high, VD low, float* HWY_RESTRICT out, Doubts<float>& doubts) {
  RoundBothEnds(high, low, doubts);
  Put<kStream>(ToF32(high), DF(), out);
}

template <bool kStream>
HWY_INLINE void EmitEnds(VD high, VD low, BF16* HWY_RESTRICT out, Doubts<BF16>& doubts) {
  const DD d;
  const DU32 du32;
  const VU64 bits = RoundBothEnds(high, low, doubts);
  constexpr int kDropped = kDroppedBits<BF16>;
  const VF rounded = ToF32(hn::BitCast(d, hn::And(bits, hn::Set(DU64(), ~((uint64_t{1} << kDropped) - 1)))));  // exact
  hn::StoreU(hn::TruncateTo(hn::Rebind<uint16_t, DD>(), hn::ShiftRight<16>(hn::BitCast(du32, rounded))),
             hn::Rebind<uint16_t, DD>(), reinterpret_cast<uint16_t*>(out));
}

// f16 has denormals where tables have entries, so both ends are really rounded: to odd in f32, then to nearest even. Values
// that f32 holds count as if they were not (their last bit is set): that does not reach the f16.
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DD>> RoundToF16(VD v) {
  const DU64 du;
  constexpr uint64_t kLast = uint64_t{1} << kDroppedBits<float>;
  const VU64 odd = hn::And(hn::Or(hn::BitCast(du, v), hn::Set(du, kLast)), hn::Set(du, ~(kLast - 1)));
  return NarrowToF16AnyNaN(DF(), ToF32(hn::BitCast(DD(), odd)));
}
template <bool kStream>
HWY_INLINE void EmitEnds(VD high, VD low, F16* HWY_RESTRICT out, Doubts<F16>& doubts) {
  const auto high_entry = RoundToF16(high);
  hn::StoreU(high_entry, hn::Rebind<uint16_t, DD>(), reinterpret_cast<uint16_t*>(out));
  doubts.bits = hn::Or(doubts.bits, hn::Xor(high_entry, RoundToF16(low)));
}

template <bool kStream, typename T>
HWY_INLINE void Emit(VD z, VD e, T* HWY_RESTRICT out, Doubts<T>& doubts) {
  EmitEnds<kStream>(hn::Add(z, e), Below(z, e), out, doubts);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_INL_H_
