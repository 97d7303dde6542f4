// One schedule at a time: the forms of the rope dict, aliases of keys, defaults of classes, and what must be said aloud.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

TEST(RopeDict, MissingBaseIsAWarningAndADefault) {
  const LayerEncoding layer = LayerOf(Read(Llama("")));
  EXPECT_EQ(*RopeOf(layer).base, 10000);
  EXPECT_TRUE(HasNote(layer.defaults, "rope_theta", "10000 (default of class llama)"));
  EXPECT_TRUE(HasNote(layer.warnings, "rope_theta", "not given"));
}

TEST(RopeDict, V5FormIsRead) {
  const LayerEncoding layer = LayerOf(Read(Llama(R"("rope_parameters":{"rope_type":"default","rope_theta":500000})")));
  EXPECT_EQ(*RopeOf(layer).base, 500000);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_parameters.rope_theta", "10000"));
}

TEST(RopeDict, DictWinsOverTopLevelWithAWarning) {
  const LayerEncoding layer =
      LayerOf(Read(Llama(R"("rope_theta":10000,"rope_parameters":{"rope_type":"default","rope_theta":500000})")));
  EXPECT_EQ(*RopeOf(layer).base, 500000);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_parameters.rope_theta", "rope_theta"));
  const LayerEncoding same =
      LayerOf(Read(Llama(R"("rope_theta":500000,"rope_parameters":{"rope_type":"default","rope_theta":500000})")));
  EXPECT_TRUE(same.warnings.empty());
}

TEST(RopeDict, BothDictsAreNamed) {
  const ModelEncoding model =
      Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_theta":5})"));
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(LayerOf(model))).factor, 2);
  EXPECT_TRUE(HasNote(model.warnings, "rope_parameters"));
}

TEST(RopeDict, NullAndEmptyMeanNone) {
  for (const char* dict : {"null", "{}"}) {
    const std::string extra = std::string(R"("rope_theta":10000,"rope_scaling":)") + dict;
    const LayerEncoding layer = LayerOf(Read(Llama(extra)));
    ScheduleOf<DefaultSchedule>(RopeOf(layer));
    EXPECT_TRUE(layer.warnings.empty());
  }
}

TEST(RopeDict, RopeTypeWinsOverType) {
  const LayerEncoding layer =
      LayerOf(Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"type":"linear","rope_type":"dynamic","factor":2})")));
  EXPECT_EQ(ScheduleOf<DynamicNtkSchedule>(RopeOf(layer)).max_position, 8192);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.rope_type"));
}

TEST(RopeDict, FactorWithoutATypeIsNotApplied) {
  const LayerEncoding layer = LayerOf(Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"factor":8})")));
  ScheduleOf<DefaultSchedule>(RopeOf(layer));
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.factor", "not read"));
}

TEST(RopeDict, KeysThatNobodyReadsAreNamed) {
  const LayerEncoding misspelt = LayerOf(
      Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"type":"linear","factor":2,"facter":3,"beta_fast":32,"alpha":null})")));
  EXPECT_TRUE(HasNote(misspelt.warnings, "rope_scaling.facter", "no such key is known"));
  EXPECT_TRUE(HasNote(misspelt.warnings, "rope_scaling.facter", "factor, rope_type, type"));
  EXPECT_TRUE(HasNote(misspelt.warnings, "rope_scaling.beta_fast", "the rope type is linear"));
  EXPECT_EQ(misspelt.warnings.size(), 2u);
  // Every key of a type is known with it.
  const LayerEncoding all = LayerOf(Read(Llama(
      R"("rope_theta":1e4,"rope_scaling":{"rope_type":"llama3","type":"llama3","factor":8,"low_freq_factor":1,
          "high_freq_factor":4,"original_max_position_embeddings":4096})")));
  EXPECT_TRUE(all.warnings.empty());
  // Nested dicts, and what stands beside them.
  const ModelEncoding nested = Read(
      R"({"model_type":"gemma3_text","layer_types":["full_attention","sliding_attention"],"num_hidden_layers":2,
          "rope_parameters":{"full_attention":{"rope_type":"linear","factor":8,"rope_theta":1e6,"fast":1},
                             "sliding_attention":{"rope_type":"default","rope_theta":1e4},"factor":4}})");
  EXPECT_TRUE(HasNote(LayerOf(nested, "full_attention").warnings, "rope_parameters.full_attention.fast", "no such key"));
  EXPECT_FALSE(HasNote(LayerOf(nested, "sliding_attention").warnings, "rope_parameters.sliding_attention.fast"));
  EXPECT_TRUE(HasNote(nested.warnings, "rope_parameters", "\"factor\" is not read"));
}

