// The elementary functions at special values, and where their results are exact.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"

namespace phasor::math {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr double kHuge = std::numeric_limits<double>::max();

struct Special {
  double x, result;
};
void ExpectBits(const char* name, double (*function)(double), const std::vector<Special>& table) {
  for (const Special& special : table) {
    EXPECT_EQ(BitsOf(function(special.x)), BitsOf(special.result)) << name << " of " << special.x;
  }
  for (uint64_t nan : {0x7ff8000000000000u, 0xfff8000000000000u, 0x7ff0000000000001u, 0xffffffffffffffffu}) {
    EXPECT_EQ(BitsOf(function(FromBits<double>(nan))), kCanonicalNaNBits<double>) << name;
  }
}

TEST(MathSpecialTest, SpecialValuesOfExponentials) {
  ExpectBits("Exp", Exp,
             {{0, 1},
              {-0.0, 1},
              {kInfinity, kInfinity},
              {-kInfinity, 0},
              {709.79, kInfinity},
              {kHuge, kInfinity},
              {-745.2, 0},
              {-kHuge, 0},
              {-745.1, kTiny},
              {kTiny, 1},
              {-0x1p-60, 1}});
  ExpectBits("Exp2", Exp2,
             {{0, 1},
              {-0.0, 1},
              {kInfinity, kInfinity},
              {-kInfinity, 0},
              {1024, kInfinity},
              {kHuge, kInfinity},
              {-1075, 0},
              {-1074, kTiny},
              {-kHuge, 0}});
  ExpectBits("Expm1", Expm1,
             {{0, 0},
              {-0.0, -0.0},
              {kInfinity, kInfinity},
              {-kInfinity, -1},
              {710, kInfinity},
              {-100, -1},
              {-kHuge, -1},
              {kTiny, kTiny},
              {-0x1p-1022, -0x1p-1022}});
}

TEST(MathSpecialTest, SpecialValuesOfLogarithms) {
  ExpectBits(
      "Log", Log,
      {{0, -kInfinity}, {-0.0, -kInfinity}, {1, 0}, {kInfinity, kInfinity}, {-kInfinity, kNaN}, {-1, kNaN}, {-kTiny, kNaN}});
  ExpectBits("Log1p", Log1p,
             {{0, 0},
              {-0.0, -0.0},
              {-1, -kInfinity},
              {kInfinity, kInfinity},
              {-kInfinity, kNaN},
              {-1.5, kNaN},
              {kTiny, kTiny},
              {-kTiny, -kTiny}});
  ExpectBits("Log2", Log2,
             {{0, -kInfinity}, {-0.0, -kInfinity}, {1, 0}, {kInfinity, kInfinity}, {-kInfinity, kNaN}, {-1, kNaN}});
  ExpectBits("Sqrt", Sqrt, {{0, 0}, {-0.0, -0.0}, {4, 2}, {kInfinity, kInfinity}, {-1, kNaN}, {-kInfinity, kNaN}});
}

TEST(MathSpecialTest, SpecialValuesOfActivations) {
  ExpectBits("Sigmoid", Sigmoid,
             {{0, 0.5}, {-0.0, 0.5}, {kInfinity, 1}, {-kInfinity, 0}, {kHuge, 1}, {-kHuge, 0}, {-745.1, kTiny}});
  ExpectBits("Softplus", Softplus, {{kInfinity, kInfinity}, {-kInfinity, 0}, {kHuge, kHuge}, {-kHuge, 0}, {-745.1, kTiny}});
  ExpectBits("LogSigmoid", LogSigmoid, {{kInfinity, -0.0}, {-kInfinity, -kInfinity}, {-kHuge, -kHuge}, {745.1, -kTiny}});
  ExpectBits("Tanh", Tanh, {{0, 0}, {-0.0, -0.0}, {kInfinity, 1}, {-kInfinity, -1}, {30, 1}, {-kHuge, -1}, {kTiny, kTiny}});
  ExpectBits("Relu", Relu, {{0, 0}, {-0.0, 0}, {kInfinity, kInfinity}, {-kInfinity, 0}, {-kTiny, 0}, {kTiny, kTiny}});
  for (auto function : {Silu, Gelu, GeluTanh}) {
    ExpectBits("Silu, Gelu or GeluTanh", function,
               {{0, 0},
                {-0.0, -0.0},
                {kInfinity, kInfinity},
                {-kInfinity, -0.0},
                {kHuge, kHuge},
                {-kHuge, -0.0},
                {-kTiny, -0.0},
                {2 * kTiny, kTiny},
                {100, 100}});
  }
}

TEST(MathSpecialTest, SpecialPowers) {
  const double cases[][3] = {
      {0, 2, 0},
      {-0.0, 3, 0},
      {0, -2, kInfinity},
      {0, 0, 1},
      {1, kInfinity, 1},
      {1, kNaN, 1},
      {kNaN, 0, 1},
      {kNaN, 2, kNaN},
      {2, kNaN, kNaN},
      {-2, 2, kNaN},
      {-2, 0, 1},
      {kInfinity, 1, kInfinity},
      {kInfinity, -1, 0},
      {kInfinity, 0, 1},
      {2, kInfinity, kInfinity},
      {2, -kInfinity, 0},
      {0.5, kInfinity, 0},
      {0.5, -kInfinity, kInfinity},
      {2, 1024, kInfinity},
      {2, -1075, 0},
      {2, -1074, kTiny},
      {kHuge, kHuge, kInfinity},
      {kTiny, kHuge, 0},
      {kTiny, -kHuge, kInfinity},
      {kInfinity, kInfinity, kInfinity},
      {0, kInfinity, 0},
      {0, -kInfinity, kInfinity},
      {1.5, kTiny, 1},
      {-kInfinity, 2, kNaN},
      {0.5, -1023, 0x1p1023},
  };
  for (const auto& c : cases) EXPECT_EQ(BitsOf(Pow(c[0], c[1])), BitsOf(c[2])) << c[0] << " ^ " << c[1];
}

TEST(MathSpecialTest, SpecialFloats) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (auto function :
       {static_cast<float (*)(float)>(Exp), static_cast<float (*)(float)>(Log), static_cast<float (*)(float)>(Sigmoid),
        static_cast<float (*)(float)>(Softplus), static_cast<float (*)(float)>(LogSigmoid)}) {
    EXPECT_EQ(BitsOf(function(FromBits<float>(0xff800001u))), kCanonicalNaNBits<float>);
  }
  EXPECT_EQ(Exp(inf), inf);
  EXPECT_EQ(BitsOf(Exp(-inf)), 0u);
  EXPECT_EQ(BitsOf(Exp(-103.9f)), 1u);
  EXPECT_EQ(Exp(89.0f), inf);
  EXPECT_EQ(Log(0.0f), -inf);
  EXPECT_EQ(Log(-0.0f), -inf);
  EXPECT_EQ(BitsOf(Log(-1.0f)), BitsOf(nan));
  EXPECT_EQ(Log(inf), inf);
  EXPECT_EQ(BitsOf(Log(1.0f)), 0u);
  EXPECT_EQ(Sigmoid(inf), 1.0f);
  EXPECT_EQ(BitsOf(Sigmoid(-inf)), 0u);
  EXPECT_EQ(Softplus(inf), inf);
  EXPECT_EQ(BitsOf(Softplus(-inf)), 0u);
  EXPECT_EQ(BitsOf(LogSigmoid(inf)), 0x80000000u);
  EXPECT_EQ(LogSigmoid(-inf), -inf);
}

