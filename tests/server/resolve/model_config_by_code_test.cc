// Classes whose code says more about positions than their keys. Numbers that are not in the goldens of
// transformers 5.24.0 come from its modeling files.
#include <gtest/gtest.h>

#include <cmath>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

constexpr char kLlama4Vision[] =
    R"({"model_type":"llama4_vision_model","hidden_size":1408,"num_attention_heads":16,"image_size":336,"patch_size":14})";

TEST(Llama4Vision, RotatesByColumnsAndRowsFromOne) {
  const LayerEncoding layer = LayerOf(Read(kLlama4Vision));
  const RopeSpec spec = RopeOf(layer);
  EXPECT_EQ(spec.head_dim, 88);
  EXPECT_EQ(*spec.pairing, Pairing::kInterleaved);
  ASSERT_TRUE(spec.axes.has_value());
  EXPECT_EQ(spec.axes->sections, (std::vector<int64_t>{22, 22}));
  EXPECT_TRUE(HasNote(layer.warnings, "rope_parameters", "[width, height]"));
  EXPECT_TRUE(HasNote(layer.warnings, "patch_size", "count from 1"));
  EXPECT_EQ(layer.grid_starts, (std::vector<int64_t>{1, 1}));
}

TEST(Llama4Vision, PatchReadsItsOwnRowSinceTheClassTokenIsLast) {
  const LayerEncoding layer = LayerOf(Read(kLlama4Vision), "embedding");
  ASSERT_EQ(layer.kind, PositionKind::kLearned);
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_positions, 24 * 24 + 1);
  EXPECT_EQ(*spec.position_offset, 0);  // CLIP's, whose class token is first, is 1
  const LayerEncoding clip = LayerOf(Read(R"({"model_type":"clip_vision_model","image_size":336,"patch_size":14})"));
  EXPECT_EQ(*std::get<LearnedSpec>(clip.spec->spec).position_offset, 1);
}

TEST(MllamaVision, HasGatedTablesOfPatchesAndTiles) {
  const ModelEncoding model = Read(
      R"({"model_type":"mllama_vision_model","hidden_size":1280,"attention_heads":16,"image_size":560,"patch_size":14})");
  const LayerEncoding tiles = LayerOf(model, "tile_embedding");
  EXPECT_EQ(std::get<LearnedSpec>(tiles.spec->spec).num_positions, 9 * 4 * 1601);
  ASSERT_EQ(tiles.weights.size(), 1u);
  EXPECT_NE(tiles.weights[0].source.find("times tanh(gate)"), std::string::npos);
  EXPECT_TRUE(HasNote(tiles.warnings, "max_num_tiles", "(aspect_ratio_id*4 + tile)*1601 + patch"));
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "post_tile_embedding").spec->spec).num_positions, 9 * 4);
  EXPECT_EQ(ErrorField(R"({"model_type":"mllama_vision_model","image_size":560,"patch_size":14,"max_num_tiles":0})"),
            "max_num_tiles");
  const LayerEncoding layer = LayerOf(model, "embedding");
  ASSERT_EQ(layer.kind, PositionKind::kLearned);
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_positions, 1601);
  EXPECT_EQ(spec.dim, 1280);
  EXPECT_EQ(*spec.position_offset, 1);
  EXPECT_TRUE(HasNote(layer.warnings, "max_num_tiles", "tanh(gate)"));
}

TEST(Vjepa2, ChannelsOfAPairAreTwoRotations) {
  const ModelEncoding model = Read(R"({"model_type":"vjepa2","hidden_size":1024,"num_attention_heads":16})");
  ASSERT_EQ(model.layers.size(), 4u);  // of the encoder and of the predictor
  const LayerEncoding even = LayerOf(model, "encoder.even_channels"), odd = LayerOf(model, "encoder.odd_channels");
  const RopeSpec spec = RopeOf(even);
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_EQ(*spec.rotary_dim, 60);  // 20 channels an axis; the last 4 stay
  EXPECT_EQ(spec.axes->sections, (std::vector<int64_t>{10, 10, 10}));
  // Channel c of 20 takes 10000^(−(c mod 10)/10): pair 5 has channels 10 and 11.
  EXPECT_EQ(ScheduleOf<InvFreqSchedule>(spec).inv_freq[5], 1.0);
  EXPECT_NEAR(ScheduleOf<InvFreqSchedule>(RopeOf(odd)).inv_freq[5], 0.3981071705534972, 1e-15);
  EXPECT_TRUE(HasNote(even.warnings, "model_type", "no rotation"));
  EXPECT_EQ(ErrorField(R"({"model_type":"vjepa2","hidden_size":64,"num_attention_heads":16})"), "hidden_size");
  EXPECT_EQ(ErrorField(R"({"model_type":"vjepa2","pred_num_attention_heads":0})"), "pred_num_attention_heads");
}

