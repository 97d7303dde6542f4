// Models whose layers differ, models by a flag, biases, absolute tables, wrappers and unknown classes.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

TEST(Gemma3, EveryFormGivesTheSameSpecs) {
  const char* v4 =
      R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text","num_hidden_layers":12,
          "rope_scaling":{"rope_type":"linear","factor":8.0}}})";
  const char* v5 =
      R"({"model_type":"gemma3_text","num_hidden_layers":12,"sliding_window_pattern":6,"rope_parameters":{
          "sliding_attention":{"rope_type":"default","rope_theta":10000.0},
          "full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000.0}}})";
  const ModelEncoding old_form = Read(v4);
  const ModelEncoding new_form = Read(v5);
  for (const char* type : {"full_attention", "sliding_attention"}) {
    EXPECT_EQ(RopeOf(LayerOf(old_form, type)), RopeOf(LayerOf(new_form, type)));
    EXPECT_EQ(LayerOf(old_form, type).layers, LayerOf(new_form, type).layers);
  }
  EXPECT_EQ(LayerOf(old_form, "full_attention").layers, (std::vector<int64_t>{5, 11}));
  ScheduleOf<DefaultSchedule>(RopeOf(LayerOf(old_form, "sliding_attention")));
}

TEST(Gemma4, SparseFileTakesTheClassDict) {
  const ModelEncoding model = Read(R"({"model_type":"gemma4","text_config":{"num_hidden_layers":8}})");
  const RopeSpec full = RopeOf(LayerOf(model, "full_attention"));
  EXPECT_EQ(full.head_dim, 512);
  EXPECT_EQ(ScheduleOf<ProportionalSchedule>(full).partial_rotary_factor, 0.25);
  EXPECT_EQ(LayerOf(model, "full_attention").layers, (std::vector<int64_t>{5, 7}));
  EXPECT_EQ(RopeOf(LayerOf(model, "sliding_attention")).head_dim, 256);
}

TEST(Olmo3, ScalingReachesGlobalLayersAndTheBaseBoth) {
  const ModelEncoding model = Read(
      R"({"model_type":"olmo3","num_hidden_layers":8,"max_position_embeddings":65536,"rope_scaling":{"rope_type":"yarn",
          "factor":8,"rope_theta":500000,"original_max_position_embeddings":8192}})");
  const RopeSpec full = RopeOf(LayerOf(model, "full_attention"));
  const RopeSpec sliding = RopeOf(LayerOf(model, "sliding_attention"));
  ScheduleOf<YarnSchedule>(full);
  ScheduleOf<DefaultSchedule>(sliding);
  EXPECT_EQ(*full.base, 500000);
  EXPECT_EQ(*sliding.base, 500000);
  EXPECT_EQ(LayerOf(model, "full_attention").layers, (std::vector<int64_t>{3, 7}));
}

TEST(ModernBert, LocalBaseNullSharesTheGlobalOne) {
  const ModelEncoding model =
      Read(R"({"model_type":"modernbert","num_hidden_layers":4,"global_rope_theta":80000,"local_rope_theta":null})");
  EXPECT_EQ(*RopeOf(LayerOf(model, "sliding_attention")).base, 80000);
  EXPECT_EQ(LayerOf(model, "full_attention").layers, (std::vector<int64_t>{0, 3}));
}