TEST(RopeDict, UnreadKeysAreBounded) {
  std::string keys, long_key(5000, 'k');
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&keys, ",\"x", i, "\":1");
  const LayerEncoding layer = LayerOf(Read(
      Llama(absl::StrCat(R"("rope_theta":1e4,"rope_scaling":{"type":"linear","factor":2,")", long_key, "\":1", keys, "}"))));
  EXPECT_EQ(layer.warnings.size(), 17u);
  for (const Note& note : layer.warnings) EXPECT_LT(note.field.size(), 100u);
  EXPECT_NE(layer.warnings.back().message.find("984 keys more"), std::string::npos) << layer.warnings.back().message;
}

TEST(Yarn, ExplicitFactorCountsAndTheRatioIsNamed) {
  const LayerEncoding layer = LayerOf(
      Read(Llama(R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":8192})")));
  const auto yarn = ScheduleOf<YarnSchedule>(RopeOf(layer));
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.original_max_position, 8192);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.factor", "= 1"));
}

TEST(Yarn, AsTelechat3HasIt) {
  const LayerEncoding layer = LayerOf(Read(Llama(
      R"("rope_theta":1e6,"rope_scaling":{"type":"telechat3-yarn","factor":4,"original_max_position_embeddings":8192})")));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(layer)).attention_coefficient, 0.07);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.type", "0.07"));
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_NEAR(resolved->attention_factor, 0.07 * std::log(4.0) + 1, 1e-15);
}

TEST(Yarn, FactorNullIsTheRatio) {
  const LayerEncoding layer = LayerOf(Read(
      Llama(R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":null,"original_max_position_embeddings":2048})")));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(layer)).factor, 4);
  EXPECT_TRUE(HasNote(layer.defaults, "rope_scaling.factor", "4"));
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.factor"));
}

