// The numbers behind choices, against numbers computed by hand or in long double from the formulas.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/knowledge/recommend.h"
#include "server/knowledge/spec_recipes.h"
#include "tests/server/knowledge/recommend_cases.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum Task;
using enum Tuning;

constexpr long double kTurn = 2 * std::numbers::pi_v<long double>;

const RankedChoice* Find(const Recommendation& answer, std::string_view rule) {
  for (const RankedChoice& choice : answer.choices) {
    if (choice.rule == rule) return &choice;
  }
  return nullptr;
}

RankedChoice ChoiceOf(std::string_view rule, const Wishes& wishes) {
  const Recommendation answer = Recommend(wishes);
  const RankedChoice* choice = Find(answer, rule);
  EXPECT_NE(choice, nullptr) << rule;
  return choice == nullptr ? RankedChoice{} : *choice;
}

double FigureOf(const RankedChoice& choice, std::string_view name) {
  for (const Figure& figure : choice.figures) {
    if (figure.name == name) return figure.value;
  }
  ADD_FAILURE() << choice.rule << " has no " << name;
  return std::nan("");
}

const RopeSpec& RopeOf(const RankedChoice& choice) { return std::get<RopeSpec>(choice.spec.spec); }

// θ_i of base 10000 and 128 channels.
long double Theta(int pair, long double base = 10000) {
  return std::pow(base, -2.0L * static_cast<long double>(pair) / 128);
}

// Pairs that did not come round in `trained` positions and get further in `wanted`.
template <typename Frequency>
int Unseen(long double trained, long double wanted, Frequency used) {
  int count = 0;
  for (int i = 0; i < 64; ++i) {
    const long double seen = trained * Theta(i);
    if (seen < kTurn && wanted * used(i) > seen * (1 + 1e-9L)) ++count;
  }
  return count;
}

TEST(RecommendNumbers, LongestWavelengthAndTable) {
  const RankedChoice choice = ChoiceOf("new.lm.rope", Want(kLanguageModel, 8192, 8192, kFull));
  EXPECT_EQ(*RopeOf(choice).base, 10000);
  const long double longest = kTurn * std::pow(10000.0L, 126.0L / 128);
  EXPECT_NEAR(static_cast<double>(longest), 54410, 1);
  EXPECT_NEAR(FigureOf(choice, "longest_wavelength"), static_cast<double>(longest), 1e-9);
  EXPECT_EQ(FigureOf(choice, "table_bytes"), 8192.0 * 64 * 2 * 4);
  EXPECT_THAT(choice.reasons[0], HasSubstr("54410 positions, reaches the 8192"));
}

TEST(RecommendNumbers, BaseComesFromTheWantedLength) {
  const RankedChoice choice = ChoiceOf("new.lm.rope_longer", Want(kLanguageModel, 8192, 131072, kFull));
  const long double smallest = std::pow(131072.0L / kTurn, 128.0L / 126);
  EXPECT_NEAR(static_cast<double>(smallest), 24428, 30);
  EXPECT_EQ(*RopeOf(choice).base, 50000);
  EXPECT_NEAR(FigureOf(choice, "longest_wavelength"), static_cast<double>(kTurn * std::pow(50000.0L, 126.0L / 128)), 1e-6);
  EXPECT_NEAR(SmallestBase(131072, 128), static_cast<double>(smallest), 1e-7);
  // The base that just does gives a wavelength of just that length, and a rounded one is never below it.
  EXPECT_NEAR(2 * std::numbers::pi * std::pow(SmallestBase(131072, 128), 126.0 / 128), 131072, 1e-6);
  EXPECT_EQ(FigureOf(choice, "table_bytes"), 64.0 * 1024 * 1024);
}

TEST(RecommendNumbers, RoundUp) {
  EXPECT_EQ(RoundUp(1), 1);
  EXPECT_EQ(RoundUp(1.01), 2);
  EXPECT_EQ(RoundUp(9999.9), 10000);
  EXPECT_EQ(RoundUp(10000), 10000);
  EXPECT_EQ(RoundUp(50001), 100000);
  EXPECT_EQ(RoundUp(1e15), 1e15);
}

TEST(RecommendNumbers, FirstSlowPair) {
  EXPECT_EQ(FirstSlowPair(10000, 128, 4096), 46);  // 64·ln(4096/2π)/ln 10000 = 45.03
  EXPECT_EQ(FirstSlowPair(10000, 128, 6.28), 0);
  EXPECT_EQ(FirstSlowPair(10000, 128, 60000), std::nullopt);
}

