// Conversions between the four float types, by integer arithmetic: one rounding to nearest even, denormals kept, every NaN
// turned into the canonical quiet one. The bits depend on nothing but the argument: not on the rounding mode, the
// instruction set or flush-to-zero. Scalar and constexpr; kernels/cpu/convert-inl.h has the same in vectors.
#ifndef PHASOR_KERNELS_CORE_NARROW_H_
#define PHASOR_KERNELS_CORE_NARROW_H_

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/core/double_double.h"
#include "kernels/core/dtype.h"

namespace phasor {

// IEEE 754 layout of T: sign, exponent, fraction.
template <typename T>
struct FloatFormat;
template <>
struct FloatFormat<double> {
  using Bits = uint64_t;
  static constexpr int kExponentBits = 11, kFractionBits = 52;
};
template <>
struct FloatFormat<float> {
  using Bits = uint32_t;
  static constexpr int kExponentBits = 8, kFractionBits = 23;
};
template <>
struct FloatFormat<F16> {
  using Bits = uint16_t;
  static constexpr int kExponentBits = 5, kFractionBits = 10;
};
template <>
struct FloatFormat<BF16> {
  using Bits = uint16_t;
  static constexpr int kExponentBits = 8, kFractionBits = 7;
};

template <typename T>
using BitsType = typename FloatFormat<T>::Bits;

template <typename T>
constexpr BitsType<T> BitsOf(T value) {
  return std::bit_cast<BitsType<T>>(value);
}
template <typename T>
constexpr T FromBits(uint64_t bits) {
  return std::bit_cast<T>(static_cast<BitsType<T>>(bits));
}

// +infinity's bits; a magnitude above is a NaN.
template <typename T>
inline constexpr BitsType<T> kInfinityBits =
    static_cast<BitsType<T>>(((uint64_t{1} << FloatFormat<T>::kExponentBits) - 1) << FloatFormat<T>::kFractionBits);
template <typename T>
inline constexpr BitsType<T> kSignBit =
    static_cast<BitsType<T>>(uint64_t{1} << (FloatFormat<T>::kExponentBits + FloatFormat<T>::kFractionBits));
// The one NaN that Phasor stores: f64 0x7ff8000000000000, f32 0x7fc00000, f16 0x7e00, bf16 0x7fc0.
template <typename T>
inline constexpr BitsType<T> kCanonicalNaNBits =
    static_cast<BitsType<T>>(kInfinityBits<T> | (uint64_t{1} << (FloatFormat<T>::kFractionBits - 1)));

template <typename T>
constexpr bool IsNaN(T value) {
  return (BitsOf(value) & (kSignBit<T> - 1u)) > kInfinityBits<T>;
}

// The number itself; any NaN as the canonical one.
template <typename T>
constexpr T CanonicalizeNaN(T value) {
  return IsNaN(value) ? FromBits<T>(kCanonicalNaNBits<T>) : value;
}

// value rounded once to To, to nearest even; beyond To's range ±infinity. To's fraction is at most From's, its exponent
// range at most From's.
template <typename To, typename From>
  requires std::is_floating_point_v<From>
constexpr To Narrow(From value) {
  using Source = FloatFormat<From>;
  using Target = FloatFormat<To>;
  if constexpr (std::is_same_v<To, From>) {
    return CanonicalizeNaN(value);
  } else {
    static_assert(Source::kFractionBits > Target::kFractionBits);
    const uint64_t bits = BitsOf(value);
    const uint64_t sign = (bits & kSignBit<From>) != 0 ? kSignBit<To> : 0;
    const uint64_t magnitude = bits & (kSignBit<From> - 1u);
    if (magnitude > kInfinityBits<From>) return FromBits<To>(kCanonicalNaNBits<To>);

    constexpr int kBiasDifference = (1 << (Source::kExponentBits - 1)) - (1 << (Target::kExponentBits - 1));
    const int source_exponent = static_cast<int>(magnitude >> Source::kFractionBits);
    uint64_t significand = magnitude & ((uint64_t{1} << Source::kFractionBits) - 1);
    if (source_exponent != 0) significand |= uint64_t{1} << Source::kFractionBits;
    // Exponent field of the result before rounding; below 1 the result is denormal and loses 1 − exponent more bits.
    const int exponent = (source_exponent == 0 ? 1 : source_exponent) - kBiasDifference;
    const int shift = Source::kFractionBits - Target::kFractionBits + (exponent < 1 ? 1 - exponent : 0);
    if (shift > Source::kFractionBits + 1) return FromBits<To>(sign);  // below half of the smallest denormal

    uint64_t rounded = significand >> shift;
    const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
    // The hidden bit, and a carry out of the fraction, add to the exponent field by themselves.
    if (exponent >= 1) rounded += static_cast<uint64_t>(exponent - 1) << Target::kFractionBits;
    if (rounded > kInfinityBits<To>) rounded = kInfinityBits<To>;
    return FromBits<To>(sign | rounded);
  }
}

// hi + lo rounded to odd: exact when a double holds it, else the neighbour with the odd last bit. Rounding that once more,
// to nearest in a type of at most 51 bits, is a single rounding of hi + lo. Needs hi = RN(hi + lo); a hi that is not finite
// is returned as it is.
constexpr double RoundToOdd(DoubleDouble value) {
  const uint64_t bits = BitsOf(value.hi);
  const bool finite = (bits & (kSignBit<double> - 1)) < kInfinityBits<double>;
  if (!finite || value.lo == 0 || (bits & 1) != 0) return value.hi;
  const bool away_from_zero = (value.lo < 0) == (value.hi < 0);
  return FromBits<double>(away_from_zero ? bits + 1 : bits - 1);
}

// hi + lo rounded once, likewise. Needs hi = RN(hi + lo).
template <typename To>
constexpr To Narrow(DoubleDouble value) {
  if constexpr (std::is_same_v<To, double>) {
    return CanonicalizeNaN(value.hi);
  } else {
    return Narrow<To>(RoundToOdd(value));
  }
}

// The same number in the wider type: exact, denormals included.
template <typename To, typename From>
constexpr To Widen(From value) {
  using Source = FloatFormat<From>;
  using Target = FloatFormat<To>;
  if constexpr (std::is_same_v<To, From>) {
    return CanonicalizeNaN(value);
  } else {
    static_assert(Source::kFractionBits < Target::kFractionBits);
    constexpr int kShift = Target::kFractionBits - Source::kFractionBits;
    constexpr uint64_t kBiasDifference = (1 << (Target::kExponentBits - 1)) - (1 << (Source::kExponentBits - 1));
    const uint64_t bits = BitsOf(value);
    const uint64_t sign = (bits & kSignBit<From>) != 0 ? kSignBit<To> : 0;
    const uint64_t magnitude = bits & (kSignBit<From> - 1u);
    if (magnitude > kInfinityBits<From>) return FromBits<To>(kCanonicalNaNBits<To>);
    if (magnitude == kInfinityBits<From>) return FromBits<To>(sign | kInfinityBits<To>);
    constexpr uint64_t kHiddenBit = uint64_t{1} << Source::kFractionBits;
    if (magnitude >= kHiddenBit)
      return FromBits<To>(sign | ((magnitude << kShift) + (kBiasDifference << Target::kFractionBits)));
    if (magnitude == 0 || kBiasDifference == 0) return FromBits<To>(sign | (magnitude << kShift));
    // A denormal becomes normal: move its leading one to the hidden bit's place.
    const int lead = std::countl_zero(magnitude) - std::countl_zero(kHiddenBit);
    const uint64_t exponent = kBiasDifference + 1 - static_cast<uint64_t>(lead);
    const uint64_t fraction = (magnitude << lead) - kHiddenBit;
    return FromBits<To>(sign | (exponent << Target::kFractionBits) | (fraction << kShift));
  }
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_NARROW_H_