TEST(MathSpecialTest, ExactResultsAreExact) {
  for (int k = -1074; k <= 1023; ++k) {
    const double power = std::ldexp(1.0, k);
    ASSERT_EQ(Exp2(k), power);
    ASSERT_EQ(Log2(power), k);
    ASSERT_EQ(Pow(2, k), power);
    if (k % 2 == 0) {
      ASSERT_EQ(Pow(power, 0.5), Sqrt(power));
    }
  }
  for (int64_t base = 2; base < 200; ++base) {
    double power = static_cast<double>(base);
    for (int exponent = 1; power < 0x1p53; ++exponent, power *= static_cast<double>(base)) {
      ASSERT_EQ(Pow(static_cast<double>(base), exponent), power) << base << " ^ " << exponent;
    }
  }
}

TEST(MathSpecialTest, MirroredFunctionsMirrorTheirBits) {
  std::mt19937_64 random(21);
  for (int i = 0; i < 100000; ++i) {
    const double x = FromBits<double>(random());
    if (std::isnan(x)) continue;
    ASSERT_EQ(Tanh(-x), -Tanh(x));
    ASSERT_EQ(BitsOf(LogSigmoid(x)), BitsOf(-Softplus(-x)));
    ASSERT_EQ(BitsOf(Relu(x)), BitsOf(x > 0 ? x : 0.0));
  }
}

}  // namespace
}  // namespace phasor::math