TEST(RecommendNumbers, Yarn) {
  const RankedChoice choice = ChoiceOf("extend.yarn", Want(kLanguageModel, 4096, 32768, kNone, PlainRope()));
  const auto& yarn = std::get<YarnSchedule>(RopeOf(choice).schedule);
  EXPECT_EQ(yarn.factor, 8);
  EXPECT_EQ(yarn.original_max_position, 4096);
  EXPECT_NEAR(FigureOf(choice, "attention_factor"), 1.2079442, 1e-7);  // 0.1·ln 8 + 1
  EXPECT_EQ(FigureOf(choice, "pairs_beyond_trained"), 18);             // 46 … 63
  EXPECT_EQ(FigureOf(choice, "pairs_with_unseen_phases_unchanged"), 18);
  // The ramp runs from floor(20.94) to ceil(45.03).
  const auto frequency = [](int i) {
    const long double ramp = std::clamp((i - 20.0L) / (46 - 20), 0.0L, 1.0L);
    return Theta(i) * (1 - ramp) + Theta(i) / 8 * ramp;
  };
  EXPECT_EQ(FigureOf(choice, "pairs_with_unseen_phases"), Unseen(4096, 32768, frequency));
  EXPECT_EQ(FigureOf(choice, "pairs_with_unseen_phases"), 0);
  EXPECT_EQ(FigureOf(choice, "pairs_slowed_percent"), 100.0 * 43 / 64);  // 21 … 63
}

TEST(RecommendNumbers, DynamicNtkTakesTheSmallestFactorThatDoes) {
  const RankedChoice choice = ChoiceOf("extend.dynamic_ntk_cached", Want(kLanguageModel, 4096, 16384, kNone, PlainRope()));
  const auto& ntk = std::get<DynamicNtkSchedule>(RopeOf(choice).schedule);
  EXPECT_EQ(ntk.max_position, 4096);
  EXPECT_NEAR(ntk.factor, 1.90, 1e-12);  // (4^(126/92) − 1)/3 = 1.892
  EXPECT_EQ(FigureOf(choice, "pairs_with_unseen_phases"), 0);
  const auto with = [](long double factor) {
    const long double base = 10000 * std::pow(factor * 4 - (factor - 1), 128.0L / 126);
    return [base](int i) { return Theta(i, base); };
  };
  EXPECT_EQ(Unseen(4096, 16384, with(1.90L)), 0);
  EXPECT_GT(Unseen(4096, 16384, with(1.88L)), 0);
  EXPECT_NEAR(FigureOf(choice, "effective_base"), static_cast<double>(10000 * std::pow(1.9L * 4 - 0.9L, 128.0L / 126)),
              1e-6);
  EXPECT_THAT(choice.reasons[2], HasSubstr("cache of keys"));
}

TEST(RecommendNumbers, LargerBase) {
  const RankedChoice choice = ChoiceOf("tune.larger_base", Want(kLanguageModel, 4096, 262144, kShort, PlainRope()));
  EXPECT_EQ(*RopeOf(choice).base, 5e6);  // 10000·64^(128/92) = 3.26e6
  EXPECT_EQ(FigureOf(choice, "pairs_with_unseen_phases"), 0);
  EXPECT_EQ(Unseen(4096, 262144, [](int i) { return Theta(i, 5e6); }), 0);
  EXPECT_GT(Unseen(4096, 262144, [](int i) { return Theta(i, 3.2e6); }), 0);
  const RankedChoice least = ChoiceOf("tune.larger_base", Want(kLanguageModel, 4096, 8192, kShort, PlainRope()));
  EXPECT_EQ(*RopeOf(least).base, 500000);
}

TEST(RecommendNumbers, Llama3AndLinear) {
  const RankedChoice llama = ChoiceOf("tune.llama3", Want(kLanguageModel, 8192, 65536, kShort, PlainRope()));
  const auto& schedule = std::get<Llama3Schedule>(RopeOf(llama).schedule);
  EXPECT_EQ(schedule.factor, 8);
  EXPECT_EQ(schedule.original_max_position, 8192);
  EXPECT_EQ(FigureOf(llama, "pairs_with_unseen_phases"), 0);
  const RankedChoice linear = ChoiceOf("tune.linear", Want(kLanguageModel, 2048, 16384, kShort, PlainRope()));
  EXPECT_EQ(FigureOf(linear, "pairs_slowed_percent"), 100);
  EXPECT_THAT(linear.reasons[1], HasSubstr("differ by 0.125 radians"));
}

