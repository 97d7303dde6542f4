// What is often said of scores and rotations, and is wrong: the right number, computed by the kernels, and the cards that
// say it.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/kernels/program/score_cases.h"
#include "tests/server/knowledge/bias_tables.h"
#include "tests/server/knowledge/card_text.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RopeSpec Rope(int64_t head_dim, double base = 10000) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  rope.base = base;
  return rope;
}

AnglePlan PlanOf(const EncodingSpec& spec) {
  return std::get<AnglePlan>(Resolve(*Canonicalize(spec), std::nullopt, Precision::kExact)->plan);
}

// One batch row and one head of f64, queries at the last keys.
ScoreSettings Settings(int64_t queries, int64_t keys, int64_t dim) {
  ScoreSettings s;
  s.shape = {1, 1, queries, keys, dim};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  for (int64_t i = 0; i < queries; ++i) s.query_positions.ids.push_back(keys - queries + i);
  for (int64_t j = 0; j < keys; ++j) s.key_positions.ids.push_back(j);
  return s;
}

std::vector<double> Scores(const ScoreSettings& settings, const std::vector<double>& q, const std::vector<double>& k) {
  const auto result = RunScores(TestBackend(), settings, BytesOf(q, DType::kF64), BytesOf(k, DType::kF64));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? NumbersOf(result->scores, DType::kF64) : std::vector<double>();
}

// Transformer-XL with W_r = 1 of one head.
TransformerXlSpec TransformerXl(int64_t dim, std::vector<double> u, std::vector<double> v) {
  TransformerXlSpec spec;
  std::vector<double> identity(static_cast<size_t>(dim * dim));
  for (int64_t i = 0; i < dim; ++i) identity[static_cast<size_t>(i * dim + i)] = 1;
  spec.w_r = MakeWeight({dim, dim}, identity);
  spec.u = MakeWeight({1, dim}, u);
  spec.v = MakeWeight({1, dim}, v);
  return spec;
}

// "softmax((QKᵀ + QR + UKᵀ + VKᵀ)/√d)V": the fourth term has no key in it.
TEST(WrongStatements, TransformerXlHasFourTerms) {
  ScoreSettings s = Settings(1, 3, 2);
  s.scale = 1;
  s.terms = {Canonicalize(TransformerXl(2, {3, 0}, {0, 5}))->spec};
  // R is [sin Δ, cos Δ]; q = (2, 0), keys (7, 0), (11, 0), (13, 0) at distances 2, 1, 0.
  const std::vector<double> scores = Scores(s, {2, 0}, {7, 0, 11, 0, 13, 0});
  for (int j = 0; j < 3; ++j) {
    const double distance = 2 - j, key = (std::vector<double>{7, 11, 13})[static_cast<size_t>(j)];
    const double content = 2 * key, position = 2 * std::sin(distance), of_u = 3 * key, of_v = 5 * std::cos(distance);
    EXPECT_NEAR(scores[static_cast<size_t>(j)], content + position + of_u + of_v, 1e-13);
  }
  // v·k instead: nothing here, for the keys' second channel is 0.
  EXPECT_NEAR(scores[2] - (2.0 * 13 + 3 * 13), 5, 1e-13) << "v·R of distance 0";
  EXPECT_THAT(CardText("transformer_xl"), HasSubstr("Four terms: q·k, q·W_r R, u·k, v·W_r R"));
  // u and v are vectors of a head.
  EXPECT_FALSE(Canonicalize([] {
                 TransformerXlSpec spec = TransformerXl(2, {0, 0}, {0, 0});
                 spec.v = MakeWeight({3, 2}, std::vector<double>(6, 0.0));
                 return spec;
               }())
                   .ok());
}

