// What GGUF keys mean, where the golden files do not go.
#include "server/resolve/gguf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/server/resolve/gguf_testing.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelEncoding Read(const GgufMaker& maker) {
  auto model = maker.Read();
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : ModelEncoding();
}

LayerEncoding Only(const GgufMaker& maker) {
  const ModelEncoding model = Read(maker);
  EXPECT_EQ(model.layers.size(), 1u);
  return model.layers.empty() ? LayerEncoding() : model.layers.front();
}

// "field: given …" of the error.
std::string Refusal(const GgufMaker& maker) {
  const auto model = maker.Read();
  EXPECT_FALSE(model.ok());
  const auto error = SpecErrorOf(model.status());
  return error ? error->field + ": " + error->given : "no SpecError";
}

double AttentionFactor(const LayerEncoding& layer) {
  const auto resolved = Resolve(*layer.spec, 8192, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? resolved->attention_factor : 0;
}

GgufMaker Yarn(std::string_view architecture) {
  const std::string prefix = std::string(architecture) + ".rope.scaling.";
  GgufMaker maker = SmallGguf(architecture);
  maker.String(prefix + "type", "yarn").Float(prefix + "factor", 4).Uint(prefix + "original_context_length", 2048);
  return maker;
}

TEST(GgufModelTest, DefaultsAreThoseOfReaders) {
  const LayerEncoding layer = Only(SmallGguf("qwen2"));
  const RopeSpec rope = RopeOf(layer);
  EXPECT_EQ(rope.head_dim, 128);
  EXPECT_EQ(rope.rotary_dim, 128);
  EXPECT_EQ(rope.base, 10000);
  EXPECT_EQ(rope.pairing, Pairing::kHalfSplit);
  EXPECT_EQ(layer.num_kv_heads, 32);
  EXPECT_TRUE(HasNote(layer.defaults, "qwen2.rope.freq_base"));
  EXPECT_TRUE(HasNote(layer.warnings, "qwen2.rope.freq_base"));
}

TEST(GgufModelTest, PairingIsThatOfTheWeights) {
  EXPECT_EQ(RopeOf(Only(SmallGguf("llama"))).pairing, Pairing::kInterleaved);
  EXPECT_TRUE(HasNote(Only(SmallGguf("llama")).warnings, "llama.rope.dimension_count", "turned the rows"));
  EXPECT_EQ(RopeOf(Only(SmallGguf("command-r"))).pairing, Pairing::kInterleaved);
  EXPECT_FALSE(HasNote(Only(SmallGguf("command-r")).warnings, "command-r.rope.dimension_count"));
  EXPECT_EQ(RopeOf(Only(SmallGguf("gptneox"))).pairing, Pairing::kHalfSplit);
}

TEST(GgufModelTest, ScalingTypes) {
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(Only(SmallGguf("qwen2").Float("qwen2.rope.scaling.factor", 4)))).factor, 4);
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(Only(SmallGguf("qwen2").Float("qwen2.rope.scale_linear", 8)))).factor, 8);
  ScheduleOf<DefaultSchedule>(RopeOf(Only(SmallGguf("qwen2").Float("qwen2.rope.scaling.factor", 0))));
  const LayerEncoding none =
      Only(SmallGguf("qwen2").String("qwen2.rope.scaling.type", "none").Float("qwen2.rope.scaling.factor", 4));
  ScheduleOf<DefaultSchedule>(RopeOf(none));
  EXPECT_TRUE(HasNote(none.warnings, "qwen2.rope.scaling.factor", "not applied"));
  EXPECT_THAT(Refusal(SmallGguf("qwen2").String("qwen2.rope.scaling.type", "dynamic")),
              HasSubstr("qwen2.rope.scaling.type: \"dynamic\""));
}

TEST(GgufModelTest, YarnTakesTheFilesBetasAndSaysWhoDoesNot) {
  const LayerEncoding plain = Only(Yarn("qwen2"));
  const YarnSchedule yarn = ScheduleOf<YarnSchedule>(RopeOf(plain));
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_max_position, 2048);
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_NEAR(AttentionFactor(plain), 0.1 * std::log(4) + 1, 1e-15);
  const LayerEncoding given = Only(Yarn("qwen2").Float("qwen2.rope.scaling.yarn_beta_fast", 64));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(given)).beta_fast, 64);
  EXPECT_TRUE(HasNote(given.warnings, "qwen2.rope.scaling.yarn_beta_fast", "llama.cpp"));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(Only(Yarn("grok")))).beta_fast, 8);
}