TEST(Yarn, OriginalLengthFallsBackToTheMaximum) {
  const LayerEncoding layer = LayerOf(Read(Llama(R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4})")));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(layer)).original_max_position, 8192);
  EXPECT_TRUE(HasNote(layer.defaults, "rope_scaling.original_max_position_embeddings", "8192"));
}

TEST(Yarn, AttentionFactorReplacesAndAttnFactorIsNotRead) {
  const LayerEncoding layer = LayerOf(Read(Llama(
      R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4,"attention_factor":1.25,"attn_factor":0.8782488})")));
  EXPECT_EQ(*RopeOf(layer).attention_factor, 1.25);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.attn_factor", "vLLM multiplies"));
}

TEST(Yarn, TruncateIsReadWhereItStands) {
  const ModelEncoding model = Read(Llama(
      R"("layer_types":["full_attention","sliding_attention","full_attention","sliding_attention"],"rope_parameters":{
         "full_attention":{"rope_type":"yarn","factor":32,"truncate":false,"rope_theta":150000,
                           "original_max_position_embeddings":4096},
         "sliding_attention":{"rope_type":"default","rope_theta":150000}})"));
  const LayerEncoding full = LayerOf(model, "full_attention");
  EXPECT_FALSE(*ScheduleOf<YarnSchedule>(RopeOf(full)).truncate);
  EXPECT_TRUE(HasNote(full.warnings, "rope_parameters.full_attention.truncate"));
  EXPECT_EQ(full.layers, (std::vector<int64_t>{0, 2}));
}

TEST(Yarn, EqualMscalesOutsideDeepSeekLeaveTheSoftmaxAlone) {
  const LayerEncoding layer =
      LayerOf(Read(Llama(R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4,"mscale":1,"mscale_all_dim":1})")));
  EXPECT_EQ(*RopeOf(layer).attention_factor, 1);
  EXPECT_EQ(layer.softmax_scale, std::nullopt);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->softmax_scale_multiplier, std::nullopt);
}

TEST(Yarn, DeepSeekWithMscaleAbsent) {
  const LayerEncoding layer = LayerOf(Read(
      R"({"model_type":"deepseek_v3","num_attention_heads":128,"hidden_size":7168,"max_position_embeddings":163840,
          "qk_nope_head_dim":128,"qk_rope_head_dim":64,"head_dim":64,"rope_theta":10000,
          "rope_scaling":{"type":"yarn","factor":40,"mscale_all_dim":1,"original_max_position_embeddings":4096}})"));
  const RopeSpec spec = RopeOf(layer);
  EXPECT_EQ(spec.head_dim, 192);
  EXPECT_EQ(*spec.rotary_dim, 64);
  EXPECT_EQ(*spec.pairing, Pairing::kInterleavedToHalf);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  EXPECT_NEAR(resolved->attention_factor, 1.3688879, 1e-7);
  EXPECT_NEAR(*resolved->softmax_scale_multiplier, 1.8738542, 1e-7);
  EXPECT_NEAR(*layer.softmax_scale, 1.8738542 / 13.856406460551018, 1e-8);
}

TEST(Mla, RopeInterleaveDecidesThePairingAndNoFactorAppliesTwice) {
  const char* config =
      R"({"model_type":"deepseek_v3","rope_theta":1e4,"rope_interleave":false,"partial_rotary_factor":0.5})";
  const RopeSpec spec = RopeOf(LayerOf(Read(config)));
  EXPECT_EQ(*spec.pairing, Pairing::kHalfSplit);
  EXPECT_EQ(*spec.rotary_dim, 64);
}

TEST(Mla, ClassesThatDoNotReadRopeInterleaveSaySo) {
  const ModelEncoding model = Read(R"({"model_type":"deepseek_v32","rope_theta":1e4,"rope_interleave":false})");
  EXPECT_EQ(*RopeOf(LayerOf(model)).pairing, Pairing::kInterleavedToHalf);
  EXPECT_TRUE(HasNote(model.warnings, "rope_interleave", "does not read it"));
  EXPECT_EQ(*RopeOf(LayerOf(Read(R"({"model_type":"deepseek_v2","rope_theta":1e4})"))).pairing, Pairing::kInterleaved);
  // A class that nobody knows, with the key: as the classes that have it.
  const char* unknown = R"({"model_type":"zork","rope_theta":1e4,"qk_nope_head_dim":64,"qk_rope_head_dim":32,)"
                        R"("hidden_size":512,"num_attention_heads":8,"rope_interleave":true})";
  EXPECT_EQ(*RopeOf(LayerOf(Read(unknown))).pairing, Pairing::kInterleavedToHalf);
}

TEST(Llama3, EqualFrequencyFactorsResolve) {
  const LayerEncoding layer = LayerOf(Read(Llama(
      R"("rope_theta":5e5,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4,
         "original_max_position_embeddings":8192})")));
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  for (const double inv : std::get<AnglePlan>(resolved->plan).inv_freq) EXPECT_TRUE(std::isfinite(inv));
}

std::string LongRope(absl::string_view keys, absl::string_view top = "") {
  return absl::StrCat(R"({"model_type":"phi3","hidden_size":64,"num_attention_heads":8,"num_hidden_layers":2,)"
                      R"("rope_theta":10000,"max_position_embeddings":131072,)",
                      top, R"("rope_scaling":{"short_factor":[1,1,1,1],"long_factor":[2,2,2,2])", keys, "}}");
}

TEST(LongRope, SuIsAnAlias) {
  const LayerEncoding layer = LayerOf(Read(LongRope(R"(,"type":"su")", R"("original_max_position_embeddings":4096,)")));
  EXPECT_EQ(ScheduleOf<LongRopeSchedule>(RopeOf(layer)).original_max_position, 4096);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.type", "longrope"));
}

TEST(LongRope, OriginalLengthAtTheTopInTheDictOrOfTheClass) {
  const auto original = [](const std::string& config) {
    return ScheduleOf<LongRopeSchedule>(RopeOf(LayerOf(Read(config)))).original_max_position;
  };
  EXPECT_EQ(original(LongRope(R"(,"type":"longrope","original_max_position_embeddings":2048)")), 2048);
  EXPECT_EQ(original(LongRope(R"(,"type":"longrope","original_max_position_embeddings":2048)",
                              R"("original_max_position_embeddings":1024,)")),
            1024);
  EXPECT_EQ(original(LongRope(R"(,"type":"longrope")")), 4096);
}

TEST(LongRope, GivenMscalesAreKept) {
  const LayerEncoding layer = LayerOf(Read(LongRope(R"(,"type":"longrope","short_mscale":1.25,"long_mscale":1.5)")));
  const auto schedule = ScheduleOf<LongRopeSchedule>(RopeOf(layer));
  EXPECT_EQ(*schedule.short_mscale, 1.25);
  EXPECT_EQ(*schedule.long_mscale, 1.5);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.short_mscale"));
}

TEST(Dynamic, AlphaIsAFixedBase) {
  const LayerEncoding layer = LayerOf(Read(
      R"({"model_type":"hunyuan_v1_dense","head_dim":128,"rope_theta":10000,"max_position_embeddings":32768,
          "rope_scaling":{"type":"dynamic","alpha":1000,"factor":1}})"));
  EXPECT_EQ(ScheduleOf<NtkAwareSchedule>(RopeOf(layer)).factor, 1000);
}

TEST(Types, KnownButUnservedAreNotRead) {
  for (const auto& [type, kind] : {std::pair("xdrope", "xdrope"), {"mrope", "mrope"}}) {
    const LayerEncoding layer =
        LayerOf(Read(Llama(std::string(R"("rope_theta":1e4,"rope_scaling":{"factor":2,"type":")") + type + "\"}")));
    EXPECT_EQ(layer.kind, PositionKind::kUnserved);
    EXPECT_EQ(layer.unserved, kind);
    EXPECT_FALSE(layer.spec.has_value());
  }
}

TEST(Types, SectionsAloneMakeItMultiAxis) {
  const LayerEncoding layer = LayerOf(
      Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"rope_type":"default","type":"default","mrope_section":[16,24,24]})")));
  ASSERT_TRUE(RopeOf(layer).axes.has_value());
  EXPECT_EQ(RopeOf(layer).axes->sections, (std::vector<int64_t>{16, 24, 24}));
  EXPECT_EQ(*RopeOf(layer).axes->layout, AxisLayout::kChunked);
}

TEST(Types, SectionsThatDoNotFitNameTheirKey) {
  EXPECT_EQ(ErrorField(Llama(R"("rope_theta":1e4,"rope_scaling":{"type":"mrope","mrope_section":[16,24,25]})")),
            "rope_scaling.mrope_section");
}

TEST(Partial, WidthIsTruncatedAsTheLibrariesDo) {
  // 0.334 of 192 is 64.128; 0.9 of 36 is 32.4 in IEEE double.
  EXPECT_EQ(*RopeOf(LayerOf(Read(Llama(R"("rope_theta":1e4,"head_dim":192,"partial_rotary_factor":0.334)")))).rotary_dim,
            64);
  EXPECT_EQ(*RopeOf(LayerOf(Read(Llama(R"("rope_theta":1e4,"head_dim":36,"partial_rotary_factor":0.9)")))).rotary_dim, 32);
}

TEST(Partial, LlamaWithAFactorSaysWhich) {
  const LayerEncoding layer = LayerOf(Read(Llama(R"("rope_theta":1e4,"partial_rotary_factor":0.5)")));
  EXPECT_EQ(*RopeOf(layer).rotary_dim, 64);
  EXPECT_TRUE(HasNote(layer.warnings, "partial_rotary_factor", "32 pairs rotate"));
}

TEST(Partial, RotaryDimWinsOverAFactorThatDiffers) {
  const LayerEncoding layer = LayerOf(
      Read(R"({"model_type":"minimax_m2","head_dim":128,"rotary_dim":64,"partial_rotary_factor":0.25,"rope_theta":5e6})"));
  EXPECT_EQ(*RopeOf(layer).rotary_dim, 64);
  EXPECT_TRUE(HasNote(layer.warnings, "rotary_dim"));
}

struct ClassDefault {
  const char* config;
  double base;
  int64_t head_dim, rotary_dim;
  Pairing pairing;
};

// Defaults that live in class code only.
TEST(Classes, Defaults) {
  constexpr Pairing kHalf = Pairing::kHalfSplit;
  constexpr Pairing kInter = Pairing::kInterleaved;
  const ClassDefault cases[] = {
      {R"({"model_type":"llama"})", 10000, 128, 128, kHalf},
      {R"({"model_type":"mixtral"})", 1e6, 128, 128, kHalf},
      {R"({"model_type":"persimmon"})", 25000, 64, 32, kHalf},
      {R"({"model_type":"phi"})", 10000, 64, 32, kHalf},
      {R"({"model_type":"stablelm"})", 10000, 80, 20, kHalf},
      {R"({"model_type":"gptj"})", 10000, 256, 64, kInter},
      {R"({"model_type":"codegen"})", 10000, 256, 64, kInter},
      {R"({"model_type":"gpt_neox"})", 10000, 96, 24, kHalf},
      {R"({"model_type":"falcon"})", 10000, 64, 64, kHalf},
      {R"({"model_type":"glm4"})", 10000, 128, 64, kInter},
      {R"({"model_type":"cohere"})", 10000, 128, 128, kInter},
      {R"({"model_type":"gemma"})", 10000, 256, 256, kHalf},
      {R"({"model_type":"helium"})", 100000, 128, 128, kInter},
      {R"({"model_type":"ernie4_5"})", 500000, 128, 128, kInter},
      {R"({"model_type":"nemotron"})", 10000, 128, 64, kHalf},
      {R"({"architectures":["GPTNeoXForCausalLM"]})", 10000, 96, 24, kHalf},
      {R"({"architectures":["RoFormerForMaskedLM"]})", 10000, 64, 64, kInter},
  };
  for (const ClassDefault& expect : cases) {
    SCOPED_TRACE(expect.config);
    const RopeSpec spec = RopeOf(LayerOf(Read(expect.config)));
    EXPECT_EQ(*spec.base, expect.base);
    EXPECT_EQ(spec.head_dim, expect.head_dim);
    EXPECT_EQ(*spec.rotary_dim, expect.rotary_dim);
    EXPECT_EQ(*spec.pairing, expect.pairing);
  }
}

TEST(Classes, GptOssWithoutADictHasItsOwn) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"gpt_oss"})"));
  const auto yarn = ScheduleOf<YarnSchedule>(RopeOf(layer));
  EXPECT_EQ(yarn.factor, 32);
  EXPECT_FALSE(*yarn.truncate);
  EXPECT_TRUE(HasNote(layer.defaults, "rope_parameters", "default of class gpt_oss"));
}

