// Numbers of the schemes that no golden model has, edge cases of each formula, and what the catalogue promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

RopeSpec Rope(double base, int64_t rotary_dim, RopeSchedule schedule) {
  RopeSpec rope;
  rope.head_dim = rotary_dim;
  rope.base = base;
  rope.schedule = std::move(schedule);
  return rope;
}

Resolved ResolveOf(const EncodingSpec& spec, std::optional<int64_t> length = {}) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  if (!canonical.ok()) return {};
  auto resolved = Resolve(*canonical, length, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? *std::move(resolved) : Resolved{};
}

std::vector<double> InvFreq(const EncodingSpec& spec, std::optional<int64_t> length = {}) {
  return std::get<AnglePlan>(ResolveOf(spec, length).plan).inv_freq;
}

std::vector<double> Slopes(int64_t heads, std::optional<double> max_bias = {}) {
  AlibiSpec alibi;
  alibi.num_heads = heads;
  alibi.max_bias = max_bias;
  std::vector<double> slopes;
  const Resolved resolved = ResolveOf(alibi);
  for (const DoubleDouble& s : std::get<BiasPlan>(resolved.plan).slopes) slopes.push_back(s.hi);
  return slopes;
}

std::string DerivedOf(const Resolved& resolved, const std::string& field) {
  for (const Note& note : resolved.derived) {
    if (note.field == field) return note.message;
  }
  return "";
}

void ExpectNear(double value, double expected, double relative) {
  EXPECT_NEAR(value, expected, std::fabs(expected) * relative);
}

TEST(AlibiTest, PowersOfTwoAreExact) {
  EXPECT_THAT(Slopes(8), testing::ElementsAre(0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8));
  AlibiSpec alibi;
  alibi.num_heads = 8;
  const Resolved resolved = ResolveOf(alibi);
  for (const DoubleDouble& s : std::get<BiasPlan>(resolved.plan).slopes) EXPECT_EQ(s.lo, 0);
  EXPECT_THAT(Slopes(1), testing::ElementsAre(0x1p-8));
  EXPECT_THAT(Slopes(3, 0), testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(Slopes(2, 16), testing::ElementsAre(0x1p-8, 0x1p-16));
}

TEST(AlibiTest, OtherHeadCountsAppendOddSteps) {
  const std::vector<double> slopes = Slopes(12);
  ASSERT_EQ(slopes.size(), 12u);
  EXPECT_EQ(slopes[7], 0x1p-8);
  ExpectNear(slopes[8], std::sqrt(0.5), 1e-15);
  ExpectNear(slopes[9], std::sqrt(0.125), 1e-15);
  ExpectNear(slopes[10], std::sqrt(0x1p-5), 1e-15);
  ExpectNear(slopes[11], std::sqrt(0x1p-7), 1e-15);
}

TEST(NtkTest, EffectiveBases) {
  ExpectNear(std::stod(DerivedOf(ResolveOf(Rope(10000, 128, NtkAwareSchedule{4})), "effective_base")), 40889.94, 1e-6);
  const EncodingSpec dynamic = Rope(10000, 128, DynamicNtkSchedule{2, 2048});
  EXPECT_EQ(std::stod(DerivedOf(ResolveOf(dynamic, 1), "effective_base")), 10000);
  EXPECT_EQ(std::stod(DerivedOf(ResolveOf(dynamic, 2048), "effective_base")), 10000);
  ExpectNear(std::stod(DerivedOf(ResolveOf(dynamic, 3000), "effective_base")), 19499.28, 1e-6);
  ExpectNear(std::stod(DerivedOf(ResolveOf(dynamic, 4096), "effective_base")), 30527.74, 1e-6);
  // The last pair is divided by the factor, the first one is left alone.
  const std::vector<double> ntk = InvFreq(Rope(10000, 128, NtkAwareSchedule{4}));
  const std::vector<double> plain = InvFreq(Rope(10000, 128, DefaultSchedule{}));
  EXPECT_EQ(ntk.front(), 1);
  ExpectNear(ntk.back(), plain.back() / 4, 1e-15);
}

TEST(NtkTest, LengthIsRequired) {
  const auto canonical = Canonicalize(Rope(10000, 128, DynamicNtkSchedule{2, 2048}));
  ASSERT_TRUE(canonical.ok());
  for (const std::optional<int64_t> length : {std::optional<int64_t>(), std::optional<int64_t>(0),
                                              std::optional<int64_t>(-5), std::optional<int64_t>(INT64_MAX)}) {
    const auto error = SpecErrorOf(Resolve(*canonical, length, Precision::kExact).status());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->field, "sequence_length");
  }
}

