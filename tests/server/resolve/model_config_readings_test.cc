// Keys of older files: lists by layer, slices by layer type, and what other loaders make of the same file.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

TEST(Slices, StepListsABaseAndAShareForEveryLayer) {
  constexpr char kText[] =
      R"({"model_type":"step3p5","head_dim":128,"num_hidden_layers":4,"num_attention_groups":8,"query_pre_attn_scalar":64,)"
      R"("layer_types":["full_attention","sliding_attention","full_attention","sliding_attention"],)"
      R"("attention_other_setting":{"num_attention_heads":96},)"
      R"("rope_theta":[5e6,1e4,5e6,1e4],"partial_rotary_factors":[0.5,1,0.5,1]})";
  const ModelEncoding model = Read(kText);
  const LayerEncoding full = LayerOf(model, "full_attention");
  EXPECT_EQ(RopeOf(full).base, 5e6);
  EXPECT_EQ(RopeOf(full).rotary_dim, 64);
  EXPECT_EQ(full.num_q_heads, 64);
  EXPECT_DOUBLE_EQ(*full.softmax_scale, 0.125);
  const LayerEncoding sliding = LayerOf(model, "sliding_attention");
  EXPECT_EQ(RopeOf(sliding).base, 1e4);
  EXPECT_EQ(RopeOf(sliding).rotary_dim, 128);
  EXPECT_EQ(sliding.num_q_heads, 96);
  EXPECT_EQ(sliding.num_kv_heads, 8);
}

TEST(Slices, StepNamesTheEntryThatIsMissingOrDiffers) {
  EXPECT_EQ(ErrorField(R"({"model_type":"step3p5","num_hidden_layers":2,"rope_theta":[],)"
                       R"("layer_types":["full_attention","sliding_attention"]})"),
            "rope_theta[0]");
  const ModelEncoding model = Read(R"({"model_type":"step3p5","num_hidden_layers":2,"rope_theta":[1e4,2e4]})");
  EXPECT_TRUE(HasNote(model.warnings, "rope_theta[1]", "is not read: layers of one type share the first one's 10000"));
  EXPECT_EQ(ErrorField(R"({"model_type":"step3p5","num_hidden_layers":1,"partial_rotary_factors":[1.5]})"),
            "partial_rotary_factors[0]");
}

TEST(Slices, DotsHasASliceForEachLayerType) {
  const ModelEncoding model = Read(R"({"model_type":"dots3_note_text","num_hidden_layers":8})");
  const LayerEncoding indexed = LayerOf(model, "indexed_attention");
  EXPECT_EQ(RopeOf(indexed).head_dim, 192);
  EXPECT_EQ(RopeOf(indexed).first_channel, 128);
  EXPECT_EQ(RopeOf(indexed).rotary_dim, 64);
  EXPECT_EQ(indexed.num_q_heads, 128);
  EXPECT_EQ(indexed.layers, (std::vector<int64_t>{0, 1, 5}));
  const LayerEncoding sliding = LayerOf(model, "sliding_attention");
  EXPECT_EQ(RopeOf(sliding).head_dim, 256);
  EXPECT_EQ(RopeOf(sliding).first_channel, 192);
  EXPECT_EQ(sliding.num_q_heads, 64);
  EXPECT_EQ(sliding.num_kv_heads, 64);
  // As the library saves it: what differs in a layer, under its number.
  const ModelEncoding saved =
      Read(R"({"model_type":"dots3_note_text","num_hidden_layers":2,"head_dim":256,"num_attention_heads":32,)"
           R"("layer_types":["indexed_attention","sliding_attention"],)"
           R"("per_layer_config":{"01":{"qk_nope_head_dim":64,"num_attention_heads":16}}})");
  EXPECT_EQ(RopeOf(LayerOf(saved, "sliding_attention")).first_channel, 64);
  EXPECT_EQ(RopeOf(LayerOf(saved, "sliding_attention")).head_dim, 128);
  EXPECT_EQ(LayerOf(saved, "sliding_attention").num_q_heads, 16);
  EXPECT_EQ(LayerOf(saved, "indexed_attention").num_q_heads, 32);
  EXPECT_EQ(ErrorField(R"({"model_type":"dots3_note_text","num_hidden_layers":4,"swa_head_dim":192})"), "swa_head_dim");
}

