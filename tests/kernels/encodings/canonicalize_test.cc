#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

RopeSpec Rope(RopeSchedule schedule, int64_t head_dim = 128) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  rope.schedule = std::move(schedule);
  return rope;
}

YarnSchedule Yarn() {
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 32768;
  return yarn;
}

LongRopeSchedule LongRope() {
  LongRopeSchedule s;
  s.short_factor.assign(64, 1.0);
  s.long_factor.assign(64, 2.0);
  s.original_max_position = 4096;
  s.max_position = 131072;
  return s;
}

AlibiSpec Alibi(int64_t heads) {
  AlibiSpec alibi;
  alibi.num_heads = heads;
  return alibi;
}

SinusoidalSpec Sinusoidal(int64_t dim) {
  SinusoidalSpec s;
  s.dim = dim;
  return s;
}

// A valid spec of every scheme.
std::vector<EncodingSpec> ValidSpecs() {
  return {Rope(DefaultSchedule{}),
          Rope(LinearSchedule{8}),
          Rope(NtkAwareSchedule{4}),
          Rope(DynamicNtkSchedule{2, 2048}),
          Rope(Yarn()),
          Rope(Llama3Schedule{8, 1, 4, 8192}),
          Rope(LongRope()),
          Rope(ProportionalSchedule{0.25, {}}),
          Rope(Qwen1NtkSchedule{8192}),
          Rope(NtkMixedSchedule{4, {}}),
          Rope(FreqFactorsSchedule{std::vector<double>(64, 2.0), {}}),
          Rope(InvFreqSchedule{std::vector<double>(64, 0.5)}),
          Rope(PixelSchedule{}),
          Sinusoidal(512),
          Alibi(12)};
}

template <typename Spec, typename Change>
EncodingSpec With(Spec spec, Change change) {
  change(spec);
  return spec;
}

template <typename Schedule, typename Change>
EncodingSpec WithSchedule(Schedule schedule, Change change) {
  change(schedule);
  return Rope(schedule);
}

struct BadSpec {
  EncodingSpec spec;
  std::string field;
  std::string given;
};

// Of the schedules that are given as numbers, and of YaRN's less common fields.
void AppendGivenSchedules(std::vector<BadSpec>& bad) {
  const auto add = [&bad](RopeSchedule schedule, std::string field, std::string given) {
    bad.push_back({Rope(std::move(schedule)), std::move(field), std::move(given)});
  };
  std::vector<double> numbers(64, 1.0);
  add(NtkMixedSchedule{0, {}}, "rope.ntk_mixed.factor", "0");
  add(NtkMixedSchedule{2, 0.0}, "rope.ntk_mixed.mixed_b", "0");
  add(NtkMixedSchedule{2, 1025.0}, "rope.ntk_mixed.mixed_b", "1025");
  add(FreqFactorsSchedule{{1, 2}, {}}, "rope.freq_factors.factors", "2 entries");
  add(FreqFactorsSchedule{numbers, 0.0}, "rope.freq_factors.factor", "0");
  add(InvFreqSchedule{}, "rope.inv_freq.inv_freq", "0 entries");
  add(PixelSchedule{-1.0}, "rope.pixel.max_freq", "-1");
  numbers[3] = 0;
  add(FreqFactorsSchedule{numbers, {}}, "rope.freq_factors.factors[3]", "0");
  LongRopeSchedule lists = LongRope();
  lists.short_factor[3] = 0;
  lists.long_factor[1] = -2;  // the first error counts
  add(lists, "rope.longrope.short_factor[3]", "0");
  lists.short_factor[3] = 1;
  add(lists, "rope.longrope.long_factor[1]", "-2");
  numbers[3] = -0.5;
  add(InvFreqSchedule{numbers}, "rope.inv_freq.inv_freq[3]", "-0.5");
  const auto yarn = [&](auto change, std::string field, std::string given) {
    YarnSchedule s = Yarn();
    change(s);
    add(s, std::move(field), std::move(given));
  };
  yarn([](YarnSchedule& s) { s.attention_coefficient = 11; }, "rope.yarn.attention_coefficient", "11");
  yarn([](YarnSchedule& s) { s.attention_factor_multiplier = 0; }, "rope.yarn.attention_factor_multiplier", "0");
  yarn([](YarnSchedule& s) { s.extrapolation_factor = 1.5; }, "rope.yarn.extrapolation_factor", "1.5");
}