TEST(Qwen1Test, AlphaMovesInPowersOfTwo) {
  const EncodingSpec spec = Rope(10000, 128, Qwen1NtkSchedule{8192});
  EXPECT_EQ(DerivedOf(ResolveOf(spec, 1), "alpha"), "1");
  EXPECT_EQ(DerivedOf(ResolveOf(spec, 8192), "alpha"), "1");
  EXPECT_EQ(DerivedOf(ResolveOf(spec, 8193), "alpha"), "3");
  EXPECT_EQ(DerivedOf(ResolveOf(spec, 65536), "alpha"), "15");
  EXPECT_EQ(DerivedOf(ResolveOf(spec, 65537), "alpha"), "31");
}

TEST(YarnTest, PublishedNumbers) {
  YarnSchedule qwen;
  qwen.factor = 4;
  qwen.original_max_position = 32768;
  const Resolved resolved = ResolveOf(Rope(1e6, 128, qwen));
  EXPECT_EQ(std::stod(DerivedOf(resolved, "low")), 23);
  EXPECT_EQ(std::stod(DerivedOf(resolved, "high")), 40);
  ExpectNear(resolved.attention_factor, 1.1386294, 1e-7);
  const std::vector<double> inv_freq = InvFreq(Rope(1e6, 128, qwen));
  ExpectNear(inv_freq[24], 5.3753215e-3, 1e-7);
  ExpectNear(inv_freq[30], 1.0643610e-3, 1e-7);

  YarnSchedule gpt_oss;
  gpt_oss.factor = 32;
  gpt_oss.original_max_position = 4096;
  ExpectNear(InvFreq(Rope(150000, 64, gpt_oss))[12], 7.0157139e-3, 1e-7);
  gpt_oss.truncate = false;
  ExpectNear(InvFreq(Rope(150000, 64, gpt_oss))[12], 6.7949595e-3, 1e-7);
  gpt_oss.factor = 8;
  ExpectNear(ResolveOf(Rope(150000, 64, gpt_oss)).attention_factor, 1.2079442, 1e-7);
}

TEST(YarnTest, DeepSeekForm) {
  YarnSchedule yarn;
  yarn.factor = 40;
  yarn.original_max_position = 4096;
  const auto resolve = [&yarn] { return ResolveOf(Rope(10000, 64, yarn)); };
  EXPECT_EQ(resolve().softmax_scale_multiplier, std::nullopt);

  yarn.mscale_all_dim = 1;  // mscale absent: the ratio needs both
  ExpectNear(resolve().attention_factor, 1.3688879, 1e-7);
  ExpectNear(*resolve().softmax_scale_multiplier, 1.8738542, 1e-7);

  yarn.mscale = 1;
  EXPECT_EQ(resolve().attention_factor, 1);
  ExpectNear(*resolve().softmax_scale_multiplier, 1.8738542, 1e-7);

  yarn.mscale_all_dim = 0;  // false in the libraries
  ExpectNear(resolve().attention_factor, 1.3688879, 1e-7);
  EXPECT_EQ(resolve().softmax_scale_multiplier, std::nullopt);

  yarn.mscale_all_dim = 0.707;
  RopeSpec given = Rope(10000, 64, yarn);
  given.attention_factor = 1.25;
  EXPECT_EQ(ResolveOf(given).attention_factor, 1.25);
  ExpectNear(*ResolveOf(given).softmax_scale_multiplier, 1.5896261651208734, 1e-15);

  yarn.factor = 1;  // nothing is stretched
  EXPECT_EQ(resolve().attention_factor, 1);
  EXPECT_EQ(*resolve().softmax_scale_multiplier, 1);
}

