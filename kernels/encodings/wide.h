// Numbers of 320 bits for the host maths: what a scheme's formula says, before its one rounding at the end. A value type
// around Boost.Multiprecision, which only wide.cc includes (it takes seconds to compile and stays out of every header).
#ifndef PHASOR_KERNELS_ENCODINGS_WIDE_H_
#define PHASOR_KERNELS_ENCODINGS_WIDE_H_

#include <compare>
#include <cstdint>
#include <string>

#include "kernels/core/double_double.h"
#include "kernels/core/turns.h"

namespace phasor {

// A finite binary floating-point number of 320 bits. Operations round to nearest; functions are good to a few units of
// 2^-318 (relative). Exponents of ±2^30 are far from any use here, so nothing overflows. Thread-safe as any value is.
class Wide {
 public:
  Wide();              // 0
  Wide(double value);  // NOLINT: exact for every finite double; doubles are meant to mix with Wide in formulas
  Wide(const Wide& other);
  Wide& operator=(const Wide& other);

  static Wide FromInt(int64_t value);          // exact
  static Wide FromTurns(const Turns& turns);   // exact
  static Wide Sum(const DoubleDouble& value);  // hi + lo, exact

  friend Wide operator+(const Wide& a, const Wide& b);
  friend Wide operator-(const Wide& a, const Wide& b);
  friend Wide operator*(const Wide& a, const Wide& b);
  friend Wide operator/(const Wide& a, const Wide& b);  // b ≠ 0
  friend Wide operator-(const Wide& a);
  friend bool operator==(const Wide& a, const Wide& b);
  friend std::strong_ordering operator<=>(const Wide& a, const Wide& b);

 private:
  friend struct WideAccess;
  // Room for the Boost number, which is built in place; its size is checked in wide.cc.
  alignas(16) unsigned char storage_[80];
};

Wide Pi();
Wide Exp(const Wide& x);
Wide Log(const Wide& x);                 // x > 0
Wide Sqrt(const Wide& x);                // x ≥ 0
Wide Pow(const Wide& x, const Wide& y);  // x > 0; exactly 1 when x is 1
Wide Exp2(const Wide& x);                // an exact power of two when x is whole; |x| < 2^20
Wide Floor(const Wide& x);
Wide ScaleByPowerOfTwo(const Wide& x, int exponent);  // x·2^exponent, exact

// cos and sin of 2π·turns, |turns| < 2^120.
struct WideSinCos {
  Wide sin;
  Wide cos;
};
WideSinCos SinCosOfTurns(const Wide& turns);

// A binary floating-point format: `precision` significant bits, values of magnitude < 2^(max_exponent + 1), subnormals
// with quantum 2^(min_exponent − precision + 1).
struct BinaryFormat {
  int precision;
  int min_exponent;
  int max_exponent;
  int total_bits;
};
inline constexpr BinaryFormat kFormatF64{53, -1022, 1023, 64};
inline constexpr BinaryFormat kFormatF32{24, -126, 127, 32};
inline constexpr BinaryFormat kFormatF16{11, -14, 15, 16};
inline constexpr BinaryFormat kFormatBF16{8, -126, 127, 16};

// The bits of x rounded once to the format: nearest, ties to even, subnormals kept, overflow to infinity. Zero gives +0.
uint64_t RoundToBits(const Wide& x, const BinaryFormat& format);

double ToDouble(const Wide& x);
float ToFloat(const Wide& x);
// hi = RN(x), lo = RN(x − hi); a residue below 2^-200 of x is noise of the arithmetic and gives lo = 0.
DoubleDouble ToDoubleDouble(const Wide& x);
// Rounded to the nearest multiple of 2^-192. 0 ≤ x < 2^63.
Turns ToTurns(const Wide& x);
// Decimal, `digits` significant ones: "1000062.0039982884613".
std::string ToString(const Wide& x, int digits);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_WIDE_H_