std::vector<BadSpec> BadSpecs() {
  std::vector<BadSpec> bad;
  const auto rope = [&bad](auto change, std::string field, std::string given) {
    bad.push_back({With(Rope(DefaultSchedule{}), change), std::move(field), std::move(given)});
  };
  rope([](RopeSpec& s) { s.head_dim = 0; }, "rope.head_dim", "0");
  rope([](RopeSpec& s) { s.head_dim = -128; }, "rope.head_dim", "-128");
  rope([](RopeSpec& s) { s.head_dim = 65537; }, "rope.head_dim", "65537");
  rope([](RopeSpec& s) { s.head_dim = INT64_MAX; }, "rope.head_dim", "9223372036854775807");
  rope([](RopeSpec& s) { s.head_dim = 81; }, "rope.head_dim", "81");
  rope([](RopeSpec& s) { s.rotary_dim = 0; }, "rope.rotary_dim", "0");
  rope([](RopeSpec& s) { s.rotary_dim = 33; }, "rope.rotary_dim", "33");
  rope([](RopeSpec& s) { s.rotary_dim = 130; }, "rope.rotary_dim", "130");
  rope([](RopeSpec& s) { s.base = 0; }, "rope.base", "0");
  rope([](RopeSpec& s) { s.base = -0.0; }, "rope.base", "-0");
  rope([](RopeSpec& s) { s.base = kNan; }, "rope.base", "nan");
  rope([](RopeSpec& s) { s.base = kInfinity; }, "rope.base", "inf");
  rope([](RopeSpec& s) { s.pairing = static_cast<Pairing>(9); }, "rope.pairing", "9");
  rope([](RopeSpec& s) { s.pairing = static_cast<Pairing>(4); }, "rope.pairing", "4");
  rope([](RopeSpec& s) { s.first_channel = -1; }, "rope.first_channel", "-1");
  rope([](RopeSpec& s) { s.first_channel = 1; }, "rope.first_channel", "1");
  rope([](RopeSpec& s) { s.rotary_dim = 64, s.first_channel = 65; }, "rope.first_channel", "65");
  rope([](RopeSpec& s) { s.xpos = XposScale{0.0, {}}; }, "rope.xpos.scale_base", "0");
  rope([](RopeSpec& s) { s.xpos = XposScale{kInfinity, {}}; }, "rope.xpos.scale_base", "inf");
  rope([](RopeSpec& s) { s.xpos = XposScale{{}, int64_t{1} << 31}; }, "rope.xpos.center", "2147483648");
  AppendGivenSchedules(bad);
  rope([](RopeSpec& s) { s.attention_factor = 0; }, "rope.attention_factor", "0");
  rope([](RopeSpec& s) { s.attention_factor = kNan; }, "rope.attention_factor", "nan");
  rope([](RopeSpec& s) { s.attention_factor = 1e5; }, "rope.attention_factor", "100000");

  bad.push_back({Rope(LinearSchedule{0}), "rope.linear.factor", "0"});
  bad.push_back({Rope(LinearSchedule{-kInfinity}), "rope.linear.factor", "-inf"});
  bad.push_back({Rope(NtkAwareSchedule{kNan}), "rope.ntk_aware.factor", "nan"});
  bad.push_back({Rope(NtkAwareSchedule{4}, 2), "rope.rotary_dim", "2"});
  bad.push_back({Rope(DynamicNtkSchedule{0, 2048}), "rope.dynamic_ntk.factor", "0"});
  bad.push_back({Rope(DynamicNtkSchedule{2, 0}), "rope.dynamic_ntk.max_position", "0"});
  bad.push_back({Rope(DynamicNtkSchedule{2, 2048}, 2), "rope.rotary_dim", "2"});
  bad.push_back({Rope(Qwen1NtkSchedule{0}), "rope.qwen1_ntk.training_length", "0"});
  bad.push_back({Rope(Qwen1NtkSchedule{8192}, 2), "rope.rotary_dim", "2"});

  const auto yarn = [&bad](auto change, std::string field, std::string given) {
    bad.push_back({WithSchedule(Yarn(), change), std::move(field), std::move(given)});
  };
  yarn([](YarnSchedule& s) { s.factor = 0; }, "rope.yarn.factor", "0");
  yarn([](YarnSchedule& s) { s.original_max_position = 0; }, "rope.yarn.original_max_position", "0");
  yarn([](YarnSchedule& s) { s.beta_fast = 0; }, "rope.yarn.beta_fast", "0");
  yarn([](YarnSchedule& s) { s.beta_slow = kNan; }, "rope.yarn.beta_slow", "nan");
  yarn([](YarnSchedule& s) { s.mscale = -1; }, "rope.yarn.mscale", "-1");
  yarn([](YarnSchedule& s) { s.mscale_all_dim = 1e9; }, "rope.yarn.mscale_all_dim", "1000000000");
  EncodingSpec base_one = Rope(Yarn());
  std::get<RopeSpec>(base_one).base = 1;
  bad.push_back({base_one, "rope.base", "1"});

  bad.push_back({Rope(Llama3Schedule{0, 1, 4, 8192}), "rope.llama3.factor", "0"});
  bad.push_back({Rope(Llama3Schedule{8, 0, 4, 8192}), "rope.llama3.low_freq_factor", "0"});
  bad.push_back({Rope(Llama3Schedule{8, 1, kInfinity, 8192}), "rope.llama3.high_freq_factor", "inf"});
  bad.push_back({Rope(Llama3Schedule{8, 1, 4, -1}), "rope.llama3.original_max_position", "-1"});

  const auto longrope = [&bad](auto change, std::string field, std::string given) {
    bad.push_back({WithSchedule(LongRope(), change), std::move(field), std::move(given)});
  };
  longrope([](LongRopeSchedule& s) { s.short_factor.resize(32); }, "rope.longrope.short_factor", "32 entries");
  longrope([](LongRopeSchedule& s) { s.long_factor.clear(); }, "rope.longrope.long_factor", "0 entries");
  longrope([](LongRopeSchedule& s) { s.long_factor[3] = -2; }, "rope.longrope.long_factor[3]", "-2");
  longrope([](LongRopeSchedule& s) { s.original_max_position = 1; }, "rope.longrope.original_max_position", "1");
  longrope([](LongRopeSchedule& s) { s.max_position = 0; }, "rope.longrope.max_position", "0");
  longrope([](LongRopeSchedule& s) { s.factor = kNan; }, "rope.longrope.factor", "nan");
  longrope([](LongRopeSchedule& s) { s.max_position.reset(); }, "rope.longrope.factor", "nothing");
  longrope([](LongRopeSchedule& s) { s.short_mscale = 0; }, "rope.longrope.short_mscale", "0");
  longrope([](LongRopeSchedule& s) { s.long_mscale = kInfinity; }, "rope.longrope.long_mscale", "inf");

  bad.push_back({Rope(ProportionalSchedule{0, {}}), "rope.proportional.partial_rotary_factor", "0"});
  bad.push_back({Rope(ProportionalSchedule{1.5, {}}), "rope.proportional.partial_rotary_factor", "1.5"});
  bad.push_back({Rope(ProportionalSchedule{0.25, 0}), "rope.proportional.factor", "0"});
  EncodingSpec partial = Rope(ProportionalSchedule{0.25, {}});
  std::get<RopeSpec>(partial).rotary_dim = 64;
  bad.push_back({partial, "rope.rotary_dim", "64"});

  const auto sinusoidal = [&bad](auto change, std::string field, std::string given) {
    bad.push_back({With(Sinusoidal(512), change), std::move(field), std::move(given)});
  };
  sinusoidal([](SinusoidalSpec& s) { s.dim = 0; }, "sinusoidal.dim", "0");
  sinusoidal([](SinusoidalSpec& s) { s.dim = kMaxDim + 1; }, "sinusoidal.dim", "1048577");
  sinusoidal([](SinusoidalSpec& s) { s.dim = 3, s.spacing = SinusoidalSpacing::kEndpointInclusive; }, "sinusoidal.dim", "3");
  sinusoidal([](SinusoidalSpec& s) { s.base = -1; }, "sinusoidal.base", "-1");
  sinusoidal([](SinusoidalSpec& s) { s.layout = static_cast<SinusoidalLayout>(7); }, "sinusoidal.layout", "7");
  sinusoidal([](SinusoidalSpec& s) { s.spacing = static_cast<SinusoidalSpacing>(0); }, "sinusoidal.spacing", "0");
  sinusoidal([](SinusoidalSpec& s) { s.position_offset = int64_t{1} << 30; }, "sinusoidal.position_offset", "1073741824");
  sinusoidal([](SinusoidalSpec& s) { s.padding_row = -1; }, "sinusoidal.padding_row", "-1");

  bad.push_back({Alibi(0), "alibi.num_heads", "0"});
  bad.push_back({Alibi(kMaxHeads + 1), "alibi.num_heads", "65537"});
  const auto alibi = [&bad](auto change, std::string field, std::string given) {
    bad.push_back({With(Alibi(2), change), std::move(field), std::move(given)});
  };
  alibi([](AlibiSpec& s) { s.max_bias = -1; }, "alibi.max_bias", "-1");
  alibi([](AlibiSpec& s) { s.max_bias = kNan; }, "alibi.max_bias", "nan");
  alibi([](AlibiSpec& s) { s.form = static_cast<AlibiForm>(4); }, "alibi.form", "4");
  alibi([](AlibiSpec& s) { s.slopes = {1, 2, 3}; }, "alibi.slopes", "3 entries");
  alibi([](AlibiSpec& s) { s.slopes = {1, kNan}; }, "alibi.slopes[1]", "nan");
  alibi([](AlibiSpec& s) { s.slopes = {1e30, 1}; }, "alibi.slopes[0]", "1e+30");
  return bad;
}

