// The functions of sincos.h, out of line.
#include "kernels/core/sincos.h"

#include "kernels/core/sincos-inl.h"

namespace phasor {

using sincos_inline::High;
using sincos_inline::uint128;

Real128 ToReal128(double value) { return sincos_inline::ToReal(value); }

Real128 ToReal128(DoubleDouble value) {
  Real128 high = ToReal128(value.hi);
  const Real128 low = ToReal128(value.lo);
  const int distance = high.exponent - low.exponent;
  if (low.mantissa == 0 || distance > 127) return high;
  const uint128 aligned = low.mantissa >> distance;
  // |lo| ≤ half an ulp of hi: the difference loses one leading bit at most.
  if (low.negative == high.negative) {
    high.mantissa += aligned;
  } else {
    high.mantissa -= aligned;
    if (High(high.mantissa) >> 63 == 0) {
      high.mantissa <<= 1;
      --high.exponent;
    }
  }
  return high;
}

Real128 Multiply(const Real128& a, const Real128& b) { return sincos_inline::MultiplyReal(a, b); }

Real128 Reciprocal(const Real128& a) {
  constexpr uint128 kOne = static_cast<uint128>(1) << 127;
  if (a.mantissa == kOne) return Real128{kOne, -a.exponent, a.negative};
  // Long division of 2^255 by the mantissa, bit by bit: the quotient has 128 bits, the first of them set.
  uint128 quotient = 1, remainder = kOne - (a.mantissa - kOne);  // 2^128 − mantissa
  for (int bit = 0; bit < 127; ++bit) {
    const bool carry = High(remainder) >> 63 != 0;
    remainder <<= 1;
    quotient <<= 1;
    if (carry || remainder >= a.mantissa) {
      remainder -= a.mantissa;
      quotient |= 1;
    }
  }
  return Real128{quotient, -a.exponent - 1, a.negative};
}

SinCos128 SinCosOfPosition(const Turns& frequency, int64_t position) {
  return sincos_inline::OfPosition(frequency, position);
}

SinCos128 SinCosOfFractionalPosition(const Turns& frequency, double position) {
  return sincos_inline::OfFractionalPosition(frequency, position);
}

SinCos128 SinCosOfRadians(float angle) { return sincos_inline::OfRadians(angle); }

uint64_t RoundReal128(const Real128& value, int exponent_bits, int fraction_bits) {
  return sincos_inline::RoundReal(value, exponent_bits, fraction_bits);
}

}  // namespace phasor
