#include "kernels/encodings/wide.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/encodings/decimal.h"

namespace phasor {
namespace {

// What MPFR makes of the same decimal digits.
Mpfr ToMpfr(const Wide& x) { return Mpfr(ToString(x, 96)); }

TEST(WideTest, FunctionsMatchMpfr) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(1e-3, 50);
  for (int i = 0; i < 200; ++i) {
    const double x = uniform(random);
    Mpfr expected;
    mpfr_exp(expected.get(), Mpfr(x).get(), MPFR_RNDN);
    EXPECT_LE(ToMpfr(Exp(x)).RelativeError(expected), 1e-85);
    mpfr_log(expected.get(), Mpfr(x).get(), MPFR_RNDN);
    EXPECT_LE(ToMpfr(Log(x)).RelativeError(expected), 1e-85);
    mpfr_sqrt(expected.get(), Mpfr(x).get(), MPFR_RNDN);
    EXPECT_LE(ToMpfr(Sqrt(x)).RelativeError(expected), 1e-85);
    mpfr_pow(expected.get(), Mpfr(x).get(), Mpfr(-0.731).get(), MPFR_RNDN);
    EXPECT_LE(ToMpfr(Pow(x, -0.731)).RelativeError(expected), 1e-85);
    mpfr_exp2(expected.get(), Mpfr(-x).get(), MPFR_RNDN);
    EXPECT_LE(ToMpfr(Exp2(-x)).RelativeError(expected), 1e-85);
  }
}

TEST(WideTest, SinCosMatchMpfr) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    const double turns = std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -40);
    const WideSinCos got = SinCosOfTurns(turns);
    Mpfr angle(turns - std::floor(turns));  // exact: 63 bits at most before the point's 40
    Mpfr pi;
    mpfr_const_pi(pi.get(), MPFR_RNDN);
    mpfr_mul(angle.get(), angle.get(), pi.get(), MPFR_RNDN);
    mpfr_mul_ui(angle.get(), angle.get(), 2, MPFR_RNDN);
    Mpfr sin, cos;
    mpfr_sin_cos(sin.get(), cos.get(), angle.get(), MPFR_RNDN);
    EXPECT_LE(ToMpfr(got.sin).RelativeError(sin), 1e-75);
    EXPECT_LE(ToMpfr(got.cos).RelativeError(cos), 1e-75);
  }
}

TEST(WideTest, QuarterTurnsAreExact) {
  const auto at = [](double turns) { return SinCosOfTurns(turns); };
  EXPECT_TRUE(at(-3).sin == 0.0 && at(-3).cos == 1.0);
  EXPECT_TRUE(at(7.25).sin == 1.0 && at(7.25).cos == 0.0);
  EXPECT_TRUE(at(-0.5).sin == 0.0 && at(-0.5).cos == -1.0);
  EXPECT_TRUE(at(1e6 + 0.75).sin == -1.0 && at(1e6 + 0.75).cos == 0.0);
}

TEST(WideTest, PowersOfTwoAreExact) {
  EXPECT_TRUE(Exp2(-8.0) == 1.0 / 256);
  EXPECT_TRUE(Exp2(0.0) == 1.0);
  EXPECT_TRUE(Pow(1.0, 1e300) == 1.0);
}

TEST(WideTest, RoundsDoublesAndFloatsAsTheHardwareDoes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    // Any finite double, subnormals and float overflow included.
    const double d = std::bit_cast<double>(random());
    if (!std::isfinite(d)) continue;
    EXPECT_EQ(ToDouble(d), d);
    EXPECT_EQ(ToFloat(d), static_cast<float>(d)) << d;
  }
  for (const double d : {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(), 5e-324, 1e-310}) {
    EXPECT_EQ(ToDouble(d), d);
  }
  // A single rounding where two would go wrong: just above a tie of float that a double would hide.
  const Wide above_tie = Wide(1.0) + ScaleByPowerOfTwo(1.0, -24) + ScaleByPowerOfTwo(1.0, -100);
  EXPECT_EQ(ToFloat(above_tie), 1.0f + 0x1p-23f);
  EXPECT_EQ(ToFloat(Wide(1.0) + ScaleByPowerOfTwo(1.0, -24)), 1.0f);
}

TEST(WideTest, RoundsSixteenBitFormats) {
  EXPECT_EQ(RoundToBits(65504.0, kFormatF16), 0x7bffu);
  EXPECT_EQ(RoundToBits(65519.99, kFormatF16), 0x7bffu);
  EXPECT_EQ(RoundToBits(65520.0, kFormatF16), 0x7c00u);
  EXPECT_EQ(RoundToBits(-1e9, kFormatF16), 0xfc00u);
  EXPECT_EQ(RoundToBits(0x1p-24, kFormatF16), 0x0001u);
  EXPECT_EQ(RoundToBits(0x1p-25, kFormatF16), 0x0000u);      // tie to even
  EXPECT_EQ(RoundToBits(0x1.8p-24, kFormatF16), 0x0002u);    // tie to even, upwards
  EXPECT_EQ(RoundToBits(0x1.ff8p-15, kFormatF16), 0x03ffu);  // largest subnormal
  EXPECT_EQ(RoundToBits(0x1.ffcp-15, kFormatF16), 0x0400u);  // rounds into the normals
  EXPECT_EQ(RoundToBits(1.0, kFormatBF16), 0x3f80u);
  EXPECT_EQ(RoundToBits(0x1.01p0, kFormatBF16), 0x3f80u);  // tie to even
  EXPECT_EQ(RoundToBits(0x1.03p0, kFormatBF16), 0x3f82u);
  EXPECT_EQ(RoundToBits(-0x1p-133, kFormatBF16), 0x8001u);
  EXPECT_EQ(RoundToBits(1e39, kFormatBF16), 0x7f80u);
}

TEST(WideTest, TurnsRoundTrip) {
  const Wide third = Wide(1.0) / 3.0;
  const Turns turns = ToTurns(third + 5.0);
  EXPECT_EQ(turns.limb[3], 5u);
  EXPECT_EQ(turns.limb[2], 0x5555555555555555u);
  EXPECT_EQ(turns.limb[0], 0x5555555555555555u);
  const Wide error = Wide::FromTurns(turns) - third - 5.0;
  EXPECT_TRUE(error < ScaleByPowerOfTwo(1.0, -193) && error > -ScaleByPowerOfTwo(1.0, -193));
  EXPECT_TRUE(ToTurns(0.0).IsZero());
  // Half a unit rounds up, and the carry runs through all limbs.
  EXPECT_EQ(ToTurns(Wide(1.0) - ScaleByPowerOfTwo(1.0, -193)), (Turns{{0, 0, 0, 1}}));
}

TEST(WideTest, DoubleDoubleSplits) {
  const Wide third = Wide(1.0) / 3.0;
  const DoubleDouble split = ToDoubleDouble(third);
  EXPECT_EQ(split.hi, 1.0 / 3.0);
  const Wide error = Wide::Sum(split) - third;
  EXPECT_TRUE(error < ScaleByPowerOfTwo(1.0, -107) && error > -ScaleByPowerOfTwo(1.0, -107));
  EXPECT_EQ(ToDoubleDouble(Wide(2.0) + ScaleByPowerOfTwo(1.0, -300)), (DoubleDouble{2, 0}));
}

}  // namespace
}  // namespace phasor
