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

// The rounding test: RN(z + e) = RN(z − e) for the stored type decides the entry, when the true value is strictly
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

#endif  // PHASOR_KERNELS_CPU_ANGLE_ROUNDING_INL_H_