TEST(GgufModelTest, AttentionFactorsMultiply) {
  const LayerEncoding linear =
      Only(SmallGguf("qwen2").Float("qwen2.rope.scaling.factor", 4).Float("qwen2.rope.scaling.attn_factor", 1.5));
  EXPECT_EQ(AttentionFactor(linear), 1.5);
  const LayerEncoding yarn = Only(Yarn("qwen2").Float("qwen2.rope.scaling.attn_factor", 1.5));
  EXPECT_NEAR(AttentionFactor(yarn), 1.5 * (0.1 * std::log(4) + 1), 1e-15);
  const LayerEncoding unclear = Only(Yarn("qwen2").Float("qwen2.rope.scaling.yarn_attn_factor", 0.5));
  EXPECT_NEAR(AttentionFactor(unclear), 0.1 * std::log(4) + 1, 1e-15);
  EXPECT_TRUE(HasNote(unclear.warnings, "qwen2.rope.scaling.yarn_attn_factor", "not applied"));
}

// g(1)/g(m), and no word about the softmax scale, where the architecture has no MLA.
TEST(GgufModelTest, LogMultiplierOutsideMlaIsARatio) {
  const LayerEncoding same = Only(Yarn("mistral3").Float("mistral3.rope.scaling.yarn_log_multiplier", 1));
  EXPECT_EQ(AttentionFactor(same), 1);
  EXPECT_EQ(same.softmax_scale, std::nullopt);
  const LayerEncoding half = Only(Yarn("mistral3").Float("mistral3.rope.scaling.yarn_log_multiplier", 0.5));
  EXPECT_NEAR(AttentionFactor(half), (0.1 * std::log(4) + 1) / (0.05 * std::log(4) + 1), 1e-15);
}

TEST(GgufModelTest, LogMultiplierOfMlaReachesTheSoftmaxScale) {
  GgufMaker maker = Yarn("deepseek2");
  maker.Uint("deepseek2.attention.key_length", 576).Uint("deepseek2.attention.key_length_mla", 192);
  maker.Uint("deepseek2.rope.dimension_count", 64).Float("deepseek2.rope.scaling.yarn_log_multiplier", 0.1F);
  const LayerEncoding layer = Only(maker);
  const double g = 0.1 * std::log(4) + 1;
  EXPECT_EQ(RopeOf(layer).head_dim, 192);
  EXPECT_EQ(RopeOf(layer).rotary_dim, 64);
  EXPECT_NEAR(AttentionFactor(layer), 1, 1e-15);
  EXPECT_NEAR(*layer.softmax_scale, g * g / std::sqrt(192), 1e-8);
}

TEST(GgufModelTest, SlidingLayersHaveTheirOwnBase) {
  const GgufMaker maker =
      SmallGguf("gemma3").Float("gemma3.rope.freq_base", 1e6).Uint("gemma3.attention.sliding_window", 512);
  const ModelEncoding model = Read(maker);
  EXPECT_EQ(RopeOf(LayerOf(model, "full_attention")).base, 1e6);
  EXPECT_EQ(RopeOf(LayerOf(model, "sliding_attention")).base, 10000);
  EXPECT_THAT(LayerOf(model, "full_attention").layers, ElementsAre(5, 11, 17, 23, 29));
  GgufMaker listed = SmallGguf("gemma3").Uint("gemma3.attention.sliding_window", 512);
  std::vector<uint8_t> slides(32, 1);
  slides[3] = 0;
  listed.List("gemma3.attention.sliding_window_pattern", GgufType::kBool, slides).Float("gemma3.rope.freq_base_swa", 5000);
  EXPECT_THAT(LayerOf(Read(listed), "full_attention").layers, ElementsAre(3));
  EXPECT_EQ(RopeOf(LayerOf(Read(listed), "sliding_attention")).base, 5000);
  EXPECT_EQ(Read(SmallGguf("gemma3")).layers.size(), 1u);  // no window: one schedule
}

