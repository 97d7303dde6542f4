// The rounding test of the angle tables, for each stored type.
#if defined(PHASOR_KERNELS_CPU_ANGLE_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_ROUNDING_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_ROUNDING_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_ROUNDING_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/narrow.h"
#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The rounding test: RN(z + e) = RN(z − e) for the stored type decides the entry, when the true value is strictly within
// z ± e. Emit stores RN(z), never that of an end (an end may be a tie, which the value is not), and collects in Doubts where
// the two may differ. |z| above e must not be denormal in f32 (callers widen e where it could be); e = 0 asks for a z that
// the stored type holds. kStream: of f32 only, past the cache, `out` aligned to the vector.
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
HWY_INLINE bool AnyRelative(Doubts<float> doubts) { return Any(doubts); }

template <bool kStream, typename T>
HWY_INLINE void Emit(VD z, VD e, T* HWY_RESTRICT out, Doubts<T>& doubts) {
  const T high = Narrow<T>(hn::GetLane(z) + hn::GetLane(e));
  const T low = Narrow<T>(hn::GetLane(z) - hn::GetLane(e));
  *out = Narrow<T>(hn::GetLane(z));
  doubts.bits.raw |= static_cast<decltype(doubts.bits.raw)>(BitsOf(high) ^ BitsOf(low));
}

#else

// Bits of a double that a float, or a bf16, does not have. Both ends round alike when no middle between two neighbours of
// the stored type lies between them. The test is cheaper and a little stricter: no multiple of half a last place may lie
// there, which is to say that both agree in all but the lower kDroppedBits − 1 bits. One end may be such a multiple itself:
// z and the true value are strictly inside.
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
  return !hn::AllTrue(du, hn::Eq(hn::ShiftRight<kDroppedBits<T> - 1>(doubts.bits), hn::Zero(du)));
}
HWY_INLINE bool Any(Doubts<F16> doubts) {
  const hn::Rebind<uint16_t, DD> du16;
  return !hn::AllTrue(du16, hn::Eq(doubts.bits, hn::Zero(du16)));
}

// seen | (a ^ b). With AVX-512 one instruction, which g++ does not find by itself.
HWY_INLINE VU64 CollectDifferences(VU64 seen, VU64 a, VU64 b) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return VU64{_mm512_ternarylogic_epi64(seen.raw, a.raw, b.raw, 0xf6)};
#else
  return hn::Or(seen, hn::Xor(a, b));
#endif
}

template <typename T>
HWY_INLINE void CompareEnds(VD z, VD e, Doubts<T>& doubts) {
  const DU64 du;
  const VU64 high = hn::BitCast(du, hn::Add(z, e));
  const VU64 low = hn::BitCast(du, hn::Sub(z, e));
  doubts.bits = CollectDifferences(doubts.bits, high, low);
#if HWY_TARGET == HWY_AVX2 && HWY_COMPILER_GCC
  // One after the other: g++ would rather collect several at a time, for which AVX2 has not the registers.
  asm("" : "+x"(doubts.bits.raw));
#endif
}

// For errors below 2^-40·|z|: that is at most so many units in the last place of the double. With half of the dropped range
// added to both ends they agree in the bits that stay when both round alike; an exact zero does. Asked by AnyRelative.
inline constexpr uint64_t kRelativeUlps = uint64_t{1} << 13;
HWY_INLINE void EmitRelative(VD z, float* HWY_RESTRICT out, Doubts<float>& doubts) {
  const DU64 du;
  constexpr uint64_t kHalf = uint64_t{1} << (kDroppedBits<float> - 1);
  const VU64 bits = hn::BitCast(du, z);
  const VU64 high_bits = hn::Add(bits, hn::Set(du, kHalf + kRelativeUlps));
  const VU64 low_bits = hn::Add(bits, hn::Set(du, kHalf - kRelativeUlps));
  hn::StoreU(ToF32(z), DF(), out);
  doubts.bits = CollectDifferences(doubts.bits, high_bits, low_bits);
}
HWY_INLINE bool AnyRelative(Doubts<float> doubts) {
  const DU64 du;
  return !hn::AllTrue(du, hn::Eq(hn::ShiftRight<kDroppedBits<float>>(doubts.bits), hn::Zero(du)));
}

template <bool kStream>
HWY_INLINE void Emit(VD z, VD e, float* HWY_RESTRICT out, Doubts<float>& doubts) {
  CompareEnds(z, e, doubts);
  Put<kStream>(ToF32(z), DF(), out);
}

template <bool kStream>
HWY_INLINE void Emit(VD z, VD e, BF16* HWY_RESTRICT out, Doubts<BF16>& doubts) {
  const DU64 du;
  const DU32 du32;
  CompareEnds(z, e, doubts);
  // Halves up, in magnitude: z is none, or in doubt.
  constexpr uint64_t kUnit = uint64_t{1} << kDroppedBits<BF16>;
  const VU64 bits = hn::Add(hn::BitCast(du, z), hn::Set(du, kUnit / 2));
  const VF rounded = ToF32(hn::BitCast(DD(), hn::And(bits, hn::Set(du, ~(kUnit - 1)))));  // exact
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
HWY_INLINE void Emit(VD z, VD e, F16* HWY_RESTRICT out, Doubts<F16>& doubts) {
  const auto high = RoundToF16(hn::Add(z, e));  // equal ends: what lies between, z too, rounds to the same
  const auto low = RoundToF16(hn::Sub(z, e));
  hn::StoreU(high, hn::Rebind<uint16_t, DD>(), reinterpret_cast<uint16_t*>(out));
  doubts.bits = hn::Or(doubts.bits, hn::Xor(high, low));
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_ROUNDING_INL_H_
