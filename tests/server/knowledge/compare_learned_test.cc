// Comparisons of PoPE, FoPE and biases that depend on the query, by numbers worked out here.
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/knowledge/compared_sides.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// ---- PoPE: channels of queries, then of keys.

PopeSpec Pope(WeightRef delta = {}) {
  PopeSpec pope;
  pope.head_dim = 2;  // frequencies 1 and 1/100
  pope.delta = std::move(delta);
  return pope;
}

TEST(CompareLearned, PhasesOfPopeMoveKeysOnly) {
  const Comparison c = Compared(SideOf(Pope()), SideOf(Pope(MakeWeight({2}, {-std::numbers::pi / 2, 0}))), 4);
  ASSERT_EQ(c.by_column.size(), 4u);
  for (const size_t column : {0, 1, 3}) EXPECT_EQ(c.by_column[column].max, 0) << column;
  // cos(m − π/2) − cos m and sin(m − π/2) − sin m at m = 0 … 3: the largest is −cos 1 − sin 1.
  EXPECT_NEAR(c.by_column[2].max, std::cos(1.0) + std::sin(1.0), 1e-12);
  EXPECT_EQ(c.max_column, 2);
  EXPECT_EQ(c.max_position, 1);
  EXPECT_EQ(c.transformation.kind, "none");
  EXPECT_FALSE(c.same_bits) << "the plans are equal, the phases are not";
  ASSERT_TRUE(c.scores);
  EXPECT_GT(c.scores->by_distance[0].rms, 0.1) << "also of a key at the query's own place";
}

TEST(CompareLearned, PopeOfSeveralKeyHeads) {
  const Side plain = SideOf(Pope()), heads = SideOf(Pope(MakeWeight({2, 2}, {0, 0, -std::numbers::pi, 0})));
  EXPECT_EQ(heads.columns, 8);
  const Comparison c = Compared(plain, heads, 3);
  ASSERT_EQ(c.by_column.size(), 8u);
  EXPECT_NEAR(c.by_column[6].max, 2, 1e-12) << "the first channel of the second head's keys is turned by half a turn";
  EXPECT_EQ(c.by_column[2].max, 0) << "of the first head's is not";
  EXPECT_EQ(Compared(plain, plain).transformation.kind, "identical");
}

TEST(CompareLearned, ATableOfPope) {
  const Side pope = SideOf(Pope());
  std::vector<double> values;  // cos, then sin
  for (int m = 0; m < 6; ++m) {
    for (const double angle : {m * 1.0, m * 0.01}) values.push_back(std::cos(angle));
    for (const double angle : {m * 1.0, m * 0.01}) values.push_back(std::sin(angle));
  }
  const Side table = Table(InputContent::kUnknown, {6, 4}, values, &pope);
  EXPECT_EQ(table.family, Family::kPolar);
  const Comparison c = Compared(pope, table);
  EXPECT_LT(c.max_difference, 1e-15);
  EXPECT_EQ(c.transformation.kind, "identical");
  RopeSpec rope;
  rope.head_dim = 8;
  EXPECT_THAT(ErrorOf(CheckComparable(SideOf(rope), pope)), HasSubstr("a polar rotation beside a rotation"));
}

// ---- FoPE: pairs of one head after the other.

FopeSpec Fope(int64_t heads, std::vector<double> coefficients) {
  FopeSpec fope;
  fope.head_dim = 4;         // frequencies 1 and 1/100, of which
  fope.training_length = 8;  // the second takes more than 8 positions for a turn
  const auto outputs = static_cast<int64_t>(coefficients.size()) / heads;
  fope.cos_coef = fope.sin_coef = MakeWeight({heads, 1, outputs}, coefficients);
  return fope;
}

RopeSpec OneTurningPair() {
  RopeSpec rope;
  rope.head_dim = 4;
  rope.schedule = InvFreqSchedule{{1, 0}};
  return rope;
}

