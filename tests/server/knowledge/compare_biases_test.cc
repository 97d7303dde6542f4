// Comparisons of biases over windows and of shifted ones, and what is refused, by numbers worked out here.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/knowledge/compared_sides.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;
using testing::Not;

// ---- Windows of an image.

WindowBiasSpec Window(int64_t height, int64_t width, std::vector<double> table) {
  WindowBiasSpec spec;
  spec.window_height = height;
  spec.window_width = width;
  const auto rows = static_cast<int64_t>(table.size());
  spec.table = MakeWeight({rows, 1}, table);
  return spec;
}

TEST(CompareLearned, WindowsByOffset) {
  const std::vector<double> table{0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<double> twice;
  for (const double value : table) twice.push_back(2 * value);
  const Side a = SideOf(Window(2, 2, table)), b = SideOf(Window(2, 2, twice));
  const Comparison c = Compared(a, b);
  EXPECT_EQ(c.max_difference, 8);
  EXPECT_EQ(c.max_position, 8);
  EXPECT_EQ(c.by_position[5].max, 5);
  EXPECT_EQ(c.transformation.kind, "scaled");
  EXPECT_EQ(c.transformation.scale, 2);
  EXPECT_THAT(c.verdict, HasSubstr("the offset of 1 rows and 1 columns"));
  EXPECT_NEAR(c.scores->max_change, 8, 1e-13);
  EXPECT_TRUE(c.scores->by_distance.empty());
  const auto rows = EntriesOf(*MakeCpuBackend(), b, 3, 2, DType::kF64);
  EXPECT_THAT(rows->first.values, testing::ElementsAre(6, 8));
  EXPECT_THAT(ErrorOf(CheckComparable(a, SideOf(Window(1, 3, {1, 2, 3, 4, 5})))),
              HasSubstr("a window of 1 × 3 beside a window of 2 × 2"));
}

TEST(CompareLearned, WindowsThatAreMatrices) {
  const Side a = SideOf(Window(2, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  // Tokens 0 … 3 are (0, 0), (0, 1), (1, 0), (1, 1); the row is 3·(Δy + 1) + Δx + 1, query minus key.
  std::vector<double> matrix{4, 3, 1, 0, 5, 4, 2, 1, 7, 6, 4, 3, 8, 7, 5, 4};
  EXPECT_EQ(Compared(a, Table(InputContent::kBias, {4, 4}, matrix, &a)).max_difference, 0);
  EXPECT_EQ(Compared(a, Table(InputContent::kUnknown, {9, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8}, &a)).max_difference, 0);
  matrix[5] = 4.5;
  InputTable crooked;
  crooked.content = InputContent::kBias;
  crooked.tensors.push_back({DType::kF64, {4, 4}, matrix});
  EXPECT_THAT(ErrorOf(SideOfTable(crooked, &a).status()), HasSubstr("query 1, key 1 differs from query 0, key 0"));
  crooked.tensors[0].shape = {2, 8};
  EXPECT_THAT(ErrorOf(SideOfTable(crooked, &a).status()), HasSubstr("[9, heads]"));
}

TEST(CompareLearned, WindowsWithAClassTokenAndContinuousOnes) {
  WindowBiasSpec spec = Window(1, 2, {1, 2, 3, 10, 20, 30});
  spec.class_token = true;
  const Side a = SideOf(spec);
  // Class, then two tokens: class → token 10, token → class 20, class → class 30; Δx = −1, 0, 1 are 1, 2, 3.
  const std::vector<double> matrix{30, 10, 10, 20, 2, 1, 20, 3, 2};
  EXPECT_EQ(Compared(a, Table(InputContent::kBias, {3, 3}, matrix, &a)).max_difference, 0);
  std::vector<double> other = matrix;
  other[0] = 31;
  EXPECT_THAT(Compared(a, Table(InputContent::kBias, {3, 3}, other, &a)).verdict, HasSubstr("class token to itself"));
  ContinuousWindowBiasSpec continuous;
  continuous.window_height = continuous.window_width = 2;
  continuous.w1 = MakeWeight({1, 2}, {1, 1});
  continuous.b1 = MakeWeight({1}, {0});
  continuous.w2 = MakeWeight({1, 1}, {0});
  // 16·σ(0) everywhere.
  EXPECT_EQ(Compared(SideOf(Window(2, 2, std::vector<double>(9, 8.0))), SideOf(continuous)).max_difference, 0);
  // The rows of a large window's table, not its matrix of 2^28 entries.
  const Side large = SideOf(Window(128, 128, std::vector<double>(255 * 255, 0.5)));
  EXPECT_EQ(Compared(large, large).by_position.back().index, 255 * 255 - 1);
}

// ---- Keys that stand elsewhere.

Side Vector(const std::vector<double>& values) {  // by distance 0, −1, −2 …
  return Table(InputContent::kBiasVector, {static_cast<int64_t>(values.size())}, {values.rbegin(), values.rend()});
}

TEST(CompareLearned, ShiftedBiases) {
  const Comparison line = Compared(SideOf(Slopes({0.5})), Vector({-1, -1.5, -2, -2.5, -3, -3.5}));
  EXPECT_EQ(line.transformation.kind, "shifted_positions");
  EXPECT_EQ(line.transformation.shift, 2);
  EXPECT_TRUE(line.transformation.constant_per_head);
  EXPECT_THAT(line.transformation.how, HasSubstr("the softmax removes"));
  KerpleSpec kerple;
  kerple.form = KerpleForm::kLog;
  kerple.r1 = {1};
  kerple.r2 = {1};
  std::vector<double> late;
  for (int d = 0; d < 10; ++d) late.push_back(-std::log1p(d + 1.0));
  const Comparison curve = Compared(SideOf(kerple), Vector(late));
  EXPECT_EQ(curve.transformation.shift, 1);
  EXPECT_FALSE(curve.transformation.constant_per_head);
  EXPECT_THAT(curve.transformation.how, HasSubstr("1 position further on"));
  // The last row has no partner within the window: it counts all the same.
  late.back() -= 0.5;
  EXPECT_EQ(Compared(SideOf(kerple), Vector(late)).transformation.kind, "none");
}

TEST(CompareLearned, BiasesShiftedTowardsTheFuture) {
  AlibiSpec symmetric = Slopes({0.5});
  symmetric.form = AlibiForm::kSymmetric;
  const std::vector<double> early{-0.5, 0, -0.5, -1, -1.5, -2};
  EXPECT_EQ(Compared(SideOf(symmetric), Vector(early)).transformation.shift, -1);
  // Keys after the query have rewards in the causal form: then row 0 is another one.
  EXPECT_EQ(Compared(SideOf(Slopes({0.5})), Vector(early)).transformation.kind, "none");
}

TEST(CompareLearned, OneNumberPerHeadIsNothing) {
  const Comparison c = Compared(SideOf(Slopes({0.5, 0.25})),
                                Table(InputContent::kBiasVector, {2, 4}, {1.5, 2, 2.5, 3, -1.75, -1.5, -1.25, -1}));
  EXPECT_EQ(c.max_difference, 3);
  EXPECT_TRUE(c.transformation.constant_per_head);
  EXPECT_EQ(c.transformation.kind, "none");
  EXPECT_THAT(c.verdict, HasSubstr("one number per head, which the softmax removes"));
  EXPECT_THAT(c.verdict, Not(HasSubstr("Neither")));
  // A bias that is the same at every distance is no shift of another.
  const Comparison flat = Compared(Vector({0, 0, 0, 0}), Vector({1, 1, 1, 1}));
  EXPECT_EQ(flat.transformation.kind, "none");
  EXPECT_EQ(flat.transformation.shift, 0);
}

// ---- What has no numbers of its own.

TEST(CompareLearned, TermsOfQueriesAndKeysAreRefused) {
  CopeSpec cope;
  cope.e = MakeWeight({4, 4}, std::vector<double>(16, 0.5));
  const std::string error = ErrorOf(TrySide(cope).status());
  EXPECT_THAT(error, HasSubstr("spec: cope, a term that is computed from queries and keys"));
  EXPECT_THAT(error, HasSubstr("PositionService.Scores"));
  EXPECT_THAT(error, HasSubstr("phasor scores"));
  WindowBiasSpec indices;
  indices.window_height = indices.window_width = 7;
  indices.num_heads = 4;
  EXPECT_THAT(ErrorOf(TrySide(indices).status()), HasSubstr("spec.weights: nothing"));
  ForgettingBiasSpec gates;
  gates.gates = MakeWeight({2, 1, 4}, std::vector<double>(8, -0.1));
  EXPECT_THAT(ErrorOf(TrySide(gates).status()), HasSubstr("gates of 2 sequences"));
}

}  // namespace
}  // namespace phasor::server