TEST(CanonicalizeTest, EveryBadFieldIsNamed) {
  for (const BadSpec& bad : BadSpecs()) {
    SCOPED_TRACE(bad.field + " = " + bad.given);
    const auto canonical = Canonicalize(bad.spec);
    ASSERT_EQ(canonical.status().code(), absl::StatusCode::kInvalidArgument);
    const auto error = SpecErrorOf(canonical.status());
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->field, bad.field);
    EXPECT_EQ(error->given, bad.given);
    EXPECT_FALSE(error->allowed.empty());
    EXPECT_THAT(std::string(canonical.status().message()), HasSubstr(bad.field));
  }
}

TEST(CanonicalizeTest, IsIdempotent) {
  for (const EncodingSpec& spec : ValidSpecs()) {
    SCOPED_TRACE(SchemeOf(spec).name);
    const auto once = Canonicalize(spec);
    ASSERT_TRUE(once.ok()) << once.status();
    const auto twice = Canonicalize(once->spec);
    ASSERT_TRUE(twice.ok()) << twice.status();
    EXPECT_TRUE(once->spec == twice->spec);
    EXPECT_THAT(twice->defaults, IsEmpty());
  }
}

std::vector<std::string> FieldsOf(const std::vector<Note>& notes) {
  std::vector<std::string> fields;
  for (const Note& note : notes) fields.push_back(note.field);
  return fields;
}

