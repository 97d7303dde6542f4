// Towers with forms of their own: grids of learned rows, a rotation of the whole width, biases and keys by distance.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

TEST(Grids, HieraHasAGridToResizeAndOneThatRepeats) {
  const ModelEncoding model =
      Read(R"({"model_type":"sam2_hiera_det_model","hidden_size":96,"num_attention_heads":1,)"
           R"("window_positional_embedding_background_size":[7,9],"window_size_per_stage":[8,4,14,7]})");
  const LayerEncoding whole = LayerOf(model, "embedding");
  EXPECT_EQ(std::get<LearnedSpec>(whole.spec->spec).num_positions, 63);
  EXPECT_TRUE(HasNote(whole.warnings, "window_positional_embedding_background_size", "bicubic"));
  const LayerEncoding part = LayerOf(model, "window_embedding");
  EXPECT_EQ(std::get<LearnedSpec>(part.spec->spec).num_positions, 64);
  EXPECT_EQ(std::get<LearnedSpec>(part.spec->spec).dim, 96);
  EXPECT_TRUE(HasNote(part.warnings, "window_size_per_stage", "(y mod 8)*8 + x mod 8"));
  EXPECT_EQ(ErrorField(R"({"model_type":"sam2_hiera_det_model","window_positional_embedding_background_size":[7]})"),
            "window_positional_embedding_background_size");
}

TEST(Grids, HunyuanGoesOnAfterTheClassToken) {
  const LayerEncoding layer =
      LayerOf(Read(R"({"model_type":"hunyuan_vl_vision","hidden_size":1152,"max_image_size":2048,"patch_size":16})"));
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_positions, 128 * 128 + 1);
  EXPECT_EQ(spec.position_offset, 1);
  EXPECT_TRUE(HasNote(layer.warnings, "max_image_size", "bilinear"));
  EXPECT_EQ(ErrorField(R"({"model_type":"hunyuan_vl_vision","max_image_size":8,"patch_size":16})"), "patch_size");
}

TEST(Grids, EfficientLoftrTurnsTheWholeWidth) {
  constexpr char kText[] = R"({"model_type":"efficientloftr","hidden_size":256,"num_attention_heads":8,)"
                           R"("rope_parameters":{"partial_rotary_factor":4,"rope_theta":10000,"rope_type":"default"}})";
  const LayerEncoding layer = LayerOf(Read(kText));
  const RopeSpec spec = RopeOf(layer);
  EXPECT_EQ(spec.head_dim, 256);  // not 32, a head's
  EXPECT_EQ(spec.pairing, Pairing::kInterleaved);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  ASSERT_EQ(plan.inv_freq.size(), 128u);
  EXPECT_NEAR(plan.inv_freq[2], std::pow(1e4, -1.0 / 64), 1e-15);
  EXPECT_EQ(plan.inv_freq[3], plan.inv_freq[2]);
  EXPECT_EQ(plan.axis_of_pair[2], 0);
  EXPECT_EQ(plan.axis_of_pair[3], 1);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_parameters", "[row + 1, column + 1]"));
  EXPECT_EQ(ErrorField(R"({"model_type":"efficientloftr","rope_parameters":{"rope_theta":-1}})"),
            "rope_parameters.rope_theta");
}

// A table of clipped distances as buckets of which every distance in reach has its own.
TEST(Grids, Phi4MultimodalsBiasIsBucketsOfOneDistance) {
  const auto with = [](std::string_view symmetric) {
    return LayerOf(Read(absl::StrCat(R"({"model_type":"phi4_multimodal_audio","hidden_size":1024,"num_attention_heads":16,)",
                                     R"("bias_max_distance":500,"bias_symmetric":)",
                                     absl::string_view(symmetric.data(), symmetric.size()), "}")));
  };
  const LayerEncoding layer = with("false");
  const T5BucketSpec& spec = std::get<T5BucketSpec>(layer.spec->spec);
  EXPECT_EQ(*spec.num_buckets, 4 * 501);
  EXPECT_TRUE(*spec.bidirectional);
  ASSERT_EQ(layer.weights.size(), 1u);
  EXPECT_EQ(layer.weights[0].shape, (std::vector<int64_t>{4 * 501, 16}));
  EXPECT_NE(layer.weights[0].source.find("max(0, 500 - r)"), std::string::npos);
  EXPECT_NE(with("true").weights[0].source.find("min(r, 499)"), std::string::npos);
  EXPECT_TRUE(HasNote(with("true").warnings, "bias_symmetric", "fails"));
  EXPECT_EQ(ErrorField(R"({"model_type":"phi4_multimodal_audio","bias_max_distance":0})"), "bias_max_distance");
  EXPECT_EQ(ErrorField(R"({"model_type":"phi4_multimodal_audio","bias_max_distance":16383})"), "bias_max_distance");
}

TEST(Grids, GraniteSpeechHasRelativeKeys) {
  const LayerEncoding layer = LayerOf(
      Read(R"({"model_type":"granite_speech_encoder","num_heads":8,"dim_head":128,"context_size":200,"max_pos_emb":512})"));
  EXPECT_EQ(std::get<ShawSpec>(layer.spec->spec).clip, 512);
  EXPECT_FALSE(std::get<ShawSpec>(layer.spec->spec).key_minus_query);
  EXPECT_EQ(layer.weights[0].shape, (std::vector<int64_t>{1025, 128}));
  EXPECT_EQ(ErrorField(R"({"model_type":"granite_speech_encoder","num_heads":8,"max_pos_emb":-2})"), "max_pos_emb");
}

TEST(Grids, LedHasALengthForEachSide) {
  const ModelEncoding model = Read(R"({"model_type":"led","d_model":64,"max_encoder_position_embeddings":4096})");
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "encoder").spec->spec).num_positions, 4096);
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "decoder").spec->spec).num_positions, 1024);
  EXPECT_TRUE(HasNote(LayerOf(model, "decoder").defaults, "max_decoder_position_embeddings"));
}

}  // namespace
}  // namespace phasor::server
