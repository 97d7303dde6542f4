// Vector pieces of the angle tables: complex numbers, cos and sin near 0, cos and sin of integer phases.
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

// c − a·b, likewise; of f32 too.
template <class V>
HWY_INLINE V NegFma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(hn::DFromV<V>(), std::fma(-hn::GetLane(a), hn::GetLane(b), hn::GetLane(c)));
#else
  return hn::NegMulAdd(a, b, c);
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
// at Chebyshev nodes in r²: 2^-45.8 and 2^-41.6). kCount vectors, step by step: one alone waits for its own results.
template <int kCount>
HWY_INLINE void SinCosFast(const VD (&r)[kCount], Complex (&z)[kCount]) {
  constexpr double kSin[] = {-0x1.de408fda6efa3p-19, 0x1.507402ce620f6p-13, -0x1.32d2c9e3d6756p-8,
                             0x1.466bc675d7aacp-4,   -0x1.4abbce625ba6fp-1, 0x1.921fb54442d18p+0};
  constexpr double kCos[] = {-0x1.a1e1efc00f0d5p-16, 0x1.e1ec5b2512855p-11, -0x1.55d3c1abaf4fbp-6,
                             0x1.03c1f07e95d6bp-2,   -0x1.3bd3cc9be35cbp+0, 1.0};
  const DD d;
  VD y[kCount], s[kCount], k[kCount];
  HWY_UNROLL(4)
  for (int v = 0; v < kCount; ++v) {
    y[v] = hn::Mul(r[v], r[v]);
    s[v] = hn::Set(d, kSin[0]);
    k[v] = hn::Set(d, kCos[0]);
  }
  HWY_UNROLL(5)
  for (int term = 1; term < 6; ++term) {
    HWY_UNROLL(4)
    for (int v = 0; v < kCount; ++v) {
      s[v] = Fma(s[v], y[v], hn::Set(d, kSin[term]));
      k[v] = Fma(k[v], y[v], hn::Set(d, kCos[term]));
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kCount; ++v) z[v] = Complex{k[v], hn::Mul(r[v], s[v])};
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
    const VD r[1] = {hn::Mul(turns, hn::Set(d, 0x1p-62))};
    Complex z[1];
    SinCosFast(r, z);
    return TurnByQuarters(z[0], quarter);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_INL_H_