TEST(CanonicalizeTest, DefaultsAreFilledAndTold) {
  const auto canonical = Canonicalize(Rope(Yarn()));
  ASSERT_TRUE(canonical.ok());
  EXPECT_THAT(FieldsOf(canonical->defaults),
              ElementsAre("rope.rotary_dim", "rope.base", "rope.pairing", "rope.yarn.beta_fast", "rope.yarn.beta_slow",
                          "rope.yarn.truncate", "rope.yarn.attention_coefficient", "rope.yarn.log_blend",
                          "rope.yarn.attention_factor_multiplier", "rope.yarn.extrapolation_factor"));
  EXPECT_EQ(canonical->defaults[3].message, "32 (default)");
  EXPECT_THAT(canonical->warnings, IsEmpty());

  RopeSpec spelled = Rope(Yarn());
  spelled.rotary_dim = 128;
  spelled.base = 10000;
  spelled.pairing = Pairing::kHalfSplit;
  YarnSchedule& yarn = std::get<YarnSchedule>(spelled.schedule);
  yarn.beta_fast = 32;
  yarn.beta_slow = 1;
  yarn.truncate = true;
  yarn.attention_coefficient = 0.1;
  yarn.log_blend = false;
  yarn.attention_factor_multiplier = 1;
  yarn.extrapolation_factor = 1;
  yarn.mscale = -0.0;  // zero says the same as absent
  const auto same = Canonicalize(spelled);
  ASSERT_TRUE(same.ok());
  EXPECT_TRUE(same->spec == canonical->spec);
  EXPECT_THAT(same->defaults, IsEmpty());
}