TEST(CompareLearned, FopeThatMixesNothingIsRope) {
  const Comparison c = Compared(SideOf(OneTurningPair()), SideOf(Fope(1, {1})), 9);
  EXPECT_EQ(c.max_difference, 0);
  EXPECT_EQ(c.transformation.kind, "identical");
  EXPECT_FALSE(c.same_bits);
  EXPECT_EQ(c.scores->max_change, 0);
}

TEST(CompareLearned, RopeBesideEveryHeadOfFope) {
  const Comparison c = Compared(SideOf(OneTurningPair()), SideOf(Fope(2, {1, 3})), 9);
  ASSERT_EQ(c.by_column.size(), 4u) << "2 pairs of 2 heads";
  EXPECT_EQ(c.by_column[0].max, 0);
  EXPECT_EQ(c.by_column[1].max, 0) << "both stand still";
  EXPECT_EQ(c.by_column[2].max, 2) << "3·cos 0 against cos 0";
  EXPECT_EQ(c.by_column[3].max, 0);
  EXPECT_EQ(c.max_column, 2);
  EXPECT_EQ(c.max_position, 0);
  // Products of the second head are 9 times as large in the pair that turns.
  EXPECT_GT(c.scores->max_change, 0);
}

TEST(CompareLearned, SmallWeightsMakeNoHugeTables) {
  FopeSpec fope;
  fope.head_dim = 65536;
  fope.base = 1e300;         // so that few frequencies turn
  fope.training_length = 7;  // within 7 positions
  const auto sized = [&](int64_t kept) {
    fope.cos_coef = fope.sin_coef = MakeWeight({64, kept, 1}, std::vector<double>(static_cast<size_t>(64 * kept), 1.0));
    return ErrorOf(TrySide(fope).status());
  };
  // The frequencies above 2π/7: exponents below ln(7/2π)/ln(1e300) of the width.
  const auto kept = static_cast<int64_t>(std::log(7 / (2 * std::numbers::pi)) / std::log(1e300) * 32768) + 1;
  EXPECT_THAT(sized(kept), HasSubstr("64 heads of 32768 pairs"));
  PopeSpec pope;
  pope.head_dim = 2;
  pope.delta = MakeWeight({40000, 2}, std::vector<double>(80000, -1.0));
  EXPECT_THAT(ErrorOf(TrySide(pope).status()), HasSubstr("80000 numbers"));
}

TEST(CompareLearned, HeadsOfFopeInAnotherOrder) {
  const Comparison c = Compared(SideOf(Fope(2, {1, 0.5, 3, 2})), SideOf(Fope(2, {3, 2, 1, 0.5})), 9);
  EXPECT_EQ(c.transformation.kind, "permuted_channels");
  EXPECT_THAT(c.transformation.permutation, ElementsAre(1, 0));
  EXPECT_THAT(c.transformation.how, HasSubstr("head permutation[j]"));
  EXPECT_THAT(c.verdict, HasSubstr("with its heads in another order"));
  // Pairs that change places within a head are another mixture, which no order of heads makes.
  const Comparison pairs = Compared(SideOf(Fope(2, {1, 0.5, 3, 2})), SideOf(Fope(2, {0.5, 1, 3, 2})), 9);
  EXPECT_EQ(pairs.transformation.kind, "none");
  const Comparison same = Compared(SideOf(Fope(2, {1, 0.5, 3, 2})), SideOf(Fope(2, {1, 0.5, 3, 2})), 9);
  EXPECT_TRUE(same.same_bits);
  EXPECT_EQ(same.transformation.kind, "identical");
}

// ---- Biases that depend on the query.

FireSpec Fire(double threshold) {
  FireSpec fire;
  fire.c = 1;
  fire.threshold = threshold;
  fire.epsilon = 1e-12;
  fire.w1 = MakeWeight({1, 1}, {1});
  fire.b1 = MakeWeight({1}, {0});
  fire.w2 = MakeWeight({2, 1}, {1, -2});
  fire.b2 = MakeWeight({2}, {0, 0.5});
  return fire;
}

