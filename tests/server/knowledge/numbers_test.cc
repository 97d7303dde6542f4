// Numbers of specs as the knowledge room sees them.
#include "server/knowledge/numbers.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"

namespace phasor::server {
namespace {

Resolved ResolveOf(const EncodingSpec& spec) {
  const auto canonical = Canonicalize(spec);
  return *Resolve(*canonical, std::nullopt, Precision::kExact);
}

TEST(Numbers, AnglesAreCosAndSinOfPositions) {
  RopeSpec rope;
  rope.head_dim = 8;
  const Resolved resolved = ResolveOf(rope);
  const auto angles = MakeAngles(*MakeCpuBackend(), std::get<AnglePlan>(resolved.plan), 5, 3, DType::kF64);
  ASSERT_TRUE(angles.ok()) << angles.status();
  ASSERT_EQ(angles->cos.rows, 3);
  ASSERT_EQ(angles->cos.columns, 4);
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t pair = 0; pair < 4; ++pair) {
      const double angle = static_cast<double>(5 + row) * std::pow(10000.0, -2.0 * static_cast<double>(pair) / 8);
      EXPECT_NEAR(angles->cos.at(row, pair), std::cos(angle), 1e-13);
      EXPECT_NEAR(angles->sin.at(row, pair), std::sin(angle), 1e-13);
    }
  }
}

TEST(Numbers, RowsOfAnAbsoluteTable) {
  SinusoidalSpec sinusoidal;
  sinusoidal.dim = 5;
  const auto canonical = Canonicalize(sinusoidal);
  const Resolved resolved = ResolveOf(sinusoidal);
  const auto rows = MakeRows(*MakeCpuBackend(), canonical->spec, resolved.plan, 2, 2, DType::kF32);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->columns, 5);
  EXPECT_NEAR(rows->at(0, 0), std::sin(2.0), 1e-7);
  EXPECT_NEAR(rows->at(1, 1), std::cos(3.0), 1e-7);
  EXPECT_NEAR(rows->at(1, 4), std::sin(3.0 * std::pow(10000.0, -4.0 / 5)), 1e-7);
}

TEST(Numbers, DistancesOfABias) {
  AlibiSpec alibi;
  alibi.num_heads = 2;
  const Resolved resolved = ResolveOf(alibi);
  const auto values = MakeDistances(*MakeCpuBackend(), *DistancePlanOf(resolved.plan), -3, 4, DType::kF16);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(values->values,
              testing::ElementsAre(-3.0 / 16, -2.0 / 16, -1.0 / 16, 0, -3.0 / 256, -2.0 / 256, -1.0 / 256, 0));
}

TEST(Numbers, RoundsToNearestEvenAndKnowsTheStep) {
  EXPECT_EQ(RoundTo(DType::kBF16, 257), 256);
  EXPECT_EQ(RoundTo(DType::kBF16, 259), 260);
  EXPECT_EQ(RoundTo(DType::kF16, 1.0 / 3), 0.333251953125);
  EXPECT_EQ(UlpOf(DType::kBF16, 256), 2);
  EXPECT_EQ(UlpOf(DType::kBF16, -255), 1);
  EXPECT_EQ(UlpOf(DType::kF32, 1), std::ldexp(1.0, -23));
  EXPECT_EQ(UlpOf(DType::kF16, 0), std::ldexp(1.0, -24));
  EXPECT_EQ(UlpOf(DType::kF64, std::numeric_limits<double>::max()), std::ldexp(1.0, 971));
  EXPECT_EQ(UlpOf(DType::kF16, std::numeric_limits<double>::infinity()), std::numeric_limits<double>::infinity());
}

TEST(Numbers, UnitsApartAreOfTheLargerValue) {
  EXPECT_EQ(UlpsApart(DType::kF32, 0.25, 0.25), 0);
  EXPECT_EQ(UlpsApart(DType::kBF16, 1, 1.0078125), 1);
  EXPECT_EQ(UlpsApart(DType::kBF16, -1, -0.99609375), 0.5);  // units below 1 are half of those above
  EXPECT_EQ(UlpsApart(DType::kF32, 1, std::numeric_limits<double>::quiet_NaN()), HUGE_VAL);
  EXPECT_EQ(UlpsApart(DType::kF32, HUGE_VAL, HUGE_VAL), 0);
}

}  // namespace
}  // namespace phasor::server
