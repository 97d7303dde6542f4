// Classes that encode places by coordinates: what the file says, what the class adds, and what nobody can know.
#include "absl/strings/str_cat.h"

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

const GridSinusoidalSpec& MapOf(const LayerEncoding& layer) { return std::get<GridSinusoidalSpec>(layer.spec->spec); }

TEST(Features, DetrsMapHasNoGridUntilTheImageIsKnown) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"detr","d_model":384,"position_embedding_type":"sine"})"));
  const GridSinusoidalSpec& spec = MapOf(layer);
  EXPECT_EQ(layer.kind, PositionKind::kSinusoidal);
  EXPECT_TRUE(spec.grid.empty());
  EXPECT_EQ(spec.dim, 384);
  EXPECT_EQ(spec.start, 1);
  EXPECT_EQ(spec.extent_epsilon, 1e-6);
  EXPECT_EQ(spec.layout, GridLayout::kInterleaved);
  EXPECT_EQ(spec.order, GridOrder::kAsListed);
  EXPECT_TRUE(HasNote(layer.warnings, "d_model", "add grid [height, width]"));
  EXPECT_TRUE(HasNote(layer.warnings, "d_model", "padding mask"));
}

TEST(Features, KinOfDetrDifferInOneThingEach) {
  EXPECT_EQ(MapOf(LayerOf(Read(R"({"model_type":"deformable_detr","d_model":256})"))).start, 0.5);
  const LayerEncoding dab = LayerOf(Read(
      R"({"model_type":"dab-detr","hidden_size":256,"temperature_height":20,"temperature_width":30,"sine_position_embedding_scale":3})"));
  EXPECT_EQ(MapOf(dab).axis_bases, (std::vector<double>{20, 30}));
  EXPECT_EQ(MapOf(dab).scale, 3);
  EXPECT_EQ(ErrorField(R"({"model_type":"dab-detr","hidden_size":256,"temperature_height":-1,"temperature_width":30})"),
            "temperature_height");
  const LayerEncoding rt =
      LayerOf(Read(R"({"model_type":"rt_detr","encoder_hidden_dim":192,"positional_encoding_temperature":99})"));
  EXPECT_EQ(MapOf(rt).layout, GridLayout::kConcatenated);
  EXPECT_EQ(MapOf(rt).start, 0);
  EXPECT_EQ(MapOf(rt).base, 99);
  EXPECT_FALSE(MapOf(rt).extent_epsilon);
  EXPECT_EQ(ErrorField(R"({"model_type":"rt_detr","positional_encoding_temperature":0})"),
            "positional_encoding_temperature");
  EXPECT_EQ(ErrorField(R"({"model_type":"detr","d_model":255})"), "d_model");
}

TEST(Features, LearnedTablesOfDetrAreOneForColumnsAndOneForRows) {
  const ModelEncoding model = Read(R"({"model_type":"detr","d_model":256,"position_embedding_type":"learned"})");
  for (const char* name : {"column", "row"}) {
    EXPECT_EQ(LayerOf(model, name).weights[0].shape, (std::vector<int64_t>{50, 128})) << name;
  }
  EXPECT_EQ(ErrorField(R"({"model_type":"detr","d_model":256,"position_embedding_type":"sin"})"), "position_embedding_type");
}

// The language model's class is read first; what the whole has beside it is not lost.
TEST(Features, GroundingDinoHasBertsTableAndAMap) {
  const ModelEncoding model = Read(R"({"model_type":"grounding-dino","d_model":128,"positional_embedding_temperature":25,
      "text_config":{"model_type":"bert","hidden_size":768,"num_attention_heads":12,"max_position_embeddings":512}})");
  const LayerEncoding map = LayerOf(model, "feature_map");
  EXPECT_EQ(MapOf(map).dim, 128);
  EXPECT_EQ(MapOf(map).base, 25);
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "").spec->spec).dim, 768);
}

TEST(Features, SamsPointsNeedTheMatrixOfTheCheckpoint) {
  const ModelEncoding sam = Read(R"({"model_type":"sam","vision_config":{"model_type":"sam_vision_model","num_pos_feats":96},
      "prompt_encoder_config":{"model_type":"sam_prompt_encoder","hidden_size":192}})");
  for (const char* name : {"shared_image_embedding", "prompt_encoder"}) {
    const LayerEncoding layer = LayerOf(sam, name);
    EXPECT_EQ(layer.weights.at(0).shape, (std::vector<int64_t>{2, 96})) << name;
    EXPECT_TRUE(LacksWeights(layer));
    EXPECT_FALSE(*std::get<GaussianFourierSpec>(layer.spec->spec).log);
    EXPECT_NE(layer.warnings.at(0).message.find("[2x - 1, 2y - 1]"), std::string::npos);
  }
  EXPECT_EQ(
      ErrorField(R"({"model_type":"sam2","prompt_encoder_config":{"model_type":"sam2_prompt_encoder","hidden_size":1}})"),
      "prompt_encoder_config.hidden_size");
}

TEST(Features, VideoModelsOfSamHaveAMemoryToo) {
  const ModelEncoding model = Read(R"({"model_type":"sam2_video","memory_attention_hidden_size":256,
      "memory_attention_num_attention_heads":1,"memory_attention_downsample_rate":1,"memory_encoder_output_channels":64})");
  EXPECT_EQ(MapOf(LayerOf(model, "memory")).dim, 64);
  EXPECT_EQ(LayerOf(model, "").kind, PositionKind::kRope);
}

TEST(Features, LightGluesAnglesAreInRadians) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"lightglue","descriptor_dim":256,"num_attention_heads":4})"));
  EXPECT_TRUE(std::get<GaussianFourierSpec>(layer.spec->spec).radians);
  EXPECT_EQ(layer.weights.at(0).shape, (std::vector<int64_t>{2, 32}));
  EXPECT_NE(layer.weights[0].source.find("transposed"), std::string::npos);
  EXPECT_TRUE(HasNote(layer.warnings, "descriptor_dim", "interleaved"));
}

TEST(Features, BrosAndMusicFlamingoSayWhatTheirPositionsAre) {
  const ModelEncoding bros =
      Read(R"({"model_type":"bros","hidden_size":768,"num_attention_heads":12,"max_position_embeddings":512,
      "dim_bbox":8,"dim_bbox_sinusoid_emb_1d":24})");
  EXPECT_EQ(std::get<SinusoidalSpec>(LayerOf(bros, "boxes").spec->spec).dim, 24);
  EXPECT_TRUE(HasNote(LayerOf(bros, "boxes").warnings, "dim_bbox_sinusoid_emb_1d", "bbox_scale"));
  const ModelEncoding music = Read(R"({"model_type":"musicflamingo","head_dim":1280,"max_position_embeddings":1200,
      "rope_parameters":{"rope_type":"default","rope_theta":1200,"partial_rotary_factor":0.2},
      "text_config":{"model_type":"qwen2","hidden_size":4096,"num_attention_heads":32}})");
  const LayerEncoding times = LayerOf(music, "audio_times");
  EXPECT_EQ(std::get<RopeSpec>(times.spec->spec).rotary_dim, 512);
  EXPECT_TRUE(HasNote(times.warnings, "audio_frame_step", "window"));
}

}  // namespace
}  // namespace phasor::server