TEST(GgufModelTest, SomeLayersDoNotRotate) {
  const ModelEncoding cohere = Read(SmallGguf("cohere2").Uint("cohere2.attention.sliding_window", 4096));
  EXPECT_EQ(LayerOf(cohere, "full_attention").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(cohere, "sliding_attention").kind, PositionKind::kRope);
  const ModelEncoding llama4 = Read(SmallGguf("llama4"));
  EXPECT_THAT(LayerOf(llama4, "nope_layers").layers, ElementsAre(3, 7, 11, 15, 19, 23, 27, 31));
  EXPECT_EQ(LayerOf(llama4, "nope_layers").query_scale, "1 + 0.1*ln(1 + floor((position+1)/8192))");
  EXPECT_EQ(Only(SmallGguf("granite").Bool("granite.rope.scaling.finetuned", false)).kind, PositionKind::kNone);
  EXPECT_EQ(Only(SmallGguf("granite")).kind, PositionKind::kRope);
}

TEST(GgufModelTest, LayersWithoutAttentionAreLeftOut) {
  GgufMaker lfm2 = SmallGguf("lfm2");
  std::vector<uint32_t> heads(32, 0);
  heads[2] = heads[5] = 8;
  lfm2.List("lfm2.attention.head_count_kv", GgufType::kUint32, heads);
  const LayerEncoding layer = Only(lfm2);
  EXPECT_THAT(layer.layers, ElementsAre(2, 5));
  EXPECT_EQ(layer.num_kv_heads, 8);
  EXPECT_EQ(Only(SmallGguf("qwen3next").Uint("qwen3next.full_attention_interval", 16)).layers,
            (std::vector<int64_t>{15, 31}));
}

TEST(GgufModelTest, HeadsThatDifferAreNotOneNumber) {
  GgufMaker maker;
  maker.String("general.architecture", "openelm").Uint("openelm.block_count", 2).Uint("openelm.attention.key_length", 64);
  maker.List<uint32_t>("openelm.attention.head_count", GgufType::kUint32, {12, 16});
  const LayerEncoding layer = Only(maker);
  EXPECT_EQ(layer.num_q_heads, 0);
  EXPECT_TRUE(HasNote(layer.warnings, "openelm.attention.head_count", "differs"));
}

TEST(GgufModelTest, SectionsAreAxes) {
  GgufMaker maker = SmallGguf("glm4");
  maker.List<int32_t>("glm4.rope.dimension_sections", GgufType::kInt32, {16, 24, 24, 0});
  const RopeSpec rope = RopeOf(Only(maker));
  EXPECT_EQ(rope.axes, (RopeAxes{{16, 24, 24}, AxisLayout::kChunked}));
  EXPECT_EQ(rope.pairing, Pairing::kHalfSplit);
  EXPECT_EQ(RopeOf(Only(SmallGguf("glm4"))).pairing, Pairing::kInterleaved);
  GgufMaker one = SmallGguf("hunyuan_vl").Float("hunyuan_vl.rope.scaling.alpha", 1000);
  one.List<int32_t>("hunyuan_vl.rope.dimension_sections", GgufType::kInt32, {64, 0, 0, 0});
  EXPECT_EQ(RopeOf(Only(one)).axes, std::nullopt);
  EXPECT_EQ(ScheduleOf<NtkAwareSchedule>(RopeOf(Only(one))).factor, 1000);
  GgufMaker wrong = SmallGguf("qwen2vl");
  wrong.List<int32_t>("qwen2vl.rope.dimension_sections", GgufType::kInt32, {16, 24, 25, 0});
  EXPECT_THAT(Refusal(wrong), HasSubstr("qwen2vl.rope.dimension_sections"));
}

TEST(GgufModelTest, Alibi) {
  const LayerEncoding bloom = Only(SmallGguf("bloom"));
  ASSERT_EQ(bloom.kind, PositionKind::kAlibi);
  EXPECT_EQ(std::get<AlibiSpec>(bloom.spec->spec).max_bias, 8);
  EXPECT_EQ(std::get<AlibiSpec>(bloom.spec->spec).form, AlibiForm::kCausal);
  EXPECT_EQ(std::get<AlibiSpec>(Only(SmallGguf("jina-bert-v2")).spec->spec).form, AlibiForm::kSymmetric);
  EXPECT_EQ(std::get<AlibiSpec>(Only(SmallGguf("mpt").Float("mpt.attention.max_alibi_bias", 4)).spec->spec).max_bias, 4);
  EXPECT_EQ(Only(SmallGguf("mpt").Float("mpt.attention.max_alibi_bias", 0)).kind, PositionKind::kLearned);
  GgufMaker baichuan;
  baichuan.String("general.architecture", "baichuan").Uint("baichuan.block_count", 40);
  EXPECT_EQ(Only(baichuan.Uint("baichuan.attention.head_count", 40)).kind, PositionKind::kAlibi);
  EXPECT_EQ(Only(SmallGguf("baichuan")).kind, PositionKind::kRope);
}