TEST(Classes, NeoXIgnoresRopeTheta) {
  const ModelEncoding model = Read(R"({"model_type":"gpt_neox","rope_theta":5,"rotary_emb_base":20000})");
  EXPECT_EQ(*RopeOf(LayerOf(model)).base, 20000);
  EXPECT_TRUE(HasNote(model.warnings, "rope_theta"));
}

TEST(Classes, ChatGlmRopeRatioMultipliesTheBaseAndSaysWhatItCannotKnow) {
  const ModelEncoding model = Read(R"({"model_type":"chatglm","kv_channels":128,"rope_ratio":500,"num_layers":40})");
  EXPECT_EQ(*RopeOf(LayerOf(model)).base, 5e6);
  EXPECT_TRUE(HasNote(model.warnings, "rope_ratio", "ChatGLM2-32k"));
}

TEST(Classes, BaichuanByWidth) {
  const auto kind = [](const char* width) {
    return LayerOf(Read(std::string(R"({"model_type":"baichuan","num_attention_heads":40,"hidden_size":)") + width + "}"))
        .kind;
  };
  EXPECT_EQ(kind("5120"), PositionKind::kAlibi);
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"baichuan","num_attention_heads":32,"hidden_size":4096})")).kind,
            PositionKind::kRope);
  EXPECT_EQ(ErrorField(R"({"model_type":"baichuan","num_attention_heads":32})"), "hidden_size");
}

TEST(Classes, Ministral3ScalesQueries) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"ministral3"})"));
  EXPECT_EQ(layer.query_scale, "1 + 0.1*ln(1 + floor(position/16384))");
  EXPECT_EQ(*RopeOf(layer).attention_factor, 1);
}

TEST(Classes, SecondThoughtsOfQwen1) {
  const LayerEncoding plain =
      LayerOf(Read(R"({"model_type":"qwen","use_dynamic_ntk":false,"use_logn_attn":false,"seq_length":8192})"));
  ScheduleOf<DefaultSchedule>(RopeOf(plain));
  EXPECT_EQ(plain.query_scale, "");
  const LayerEncoding ntk = LayerOf(Read(R"({"model_type":"qwen","use_dynamic_ntk":true,"seq_length":2048})"));
  EXPECT_EQ(ScheduleOf<Qwen1NtkSchedule>(RopeOf(ntk)).training_length, 2048);
}

TEST(Classes, DualChunkAttentionIsNamed) {
  EXPECT_TRUE(HasNote(Read(Llama(R"("rope_theta":1e7,"dual_chunk_attention_config":{"chunk_size":262144})")).warnings,
                      "dual_chunk_attention_config"));
}

}  // namespace
}  // namespace phasor::server