TEST(CanonicalizeTest, SlopesReplaceTheRule) {
  AlibiSpec alibi;
  alibi.slopes = {0.5, -0.0};
  alibi.max_bias = 4;
  const auto canonical = Canonicalize(alibi);
  ASSERT_TRUE(canonical.ok());
  const AlibiSpec& filled = std::get<AlibiSpec>(canonical->spec);
  EXPECT_EQ(filled.num_heads, 2);
  EXPECT_FALSE(filled.max_bias.has_value());
  EXPECT_FALSE(std::signbit(filled.slopes[1]));
  EXPECT_THAT(FieldsOf(canonical->warnings), ElementsAre("alibi.max_bias"));
}

TEST(CanonicalizeTest, LongRopeFactorComesFromTheLengths) {
  const auto canonical = Canonicalize(Rope(LongRope()));
  ASSERT_TRUE(canonical.ok());
  EXPECT_EQ(std::get<LongRopeSchedule>(std::get<RopeSpec>(canonical->spec).schedule).factor, 32);

  LongRopeSchedule differing = LongRope();
  differing.factor = 16;
  const auto warned = Canonicalize(Rope(differing));
  ASSERT_TRUE(warned.ok());
  EXPECT_THAT(FieldsOf(warned->warnings), ElementsAre("rope.longrope.factor"));
}

TEST(CanonicalizeTest, Warnings) {
  const auto warnings = [](const EncodingSpec& spec) {
    const auto canonical = Canonicalize(spec);
    EXPECT_TRUE(canonical.ok()) << canonical.status();
    return canonical.ok() ? FieldsOf(canonical->warnings) : std::vector<std::string>();
  };
  EXPECT_THAT(warnings(Rope(LinearSchedule{0.5})), ElementsAre("rope.linear.factor"));
  EXPECT_THAT(warnings(WithSchedule(Yarn(), [](YarnSchedule& s) { s.beta_fast = 1, s.beta_slow = 32; })),
              ElementsAre("rope.yarn.beta_fast"));
  const auto equal = Canonicalize(WithSchedule(Yarn(), [](YarnSchedule& s) { s.beta_fast = s.beta_slow = 1; }));
  ASSERT_TRUE(equal.ok() && equal->warnings.size() == 1);
  EXPECT_THAT(equal->warnings[0].message, testing::Not(HasSubstr("swapped"))) << "Kimi K2 is published so";
  EXPECT_THAT(warnings(WithSchedule(Yarn(), [](YarnSchedule& s) { s.mscale_all_dim = 1; })),
              ElementsAre("rope.yarn.mscale_all_dim"));
  RopeSpec replaced = Rope(Yarn());
  replaced.attention_factor = 1.25;
  EXPECT_THAT(warnings(replaced), ElementsAre("rope.attention_factor"));
  EXPECT_THAT(warnings(Rope(Llama3Schedule{8, 4, 1, 8192})), ElementsAre("rope.llama3.low_freq_factor"));
  for (const EncodingSpec& spec : ValidSpecs()) EXPECT_THAT(warnings(spec), IsEmpty());
}

TEST(SpecErrorTest, CarriesAnyBytes) {
  const std::string given("a\0b; allowed: 0000ffff", 22);
  const auto error = SpecErrorOf(MakeSpecError("rope.base", given, "…"));
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->field, "rope.base");
  EXPECT_EQ(error->given, given);
  EXPECT_EQ(error->allowed, "…");
  EXPECT_FALSE(SpecErrorOf(absl::InvalidArgumentError("plain")).has_value());
  EXPECT_FALSE(SpecErrorOf(absl::OkStatus()).has_value());
}

}  // namespace
}  // namespace phasor