TEST(Cohere2, GlobalLayersDoNotRotate) {
  const ModelEncoding model = Read(R"({"model_type":"cohere2","num_hidden_layers":8,"rope_theta":50000})");
  EXPECT_EQ(LayerOf(model, "full_attention").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(model, "full_attention").layers, (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(*RopeOf(LayerOf(model, "sliding_attention")).pairing, Pairing::kInterleaved);
}

TEST(Exaone4, GlobalLayersRotateUnlessThereIsAWindow) {
  const std::string head = R"({"model_type":"exaone4","head_dim":128,"num_hidden_layers":8,"rope_theta":1e6,)";
  const ModelEncoding windowed = Read(head + R"("sliding_window":4096,"sliding_window_pattern":"LLLG"})");
  EXPECT_EQ(LayerOf(windowed, "full_attention").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(windowed, "full_attention").layers, (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(LayerOf(windowed, "sliding_attention").kind, PositionKind::kRope);
  const ModelEncoding open = Read(head + R"("sliding_window":null,"sliding_window_pattern":4})");
  ASSERT_EQ(open.layers.size(), 1u);
  EXPECT_EQ(open.layers[0].kind, PositionKind::kRope);
  EXPECT_EQ(open.layers[0].layers.size(), 8u);
}

TEST(SmolLm3, DefaultIntervalAndBase) {
  const ModelEncoding model = Read(R"({"model_type":"smollm3","num_hidden_layers":8})");
  EXPECT_EQ(*RopeOf(LayerOf(model, "rope_layers")).base, 2e6);
  EXPECT_EQ(LayerOf(model, "nope_layers").layers, (std::vector<int64_t>{3, 7}));
  // Every layer rotates: a single schedule.
  EXPECT_EQ(RopeOf(LayerOf(Read(R"({"model_type":"smollm3","no_rope_layers":[1,1],"num_hidden_layers":2})"))).head_dim, 128);
}

TEST(Llama4, QueriesOfLayersWithoutRotationAreScaled) {
  const ModelEncoding model = Read(
      R"({"model_type":"llama4","text_config":{"model_type":"llama4_text","num_hidden_layers":8,"attn_temperature_tuning":4,
          "rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,
                          "original_max_position_embeddings":8192}}})");
  EXPECT_EQ(LayerOf(model, "nope_layers").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(model, "nope_layers").query_scale, "1 + 0.1*ln(1 + floor((position+1)/8192))");
  const RopeSpec spec = RopeOf(LayerOf(model, "rope_layers"));
  EXPECT_EQ(*spec.pairing, Pairing::kInterleaved);
  EXPECT_EQ(*spec.base, 500000);
}

TEST(DeepseekV4, SecondBaseOnCompressedLayers) {
  const ModelEncoding model = Read(
      R"({"model_type":"deepseek_v4","num_hidden_layers":4,"compress_ratios":[0,4,128,0],"rope_theta":10000,
          "compress_rope_theta":160000,"max_position_embeddings":1048576,"qk_rope_head_dim":64,"head_dim":512,
          "rope_scaling":{"type":"yarn","factor":16,"original_max_position_embeddings":65536}})");
  const RopeSpec main = RopeOf(LayerOf(model, "main"));
  const RopeSpec compress = RopeOf(LayerOf(model, "compress"));
  ScheduleOf<DefaultSchedule>(main);
  EXPECT_EQ(*main.base, 10000);
  EXPECT_EQ(*compress.base, 160000);
  EXPECT_EQ(*compress.attention_factor, 1);
  EXPECT_EQ(*compress.rotary_dim, 64);
  EXPECT_EQ(LayerOf(model, "compress").layers, (std::vector<int64_t>{1, 2}));
}

TEST(Nested, NullEntryMeansNoPositions) {
  const ModelEncoding model = Read(Llama(
      R"("layer_types":["sliding_attention","full_attention"],"rope_parameters":{
         "sliding_attention":{"rope_type":"default","rope_theta":10000},"full_attention":null})"));
  EXPECT_EQ(LayerOf(model, "full_attention").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(model, "sliding_attention").kind, PositionKind::kRope);
  EXPECT_TRUE(HasNote(model.warnings, "layer_types", "2 entries"));
}

TEST(Nested, NullMeansTheSameForEveryEntry) {
  const ModelEncoding model = Read(Llama(
      R"("layer_types":["sliding_attention","full_attention"],"rope_parameters":{"sliding_attention":null,"full_attention":null})"));
  EXPECT_EQ(LayerOf(model, "full_attention").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(model, "sliding_attention").kind, PositionKind::kNone);
}

TEST(Nested, WithoutLayerTypesTheEntriesNameTheTypes) {
  const ModelEncoding model = Read(Llama(R"("rope_parameters":{"full_attention":{"rope_theta":1000000,"rope_type":"default"},
                                            "sliding_attention":{"rope_theta":10000,"rope_type":"default"}})"));
  EXPECT_EQ(*RopeOf(LayerOf(model, "full_attention")).base, 1e6);
  EXPECT_TRUE(LayerOf(model, "full_attention").layers.empty());
  EXPECT_EQ(*RopeOf(LayerOf(model, "sliding_attention")).base, 1e4);
}