TEST(Errors, NameTheKeyOfTheFile) {
  EXPECT_EQ(ErrorField(R"({"model_type":"dinov3_vit","rope_theta":-1})"), "rope_theta");
  EXPECT_EQ(ErrorField(R"({"model_type":"pixtral","rope_parameters":{"rope_theta":-1}})"), "rope_parameters.rope_theta");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama","hidden_size":64,"num_attention_heads":[]})"), "num_attention_heads");
}

TEST(OtherLoaders, AKeyThatTheClassIgnoresIsNamed) {
  const LayerEncoding cwm =
      LayerOf(Read(R"({"model_type":"cwm","rope_theta":777,"layer_types":["full_attention"]})"), "full_attention");
  EXPECT_EQ(RopeOf(cwm).base, 1e6);
  EXPECT_TRUE(HasNote(cwm.warnings, "rope_theta", "not read: class cwm has base 1000000 of its own"));
}

TEST(OtherLoaders, ShareOfTheHead) {
  const auto warned = [](std::string_view json) {
    const ModelEncoding model = Read(json);
    return HasNote(model.layers.front().warnings, "partial_rotary_factor", "transformers 5 rotates all 64");
  };
  EXPECT_TRUE(warned(R"({"model_type":"mistral","head_dim":128,"partial_rotary_factor":0.5})"));
  EXPECT_TRUE(warned(R"({"model_type":"gemma2","head_dim":128,"partial_rotary_factor":0.5})"));
  // With a type that scales, and in classes that read it, the library takes it too.
  EXPECT_FALSE(warned(R"({"model_type":"mistral","head_dim":128,"partial_rotary_factor":0.5,)"
                      R"("rope_scaling":{"rope_type":"linear","factor":2}})"));
  EXPECT_FALSE(warned(R"({"model_type":"stablelm","head_dim":128,"partial_rotary_factor":0.5})"));
  const ModelEncoding neox = Read(R"({"model_type":"gpt_neox","hidden_size":4096,"num_attention_heads":32,)"
                                  R"("rotary_pct":0.25,"partial_rotary_factor":0.5})");
  EXPECT_EQ(RopeOf(neox.layers.front()).rotary_dim, 32);
  EXPECT_TRUE(HasNote(neox.warnings, "partial_rotary_factor", "reads rotary_pct and ignores this key"));
}

TEST(OtherLoaders, DictsThatTheLibraryReadsOtherwise) {
  const ModelEncoding gemma = Read(R"({"model_type":"gemma3_text","rope_scaling":{"type":"linear","factor":8}})");
  EXPECT_TRUE(
      HasNote(LayerOf(gemma, "full_attention").warnings, "rope_scaling.type", "transformers 5 does not read `type`"));
  EXPECT_FALSE(HasNote(LayerOf(gemma, "sliding_attention").warnings, "rope_scaling.type"));
  const ModelEncoding olmo = Read(R"({"model_type":"olmo3","num_hidden_layers":4,"rope_theta":77777})");
  EXPECT_TRUE(HasNote(LayerOf(olmo, "sliding_attention").warnings, "rope_theta", "transformers 5 takes 500000"));
  EXPECT_FALSE(HasNote(LayerOf(olmo, "full_attention").warnings, "rope_theta", "transformers 5"));
  const ModelEncoding oss = Read(R"({"model_type":"gpt_oss","rope_scaling":null})");
  EXPECT_TRUE(HasNote(oss.layers.front().warnings, "rope_scaling", "the class's own dict, of type yarn"));
  const ModelEncoding tower = Read(R"({"model_type":"pixtral","rope_scaling":{"rope_type":"linear","factor":2}})");
  EXPECT_TRUE(HasNote(tower.layers.front().warnings, "rope_scaling.rope_type", "transformers 5 refuses this dict"));
}

}  // namespace
}  // namespace phasor::server