// "R is a fixed max_len × d table, row 1 = +1, row 2 = −1".
TEST(WrongStatements, TransformerXlsRowsGoDownToZeroAndDependOnTheKeys) {
  for (const int64_t keys : {7, 9}) {
    // The first column of R for the last query: sin of keys − 1 … 0.
    ScoreSettings s = Settings(1, keys, 2);
    s.scale = 1;
    s.terms = {Canonicalize(TransformerXl(2, {0, 0}, {1, 0}))->spec};
    const std::vector<double> scores = Scores(s, {0, 0}, std::vector<double>(static_cast<size_t>(2 * keys)));
    EXPECT_NEAR(scores.front(), keys == 7 ? -0.27942 : 0.98936, 5e-6);
    EXPECT_EQ(scores.back(), 0);
  }
  // Keys after the query have no row.
  ScoreSettings s = Settings(2, 2, 2);
  s.terms = {Canonicalize(TransformerXl(2, {0, 0}, {1, 0}))->spec};
  EXPECT_EQ(Scores(s, {0, 0, 0, 0}, {0, 0, 0, 0})[1], -std::numeric_limits<double>::infinity());
  EXPECT_THAT(CardText("transformer_xl"), HasSubstr("sin 6 = −0.27942 with 7 keys, sin 8 = 0.98936 with 9"));
  EXPECT_THAT(CardText("transformer_xl"), HasSubstr("keys − 1 down to 0"));
}

// "input → RoPE → Q/K/V → score → ALiBi".
TEST(WrongStatements, TheOrderOfOperations) {
  ScoreSettings s = Settings(1, 2, 2);
  s.rotation = Canonicalize(Rope(2))->spec;
  AlibiSpec alibi;
  alibi.slopes = {0.5};
  s.biases = {Canonicalize(alibi)->spec};
  // x = (0, 1) at position 1, W_q = diag(1, 2), key (1, 0) at position 0. The second key does not count.
  const std::vector<double> keys{1, 0, 0, 0};
  EXPECT_NEAR(Scores(s, {0, 2}, keys)[0], -1.69002, 5e-6);
  s.scale_order = ScaleOrder::kBiasThenScale;
  EXPECT_NEAR(Scores(s, {0, 2}, keys)[0], -1.54357, 5e-6);
  // The rotation of x itself, then W_q; the key stands at 0, where nothing turns.
  const Angles angles = *MakeAngles(TestBackend(), PlanOf(Rope(2)), 1, 1, DType::kF64);
  const double turned[] = {-angles.sin.at(0, 0), angles.cos.at(0, 0)};
  s.scale_order = ScaleOrder::kScaleThenBias;
  s.rotation.reset();
  EXPECT_NEAR(Scores(s, {turned[0], 2 * turned[1]}, keys)[0], -1.09501, 5e-6);
  const std::string text = CardText("alibi");
  EXPECT_THAT(text, HasSubstr("x → q, k, v → qk-norm → RoPE on q and k → q·k·scale → + ALiBi → mask → softmax"));
  EXPECT_THAT(text, HasSubstr("the score is −1.69002; −1.09501 where x was turned before W_q, −1.54357"));
}

// "θ_i = 10000^(−2i/d_model) with pairs (x_{2i−1}, x_{2i})".
TEST(WrongStatements, ExponentsStartAtZeroAndRunOverTheRotaryWidth) {
  const AnglePlan whole = PlanOf(Rope(128));
  EXPECT_EQ(whole.inv_freq[0], 1);
  EXPECT_NEAR(whole.inv_freq[1], 0.86596, 5e-6) << "what the first pair gets where the 1 was not taken off";
  RopeSpec partial = Rope(128);
  partial.rotary_dim = 32;
  EXPECT_NEAR(PlanOf(partial).inv_freq[1], std::pow(10000.0, -2.0 / 32), 1e-15);
  const std::string text = CardText("rope_default");
  EXPECT_THAT(text, HasSubstr("−2(i − 1)/d, and d is the rotary width of a head, not the model's"));
  EXPECT_THAT(text, HasSubstr("0.86596"));
  EXPECT_THAT(text, HasSubstr("inv_freq[1] must be base^(−2/rotary_dim)"));
}

