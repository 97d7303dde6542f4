// The integer arithmetic behind sincos.h, for kernels that run it inline: on a device a call would need a stack frame, and
// so would an array that is indexed by what is only known then. Everyone else includes sincos.h.
#ifndef PHASOR_KERNELS_CORE_SINCOS_INL_H_
#define PHASOR_KERNELS_CORE_SINCOS_INL_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/core/sincos.h"

namespace phasor::sincos_inline {

using uint128 = unsigned __int128;

PHASOR_HOST_DEVICE constexpr uint128 Join(uint64_t high, uint64_t low) { return static_cast<uint128>(high) << 64 | low; }
PHASOR_HOST_DEVICE constexpr uint64_t High(uint128 value) { return static_cast<uint64_t>(value >> 64); }
PHASOR_HOST_DEVICE constexpr uint64_t Low(uint128 value) { return static_cast<uint64_t>(value); }

// 2π·2^125 truncated: the value is kTwoPi·2^(2 − 127).
inline constexpr uint128 kTwoPi = Join(0xc90fdaa22168c234, 0xc4c6628b80dc1cd1);

// The i-th 64 binary digits of 1/(2π) = 0.0010100010111110…, i < 6.
PHASOR_HOST_DEVICE_INLINE uint64_t InverseTwoPi(int i) {
  static constexpr uint64_t kDigits[6] = {0x28be60db9391054a, 0x7f09d5f47d4d3770, 0x36d8a5664f10e410,
                                          0x7f9458eaf7aef158, 0x6dc91b8e909374b8, 0x1924bba82746487f};
  return kDigits[i];
}

// Taylor coefficients 1/first, 1/(first·second·third)… as 128-bit fractions, signs left to the evaluation. On
// |x| ≤ π/4 (x² ≤ 0.617) what is left out is below 2^-123 of the result.
inline constexpr int kTerms = 15;
struct Terms {
  uint128 at[kTerms];
};
constexpr Terms FactorialReciprocals(int first) {
  Terms reciprocals{};
  uint128 value = ~uint128{0};
  int n = 1;
  for (int k = 0; k < kTerms; ++k) {
    for (; n <= first + 2 * k; ++n) value /= static_cast<uint128>(n);
    reciprocals.at[k] = value;
  }
  return reciprocals;
}
// 1/3!, 1/5!, … 1/31! of the sine, 1/2!, 1/4!, … 1/30! of the cosine.
template <bool kSine>
PHASOR_HOST_DEVICE_INLINE uint128 Term(int k) {
  static constexpr Terms kAll = FactorialReciprocals(kSine ? 3 : 2);
  return kAll.at[k];
}

// floor(a·b / 2^128), or one or two less: the product of the low halves is left out.
PHASOR_HOST_DEVICE_INLINE uint128 MultiplyHigh(uint128 a, uint128 b) {
  const uint128 cross_a = static_cast<uint128>(High(a)) * Low(b);
  const uint128 cross_b = static_cast<uint128>(Low(a)) * High(b);
  return static_cast<uint128>(High(a)) * High(b) + High(cross_a) + High(cross_b);
}

// t_0·y − t_1·y² + t_2·y³ − …: the distance of cos x, or of sin x / x, from 1, for y = x² as a 128-bit fraction.
template <bool kSine>
PHASOR_HOST_DEVICE_INLINE uint128 DistanceFromOne(uint128 y) {
  uint128 sum = Term<kSine>(kTerms - 1);
  for (int k = kTerms - 2; k >= 0; --k) sum = Term<kSine>(k) - MultiplyHigh(y, sum);
  return MultiplyHigh(y, sum);
}

// a·b, truncated to 128 bits (exact when it fits).
PHASOR_HOST_DEVICE_INLINE Real128 MultiplyReal(const Real128& a, const Real128& b) {
  if (a.mantissa == 0 || b.mantissa == 0) return Real128{};
  // The full 256-bit product: an exact one must stay exact.
  const uint128 low = static_cast<uint128>(Low(a.mantissa)) * Low(b.mantissa);
  const uint128 cross_a = static_cast<uint128>(High(a.mantissa)) * Low(b.mantissa);
  const uint128 cross_b = static_cast<uint128>(Low(a.mantissa)) * High(b.mantissa);
  const uint128 middle = static_cast<uint128>(High(low)) + Low(cross_a) + Low(cross_b);
  uint128 high = static_cast<uint128>(High(a.mantissa)) * High(b.mantissa) + High(cross_a) + High(cross_b) + High(middle);
  int exponent = a.exponent + b.exponent + 1;
  if (High(high) >> 63 == 0) {
    high = high << 1 | (Low(middle) >> 63);
    --exponent;
  }
  return Real128{high, exponent, a.negative != b.negative};
}

// Of x = mantissa·2^(exponent − 127), 0 ≤ x ≤ π/4 and a little.
PHASOR_HOST_DEVICE_INLINE SinCos128 SinCosReduced(const Real128& x) {
  SinCos128 result;
  result.cos = Real128{static_cast<uint128>(1) << 127, 0, false};
  if (x.mantissa == 0) return result;  // sin 0, cos 1

  const int shift = -(2 * x.exponent + 2);
  const uint128 y = shift < 128 ? MultiplyHigh(x.mantissa, x.mantissa) >> shift : 0;

  // sin x = x·(1 − d): one bit of room is enough, because d < 0.11.
  uint128 sine = x.mantissa - MultiplyHigh(x.mantissa, DistanceFromOne<true>(y));
  int exponent = x.exponent;
  if (High(sine) >> 63 == 0) {
    sine <<= 1;
    --exponent;
  }
  result.sin = Real128{sine, exponent, false};

  // cos x = 1 − d in [0.7, 1): never quite 1 for x ≠ 0, so that a product with A falls on the right side of a tie.
  uint128 distance = DistanceFromOne<false>(y);
  if (distance == 0) distance = 1;
  result.cos = Real128{-distance, -1, false};
  return result;
}

// The fraction of a turn in 64·N bits, least significant limb first.
template <size_t N>
using Limbs = std::array<uint64_t, N>;

// x = 2π·r for the fraction r·2^(64·N) in `limbs`, N ≥ 3.
template <size_t N>
PHASOR_HOST_DEVICE_INLINE Real128 ScaleByTwoPi(const Limbs<N>& limbs) {
  // The highest limb that is not 0 and the two below it.
  uint64_t a = limbs[N - 1], b = limbs[N - 2], c = limbs[N - 3];
  int zeros = 0;
  for (int next = static_cast<int>(N) - 4; a == 0 && zeros < static_cast<int>(N) - 1; --next) {
    a = b;
    b = c;
    c = 0;
    if constexpr (N == 5) c = next == 1 ? limbs[1] : next == 0 ? limbs[0] : 0;
    static_assert(N == 3 || N == 5);
    ++zeros;
  }
  if (a == 0) return Real128{};
  const int lead = std::countl_zero(a);
  const uint128 mantissa = (Join(a, b) << lead) | (lead == 0 ? 0 : c >> (64 - lead));
  const Real128 turns{mantissa, -zeros * 64 - lead - 1, false};
  return MultiplyReal(turns, Real128{kTwoPi, 2, false});
}

// cos and sin of a phase in [0, 1) turn.
template <size_t N>
PHASOR_HOST_DEVICE_INLINE SinCos128 SinCosOfPhase(const Limbs<N>& phase) {
  // The nearest quarter turn and what is left of it: |r| ≤ 1/8 turn, exact, so that small angles keep all their digits.
  constexpr uint64_t kEighth = uint64_t{1} << 61;
  const uint64_t shifted = phase[N - 1] + kEighth;  // wraps to quarter 0 above 7/8
  const unsigned quarter = static_cast<unsigned>(shifted >> 62);
  Limbs<N> r = phase;
  r[N - 1] -= static_cast<uint64_t>(quarter) << 62;
  const bool below = r[N - 1] >> 63 != 0;
  if (below) {  // two's complement
    bool carry = true;
    for (size_t i = 0; i < N; ++i) {
      r[i] = ~r[i] + (carry ? 1 : 0);
      carry = carry && r[i] == 0;
    }
  }
  SinCos128 reduced = SinCosReduced(ScaleByTwoPi(r));
  reduced.sin.negative = below && reduced.sin.mantissa != 0;

  const bool odd = (quarter & 1) != 0;
  SinCos128 result{odd ? reduced.cos : reduced.sin, odd ? reduced.sin : reduced.cos};
  if (quarter >= 2) result.sin.negative = !result.sin.negative && result.sin.mantissa != 0;
  if (quarter == 1 || quarter == 2) result.cos.negative = !result.cos.negative && result.cos.mantissa != 0;
  return result;
}

PHASOR_HOST_DEVICE_INLINE Limbs<3> FractionOf(const Turns& phase) { return {phase.limb[0], phase.limb[1], phase.limb[2]}; }

// frequency·position modulo one turn, exactly, for 0 < position < 2^31 of at least 2^-64: the product of 256 and 53 bits
// has at most 192 + 116 of them behind the point.
PHASOR_HOST_DEVICE_INLINE Limbs<5> FractionOf(const Turns& frequency, double position) {
  const uint64_t bits = std::bit_cast<uint64_t>(position);
  const uint64_t significand = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int places = 1075 - static_cast<int>(bits >> 52);  // position = significand·2^-places, 22 ≤ places ≤ 116
  Limbs<5> product;
  uint128 carry = 0;
  for (size_t i = 0; i < 4; ++i) {
    carry += static_cast<uint128>(frequency.limb[i]) * significand;
    product[i] = Low(carry);
    carry >>= 64;
  }
  product[4] = Low(carry);
  // The product has 192 + places bits behind the point, the answer 320: it goes up by 12 … 106 bits.
  const int up = 128 - places;
  const int shift = up % 64;
  if (up >= 64) product = {0, product[0], product[1], product[2], product[3]};
  Limbs<5> fraction{};
  for (size_t i = 0; i < 5; ++i) {
    fraction[i] = product[i] << shift;
    if (shift != 0 && i > 0) fraction[i] |= product[i - 1] >> (64 - shift);
  }
  return fraction;
}

// The functions of sincos.h.

PHASOR_HOST_DEVICE_INLINE SinCos128 OfPosition(const Turns& frequency, int64_t position) {
  SinCos128 result = SinCosOfPhase(FractionOf(PhaseOf(frequency, position < 0 ? -position : position)));
  if (position < 0 && result.sin.mantissa != 0) result.sin.negative = !result.sin.negative;
  return result;
}

PHASOR_HOST_DEVICE_INLINE SinCos128 OfFractionalPosition(const Turns& frequency, double position) {
  if (position == 0) return SinCos128{Real128{}, Real128{static_cast<uint128>(1) << 127, 0, false}};
  SinCos128 result = SinCosOfPhase(FractionOf(frequency, position < 0 ? -position : position));
  if (position < 0 && result.sin.mantissa != 0) result.sin.negative = !result.sin.negative;
  return result;
}

// What is left of an angle of at least 0.78, as 192 bits of a turn: of (m·2^e)/(2π) modulo one, only the digits of 1/(2π)
// after the first e matter.
PHASOR_HOST_DEVICE_INLINE Limbs<3> PhaseOfRadians(uint32_t bits) {
  const uint64_t m = (bits & 0x7fffff) | 0x800000;
  const int e = static_cast<int>(bits >> 23 & 0xff) - 150;  // −24 … 104
  Turns window;
  for (int i = 0; i < 3; ++i) {
    // limb[2 − i] holds the digits e + 64·i …; digits before the point are 0.
    const int from = e + 64 * i + 64;  // shifted by one limb, to keep it positive
    const int first = from / 64, shift = from % 64;
    const uint64_t high = first == 0 ? 0 : InverseTwoPi(first - 1);
    window.limb[2 - i] = shift == 0 ? high : high << shift | InverseTwoPi(first) >> (64 - shift);
  }
  return FractionOf(PhaseOf(window, static_cast<int64_t>(m)));
}

// The exact value of a double.
PHASOR_HOST_DEVICE_INLINE Real128 ToReal(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const int field = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << 52;
  Real128 result;
  result.negative = bits >> 63 != 0;
  if (significand == 0) return result;
  const int lead = std::countl_zero(significand);
  result.mantissa = static_cast<uint128>(significand) << (64 + lead);
  result.exponent = (field == 0 ? 1 : field) - 1023 + 11 - lead;
  return result;
}

PHASOR_HOST_DEVICE_INLINE SinCos128 OfRadians(float angle) {
  const uint32_t bits = std::bit_cast<uint32_t>(angle);
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffff);
  // One place that evaluates the series, which is long where it is inline: small angles are within the first eighth turn.
  SinCos128 result;
  if (magnitude < 0.78f) {
    result = SinCosReduced(ToReal(static_cast<double>(magnitude)));
  } else {
    result = SinCosOfPhase(PhaseOfRadians(bits));
  }
  if (bits >> 31 != 0 && result.sin.mantissa != 0) result.sin.negative = !result.sin.negative;
  return result;
}

PHASOR_HOST_DEVICE_INLINE uint64_t RoundReal(const Real128& value, int exponent_bits, int fraction_bits) {
  const uint64_t sign = value.negative ? uint64_t{1} << (exponent_bits + fraction_bits) : 0;
  if (value.mantissa == 0) return sign;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  const int field = value.exponent + bias;  // exponent field before rounding; below 1: denormal
  const int kept = field >= 1 ? fraction_bits + 1 : fraction_bits + field;
  if (kept < 0) return sign;  // below half of the smallest denormal
  if (value.exponent > bias) return sign | infinity;

  const int shift = 128 - kept;
  uint64_t rounded = kept == 0 ? 0 : static_cast<uint64_t>(value.mantissa >> shift);
  const uint128 rest = kept == 0 ? value.mantissa : value.mantissa & ((static_cast<uint128>(1) << shift) - 1);
  const uint128 half = static_cast<uint128>(1) << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // The hidden bit, and a carry out of the fraction, add to the exponent field by themselves.
  if (field >= 1) rounded += static_cast<uint64_t>(field - 1) << fraction_bits;
  return sign | rounded;
}

}  // namespace phasor::sincos_inline

#endif  // PHASOR_KERNELS_CORE_SINCOS_INL_H_
