// Models of which one type of layers has attention: it is the single schedule, without a name, and its class's rules for
// that type still hold. Expected values are those of the classes of transformers 5.24.0, worked out from their code.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

// The one layer type of a model whose layers 0 and 2 have no attention and whose layer 1 is of `type`.
LayerEncoding Single(const std::string& model_type, const std::string& type, const std::string& keys = "") {
  const ModelEncoding model =
      Read(R"({"model_type":")" + model_type + R"(","num_hidden_layers":3,"layer_types":["linear_attention",")" + type +
           R"(","conv"])" + (keys.empty() ? "" : ",") + keys + "}");
  EXPECT_EQ(model.layers.size(), 1u) << model_type;
  if (model.layers.size() != 1) return {};
  EXPECT_EQ(model.layers[0].layer_type, "") << model_type;
  EXPECT_EQ(model.layers[0].layers, std::vector<int64_t>{1}) << model_type;
  return model.layers[0];
}

TEST(SingleTypes, LayersThatSeeEverythingDoNotRotateInSomeClasses) {
  for (const char* type : {"afmoe", "flint", "kolibri1", "lara_mini", "cohere2", "cohere2_moe", "exaone4", "exaone_moe"}) {
    EXPECT_EQ(Single(type, "full_attention").kind, PositionKind::kNone) << type;
    EXPECT_EQ(Single(type, "sliding_attention").kind, PositionKind::kRope) << type;
  }
  // The older name means the same.
  EXPECT_EQ(Single("lara_mini", "attention").kind, PositionKind::kNone);
  // Without a window EXAONE's layers all rotate, Cohere's none.
  const std::string no_window = R"("sliding_window":null)";
  EXPECT_EQ(Single("exaone4", "full_attention", no_window).kind, PositionKind::kRope);
  EXPECT_EQ(Single("cohere2", "sliding_attention", no_window).kind, PositionKind::kNone);
}

TEST(SingleTypes, DenseLayersOfCohere2MoeRotate) {
  EXPECT_EQ(Single("cohere2_moe", "full_attention", R"("mlp_layer_types":["dense","dense","sparse"])").kind,
            PositionKind::kRope);
}

TEST(SingleTypes, SlidingLayersHaveTheLocalBase) {
  const std::string linear = R"("rope_scaling":{"rope_type":"linear","factor":8.0})";
  const RopeSpec gemma = RopeOf(Single("gemma3_text", "sliding_attention", linear));
  EXPECT_EQ(*gemma.base, 10000);
  ScheduleOf<DefaultSchedule>(gemma);
  const RopeSpec global = RopeOf(Single("gemma3_text", "full_attention", linear));
  EXPECT_EQ(*global.base, 1e6);
  EXPECT_EQ(ScheduleOf<LinearSchedule>(global).factor, 8);
  EXPECT_EQ(*RopeOf(Single("modernbert", "sliding_attention", R"("global_rope_theta":160000,"local_rope_theta":77)")).base,
            77);
  EXPECT_EQ(*RopeOf(Single("modernbert", "full_attention", R"("global_rope_theta":160000,"local_rope_theta":77)")).base,
            160000);
  EXPECT_EQ(
      *RopeOf(Single("nobody_knows", "sliding_attention", R"("head_dim":64,"rope_theta":1e6,"rope_local_base_freq":5000)"))
           .base,
      5000);
}

TEST(SingleTypes, Olmo3ScalesLayersThatSeeEverythingOnly) {
  const std::string dict =
      R"("max_position_embeddings":65536,"rope_parameters":{"rope_type":"yarn","factor":8,"rope_theta":500000,
         "original_max_position_embeddings":8192})";
  const LayerEncoding sliding = Single("olmo3", "sliding_attention", dict);
  ScheduleOf<DefaultSchedule>(RopeOf(sliding));
  EXPECT_TRUE(HasNote(sliding.warnings, "rope_parameters.rope_theta", "takes it out"));
  const LayerEncoding full = Single("olmo3", "full_attention", dict);
  ScheduleOf<YarnSchedule>(RopeOf(full));
  EXPECT_FALSE(HasNote(full.warnings, "rope_parameters.rope_theta", "takes it out"));
}

TEST(SingleTypes, Step3p5TakesBaseShareAndHeadsOfTheType) {
  const std::string keys =
      R"("rope_theta":[1.0,5000000.0,2.0],"partial_rotary_factors":[1.0,0.5,1.0],"num_sliding_attention_heads":96,
         "num_attention_groups":4,"rope_scaling":{"rope_type":"linear","factor":2.0})";
  const LayerEncoding full = Single("step3p5", "full_attention", keys);
  EXPECT_EQ(*RopeOf(full).base, 5e6);
  EXPECT_EQ(*RopeOf(full).rotary_dim, 64);
  EXPECT_EQ(ScheduleOf<LinearSchedule>(RopeOf(full)).factor, 2);
  EXPECT_EQ(full.num_q_heads, 64);
  EXPECT_EQ(full.num_kv_heads, 4);
  const LayerEncoding sliding = Single("step3p5", "sliding_attention", keys);
  EXPECT_EQ(*RopeOf(sliding).base, 5e6);
  ScheduleOf<DefaultSchedule>(RopeOf(sliding));
  EXPECT_EQ(sliding.num_q_heads, 96);
  // per_layer_config says alone what differs by layer.
  EXPECT_EQ(
      Single("step3p5", "sliding_attention", keys + R"(,"per_layer_config":{"1":{"num_attention_heads":80}})").num_q_heads,
      80);
}

