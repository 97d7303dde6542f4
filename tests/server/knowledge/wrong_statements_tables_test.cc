// What is often said of tables that are added to the input, and is wrong: the right number, computed by the kernels, and the
// texts that say it.
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/program/add.h"
#include "proto/raw/payloads.h"
#include "server/domain_ends.h"
#include "tests/server/knowledge/bias_tables.h"
#include "tests/server/knowledge/card_text.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;

Grid Rows(const EncodingSpec& spec, int64_t first, int64_t count) {
  const auto canonical = *Canonicalize(spec);
  const auto resolved = *Resolve(canonical, std::nullopt, Precision::kExact);
  return *MakeRows(TestBackend(), canonical.spec, resolved.plan, first, count, DType::kF64);
}

SinusoidalSpec Width(int64_t dim) {
  SinusoidalSpec spec;
  spec.dim = dim;
  return spec;
}

// The shape of a + b by the rule of array libraries: axes from the last on are equal, or one of them is 1.
std::optional<std::vector<int64_t>> Broadcast(std::vector<int64_t> a, std::vector<int64_t> b) {
  while (a.size() < b.size()) a.insert(a.begin(), 1);
  while (b.size() < a.size()) b.insert(b.begin(), 1);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return std::nullopt;
    a[i] = std::max(a[i], b[i]);
  }
  return a;
}

// The row of a table that token t of batch row b gets, where the table has this shape.
int64_t RowOf(const std::vector<int64_t>& shape, int64_t b, int64_t t) {
  if (shape.size() == 2) return t % shape[0];
  return (shape[0] == 1 ? 0 : b) * shape[1] + (shape[1] == 1 ? 0 : t);
}

// "[max_len, d] fails to add"; "769 broadcasts silently".
TEST(WrongStatements, BroadcastingOfTables) {
  const Grid table = Rows(Width(768), 0, 4);
  const std::vector<int64_t> x{2, 4, 768};
  ASSERT_EQ(Broadcast(x, {4, 768}), x);
  for (const int64_t b : {0, 1}) EXPECT_NEAR(table.at(RowOf({4, 768}, b, 1), 0), 0.84147, 5e-6);
  // [2, 1, 768], cut from [max_len, 1, d] by the first axis of batch-first input: no error, and the place in the batch.
  ASSERT_EQ(Broadcast(x, {2, 1, 768}), x);
  EXPECT_EQ(RowOf({2, 1, 768}, 1, 0), 1) << "row 1 at token 0";
  EXPECT_EQ(RowOf({2, 1, 768}, 1, 3), 1) << "and at every other";
  EXPECT_EQ(Broadcast(x, {4, 769}), std::nullopt);
  const std::string text = CardText("sinusoidal");
  EXPECT_THAT(text, HasSubstr("768 against 769 raises"));
  EXPECT_THAT(text, HasSubstr("A table [max_len, 1, D] was added to batch-first input; [max_len, D] broadcasts correctly"));
  EXPECT_THAT(text, HasSubstr("gets the position of its place in the batch"));
}

// "arange int64 divides to 0".
TEST(WrongStatements, IntegerPositionsDoNoHarm) {
  // By IEEE double division, which true division is: no frequency is lost.
  EXPECT_NEAR(Rows(Width(512), 1, 1).at(0, 510), std::sin(std::pow(10000.0, -510.0 / 512)), 1e-18);
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("dividing them has been true division in PyTorch since 1.5"));
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("becomes 15936 and the first pair's cosine −0.26795 instead of −0.90802"));
  EXPECT_THAT(SymptomText("long_prompts_diverge_in_bf16"), HasSubstr("15 962 becomes 15 936"));
}

// "masking makes padding harmless".
TEST(WrongStatements, LeftPaddingMovesPositions) {
  const Grid table = Rows(Width(8), 0, 8);
  const std::vector<int> mask{0, 0, 0, 1, 1, 1};
  int64_t counted = -1;
  for (const int real : mask) {
    counted += real;
    if (counted == 0) break;
  }
  EXPECT_EQ(table.at(counted, 1), 1) << "cumsum(mask) − 1 of the first token";
  EXPECT_NEAR(table.at(3, 1), -0.98999, 5e-6) << "its column";
  const std::string text = CardText("sinusoidal");
  EXPECT_THAT(text, HasSubstr("behind 3 pads the first one gets row 3, whose first cosine is −0.98999 instead of 1"));
  EXPECT_THAT(text, HasSubstr("the mask in the pooling as well"));
  const std::string symptom = SymptomText("left_padded_batches_differ");
  EXPECT_THAT(symptom, HasSubstr("Positions = cumsum(mask) − 1 per row"));
  EXPECT_THAT(symptom, HasSubstr("ALiBi by column"));
  EXPECT_THAT(symptom, HasSubstr("also where outputs are averaged over a row"));
}