TEST(YarnTest, EqualEndsOfTheRampDivideByNothing) {
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 4096;
  yarn.truncate = false;
  yarn.beta_fast = 8;
  yarn.beta_slow = 8;
  const std::vector<double> inv_freq = InvFreq(Rope(10000, 64, yarn));
  const std::vector<double> plain = InvFreq(Rope(10000, 64, DefaultSchedule{}));
  EXPECT_EQ(inv_freq.front(), plain.front());
  ExpectNear(inv_freq.back(), plain.back() / 4, 1e-15);
  // Both ends below pair 0: lo is raised to 0 and hi is not, so the ramp runs backwards and keeps every pair, as published.
  yarn.original_max_position = 1;
  EXPECT_EQ(InvFreq(Rope(10000, 64, yarn)), plain);
}

TEST(Llama3Test, PublishedNumbers) {
  const std::vector<double> inv_freq = InvFreq(Rope(500000, 128, Llama3Schedule{8, 1, 4, 8192}));
  const std::vector<double> plain = InvFreq(Rope(500000, 128, DefaultSchedule{}));
  ExpectNear(inv_freq[31], 8.5675141e-4, 1e-7);
  ExpectNear(inv_freq[34], 1.7850781e-4, 1e-7);
  for (int i = 0; i <= 28; ++i) EXPECT_EQ(inv_freq[i], plain[i]) << i;
  for (int i = 35; i < 64; ++i) EXPECT_EQ(inv_freq[i], plain[i] / 8) << i;
}

TEST(Llama3Test, EqualFactorsDivideByNothing) {
  const std::vector<double> inv_freq = InvFreq(Rope(500000, 128, Llama3Schedule{8, 2, 2, 8192}));
  const std::vector<double> plain = InvFreq(Rope(500000, 128, DefaultSchedule{}));
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const bool kept = 2 * M_PI / plain[i] <= 4096;
    EXPECT_EQ(inv_freq[i], kept ? plain[i] : plain[i] / 8) << i;
  }
}

LongRopeSchedule LongRope(int64_t pairs) {
  LongRopeSchedule s;
  s.short_factor.assign(pairs, 2);
  s.long_factor.assign(pairs, 4);
  s.original_max_position = 4096;
  s.max_position = 131072;
  return s;
}

TEST(LongRopeTest, SwitchIsStrict) {
  const EncodingSpec spec = Rope(10000, 96, LongRope(48));
  EXPECT_EQ(InvFreq(spec, 4096).front(), 0.5);
  EXPECT_EQ(InvFreq(spec, 4097).front(), 0.25);
  ExpectNear(ResolveOf(spec, 1).attention_factor, 1.1902381, 1e-7);
}

TEST(LongRopeTest, MscalesReplaceTheFormulaPerList) {
  LongRopeSchedule s = LongRope(48);
  s.short_mscale = 1.25;
  const EncodingSpec one = Rope(10000, 96, s);
  EXPECT_EQ(ResolveOf(one, 4096).attention_factor, 1.25);
  ExpectNear(ResolveOf(one, 4097).attention_factor, 1.1902381, 1e-7);
  s.long_mscale = 1.5;
  s.max_position.reset();
  EXPECT_EQ(ResolveOf(Rope(10000, 96, s), 4097).attention_factor, 1.5);
  s.factor = 0.5;
  s.long_mscale.reset();
  EXPECT_EQ(ResolveOf(Rope(10000, 96, s), 4097).attention_factor, 1);
}

TEST(ProportionalTest, DeadPairsStandStill) {
  const Resolved resolved = ResolveOf(Rope(1e6, 512, ProportionalSchedule{0.25, 2}));
  const AnglePlan& plan = std::get<AnglePlan>(resolved.plan);
  ASSERT_EQ(plan.pairs(), 256);
  EXPECT_EQ(DerivedOf(resolved, "live_pairs"), "64");
  EXPECT_EQ(plan.inv_freq[0], 0.5);
  EXPECT_FALSE(plan.frequencies[63].IsZero());
  EXPECT_TRUE(plan.frequencies[64].IsZero());
  EXPECT_EQ(plan.inv_freq[255], 0);
  // A part that is not whole is cut: int(0.3·10 // 2) = 1.
  EXPECT_EQ(DerivedOf(ResolveOf(Rope(1e4, 10, ProportionalSchedule{0.3, {}})), "live_pairs"), "1");
}

