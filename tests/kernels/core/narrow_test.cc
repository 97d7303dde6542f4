#include "kernels/core/narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/core/double_double.h"
#include "kernels/core/dtype.h"

namespace phasor {
namespace {

static_assert(BitsOf(Narrow<BF16>(1.0f)) == 0x3f80);
static_assert(BitsOf(Narrow<F16>(1.0)) == 0x3c00);
static_assert(Widen<double>(F16{0x0001}) == 0x1p-24);
static_assert(kCanonicalNaNBits<double> == 0x7ff8000000000000u && kCanonicalNaNBits<float> == 0x7fc00000u);
static_assert(kCanonicalNaNBits<F16> == 0x7e00u && kCanonicalNaNBits<BF16> == 0x7fc0u);

// The value of a finite 16-bit pattern, from its fields.
template <typename T>
double ValueOf(uint16_t bits) {
  constexpr int kFraction = FloatFormat<T>::kFractionBits;
  constexpr int kBias = (1 << (FloatFormat<T>::kExponentBits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> kFraction;
  const int fraction = bits & ((1 << kFraction) - 1);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - kBias - kFraction)
                                         : std::ldexp((1 << kFraction) + fraction, exponent - kBias - kFraction);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
class Narrow16Test : public testing::Test {};
using Types16 = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(Narrow16Test, Types16);

TYPED_TEST(Narrow16Test, WideningGivesTheValueOfEveryPattern) {
  using T = TypeParam;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T value{static_cast<uint16_t>(bits)};
    const uint32_t magnitude = bits & 0x7fff;
    if (magnitude > kInfinityBits<T>) {
      ASSERT_EQ(BitsOf(Widen<float>(value)), 0x7fc00000u);
      ASSERT_EQ(BitsOf(Widen<double>(value)), 0x7ff8000000000000u);
    } else if (magnitude == kInfinityBits<T>) {
      ASSERT_EQ(Widen<float>(value), bits == magnitude ? INFINITY : -INFINITY);
      ASSERT_EQ(Widen<double>(value), bits == magnitude ? INFINITY : -INFINITY);
    } else {
      ASSERT_EQ(BitsOf(Widen<double>(value)), BitsOf(ValueOf<T>(value.bits)));
      ASSERT_EQ(BitsOf(Widen<float>(value)), BitsOf(static_cast<float>(ValueOf<T>(value.bits))));
    }
  }
}

TYPED_TEST(Narrow16Test, EveryPatternComesBack) {
  using T = TypeParam;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T value{static_cast<uint16_t>(bits)};
    const uint16_t expected = (bits & 0x7fff) > kInfinityBits<T> ? kCanonicalNaNBits<T> : value.bits;
    ASSERT_EQ(Narrow<T>(Widen<float>(value)).bits, expected);
    ASSERT_EQ(Narrow<T>(Widen<double>(value)).bits, expected);
    ASSERT_EQ(CanonicalizeNaN(value).bits, expected);
  }
}

// Between every two neighbours: the middle goes to the even one, what is beside it to the nearer one; with the largest
// number's upper neighbour being where the next number would be.
TYPED_TEST(Narrow16Test, RoundsToNearestEvenEverywhere) {
  using T = TypeParam;
  for (uint32_t bits = 0; bits < kInfinityBits<T>; ++bits) {
    const double below = ValueOf<T>(static_cast<uint16_t>(bits));
    const double above = ValueOf<T>(static_cast<uint16_t>(bits + 1));
    const double middle = below + (above - below) / 2;  // exact
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (uint32_t sign : {0u, 0x8000u}) {
      const double s = sign == 0 ? 1 : -1;
      const auto narrow64 = [&](double v) { return Narrow<T>(s * v).bits; };
      const auto narrow32 = [&](double v) { return Narrow<T>(static_cast<float>(s * v)).bits; };
      const auto narrow_pair = [&](double hi, double lo) { return Narrow<T>(DoubleDouble{s * hi, s * lo}).bits; };
      ASSERT_EQ(narrow64(middle), sign | even);
      ASSERT_EQ(narrow64(std::nextafter(middle, 0.0)), sign | bits);
      ASSERT_EQ(narrow64(std::nextafter(middle, INFINITY)), sign | (bits + 1));
      ASSERT_EQ(narrow32(middle), sign | even);
      ASSERT_EQ(narrow32(std::nextafter(static_cast<float>(middle), 0.0f)), sign | bits);
      ASSERT_EQ(narrow32(std::nextafter(static_cast<float>(middle), INFINITY)), sign | (bits + 1));
      ASSERT_EQ(narrow_pair(middle, 0), sign | even);
      ASSERT_EQ(narrow_pair(middle, -middle * 0x1p-100), sign | bits);
      ASSERT_EQ(narrow_pair(middle, middle * 0x1p-100), sign | (bits + 1));
      if (below != 0) {
        ASSERT_EQ(narrow_pair(below, above * 0x1p-100), sign | bits);
      }
    }
  }
}

TYPED_TEST(Narrow16Test, ExtremesAndNaN) {
  using T = TypeParam;
  for (float big : {std::numeric_limits<float>::max(), INFINITY}) {
    EXPECT_EQ(Narrow<T>(big).bits, kInfinityBits<T>);
    EXPECT_EQ(Narrow<T>(-big).bits, kSignBit<T> | kInfinityBits<T>);
  }
  EXPECT_EQ(Narrow<T>(std::numeric_limits<double>::max()).bits, kInfinityBits<T>);
  EXPECT_EQ(Narrow<T>(-std::numeric_limits<double>::denorm_min()).bits, kSignBit<T>);
  EXPECT_EQ(Narrow<T>(DoubleDouble{INFINITY, 0}).bits, kInfinityBits<T>);
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff812345u, 0xffc00000u}) {
    EXPECT_EQ(Narrow<T>(FromBits<float>(bits)).bits, kCanonicalNaNBits<T>);
  }
  for (uint64_t bits : {0x7ff0000000000001u, 0x7fffffffffffffffu, 0xfff8000000000000u}) {
    EXPECT_EQ(Narrow<T>(FromBits<double>(bits)).bits, kCanonicalNaNBits<T>);
  }
}

