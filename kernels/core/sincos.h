// cos and sin of an angle to about 120 bits, and their one rounding to a stored type: the path that decides every entry of
// an exact table whose fast value lies too near a rounding boundary, and every f64 entry. Integer arithmetic only, so the
// bits are the same on every machine and with or without fma.
//
// Accuracy: relative error below 2^-118 for sin and cos alike, beside their zeros too (the reduction keeps relative
// precision as long as the phase has it: 2^-162 of a turn for |position| < 2^31). Cost: about 0.1 µs for the pair.
#ifndef PHASOR_KERNELS_CORE_SINCOS_H_
#define PHASOR_KERNELS_CORE_SINCOS_H_

#include <cstdint>

#include "kernels/core/double_double.h"
#include "kernels/core/narrow.h"
#include "kernels/core/turns.h"

namespace phasor {

// (−1)^negative · mantissa · 2^(exponent − 127). The mantissa's top bit is set, so the magnitude is in
// [2^exponent, 2^(exponent + 1)); mantissa 0 is zero, whatever the rest. Never infinite, never NaN.
struct Real128 {
  unsigned __int128 mantissa = 0;
  int exponent = 0;
  bool negative = false;
};

// Exact when |lo| is 0 or at least 2^-127 of |hi| after its own 53 bits; else cut below bit 127. Finite values only.
Real128 ToReal128(double value);
Real128 ToReal128(DoubleDouble value);

// a·b, truncated to 128 bits (exact when it fits).
Real128 Multiply(const Real128& a, const Real128& b);
// 1/a, truncated to 128 bits (exact for powers of two). a ≠ 0.
Real128 Reciprocal(const Real128& a);

struct SinCos128 {
  Real128 sin;
  Real128 cos;
};

// Of 2π·frequency·position. cos is even and sin odd in the position; an exact zero is positive, position 0 and whole
// quarter turns give exact 0 and ±1. |position| < 2^63.
SinCos128 SinCosOfPosition(const Turns& frequency, int64_t position);

// The same of a fractional position: 0, or 2^-64 ≤ |position| < 2^31. The product is exact; what is left of it is as good as
// the frequency: an error of |position|·2^-193 of a turn, which is 2^-97 relative for the smallest frequencies. Equal to
// the above where the position is a whole number.
SinCos128 SinCosOfFractionalPosition(const Turns& frequency, double position);
inline constexpr double kSmallestFraction = 0x1p-64;

// Of an angle in radians. Finite; the sine of −0 is +0, as every zero here.
SinCos128 SinCosOfRadians(float angle);

// IEEE bits of value rounded once, to nearest even, denormals kept, overflow to infinity. `fraction_bits` ≤ 52.
uint64_t RoundReal128(const Real128& value, int exponent_bits, int fraction_bits);

// The same as a T: double, float, F16 or BF16. Zero is +0 unless `negative` is set, which no function above does.
template <typename T>
T RoundTo(const Real128& value) {
  return FromBits<T>(RoundReal128(value, FloatFormat<T>::kExponentBits, FloatFormat<T>::kFractionBits));
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_SINCOS_H_
