// cos and sin of f32 angles, correctly rounded to f32.
//
// Error of z: with 2/π = h + l + δ, |δ| < 2^-107, the rest after n quarters is fma(a, h, −n) + a·l, each operation within 1u
// of its own result: ≤ 3u relative and |a|·2^-106 absolute. No float is nearer to a multiple of π/2 than 2^-31, zero apart
// (Muller, Elementary Functions: 16367173·2^72 is the worst, 2^-30.2), so that for |a| < 2^31 the absolute part is below
// 2^-44 of the rest. With the polynomial's 2^-41 that is within the bound of 2^-40·|z|.
#if defined(PHASOR_KERNELS_CPU_ANGLE_COMPAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_COMPAT_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_COMPAT_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_COMPAT_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/narrow.h"
#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/cpu/angle_rounding-inl.h"
#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr double kCompatBound = 0x1p-40;
inline constexpr int kTogether = 4;  // vectors of a row worked on side by side

HWY_INLINE VD ToF64(VF v) { return hn::PromoteTo(DD(), v); }

// An angle as quarter turns: a whole number of them, of which the low bits count, and the rest, |rest| ≤ 1/2 and a little.
struct QuarterTurns {
  VU64 quarter;
  VD rest;
};
HWY_INLINE QuarterTurns ReduceAngle(VD angle) {
  const DD d;
  const VD two_over_pi = hn::Set(d, 0x1.45f306dc9c883p-1);
  const VD two_over_pi_low = hn::Set(d, -0x1.6b01ec5417056p-55);
  // Adding 1.5·2^52 rounds to a whole number, whose low bits are then those of the sum.
  const VD magic = hn::Set(d, 0x1.8p52);
  const VD sum = Fma(angle, two_over_pi, magic);
  const VD n = hn::Sub(sum, magic);
  return QuarterTurns{hn::BitCast(DU64(), sum), Fma(angle, two_over_pi_low, FmaSub(angle, two_over_pi, n))};
}

// e^(i·angle), each component within kCompatBound, relative, for 2^-120 < |angle| < 2^31 or 0.
template <int kCount>
HWY_INLINE void EvaluateCompat(const VF (&angle)[kCount], Complex (&z)[kCount]) {
  VD rest[kCount];
  VU64 quarter[kCount];
  HWY_UNROLL(4)
  for (int v = 0; v < kCount; ++v) {
    const QuarterTurns turns = ReduceAngle(ToF64(angle[v]));
    rest[v] = turns.rest;
    quarter[v] = turns.quarter;
  }
  SinCosFast(rest, z);
  HWY_UNROLL(4)
  for (int v = 0; v < kCount; ++v) z[v] = TurnByQuarters(z[v], quarter[v]);
}

// Decides the entries of one vector of a row by bounds that hold for every value.
HWY_INLINE void RepairCompat(Complex z, VF angle, float* cos_out, float* sin_out) {
  double cos[kLanes], sin[kLanes];
  float angles[kLanes];
  hn::StoreU(z.cos, DD(), cos);
  hn::StoreU(z.sin, DD(), sin);
  hn::StoreU(angle, DF(), angles);
  const auto is_sure = [](double v) {
    return BitsOf(Narrow<float>(v * (1 + kCompatBound))) == BitsOf(Narrow<float>(v * (1 - kCompatBound)));
  };
  for (int64_t i = 0; i < kLanes; ++i) {
    if (!is_sure(cos[i])) cos_out[i] = CompatEntry(angles[i], Component::kCos);
    if (!is_sure(sin[i])) sin_out[i] = CompatEntry(angles[i], Component::kSin);
  }
}

// cos and sin of the angles of one row, angle_at(i) being those of columns [i, i + kLanes): whole vectors are read and
// written. Every angle is 0, or 2^-100 ≤ |angle| < 2^30.
template <class AngleAt>
HWY_INLINE void RunCompatAngles(int64_t columns, AngleAt angle_at, float* HWY_RESTRICT cos, float* HWY_RESTRICT sin) {
  // The values of kCount vectors.
  const auto run = [&]<int kCount>(int64_t i, Complex(&z)[kCount], Doubts<float>& doubts) HWY_ATTR {
    VF angle[kCount];
    for (int v = 0; v < kCount; ++v) angle[v] = angle_at(i + v * kLanes);
    EvaluateCompat(angle, z);
    for (int v = 0; v < kCount; ++v) {
      EmitRelative(z[v].cos, cos + i + v * kLanes, doubts);
      EmitRelative(z[v].sin, sin + i + v * kLanes, doubts);
    }
  };
  Doubts<float> doubts = NoDoubts<float>();
  int64_t next = 0;
  for (; next + kTogether * kLanes <= columns; next += kTogether * kLanes) {
    Complex z[kTogether];
    run(next, z, doubts);
  }
  for (; next < columns; next += kLanes) {
    Complex z[1];
    run(next, z, doubts);
  }
  if (HWY_LIKELY(!AnyRelative(doubts))) return;
  for (int64_t i = 0; i < columns; i += kLanes) {
    doubts = NoDoubts<float>();
    Complex z[1];
    run(i, z, doubts);
    if (AnyRelative(doubts)) RepairCompat(z[0], angle_at(i), cos + i, sin + i);
  }
}

HWY_INLINE void Cast(VF v, float* out) { hn::StoreU(v, DF(), out); }
HWY_INLINE void Cast(VF v, double* out) { hn::StoreU(ToF64(v), DD(), out); }
template <typename T>
HWY_INLINE void Cast(VF v, T* out) {
#if HWY_TARGET == HWY_SCALAR
  *out = Narrow<T>(hn::GetLane(v));
#else
  if constexpr (std::is_same_v<T, F16>) {
    hn::StoreU(NarrowToF16(DF(), v), hn::Rebind<uint16_t, DF>(), reinterpret_cast<uint16_t*>(out));
  } else {
    hn::StoreU(NarrowToBF16(DF(), v), hn::Rebind<uint16_t, DF>(), reinterpret_cast<uint16_t*>(out));
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_COMPAT_INL_H_