TEST(CompareLearned, FireIsThatOfTheLastQuery) {
  // x = ln(1 + d)/ln 4 at query 3: 0, 1/2, 0.79248, 1. Head 0 has x, head 1 has 1/2 − 2x; ALiBi has −d/2.
  const Comparison c = Compared(SideOf(Slopes({0.5, 0.5})), SideOf(Fire(1)), 4);
  EXPECT_NEAR(c.max_difference, 2.5, 1e-9);
  EXPECT_EQ(c.max_position, -3);
  EXPECT_EQ(c.max_column, 0);
  EXPECT_NEAR(c.by_position[1].max, 1, 1e-9);
  EXPECT_NEAR(c.by_column[1].max, 0.5, 1e-9);
  EXPECT_THAT(c.verdict, HasSubstr("distances 0 to −3 of the query at position 3"));
  // Query 2: x is 1 at distance −2, where ALiBi has −1.
  EXPECT_NEAR(c.other_queries_difference, 2, 1e-9);
}

TEST(CompareLearned, FiresThresholdsDifferForNearQueries) {
  const Comparison c = Compared(SideOf(Fire(1)), SideOf(Fire(8)), 17);
  EXPECT_LT(c.max_difference, 1e-15) << "query 16 is beyond both thresholds";
  EXPECT_EQ(c.transformation.kind, "none");
  // Query 1, distance −1: 1 against ln 2/ln 9, times 2.
  EXPECT_NEAR(c.other_queries_difference, 2 * (1 - std::log(2.0) / std::log(9.0)), 1e-9);
  EXPECT_THAT(c.verdict, HasSubstr("not equal encodings"));
  EXPECT_THAT(c.transformation.how, HasSubstr("for the last query only"));
}

std::vector<double> FireMatrix(int64_t length) {
  std::vector<double> matrix;
  for (const double slope : {1.0, -2.0}) {
    for (int64_t q = 0; q < length; ++q) {
      for (int64_t k = 0; k < length; ++k) {
        const double x =
            std::log1p(std::abs(static_cast<double>(q - k))) / std::log1p(std::max<double>(1, static_cast<double>(q)));
        matrix.push_back(slope * x + (slope < 0 ? 0.5 : 0));
      }
    }
  }
  return matrix;
}

TEST(CompareLearned, AMatrixOfFire) {
  const Side fire = SideOf(Fire(1));
  std::vector<double> values = FireMatrix(5);
  const Comparison c = Compared(fire, Table(InputContent::kBias, {2, 5, 5}, values, &fire));
  EXPECT_LT(c.max_difference, 1e-11);
  values[5 + 1] += 0.25;  // head 0, query 1, key 1
  const Comparison other = Compared(fire, Table(InputContent::kBias, {2, 5, 5}, values, &fire));
  EXPECT_LT(other.max_difference, 1e-11) << "the last query is as it was";
  EXPECT_NEAR(other.other_queries_difference, 0.25, 1e-9);
}

TEST(CompareLearned, GatesAndPerceptronsOfTheDistance) {
  ForgettingBiasSpec gates;
  gates.gates = MakeWeight({1, 4}, {-0.1, -0.2, -0.3, -0.4});
  // Of query 3: 0, −0.4, −0.7, −0.9 against −d/2.
  const Comparison c = Compared(SideOf(Slopes({0.5})), SideOf(gates));
  EXPECT_NEAR(c.max_difference, 0.6, 1e-15);
  EXPECT_EQ(c.max_position, -3);
  EXPECT_EQ(c.by_position.size(), 4u);
  DynamicPositionBiasSpec dynamic;  // SiLU of the distance
  dynamic.w[0] = dynamic.w[1] = MakeWeight({1, 1}, {1});
  dynamic.b[0] = dynamic.b[1] = MakeWeight({1}, {0});
  const Comparison d = Compared(SideOf(Slopes({0.5})), SideOf(dynamic), 5);
  EXPECT_NEAR(d.max_difference, 4 / (1 + std::exp(-4.0)) + 2, 1e-12);
  EXPECT_NEAR(d.future_difference, 128, 1e-9) << "−256/(1 + e^256) against 128";
}

}  // namespace
}  // namespace phasor::server