TEST(LayerTypes, LayersWithoutAttentionAreLeftOut) {
  const ModelEncoding model = Read(
      R"({"model_type":"qwen3_next","num_hidden_layers":4,"rope_theta":1e7,
          "layer_types":["linear_attention","linear_attention","linear_attention","full_attention"]})");
  ASSERT_EQ(model.layers.size(), 1u);
  EXPECT_EQ(*RopeOf(LayerOf(model)).rotary_dim, 64);
  EXPECT_EQ(LayerOf(model).layers, std::vector<int64_t>{3});
  EXPECT_TRUE(HasNote(model.warnings, "layer_types", "linear_attention"));
}

TEST(LayerTypes, ASingleScheduleIsFoundUnderItsNestedName) {
  const ModelEncoding model = Read(
      R"({"model_type":"qwen3_next","num_hidden_layers":2,"layer_types":["linear_attention","full_attention"],
          "rope_parameters":{"full_attention":{"rope_theta":7,"rope_type":"default"},"other":{"rope_theta":5}}})");
  EXPECT_EQ(*RopeOf(LayerOf(model)).base, 7);
}

TEST(Alibi, ByFlagOrClass) {
  const LayerEncoding falcon = LayerOf(Read(R"({"model_type":"falcon","alibi":true,"hidden_size":2048,
                                                "num_attention_heads":32})"));
  EXPECT_EQ(falcon.kind, PositionKind::kAlibi);
  EXPECT_DOUBLE_EQ(*falcon.scale_after, 0.125);
  EXPECT_EQ(falcon.num_kv_heads, 1);
  const LayerEncoding mpt = LayerOf(Read(R"({"model_type":"mpt","n_heads":32,"attn_config":{"alibi":true,"alibi_bias_max":16,
                                             "softmax_scale":0.25}})"));
  EXPECT_EQ(*std::get<AlibiSpec>(mpt.spec->spec).max_bias, 16);
  EXPECT_EQ(*mpt.softmax_scale, 0.25);
  const LayerEncoding learned = LayerOf(Read(R"({"model_type":"mpt","attn_config":{"alibi":false}})"));
  EXPECT_EQ(learned.kind, PositionKind::kLearned);
  const LayerEncoding jina = LayerOf(Read(R"({"model_type":"bert","position_embedding_type":"alibi"})"));
  EXPECT_EQ(*std::get<AlibiSpec>(jina.spec->spec).form, AlibiForm::kSymmetric);
}

TEST(ScaledLayers, OfMolmo2) {
  const std::string_view dict =
      R"("rope_parameters":{"rope_type":"linear","factor":4,"rope_theta":1e6},"num_hidden_layers":4,)";
  const auto molmo = [&](std::string_view list) {
    return Read(absl::StrCat(R"({"model_type":"molmo2_text","hidden_size":512,"num_attention_heads":4,)",
                             absl::string_view(dict.data(), dict.size()), R"("rope_scaling_layers":)",
                             absl::string_view(list.data(), list.size()), "}"));
  };
  const ModelEncoding model = molmo("[1,3]");
  const LayerEncoding scaled = LayerOf(model, "scaled");
  EXPECT_EQ(scaled.layers, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(scaled)).factor, 4);
  const LayerEncoding unscaled = LayerOf(model, "unscaled");
  EXPECT_TRUE(std::holds_alternative<DefaultSchedule>(RopeOf(unscaled).schedule));
  EXPECT_EQ(*RopeOf(unscaled).base, 1e6);  // the dict's base reaches them
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(LayerOf(molmo("[0,1,2,3]")))).factor, 4);
  EXPECT_TRUE(std::holds_alternative<DefaultSchedule>(RopeOf(LayerOf(molmo("[]"))).schedule));
}

