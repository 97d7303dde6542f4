// The 128-bit path against MPFR at 400 bits: relative error, exact cases, every rounding.
#include "kernels/core/sincos.h"

#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "gtest/gtest.h"

namespace phasor {
namespace {

class Mpfr {
 public:
  Mpfr() { mpfr_init2(value_, 400); }
  ~Mpfr() { mpfr_clear(value_); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;
  operator mpfr_ptr() { return value_; }  // NOLINT: meant to be passed to mpfr_* functions

 private:
  mpfr_t value_;
};

void Set(mpfr_ptr out, const Real128& value) {
  mpfr_set_ui(out, static_cast<uint64_t>(value.mantissa >> 64), MPFR_RNDN);
  mpfr_mul_2ui(out, out, 64, MPFR_RNDN);
  mpfr_add_ui(out, out, static_cast<uint64_t>(value.mantissa), MPFR_RNDN);
  mpfr_mul_2si(out, out, value.exponent - 127, MPFR_RNDN);
  if (value.negative) mpfr_neg(out, out, MPFR_RNDN);
}

// log2 of |got − expected| / |expected|; expected ≠ 0.
double LogError(const Real128& got, mpfr_ptr expected) {
  Mpfr value;
  Set(value, got);
  mpfr_sub(value, value, expected, MPFR_RNDN);
  if (mpfr_zero_p(value) != 0) return -400;
  mpfr_div(value, value, expected, MPFR_RNDN);
  mpfr_abs(value, value, MPFR_RNDN);
  mpfr_log2(value, value, MPFR_RNDN);
  return mpfr_get_d(value, MPFR_RNDN);
}

// 2π·frequency·position in radians.
void Angle(mpfr_ptr out, const Turns& frequency, int64_t position) {
  Mpfr pi;
  mpfr_set_ui(out, 0, MPFR_RNDN);
  for (int i = 3; i >= 0; --i) {
    mpfr_mul_2ui(out, out, 64, MPFR_RNDN);
    mpfr_add_ui(out, out, frequency.limb[i], MPFR_RNDN);
  }
  mpfr_mul_2si(out, out, -191, MPFR_RNDN);
  mpfr_mul_si(out, out, position, MPFR_RNDN);
  mpfr_const_pi(pi, MPFR_RNDN);
  mpfr_mul(out, out, pi, MPFR_RNDN);
}

TEST(SinCosTest, RelativeErrorIsBelowTwoToTheMinus118) {
  std::mt19937_64 random(3);
  double worst = -400;
  for (int trial = 0; trial < 20000; ++trial) {
    Turns frequency{{random(), random(), random(), random() % 3}};
    int64_t position = static_cast<int64_t>(random() % (uint64_t{1} << (1 + random() % 31)));
    if (trial % 4 == 1) frequency.limb[2] >>= random() % 64;                      // slow pairs
    if (trial % 4 == 2) frequency.limb[2] = (random() % 8 << 61) | random() % 4;  // beside eighths of a turn
    if (trial % 4 == 2) position = 1;
    if (trial % 2 == 1) position = -position;
    if (position == 0) continue;
    const SinCos128 got = SinCosOfPosition(frequency, position);
    Mpfr angle, expected;
    Angle(angle, frequency, position);
    mpfr_cos(expected, angle, MPFR_RNDN);
    worst = std::max(worst, LogError(got.cos, expected));
    mpfr_sin(expected, angle, MPFR_RNDN);
    worst = std::max(worst, LogError(got.sin, expected));
  }
  EXPECT_LT(worst, -118);
}

TEST(SinCosTest, RadiansOfEveryMagnitude) {
  std::mt19937 random(4);
  double worst = -400;
  for (int trial = 0; trial < 20000; ++trial) {
    const float angle = FromBits<float>(uint64_t{trial % 2 == 1} << 31 | (1 + random() % 0x7f7fffffu));
    const SinCos128 got = SinCosOfRadians(angle);
    Mpfr exact, expected;
    mpfr_set_flt(exact, angle, MPFR_RNDN);
    mpfr_cos(expected, exact, MPFR_RNDN);
    worst = std::max(worst, LogError(got.cos, expected));
    mpfr_sin(expected, exact, MPFR_RNDN);
    worst = std::max(worst, LogError(got.sin, expected));
  }
  EXPECT_LT(worst, -118);
  // The float nearest to a multiple of π/2.
  const float hard = std::ldexp(16367173.0f, 72);
  Mpfr exact, expected;
  mpfr_set_flt(exact, hard, MPFR_RNDN);
  mpfr_cos(expected, exact, MPFR_RNDN);
  EXPECT_LT(LogError(SinCosOfRadians(hard).cos, expected), -118);
}

TEST(SinCosTest, WholeQuartersAreExactAndZerosPositive) {
  const Turns quarter{{0, 0, uint64_t{1} << 62, 0}};
  const int cosines[] = {1, 0, -1, 0}, sines[] = {0, 1, 0, -1};
  for (int64_t position = -9; position <= 9; ++position) {
    const SinCos128 got = SinCosOfPosition(quarter, position);
    const int k = static_cast<int>(position & 3);
    EXPECT_EQ(BitsOf(RoundTo<double>(got.cos)), BitsOf(static_cast<double>(cosines[k]) + 0.0)) << position;
    EXPECT_EQ(BitsOf(RoundTo<double>(got.sin)), BitsOf(static_cast<double>(sines[k]) + 0.0)) << position;
  }
  EXPECT_EQ(BitsOf(RoundTo<float>(SinCosOfRadians(-0.0f).sin)), 0u);
  EXPECT_EQ(RoundTo<float>(SinCosOfRadians(-0.0f).cos), 1.0f);
}

TEST(Real128Test, ProductsAndReciprocals) {
  std::mt19937_64 random(5);
  double worst = -400;
  for (int trial = 0; trial < 5000; ++trial) {
    const double a = std::ldexp(1.0 + static_cast<double>(random() >> 12) * 0x1p-52, static_cast<int>(random() % 60) - 30);
    const double b = -std::ldexp(1.0 + static_cast<double>(random() >> 38) * 0x1p-26, static_cast<int>(random() % 60) - 30);
    Mpfr expected;
    mpfr_set_d(expected, a, MPFR_RNDN);
    mpfr_mul_d(expected, expected, b, MPFR_RNDN);
    EXPECT_EQ(LogError(Multiply(ToReal128(a), ToReal128(b)), expected), -400);  // 106 bits fit: exact
    mpfr_set_ui(expected, 1, MPFR_RNDN);
    mpfr_div_d(expected, expected, b, MPFR_RNDN);
    worst = std::max(worst, LogError(Reciprocal(ToReal128(b)), expected));
    const DoubleDouble pair{a, a * 0x1p-54};
    const DoubleDouble difference{a, -a * 0x1p-60};
    for (const DoubleDouble& sum : {pair, difference}) {
      mpfr_set_d(expected, sum.hi, MPFR_RNDN);
      mpfr_add_d(expected, expected, sum.lo, MPFR_RNDN);
      EXPECT_EQ(LogError(ToReal128(sum), expected), -400);
    }
  }
  EXPECT_LT(worst, -126);
  EXPECT_EQ(RoundTo<double>(Reciprocal(ToReal128(8.0))), 0.125);
  EXPECT_EQ(RoundTo<double>(ToReal128(DoubleDouble{1.0, -0x1p-60})), 1.0);
  EXPECT_EQ(RoundTo<double>(ToReal128(DoubleDouble{1.0, -0x1.8p-54})), 0x1.fffffffffffffp-1);
}

// Narrow (kernels/core/narrow.h) rounds doubles by other code: both must agree, on ties and denormals too.
TEST(Real128Test, RoundingAgreesWithNarrowing) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 200000; ++trial) {
    const int exponent = trial % 2 == 0 ? static_cast<int>(random() % 340) - 170 : static_cast<int>(random() % 50) - 30;
    double fraction = static_cast<double>(random() >> 12) * 0x1p-52;
    if (trial % 3 == 0) fraction = static_cast<double>(random() >> 51) * 0x1p-13;  // ties of the 16-bit types
    if (trial % 3 == 1) fraction = static_cast<double>(random() >> 39) * 0x1p-25;  // and of f32
    const double value = std::ldexp(trial % 5 == 0 ? -1 - fraction : 1 + fraction, exponent);
    const Real128 real = ToReal128(value);
    ASSERT_EQ(BitsOf(RoundTo<double>(real)), BitsOf(value));
    ASSERT_EQ(BitsOf(RoundTo<float>(real)), BitsOf(Narrow<float>(value))) << value;
    ASSERT_EQ(BitsOf(RoundTo<F16>(real)), BitsOf(Narrow<F16>(value))) << value;
    ASSERT_EQ(BitsOf(RoundTo<BF16>(real)), BitsOf(Narrow<BF16>(value))) << value;
  }
  EXPECT_EQ(RoundTo<double>(ToReal128(0x1p-1074)), 0x1p-1074);
}

}  // namespace
}  // namespace phasor