TEST(GgufModelTest, FactorsOfStillPairsAreProportional) {
  std::vector<float> factors(64, 1e30F);
  std::fill(factors.begin(), factors.begin() + 16, 1.0F);
  const RopeSpec rope = RopeOf(Only(SmallGguf("qwen2").Tensor("rope_freqs.weight", factors)));
  EXPECT_EQ(ScheduleOf<ProportionalSchedule>(rope).partial_rotary_factor, 0.25);
  ScheduleOf<DefaultSchedule>(RopeOf(Only(SmallGguf("qwen2").Tensor("rope_freqs.weight", std::vector<float>(64, 1)))));
}

// θ/(factor·scale), as ggml applies both.
TEST(GgufModelTest, FactorsDivideFrequencies) {
  std::vector<float> factors(64, 1);
  factors[1] = 8;
  GgufMaker maker = SmallGguf("qwen2").Tensor("rope_freqs.weight", factors).Float("qwen2.rope.scaling.factor", 2);
  const LayerEncoding layer = Only(maker);
  ScheduleOf<FreqFactorsSchedule>(RopeOf(layer));
  const auto inv_freq = std::get<AnglePlan>(Resolve(*layer.spec, std::nullopt, Precision::kExact)->plan).inv_freq;
  EXPECT_EQ(inv_freq[0], 0.5);
  EXPECT_NEAR(inv_freq[1], std::pow(10000, -1.0 / 64) / 16, 1e-16);
}

TEST(GgufModelTest, ExtrapolationFactorMixesTheRamp) {
  const auto frequencies = [](float mix) {
    const LayerEncoding layer = Only(Yarn("grok").Float("grok.rope.scaling.yarn_ext_factor", mix));
    return std::get<AnglePlan>(Resolve(*layer.spec, std::nullopt, Precision::kExact)->plan).inv_freq;
  };
  const auto whole = frequencies(1), half = frequencies(0.5), none = frequencies(0);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(half[i], (whole[i] + none[i]) / 2, 1e-15) << i;
  EXPECT_EQ(none[0], 0.25);
  EXPECT_EQ(AttentionFactor(Only(Yarn("grok").Float("grok.rope.scaling.yarn_ext_factor", 0))), 1);
}

TEST(GgufModelTest, FactorListsSwitchByLength) {
  GgufMaker maker = SmallGguf("phi3").Uint("phi3.rope.scaling.original_context_length", 4096);
  maker.Tensor("rope_factors_short.weight", std::vector<float>(64, 2))
      .Tensor("rope_factors_long.weight", std::vector<float>(64, 4));
  const LayerEncoding layer = Only(maker);
  EXPECT_EQ(AttentionFactor(layer), 1);
  EXPECT_EQ(ScheduleOf<LongRopeSchedule>(RopeOf(layer)).original_max_position, 4096);
  EXPECT_EQ(std::get<AnglePlan>(Resolve(*layer.spec, 4096, Precision::kExact)->plan).inv_freq[0], 0.5);
  EXPECT_EQ(std::get<AnglePlan>(Resolve(*layer.spec, 4097, Precision::kExact)->plan).inv_freq[0], 0.25);
}

TEST(GgufModelTest, TensorsAreHeldAgainstTheirInfos) {
  GgufMaker maker = SmallGguf("phi3");
  EXPECT_EQ(Refusal(SmallGguf("qwen2").Tensor("rope_freqs.weight", std::vector<float>(63, 1))),
            "rope_freqs.weight: 63 values");
  std::vector<float> values(64, 1);
  for (const float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    values[5] = bad;
    EXPECT_THAT(Refusal(SmallGguf("qwen2").Tensor("rope_freqs.weight", values)), HasSubstr("rope_freqs.weight[5]"));
  }
  const std::string head = SmallGguf("qwen2").Tensor("blk.3.rope_freqs.weight", values).Head();
  const auto absent = ReadGguf(head, {});
  EXPECT_EQ(SpecErrorOf(absent.status())->field, "blk.3.rope_freqs.weight");
  const GgufTensor two[] = {{"blk.3.rope_freqs.weight", {1, 1}}};
  EXPECT_EQ(SpecErrorOf(ReadGguf(head, two).status())->given, "2 values");
  EXPECT_EQ(Refusal(SmallGguf("phi3").Tensor("rope_factors_long.weight", std::vector<float>(64, 1))),
            "rope_factors_short.weight: 0 values");
}