// The conversion of the hardware is IEEE's too, but for NaN.
TEST(NarrowTest, F64ToF32IsTheIeeeConversion) {
  std::mt19937_64 random(7);
  const auto check = [](double value) {
    if (std::isnan(value)) {
      ASSERT_EQ(BitsOf(Narrow<float>(value)), kCanonicalNaNBits<float>);
    } else {
      ASSERT_EQ(BitsOf(Narrow<float>(value)), BitsOf(static_cast<float>(value))) << std::hexfloat << value;
    }
  };
  for (int i = 0; i < 1000000; ++i) {
    check(FromBits<double>(random()));
    // A middle between two floats, denormals included, and its neighbours.
    const float a = FromBits<float>(random());
    if (!std::isfinite(a)) continue;
    const double middle = (static_cast<double>(a) + static_cast<double>(std::nextafter(a, INFINITY))) / 2;
    check(middle);
    check(std::nextafter(middle, INFINITY));
    check(std::nextafter(middle, -INFINITY));
    ASSERT_EQ(BitsOf(Narrow<float>(DoubleDouble{middle, middle * 0x1p-90})),
              BitsOf(static_cast<float>(std::nextafter(middle, middle < 0 ? -INFINITY : INFINITY))));
  }
}

TEST(NarrowTest, SameTypeKeepsNumbersAndReplacesNaN) {
  EXPECT_EQ(BitsOf(Narrow<float>(FromBits<float>(0x00000001))), 0x00000001u);
  EXPECT_EQ(BitsOf(Narrow<float>(FromBits<float>(0xff812345))), 0x7fc00000u);
  EXPECT_EQ(BitsOf(Narrow<double>(FromBits<double>(0xfff0000000000001))), 0x7ff8000000000000u);
  EXPECT_EQ(BitsOf(Narrow<double>(DoubleDouble{1.5, 1e-20})), BitsOf(1.5));
}

TEST(NarrowTest, RoundToOddMarksWhatWasCutOff) {
  EXPECT_EQ(RoundToOdd({1.0, 0}), 1.0);
  EXPECT_EQ(RoundToOdd({1.0, 1e-30}), std::nextafter(1.0, 2.0));
  EXPECT_EQ(RoundToOdd({1.0, -1e-30}), std::nextafter(1.0, 0.0));
  EXPECT_EQ(RoundToOdd({-1.0, 1e-30}), std::nextafter(-1.0, 0.0));
  const double odd = std::nextafter(1.0, 2.0);
  EXPECT_EQ(RoundToOdd({odd, 1e-30}), odd);
  EXPECT_EQ(RoundToOdd({odd, -1e-30}), odd);
}

}  // namespace
}  // namespace phasor