TEST(Sinusoidal, FlagsOfXlmAndDistilBert) {
  const LayerEncoding xlm = LayerOf(Read(R"({"model_type":"xlm","emb_dim":1024,"sinusoidal_embeddings":true})"));
  const auto& spec = std::get<SinusoidalSpec>(xlm.spec->spec);
  EXPECT_EQ(spec.dim, 1024);
  EXPECT_EQ(*spec.layout, SinusoidalLayout::kInterleaved);
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"distilbert","sinusoidal_pos_embds":false})")).kind, PositionKind::kLearned);
}

TEST(Sinusoidal, ScaleEmbeddingFalseHasNoMultiplier) {
  const LayerEncoding layer =
      LayerOf(Read(R"({"model_type":"m2m_100","d_model":512,"scale_embedding":false,"pad_token_id":5})"));
  EXPECT_EQ(layer.embedding_multiplier, std::nullopt);
  EXPECT_EQ(*std::get<SinusoidalSpec>(layer.spec->spec).position_offset, 6);
}

TEST(Wrappers, TextConfigAndTowersAreRead) {
  const ModelEncoding model = Read(
      R"({"model_type":"llava","text_config":{"model_type":"llama","rope_theta":500000},"vision_config":{"hidden_size":1}})");
  EXPECT_EQ(model.model_type, "llava");
  EXPECT_EQ(*RopeOf(LayerOf(model)).base, 500000);
  // The class around it says what a tower without a name is.
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "vision").spec->spec).num_positions, 50);  // CLIP's (224 / 32)² + 1
  EXPECT_EQ(LayerOf(model, "vision").part, "vision");
}

TEST(Wrappers, ATowerThatNobodyKnowsIsAWarning) {
  const ModelEncoding model = Read(R"({"model_type":"llava","text_config":{"model_type":"llama"},
                                       "vision_config":{"model_type":"nobody_knows","hidden_size":1}})");
  EXPECT_EQ(model.layers.size(), 1u);
  EXPECT_TRUE(HasNote(model.warnings, "vision_config.model_type", "unknown"));
}

TEST(Wrappers, ATowerThatIsWrongIsAWarning) {
  const ModelEncoding model = Read(R"({"model_type":"qwen2_audio","text_config":{"model_type":"llama"},
                                       "audio_config":{"model_type":"llama","num_attention_heads":-1}})");
  EXPECT_EQ(model.layers.size(), 1u);
  EXPECT_TRUE(HasNote(model.warnings, "audio_config", "num_attention_heads"));
}

TEST(Wrappers, PartsHaveTheirNames) {
  const ModelEncoding model = Read(R"({"model_type":"blt","encoder_config":{"head_dim":64,"rope_theta":500000.0},
                                       "decoder_config":{"head_dim":32,"rope_theta":10000.0}})");
  EXPECT_EQ(RopeOf(LayerOf(model, "encoder")).head_dim, 64);
  EXPECT_EQ(RopeOf(LayerOf(model, "decoder")).head_dim, 32);
  EXPECT_EQ(*RopeOf(LayerOf(model, "decoder")).pairing, Pairing::kInterleaved);
}

TEST(Wrappers, PartsAreBounded) {
  std::string text = R"({"model_type":"llava","text_config":{"model_type":"llama"})";
  for (int i = 0; i < 500; ++i) {
    absl::StrAppend(&text, R"(,"p)", i, R"(_config":{"head_dim":64,"rope_theta":10000.0})");
  }
  EXPECT_LE(Read(text + "}").layers.size(), 40u);
  std::string deep = R"({"head_dim":64,"rope_theta":10000.0})";
  for (int i = 0; i < 20; ++i) deep = absl::StrCat(R"({"head_dim":64,"rope_theta":10000.0,"a_config":)", deep, "}");
  EXPECT_LE(Read(deep).layers.size(), 8u);
}

TEST(Layers, OverridesByNumberOfTheLayer) {
  const ModelEncoding model = Read(R"({"model_type":"x","head_dim":64,"rope_theta":10000.0,"layer_types":
      ["sliding_attention","full_attention"],"per_layer_config":{"01":{"head_dim":128,"num_key_value_heads":1}}})");
  EXPECT_EQ(RopeOf(LayerOf(model, "sliding_attention")).head_dim, 64);
  EXPECT_EQ(RopeOf(LayerOf(model, "full_attention")).head_dim, 128);
  EXPECT_EQ(LayerOf(model, "full_attention").num_kv_heads, 1);
}

