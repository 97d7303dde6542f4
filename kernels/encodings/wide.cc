#include "kernels/encodings/wide.h"

#include <bit>
#include <boost/math/constants/constants.hpp>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <new>

namespace phasor {
namespace {

namespace mp = boost::multiprecision;
// Expression templates are off: temporaries cost nothing beside 320-bit products, and plain types compile faster.
using Number = mp::number<mp::cpp_bin_float<320, mp::digit_base_2>, mp::et_off>;

static_assert(sizeof(Number) <= sizeof(Wide) && alignof(Number) <= alignof(Wide));

}  // namespace

struct WideAccess {
  static const Number& Get(const Wide& w) { return *std::launder(reinterpret_cast<const Number*>(w.storage_)); }
  static Number& Get(Wide& w) { return *std::launder(reinterpret_cast<Number*>(w.storage_)); }
  static Wide Make(const Number& n) {
    Wide w;
    Get(w) = n;
    return w;
  }
};

namespace {

const Number& N(const Wide& w) { return WideAccess::Get(w); }
Wide W(const Number& n) { return WideAccess::Make(n); }

Number PiNumber() { return boost::math::constants::pi<Number>(); }

}  // namespace

Wide::Wide() { new (storage_) Number(); }
Wide::Wide(double value) { new (storage_) Number(value); }
Wide::Wide(const Wide& other) { new (storage_) Number(N(other)); }
Wide& Wide::operator=(const Wide& other) {
  WideAccess::Get(*this) = N(other);
  return *this;
}

Wide Wide::FromInt(int64_t value) { return W(Number(value)); }

Wide Wide::FromTurns(const Turns& turns) {
  Number sum = 0;
  for (int i = 0; i < 4; ++i) sum += mp::ldexp(Number(turns.limb[i]), 64 * (i - 3));
  return W(sum);
}

Wide Wide::Sum(const DoubleDouble& value) { return W(Number(value.hi) + Number(value.lo)); }

Wide operator+(const Wide& a, const Wide& b) { return W(N(a) + N(b)); }
Wide operator-(const Wide& a, const Wide& b) { return W(N(a) - N(b)); }
Wide operator*(const Wide& a, const Wide& b) { return W(N(a) * N(b)); }
Wide operator/(const Wide& a, const Wide& b) { return W(N(a) / N(b)); }
Wide operator-(const Wide& a) { return W(-N(a)); }
bool operator==(const Wide& a, const Wide& b) { return N(a) == N(b); }
std::strong_ordering operator<=>(const Wide& a, const Wide& b) { return N(a).compare(N(b)) <=> 0; }

Wide Pi() { return W(PiNumber()); }
Wide Exp(const Wide& x) { return W(mp::exp(N(x))); }
Wide Log(const Wide& x) { return W(mp::log(N(x))); }
Wide Sqrt(const Wide& x) { return W(mp::sqrt(N(x))); }
Wide Floor(const Wide& x) { return W(mp::floor(N(x))); }
Wide ScaleByPowerOfTwo(const Wide& x, int exponent) { return W(mp::ldexp(N(x), exponent)); }

Wide Pow(const Wide& x, const Wide& y) {
  if (N(x) == 1) return 1.0;
  return W(mp::exp(N(y) * mp::log(N(x))));
}

Wide Exp2(const Wide& x) {
  const Number whole = mp::floor(N(x));
  const Number part = N(x) - whole;
  const Number mantissa = part == 0 ? Number(1) : Number(mp::exp(part * boost::math::constants::ln_two<Number>()));
  return W(mp::ldexp(mantissa, whole.convert_to<int>()));
}

WideSinCos SinCosOfTurns(const Wide& turns) {
  // Reduced by exact subtraction, so that the only inexact step before the functions is the product with 2π.
  const Number phase = N(turns) - mp::floor(N(turns));
  const Number angle = phase * 2 * PiNumber();
  // The quarter turns are exact; the functions would answer 2^-320 instead of 0 there.
  if (phase == 0) return {0.0, 1.0};
  if (phase == 0.25) return {1.0, 0.0};
  if (phase == 0.5) return {0.0, -1.0};
  if (phase == 0.75) return {-1.0, 0.0};
  return {W(mp::sin(angle)), W(mp::cos(angle))};
}

uint64_t RoundToBits(const Wide& x, const BinaryFormat& format) {
  const Number magnitude = mp::abs(N(x));
  if (magnitude == 0) return 0;
  const uint64_t sign = N(x) < 0 ? uint64_t{1} << (format.total_bits - 1) : 0;
  const int fraction_bits = format.precision - 1;
  const uint64_t infinity = static_cast<uint64_t>(2 * format.max_exponent + 1) << fraction_bits;

  const int exponent = static_cast<int>(mp::ilogb(magnitude));
  if (exponent > format.max_exponent) return sign | infinity;
  const int clamped = exponent < format.min_exponent ? format.min_exponent : exponent;
  const Number scaled = mp::ldexp(magnitude, fraction_bits - clamped);  // in units of the last place
  const Number whole = mp::floor(scaled);
  const Number rest = scaled - whole;
  uint64_t units = whole.convert_to<uint64_t>();
  if (rest > 0.5 || (rest == 0.5 && units % 2 == 1)) ++units;
  // Biased exponent 1 belongs to min_exponent with the hidden bit set; adding `units` to the exponent below it carries
  // from subnormal to normal, and from one binade to the next (at last to infinity), by itself.
  const uint64_t exponent_below = static_cast<uint64_t>(clamped - format.min_exponent);
  return sign | ((exponent_below << fraction_bits) + units);
}

double ToDouble(const Wide& x) { return std::bit_cast<double>(RoundToBits(x, kFormatF64)); }
float ToFloat(const Wide& x) { return std::bit_cast<float>(static_cast<uint32_t>(RoundToBits(x, kFormatF32))); }

DoubleDouble ToDoubleDouble(const Wide& x) {
  const double hi = ToDouble(x);
  const Number residue = N(x) - Number(hi);
  if (mp::abs(residue) < mp::ldexp(mp::abs(N(x)), -200)) return {hi, 0};
  return {hi, ToDouble(W(residue))};
}

Turns ToTurns(const Wide& x) {
  Number rest = mp::floor(mp::ldexp(N(x), 192) + 0.5);  // 255 bits at most: exact
  Turns turns;
  for (int i = 3; i >= 0; --i) {
    const Number limb = mp::floor(mp::ldexp(rest, -64 * i));
    turns.limb[i] = limb.convert_to<uint64_t>();
    rest -= mp::ldexp(limb, 64 * i);
  }
  return turns;
}

std::string ToString(const Wide& x, int digits) { return N(x).str(digits); }

}  // namespace phasor