TEST(PartialTest, ExponentsRunOverTheRotaryWidth) {
  RopeSpec rope = Rope(10000, 128, DefaultSchedule{});
  rope.rotary_dim = 32;
  EXPECT_EQ(InvFreq(rope), InvFreq(Rope(10000, 32, DefaultSchedule{})));
}

TEST(SinusoidalTest, Spacings) {
  SinusoidalSpec s;
  s.dim = 6;
  EXPECT_THAT(InvFreq(s), testing::ElementsAre(1, testing::DoubleNear(std::pow(1e4, -1 / 3.0), 1e-16),
                                               testing::DoubleNear(std::pow(1e4, -2 / 3.0), 1e-17)));
  s.spacing = SinusoidalSpacing::kEndpointInclusive;
  EXPECT_THAT(InvFreq(s), testing::ElementsAre(1, 0.01, 0.0001));
  s.dim = 7;  // floor(dim/2) pairs
  EXPECT_THAT(InvFreq(s), testing::ElementsAre(1, 0.01, 0.0001));
  s.spacing = SinusoidalSpacing::kPaper;  // ceil(dim/2) pairs, exponents over 7
  EXPECT_EQ(InvFreq(s).size(), 4u);
  ExpectNear(InvFreq(s)[3], std::pow(1e4, -6 / 7.0), 1e-15);
  s.dim = 1;
  EXPECT_THAT(InvFreq(s), testing::ElementsAre(1));
}

TEST(ResolveTest, ExtremeFrequenciesAreRefused) {
  for (const EncodingSpec& spec :
       {EncodingSpec(Rope(1e300, 128, DefaultSchedule{})), EncodingSpec(Rope(1e-300, 128, DefaultSchedule{}))}) {
    const auto canonical = Canonicalize(spec);
    ASSERT_TRUE(canonical.ok());
    const auto error = SpecErrorOf(Resolve(*canonical, {}, Precision::kExact).status());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->field, "rope.base");
  }
  // Frequencies above a turn per position keep their integer part.
  const Resolved fast = ResolveOf(Rope(10000, 4, LinearSchedule{1e-3}));
  const AnglePlan& plan = std::get<AnglePlan>(fast.plan);
  EXPECT_EQ(plan.frequencies[0].limb[3], 159u);  // 1000/2π
}

TEST(SchemesTest, CatalogueIsCompleteAndConsistent) {
  std::set<std::string_view> names;
  for (const Scheme* scheme : Schemes()) {
    ASSERT_NE(scheme, nullptr);
    EXPECT_TRUE(names.insert(scheme->name).second) << scheme->name;
    EXPECT_EQ(FindScheme(scheme->name), scheme);
    EXPECT_TRUE(std::set<std::string_view>({"angle", "table", "bias", "term"}).contains(scheme->family)) << scheme->family;
    const Card& card = *scheme->card;
    for (std::string_view text : {card.title, card.summary, card.formula, card.used_by, card.pitfalls, card.source}) {
      EXPECT_FALSE(text.empty()) << scheme->name;
    }
    EXPECT_FALSE(card.parameters.empty());
    std::set<std::string_view> parameters;
    for (const ParameterCard& p : card.parameters) {
      EXPECT_TRUE(parameters.insert(p.name).second) << p.name;
      EXPECT_FALSE(p.meaning.empty() || p.default_value.empty() || p.range.empty()) << scheme->name << " " << p.name;
    }
  }
  // One for each member of the spec's variant, and of RoPE's schedules.
  EXPECT_EQ(names.size(), std::variant_size_v<RopeSchedule> + std::variant_size_v<EncodingSpec> - 1);
  EXPECT_EQ(FindScheme("rope_none"), nullptr);
}

}  // namespace
}  // namespace phasor