TEST(RecommendNumbers, ScaledOnesGetTheProduct) {
  const RankedChoice yarn = ChoiceOf("more.yarn", Want(kLanguageModel, 131072, 262144, kShort, RopeWith(YarnOf(4, 32768))));
  EXPECT_EQ(std::get<YarnSchedule>(RopeOf(yarn).schedule).factor, 8);
  EXPECT_EQ(std::get<YarnSchedule>(RopeOf(yarn).schedule).original_max_position, 32768);
}

TEST(RecommendNumbers, AlibiReach) {
  const RankedChoice choice = ChoiceOf("keep.alibi", Want(kLanguageModel, 2048, 65536, kNone, OfHeads<AlibiSpec>(32)));
  EXPECT_NEAR(FigureOf(choice, "steepest_slope"), std::exp2(-0.25), 1e-15);
  EXPECT_EQ(FigureOf(choice, "flattest_slope"), 1.0 / 256);
  EXPECT_EQ(FigureOf(choice, "flattest_reach"), 1792);
  EXPECT_EQ(FigureOf(choice, "bias_full_bytes"), 512.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(FigureOf(choice, "bias_vector_bytes"), 32.0 * 131071 * 4);
}

TEST(RecommendNumbers, ImagesGrowByTheRootOfTheRatio) {
  const GridSinusoidalSpec grid = GridOf(768, {14, 14});
  const auto larger = std::get<GridSinusoidalSpec>(ChoiceOf("resize.grid", Want(kVision, 196, 784, kNone, grid)).spec.spec);
  EXPECT_THAT(larger.grid, ElementsAre(28, 28));
  EXPECT_THAT(larger.interpolation_scale, ElementsAre(2, 2));
  const LearnedSpec rows = LearnedOf(197, 768);  // a class token
  EXPECT_EQ(std::get<LearnedSpec>(ChoiceOf("resize.image", Want(kVision, 196, 576, kNone, rows)).spec.spec).num_positions,
            577);
  const WindowBiasSpec window = WindowOf(7, 3);
  EXPECT_EQ(
      std::get<WindowBiasSpec>(ChoiceOf("resize.window", Want(kVision, 49, 144, kNone, window)).spec.spec).window_width, 12);
}

TEST(RecommendNumbers, MemoryLimitChoosesSmallerForms) {
  Wishes wishes = Want(kLanguageModel, 131072, 131072, kFull);
  EXPECT_EQ(Recommend(wishes).choices[0].form, "half-width table");
  wishes.memory_limit_bytes = 1 << 20;
  const Recommendation small = Recommend(wishes);
  EXPECT_EQ(small.choices[0].form, "inv_freq");
  EXPECT_EQ(small.choices[0].form_bytes, 512);
  EXPECT_THAT(small.choices[0].reasons.back(), HasSubstr("half-width table takes 64 MiB, above memory_limit_bytes (1 MiB)"));
  const RankedChoice* alibi = Find(small, "new.lm.alibi");
  ASSERT_NE(alibi, nullptr);
  EXPECT_EQ(alibi->form, "slopes");
  wishes.memory_limit_bytes = int64_t{64} << 20;
  const RankedChoice vector = ChoiceOf("new.lm.alibi", wishes);
  EXPECT_EQ(vector.form, "vector");
  EXPECT_THAT(vector.reasons.back(),
              HasSubstr("A full bias takes 2 TiB, above memory_limit_bytes (64 MiB): hold the vector"));
}

TEST(RecommendNumbers, MemoryLimitLeavesOutWhatATargetNeedsWhole) {
  Wishes wishes = On(Target::kOnnx, Want(kLanguageModel, 131072, 131072, kFull));
  wishes.memory_limit_bytes = int64_t{64} << 20;
  const Recommendation enough = Recommend(wishes);
  ASSERT_EQ(enough.choices.size(), 1u);
  EXPECT_EQ(enough.choices[0].rule, "new.lm.rope");
  ASSERT_FALSE(enough.left_out.empty());
  EXPECT_EQ(enough.left_out.back().rule, "memory");
  EXPECT_THAT(enough.left_out.back().reason, HasSubstr("the full bias, takes 2 TiB"));
  wishes.memory_limit_bytes = (int64_t{64} << 20) - 1;
  const Recommendation less = Recommend(wishes);
  EXPECT_TRUE(less.choices.empty());
  EXPECT_EQ(less.contradiction_rule, "memory");
  EXPECT_THAT(less.contradiction, HasSubstr("67108864 (rope_default, half-width table)"));
}

}  // namespace
}  // namespace phasor::server