TEST(GgufModelTest, DataMustBelongToTensorsOfTheHead) {
  const std::vector<float> ones(64, 1);
  const auto refusal = [](const std::string& head, const std::vector<GgufTensor>& tensors) {
    const auto error = SpecErrorOf(ReadGguf(head, tensors).status());
    return error ? error->field + ": " + error->given : "no SpecError";
  };
  const std::string plain = SmallGguf("llama").Uint("llama.rope.dimension_count", 128).Head();
  EXPECT_EQ(refusal(plain, {{"rope_freqs.weight", ones}}),
            "rope_freqs.weight: data of a tensor that the header does not list");
  const std::string listed = SmallGguf("llama").Tensor("rope_freqs.weight", ones).Head();
  EXPECT_EQ(refusal(listed, {{"rope_freqs.weight", ones}, {"rope_freqs.weight", ones}}),
            "rope_freqs.weight: the same tensor twice");
  EXPECT_TRUE(ReadGguf(listed, std::vector<GgufTensor>{{"rope_freqs.weight", ones}}).ok());
  // Listed, but of no use: said, not refused.
  const std::string other = SmallGguf("llama").Tensor("blk.0.attn_q.weight", ones).Head();
  const auto model = ReadGguf(other, std::vector<GgufTensor>{{"blk.0.attn_q.weight", ones}});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(HasNote(model->warnings, "blk.0.attn_q.weight", "not read"));
}

TEST(GgufModelTest, Contradictions) {
  const LayerEncoding both =
      Only(SmallGguf("llama").Float("llama.rope.scale_linear", 4).Float("llama.rope.scaling.factor", 2));
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(both)).factor, 2);
  EXPECT_TRUE(HasNote(both.warnings, "llama.rope.scale_linear", "4 is not read"));
  const LayerEncoding same =
      Only(SmallGguf("llama").Float("llama.rope.scale_linear", 2).Float("llama.rope.scaling.factor", 2));
  EXPECT_FALSE(HasNote(same.warnings, "llama.rope.scale_linear"));
  EXPECT_TRUE(HasNote(Only(SmallGguf("llama").Uint("llama.attention.head_count_kv", 7)).warnings,
                      "llama.attention.head_count_kv", "does not divide"));
}

TEST(GgufModelTest, HeadsThatSayNoWidthAreBlamed) {
  GgufMaker none;
  none.String("general.architecture", "llama").Uint("llama.embedding_length", 4096).Uint("llama.block_count", 4);
  GgufMaker zero = none;
  EXPECT_EQ(Refusal(zero.Uint("llama.attention.head_count", 0)), "llama.attention.head_count: 0");
  GgufMaker list = none;
  EXPECT_EQ(Refusal(list.List<uint32_t>("llama.attention.head_count", GgufType::kUint32, {32, 32, 32, 16})),
            "llama.attention.head_count: numbers that differ, or 0, in these layers");
  EXPECT_EQ(RopeOf(Only(list.Uint("llama.attention.key_length", 64))).head_dim, 64);
  EXPECT_EQ(Refusal(none), "llama.attention.key_length: nothing");
}