TEST(SingleTypes, UltraBertTakesTheBaseOfTheType) {
  EXPECT_EQ(*RopeOf(Single("ultrabert", "full_attention", R"("rope_theta":[1111.0,2222.0,3333.0])")).base, 2222);
}

TEST(SingleTypes, Gemma4HasWiderHeadsWhereLayersSeeEverything) {
  for (const char* type : {"gemma4_text", "gemma4_unified_text", "diffusion_gemma_text", "embedding_gemma2_text"}) {
    const LayerEncoding full = Single(type, "full_attention");
    EXPECT_EQ(RopeOf(full).head_dim, 512) << type;
    EXPECT_EQ(*RopeOf(full).base, 1e6) << type;
    EXPECT_TRUE(HasNote(full.defaults, "global_head_dim", "512 (default of class ")) << type;
    const LayerEncoding sliding = Single(type, "sliding_attention");
    EXPECT_EQ(RopeOf(sliding).head_dim, 256) << type;
    EXPECT_EQ(*RopeOf(sliding).base, 10000) << type;
    EXPECT_FALSE(HasNote(sliding.defaults, "global_head_dim")) << type;
    EXPECT_EQ(RopeOf(Single(type, "full_attention", R"("global_head_dim":128)")).head_dim, 128) << type;
    // per_layer_config says alone what differs by layer.
    EXPECT_EQ(RopeOf(Single(type, "full_attention", R"("per_layer_config":{"01":{"head_dim":64}})")).head_dim, 64) << type;
    const LayerEncoding alike = Single(type, "full_attention", R"("global_head_dim":128,"per_layer_config":{})");
    EXPECT_EQ(RopeOf(alike).head_dim, 256) << type;
    EXPECT_FALSE(HasNote(alike.defaults, "global_head_dim")) << type;
  }
}

TEST(SingleTypes, Gemma4HasKeyHeadsOfItsOwnWhereLayersSeeEverything) {
  const std::string two = R"("num_key_value_heads":4,"num_global_key_value_heads":2)";
  // The key counts where keys are values too, in classes that have that flag.
  EXPECT_EQ(Single("gemma4_text", "full_attention", two).num_kv_heads, 4);
  EXPECT_EQ(Single("gemma4_text", "full_attention", two + R"(,"attention_k_eq_v":true)").num_kv_heads, 2);
  EXPECT_EQ(Single("gemma4_text", "sliding_attention", two + R"(,"attention_k_eq_v":true)").num_kv_heads, 4);
  EXPECT_EQ(Single("diffusion_gemma_text", "full_attention", two).num_kv_heads, 2);
  EXPECT_EQ(Single("embedding_gemma2_text", "full_attention", two).num_kv_heads, 2);
  const LayerEncoding one = Single("embedding_gemma2_text", "full_attention", R"("num_key_value_heads":4)");
  EXPECT_EQ(one.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(one.defaults, "num_global_key_value_heads", "1 (default of class "));
}

TEST(SingleTypes, InklingsSlidingLayersHaveTheirOwnNumbers) {
  const LayerEncoding first = Single("inkling_text", "hybrid_sliding", R"("num_attention_heads":8,"num_key_value_heads":2)");
  EXPECT_EQ(std::get<ShawSpec>(first.spec->spec).clip, 512);
  EXPECT_EQ(first.num_q_heads, 64);
  EXPECT_EQ(first.num_kv_heads, 16);
  EXPECT_TRUE(HasNote(first.defaults, "swa_num_key_value_heads", "16 (default of class "));
  EXPECT_TRUE(HasNote(first.defaults, "swa_num_attention_heads", "64 (default of class "));
  const LayerEncoding second = Single("inkling2_text", "hybrid_sliding");
  EXPECT_EQ(second.num_q_heads, 48);
  EXPECT_EQ(second.num_kv_heads, 8);
  EXPECT_TRUE(HasNote(second.defaults, "swa_num_key_value_heads", "8 (default of class "));
  EXPECT_EQ(second.query_scale, "");
  const LayerEncoding full = Single("inkling2_text", "hybrid", R"("rel_extent":99)");
  EXPECT_EQ(std::get<ShawSpec>(full.spec->spec).clip, 99);
  EXPECT_NE(full.query_scale, "");
  EXPECT_EQ(full.num_kv_heads, 8);
}

TEST(SingleTypes, Dots3SlicesAreThoseOfTheType) {
  const LayerEncoding sliding = Single("dots3_note_text", "sliding_attention");
  EXPECT_EQ(RopeOf(sliding).head_dim, 256);
  EXPECT_EQ(*RopeOf(sliding).rotary_dim, 64);
  EXPECT_EQ(*RopeOf(sliding).base, 50000);
  EXPECT_EQ(RopeOf(Single("dots3_note_text", "full_attention")).head_dim, 192);
}

TEST(LayerBases, TwoThatRotateKeepTheirOwn) {
  const ModelEncoding model = Read(R"({"model_type":"granite_swa","num_hidden_layers":3,"head_dim":64,
                                       "layer_rope_theta":[10000.0,500000.0,10000.0]})");
  EXPECT_EQ(*RopeOf(LayerOf(model, "theta_10000")).base, 10000);
  EXPECT_EQ(*RopeOf(LayerOf(model, "theta_500000")).base, 500000);
}

}  // namespace
}  // namespace phasor::server