// "gated: α·PE + (1 − α)·0".
TEST(WrongStatements, AGateNeedsTwoEncodings) {
  constexpr int64_t kTokens = 5, kDim = 8;
  const auto maker = [](const CanonicalSpec& canonical, const Resolved& resolved) {
    AbsolutePositions positions;
    positions.rows = kTokens;
    return std::make_shared<const RowMaker>(canonical.spec, resolved.plan, positions);
  };
  SinusoidalSpec other = Width(kDim);
  other.base = 500;
  const auto a = *Canonicalize(Width(kDim)), b = *Canonicalize(other);
  const auto plan_a = *Resolve(a, std::nullopt, Precision::kExact), plan_b = *Resolve(b, std::nullopt, Precision::kExact);
  const double alpha = 0.25;
  std::vector<double> x(kTokens * kDim, 0.0);
  AddTask task;
  task.dtype = DType::kF64;
  task.tokens = kTokens;
  task.dim = kDim;
  task.x = task.y = x.data();
  task.x_token_stride = task.y_token_stride = task.element_token_stride = kDim;
  task.gate.data = &alpha;
  ASSERT_TRUE(RunProgram(TestBackend(), {{AddStep(task, {maker(a, plan_a), maker(b, plan_b)})}}).ok());
  const Grid of_a = Rows(Width(kDim), 0, kTokens), of_b = Rows(other, 0, kTokens);
  SinusoidalSpec quarter = Width(kDim);
  quarter.scale = 0.25;
  const Grid scaled = Rows(quarter, 0, kTokens);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], 0.25 * of_a.values[i] + 0.75 * of_b.values[i], 1e-15);
    EXPECT_EQ(scaled.values[i], 0.25 * of_a.values[i] + 0.75 * 0) << "a gate beside nothing is a scale";
  }
  EXPECT_NE(x[1], scaled.values[1]);
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("α·PE + (1 − α)·0 is α·PE: with α = 0.25 a quarter of every entry"));
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("α·A + (1 − α)·B"));
}

// "distil a perceptron to RoPE's parameters".
TEST(WrongStatements, RopeHasAClosedForm) {
  RopeSpec rope;
  rope.head_dim = 128;
  const auto resolved = *Resolve(*Canonicalize(rope), std::nullopt, Precision::kExact);
  EXPECT_EQ(std::get<AnglePlan>(resolved.plan).inv_freq.size(), 64u);
  // The cosine series of cos m over 4096 positions, orthogonal terms: what is left out is the error.
  constexpr int64_t kPositions = 4096;
  const auto error_of = [](int64_t terms) {
    DistilledSpec spec;
    spec.num_positions = kPositions;
    spec.cosine_terms = terms;
    std::vector<double> weights(static_cast<size_t>(terms));
    for (int64_t k = 0; k < terms; ++k) {
      double sum = 0;
      for (int64_t m = 0; m < kPositions; ++m) {
        const double angle = std::numbers::pi * static_cast<double>(k) * (static_cast<double>(m) + 0.5) / kPositions;
        sum += std::cos(angle) * std::cos(static_cast<double>(m));
      }
      weights[static_cast<size_t>(k)] = sum * (k == 0 ? 1.0 : 2.0) / kPositions;
    }
    spec.w[0] = MakeWeight({1, terms}, weights);
    spec.b[0] = MakeWeight({1}, {0});
    constexpr int64_t kFirst = 2000;  // away from the ends, where it is worse
    const Grid rows = Rows(spec, kFirst, 64);
    double largest = 0;
    for (int64_t m = 0; m < 64; ++m)
      largest = std::max(largest, std::fabs(rows.at(m, 0) - std::cos(static_cast<double>(kFirst + m))));
    return largest;
  };
  EXPECT_EQ(static_cast<int64_t>(std::ceil(kPositions / std::numbers::pi)), 1304);
  EXPECT_GT(error_of(1200), 0.9) << "as wrong as zeros";
  EXPECT_LT(error_of(1400), 0.1);
  const std::string text = CardText("distilled");
  EXPECT_THAT(text, HasSubstr("needs N/π terms (1304 for 4096)"));
  EXPECT_THAT(text, HasSubstr("exact and cheaper: 64 numbers for RoPE of width 128"));
  EXPECT_THAT(text, HasSubstr("Schemes with a closed form (RoPE, sinusoids, ALiBi)"));
}

// "domain offsets for the first 10 and the last 10".
TEST(WrongStatements, EndsOfADomainOverlap) {
  const auto both_of = [](int64_t length) {
    PositionSet set;
    set.count = length;
    set.largest = length - 1;
    const Limits limits;
    const raw::Payloads payloads;
    ParseContext context{limits, payloads};
    context.ids_left = 1 << 20;
    const auto ends = FindDomainEnds({}, set, 1, length, {.first = 10, .last = 10, .length = std::nullopt}, context);
    EXPECT_TRUE(ends.ok()) << ends.status();
    std::vector<int64_t> both;
    for (size_t i = 0; i < ends->first.size(); ++i) {
      if (ends->first[i] >= 0 && ends->last[i] >= 0) both.push_back(static_cast<int64_t>(i));
    }
    return both;
  };
  EXPECT_EQ(both_of(12), (std::vector<int64_t>{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_TRUE(both_of(20).empty());
  EXPECT_EQ(both_of(19).size(), 1u);
  EXPECT_EQ(2 * 10 * 768, 15360);
  const std::string text = CardText("learned");
  EXPECT_THAT(text, HasSubstr("(15360 for k = 10)"));
  EXPECT_THAT(text, HasSubstr("with k = 10 and S = 12 the positions 2 … 9 are at both"));
  EXPECT_THAT(text, HasSubstr("While decoding the end is not known"));
}

}  // namespace
}  // namespace phasor::server