TEST(Unknown, ReadsLikeLlamaWithAWarning) {
  const ModelEncoding model =
      Read(R"({"model_type":"nobody_knows","n_embd":512,"n_head":8,"n_layer":2,"n_positions":1024,"rope_theta":7})");
  EXPECT_EQ(model.model_type, "nobody_knows");
  EXPECT_TRUE(HasNote(model.warnings, "model_type", "unknown"));
  const LayerEncoding layer = LayerOf(model);
  EXPECT_EQ(*RopeOf(layer).base, 7);
  EXPECT_EQ(RopeOf(layer).head_dim, 64);
  EXPECT_EQ(layer.num_q_heads, 8);
  EXPECT_EQ(layer.max_position, 1024);
}

TEST(Unknown, WithoutARopeKeyNothingIsInvented) {
  // Sizes alone do not say that a model rotates, nor does the name of a class that generates text.
  for (const std::string_view extra :
       {"", R"(,"architectures":["ZorkForCausalLM"])", R"(,"max_position_embeddings":2048)"}) {
    const ModelEncoding model = Read(absl::StrCat(R"({"model_type":"zork","hidden_size":512,"num_attention_heads":8)",
                                                  absl::string_view(extra.data(), extra.size()), "}"));
    const LayerEncoding layer = LayerOf(model);
    EXPECT_EQ(layer.kind, PositionKind::kUnserved);
    EXPECT_EQ(layer.unserved, "unknown");
    EXPECT_FALSE(layer.spec);
    EXPECT_TRUE(HasNote(model.warnings, "model_type", "no key says how it encodes positions"));
  }
  // A class whose code shows that it has none is not unknown.
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"sam2_video_mask_decoder","hidden_size":256,"num_attention_heads":8})")).kind,
            PositionKind::kNone);
  // One key is enough.
  for (const char* key : {R"("rope_theta":1e4)", R"("rope_base":1e4)", R"("rotary_pct":1)", R"("rope_interleave":false)",
                          R"("position_embedding_type":"rope")"}) {
    EXPECT_EQ(
        LayerOf(Read(absl::StrCat(R"({"model_type":"zork","hidden_size":512,"num_attention_heads":8,)", key, "}"))).kind,
        PositionKind::kRope)
        << key;
  }
}

TEST(Unknown, KeysDecideOtherwise) {
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"x","alibi":true,"n_head":8})")).kind, PositionKind::kAlibi);
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"x","qk_nope_head_dim":32,"qk_rope_head_dim":16,"rope_theta":1})")).kind,
            PositionKind::kRope);
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"x","relative_attention_num_buckets":32})"), "encoder").unserved, "t5_bucket");
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"x","position_embedding_type":"absolute"})")).unserved, "learned");
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"x","architectures":["XForImageClassification"]})")).unserved, "unknown");
  const ModelEncoding local = Read(R"({"model_type":"x","head_dim":64,"rope_theta":5e6,"swa_rope_theta":1e4,
                                       "hybrid_layer_pattern":[0,1,1]})");
  EXPECT_EQ(*RopeOf(LayerOf(local, "sliding_attention")).base, 1e4);
  EXPECT_EQ(LayerOf(local, "sliding_attention").layers, (std::vector<int64_t>{1, 2}));
}

TEST(Softmax, MultiplierAndQueryScalar) {
  EXPECT_EQ(*LayerOf(Read(R"({"model_type":"granite","attention_multiplier":0.0078125})")).softmax_scale, 0.0078125);
  EXPECT_EQ(*LayerOf(Read(R"({"model_type":"granite"})")).softmax_scale, 1);
  EXPECT_DOUBLE_EQ(*LayerOf(Read(R"({"model_type":"gemma2","query_pre_attn_scalar":144})")).softmax_scale, 1.0 / 12);
}

}  // namespace
}  // namespace phasor::server