TEST(GgufModelTest, RefusesWrongTypesAndRanges) {
  EXPECT_EQ(Refusal(GgufMaker()), "general.architecture: nothing");
  EXPECT_EQ(Refusal(GgufMaker().Uint("general.architecture", 1)), "general.architecture: a value of type uint32");
  EXPECT_EQ(Refusal(SmallGguf("llama").String("llama.rope.freq_base", "1")), "llama.rope.freq_base: a value of type string");
  EXPECT_EQ(Refusal(SmallGguf("llama").Float("llama.rope.freq_base", -1)), "llama.rope.freq_base: -1");
  EXPECT_EQ(Refusal(SmallGguf("llama").Float("llama.rope.freq_base", std::numeric_limits<float>::infinity())),
            "llama.rope.freq_base: Infinity");
  EXPECT_EQ(Refusal(SmallGguf("llama").Uint("llama.rope.dimension_count", 130)), "llama.rope.dimension_count: 130");
  EXPECT_EQ(Refusal(SmallGguf("llama").Uint("llama.rope.dimension_count", UINT32_MAX)),
            "llama.rope.dimension_count: 4294967295");
  EXPECT_EQ(Refusal(SmallGguf("llama").Float("llama.rope.dimension_count", 64)),
            "llama.rope.dimension_count: a value of type float32");
  EXPECT_EQ(Refusal(Yarn("qwen2").Float("qwen2.rope.scaling.yarn_beta_slow", -1)), "qwen2.rope.scaling.yarn_beta_slow: -1");
  EXPECT_EQ(Refusal(SmallGguf("qwen2vl")), "qwen2vl.rope.dimension_sections: nothing");
  EXPECT_EQ(Refusal(SmallGguf("gemma4")), "gemma4.attention.sliding_window_pattern: nothing");
  EXPECT_EQ(Refusal(GgufMaker().String("general.architecture", "llama")), "llama.attention.key_length: nothing");
  GgufMaker short_list = SmallGguf("gemma4");
  EXPECT_EQ(Refusal(short_list.List<uint8_t>("gemma4.attention.sliding_window_pattern", GgufType::kBool, {1})),
            "gemma4.attention.sliding_window_pattern: 1 entries");
  GgufMaker deep;
  deep.String("general.architecture", "llama4").Uint("llama4.block_count", 1u << 30);
  EXPECT_EQ(Refusal(deep), "llama4.block_count: 1073741824");
}

TEST(GgufModelTest, UnknownArchitecturesAreReadByTheirKeys) {
  const ModelEncoding rope = Read(SmallGguf("llama9").Float("llama9.rope.freq_base", 5e5));
  EXPECT_TRUE(HasNote(rope.warnings, "general.architecture", "unknown"));
  EXPECT_EQ(RopeOf(rope.layers.front()).base, 5e5);
  EXPECT_TRUE(HasNote(rope.layers.front().warnings, "llama9.rope.dimension_count", "assumed"));
  EXPECT_EQ(Only(SmallGguf("x")).unserved, "unknown");  // sizes say nothing
  EXPECT_TRUE(HasNote(Only(SmallGguf("x")).warnings, "general.architecture", "no key says"));
  EXPECT_EQ(Only(SmallGguf("x").Float("x.attention.max_alibi_bias", 8)).kind, PositionKind::kAlibi);
  EXPECT_EQ(Read(SmallGguf("x").Uint("x.attention.relative_buckets_count", 32)).layers.front().kind, PositionKind::kBias);
}

TEST(GgufModelTest, WarnsOfKeysThatOtherArchitecturesHave) {
  GgufMaker maker = SmallGguf("llama");
  maker.Float("llama.attention.max_alibi_bias", 8).Float("llama.rope.freq_base_swa", 5000);
  maker.List<uint8_t>("llama.attention.sliding_window_pattern", GgufType::kBool, {1, 0});
  maker.List<int32_t>("llama.rope.dimension_sections", GgufType::kInt32, {16, 24, 24, 0});
  const ModelEncoding model = Read(maker);
  EXPECT_EQ(model.layers.front().kind, PositionKind::kRope);
  for (const char* key :
       {"attention.max_alibi_bias", "rope.freq_base_swa", "attention.sliding_window_pattern", "rope.dimension_sections"}) {
    EXPECT_TRUE(HasNote(model.warnings, std::string("llama.") + key, "not read")) << key;
  }
  EXPECT_FALSE(HasNote(Read(SmallGguf("llama").Float("llama.attention.max_alibi_bias", 0)).warnings,
                       "llama.attention.max_alibi_bias"));
  GgufMaker large = SmallGguf("qwen2");
  large.Add("qwen2.attention.key_length", GgufType::kUint64, std::string(8, '\xff'));
  EXPECT_EQ(Refusal(large), "qwen2.attention.key_length: 18446744073709551615");
}

TEST(GgufModelTest, WarnsOfWhatItDoesNotRead) {
  const ModelEncoding model = Read(SmallGguf("llama").Float("llama.rope.freq_bse", 5e5));
  EXPECT_TRUE(HasNote(model.warnings, "llama.rope.freq_bse", "not read"));
  GgufMaker part = SmallGguf("llama");
  part.Add("split.count", GgufType::kUint16, std::string("\3\0", 2));
  EXPECT_TRUE(HasNote(Read(part).warnings, "split.count"));
  EXPECT_TRUE(HasNote(Read(SmallGguf("gptj")).warnings, "general.architecture", "llama.cpp"));
}

}  // namespace
}  // namespace phasor::server