TEST(CohereCompass, ReadsADictForEachLayerTypeAndSaysWhenThereIsNone) {
  const ModelEncoding model = Read(R"({"model_type":"cohere_compass","text_config":{"model_type":"cohere_compass_text",
      "hidden_size":2048,"num_attention_heads":16,"head_dim":128,"num_hidden_layers":2,
      "layer_types":["sliding_attention","full_attention"],
      "rope_parameters":{"sliding_attention":{"rope_type":"default","rope_theta":50000},"full_attention":null}}})");
  const RopeSpec spec = RopeOf(LayerOf(model, "sliding_attention"));
  EXPECT_EQ(*spec.base, 50000);
  EXPECT_EQ(*spec.pairing, Pairing::kHalfSplit);
  ASSERT_TRUE(spec.axes.has_value());
  EXPECT_EQ(spec.axes->sections, (std::vector<int64_t>{24, 20, 20}));
  EXPECT_EQ(spec.axes->layout, AxisLayout::kInterleaved);
  EXPECT_EQ(LayerOf(model, "full_attention").kind, PositionKind::kNone);
  const ModelEncoding bare = Read(
      R"({"model_type":"cohere_compass_text","num_hidden_layers":1,"layer_types":["full_attention"],"rope_parameters":{}})");
  EXPECT_EQ(LayerOf(bare, "full_attention").unserved, "rope");
  EXPECT_TRUE(HasNote(bare.warnings, "rope_parameters", "no default"));
  const ModelEncoding linear = Read(
      R"({"model_type":"cohere_compass_text","num_hidden_layers":1,"layer_types":["linear_attention"],"rope_parameters":{}})");
  EXPECT_EQ(LayerOf(linear, "linear_attention").kind, PositionKind::kNone);
}

TEST(Zamba2, RotatesTheDoubledHeadWhereUseMemRopeSaysSo) {
  const char* config = R"({"model_type":"zamba2","hidden_size":2560,"num_attention_heads":32,"kv_channels":80,
      "layers_block_type":["linear_attention","hybrid","linear_attention","hybrid"],"use_mem_rope":true,"rope_theta":10000})";
  const LayerEncoding layer = LayerOf(Read(config));
  EXPECT_EQ(RopeOf(layer).head_dim, 160);
  EXPECT_EQ(*RopeOf(layer).pairing, Pairing::kHalfSplit);
  EXPECT_EQ(layer.layers, (std::vector<int64_t>{1, 3}));
  EXPECT_DOUBLE_EQ(*layer.softmax_scale, 1 / std::sqrt(80.0));
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"zamba2"})")).kind, PositionKind::kNone);
  const char* linear = R"({"model_type":"zamba2","layers_block_type":["linear_attention","mamba"],"use_mem_rope":true})";
  EXPECT_EQ(LayerOf(Read(linear)).kind, PositionKind::kNone);
}

// torch on the class's own formula: 20^(−i/2), 10000^(−i/10).
TEST(EsmFold2, TurnsAtomsByTheirCoordinates) {
  const LayerEncoding layer =
      LayerOf(Read(R"({"model_type":"esmfold2","hidden_size":384,"atom_encoder":{"head_dim":36}})"), "atom_encoder");
  const RopeSpec spec = RopeOf(layer);
  EXPECT_EQ(spec.head_dim, 36);
  EXPECT_EQ(spec.axes->sections, (std::vector<int64_t>{2, 2, 2, 12}));
  const auto inv_freq = ScheduleOf<InvFreqSchedule>(spec).inv_freq;
  ASSERT_EQ(inv_freq.size(), 18u);
  EXPECT_NEAR(inv_freq[3], 0.2236067977, 1e-9);
  EXPECT_NEAR(inv_freq[7], 0.3981071706, 1e-9);
  EXPECT_EQ(inv_freq[17], 0);
  EXPECT_EQ(ErrorField(R"({"model_type":"esmfold2","atom_encoder":{"head_dim":20}})"), "atom_encoder.head_dim");
}

TEST(NanoChat, SaysThatItTurnsTheOtherWay) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"nanochat","hidden_size":768,"num_attention_heads":6})"));
  EXPECT_TRUE(layer.inverse);
  EXPECT_EQ(*RopeOf(layer).pairing, Pairing::kHalfSplit);
  EXPECT_TRUE(HasNote(layer.warnings, "model_type", "inverse"));
}

TEST(Glm4v, PairsAreInterleavedUnlikeGlm4vMoes) {
  const auto pairing = [](std::string_view type) {
    return *RopeOf(
                LayerOf(Read(absl::StrCat(
                    R"({"model_type":")", absl::string_view(type.data(), type.size()),
                    R"(","hidden_size":256,"num_attention_heads":2,"rope_parameters":{"rope_type":"default","rope_theta":10000,)"
                    R"("partial_rotary_factor":0.5,"mrope_section":[8,12,12]}})"))))
                .pairing;
  };
  EXPECT_EQ(pairing("glm4v_text"), Pairing::kInterleaved);
  EXPECT_EQ(pairing("glm4v_moe_text"), Pairing::kHalfSplit);
}

}  // namespace
}  // namespace phasor::server