// "…::2, 1::2" is one style of two.
TEST(WrongStatements, InterleavedAndHalfSplitAreAPermutationApart) {
  ScoreSettings s = Settings(1, 2, 6);
  RopeSpec rope = Rope(6);
  rope.pairing = Pairing::kInterleaved;
  s.rotation = Canonicalize(rope)->spec;
  const std::vector<double> q{1, 2, 3, 4, 5, 6}, k{6, 1, 5, 2, 4, 3, 0, 0, 0, 0, 0, 0};
  const double interleaved = Scores(s, q, k)[0];
  rope.pairing = Pairing::kHalfSplit;
  s.rotation = Canonicalize(rope)->spec;
  EXPECT_GT(std::fabs(Scores(s, q, k)[0] - interleaved), 1);
  const auto permuted = [](const std::vector<double>& old) {
    std::vector<double> renewed(old.size());
    for (size_t head = 0; head < old.size(); head += 6) {
      for (size_t i = 0; i < 3; ++i) {
        renewed[head + i] = old[head + 2 * i];
        renewed[head + i + 3] = old[head + 2 * i + 1];
      }
    }
    return renewed;
  };
  EXPECT_NEAR(Scores(s, permuted(q), permuted(k))[0], interleaved, 1e-13);
  EXPECT_THAT(CardText("rope_default"), HasSubstr("new[i] = old[2i], new[i + d/2] = old[2i + 1]"));
}

// "freqs (S, d/2)" beside x [B, S, H, d/2]: the table's first axis meets the heads.
TEST(WrongStatements, ATableBesideHeads) {
  const Angles angles = *MakeAngles(TestBackend(), PlanOf(Rope(4)), 0, 2, DType::kF64);
  const int64_t token = 1, head = 0;
  EXPECT_EQ(angles.cos.at(head, 0), 1) << "what [S, d/2] gives head 0 at every token";
  EXPECT_NEAR(angles.cos.at(token, 0), 0.54030, 5e-6);
  EXPECT_THAT(CardText("rope_default"), HasSubstr("at position 1 its first cosine is 1 instead of 0.54030"));
}

// "just change the base for any length, zero cost".
TEST(WrongStatements, AnotherBaseCostsTheCachedKeysAndAFactor) {
  // The rule for factor 4: base·4^(128/126).
  RopeSpec aware = Rope(128);
  aware.schedule = NtkAwareSchedule{4};
  const AnglePlan source = PlanOf(Rope(128)), target = PlanOf(aware);
  EXPECT_NEAR(target.inv_freq[32], std::pow(40889.94, -0.5), 1e-9);
  const RotationTable between = BetweenSchedules(source, target);
  EXPECT_NEAR(between.plan.inv_freq[32] * 1024, 5.176, 5e-4);
  EXPECT_EQ(between.backwards[32], 1);
  EXPECT_THAT(CardText("rope_ntk_aware"), HasSubstr("has to turn by 5.176 radians"));
  EXPECT_THAT(CardText("rope_ntk_aware"), HasSubstr("40889.94, not 40000"));
  // YaRN changes A too.
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 4096;
  RopeSpec scaled = Rope(128);
  scaled.schedule = yarn;
  EXPECT_NEAR(Resolve(*Canonicalize(scaled), std::nullopt, Precision::kExact)->attention_factor, 1.1386, 5e-5);
  EXPECT_THAT(SymptomText("loss_spikes_at_start"), HasSubstr("(YaRN with factor 4: 1.1386)"));
}

// "ALiBi barely drops at any length", and percentages without a source.
TEST(WrongStatements, AlibiStopsAttendingFarAway) {
  AlibiSpec alibi;
  alibi.num_heads = 8;
  ScoreSettings s = Settings(1, 2561, 2);
  s.biases = {Canonicalize([] {
                AlibiSpec last;
                last.slopes = {1.0 / 256};
                return last;
              }())
                  ->spec};
  const std::vector<double> scores = Scores(s, {0, 0}, std::vector<double>(2 * 2561));
  EXPECT_NEAR(std::exp(scores.front() - scores.back()), 0.000045, 5e-7) << "10 nats at distance 2560";
  EXPECT_EQ(ValuesOf(alibi, -20, 1, DType::kF64).at(0, 0), -10);
  EXPECT_EQ(ValuesOf(alibi, -2560, 1, DType::kF64).at(7, 0), -10);
  const std::string text = CardText("alibi");
  EXPECT_THAT(text, HasSubstr("with 8 heads 20 positions for the first (slope 1/2) and 2560 for the last"));
  EXPECT_THAT(text, HasSubstr("e^−10 = 0.000045"));
  EXPECT_THAT(text, HasSubstr("Percentages that are quoted without their setup, for ALiBi or others, are anecdotes"));
}

}  // namespace
}  // namespace phasor::server
