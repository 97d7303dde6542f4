// Classes by their code: timm's names, stages, buckets of boxes, convolutions.
#include <gtest/gtest.h>

#include <string>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

ModelEncoding Read(const std::string& json) {
  auto model = ReadModelConfig(json);
  EXPECT_TRUE(model.ok()) << json << ": " << model.status();
  return model.ok() ? *std::move(model) : ModelEncoding();
}

std::string ProblemOf(const std::string& json) {
  const auto model = ReadModelConfig(json);
  const auto error = SpecErrorOf(model.status());
  return error ? error->field + " is " + error->given : std::string(model.status().message());
}

bool Warns(const LayerEncoding& layer, std::string_view text) {
  for (const Note& note : layer.warnings) {
    if (note.message.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST(Timm, PerceptionEncodersTurnAndAddRows) {
  const ModelEncoding model = Read(R"({"model_type": "timm_wrapper", "architecture": "vit_pe_core_large_patch14_336.fb"})");
  ASSERT_EQ(model.layers.size(), 2u);
  const auto& rope = std::get<RopeSpec>(model.layers[0].spec->spec);
  EXPECT_EQ(rope.head_dim, 64);
  EXPECT_EQ(rope.pairing, Pairing::kInterleaved);
  ASSERT_TRUE(rope.axes.has_value());
  EXPECT_EQ(rope.axes->sections, (std::vector<int64_t>{16, 16}));
  EXPECT_TRUE(Warns(model.layers[0], "count from 1"));
  const auto& table = std::get<LearnedSpec>(model.layers[1].spec->spec);
  EXPECT_EQ(table.num_positions, 577);
  EXPECT_EQ(table.dim, 1024);
  EXPECT_EQ(table.position_offset, 1);
  EXPECT_EQ(model.layers[1].num_q_heads, 16);
}

TEST(Timm, GiganticOnesHaveNoClassToken) {
  const ModelEncoding model = Read(R"({"model_type": "timm_wrapper", "architecture": "vit_pe_lang_gigantic_patch14_448",
                                       "model_args": {"img_size": 224}})");
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_TRUE(Warns(model.layers[0], "count from 0"));
  const auto& table = std::get<LearnedSpec>(model.layers[1].spec->spec);
  EXPECT_EQ(table.num_positions, 16 * 16);
  EXPECT_EQ(table.position_offset, 0);
  EXPECT_EQ(std::get<RopeSpec>(model.layers[0].spec->spec).head_dim, 96);
}

TEST(Timm, NamesDecideAmongConvolutionsWindowsAndNothing) {
  const auto first = [](const std::string& name) {
    const ModelEncoding model = Read(R"({"model_type": "timm_backbone", "backbone": ")" + name + "\"}");
    EXPECT_FALSE(model.layers.empty()) << name;
    return model.layers.empty() ? LayerEncoding() : model.layers.front();
  };
  EXPECT_EQ(first("resnet50.a1_in1k").kind, PositionKind::kNone);
  EXPECT_EQ(first("repvit_m1.dist_in1k").kind, PositionKind::kNone);
  EXPECT_EQ(first("fastvit_t8").kind, PositionKind::kNone);
  const LayerEncoding fast = first("fastvit_mci3");
  EXPECT_EQ(fast.unserved, "positional_convolution");
  EXPECT_TRUE(Warns(fast, "kernel 7"));
  EXPECT_TRUE(Warns(fast, "before stage 4 and before stage 5"));
  const LayerEncoding swin = first("swin_base_patch4_window12_384");
  const auto& window = std::get<WindowBiasSpec>(swin.spec->spec);
  EXPECT_EQ(window.window_height, 12);
  EXPECT_EQ(window.num_heads, 4);
  EXPECT_EQ(swin.weights.at(0).shape, (std::vector<int64_t>{23 * 23, 4}));
  EXPECT_EQ(first("resnet50_clip").unserved, "timm");  // its pool has a table
  EXPECT_EQ(first("vit_base_patch16_224").unserved, "timm");
}

TEST(Timm, WithoutANameNothingIsKnown) {
  const ModelEncoding model = Read(R"({"model_type": "timm_backbone", "backbone": null})");
  ASSERT_EQ(model.layers.size(), 1u);
  EXPECT_EQ(model.layers[0].unserved, "unknown");
  EXPECT_EQ(ProblemOf(R"({"model_type": "timm_wrapper", "architecture": 5})").substr(0, 17), "architecture is 5");
  EXPECT_EQ(ProblemOf(R"({"model_type": "timm_wrapper", "architecture": "vit_pe_core_large_patch14_336",
                          "model_args": {"img_size": 7}})"),
            "model_args.img_size is less than a patch");
}

TEST(Stages, PvtHasATableForEach) {
  const ModelEncoding model = Read(R"({"model_type": "pvt", "num_encoder_blocks": 2, "image_size": 128,
                                       "patch_sizes": [4, 2], "hidden_sizes": [8, 16]})");
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_EQ(model.layers[0].layer_type, "stage1.embedding");
  EXPECT_EQ(model.layers[0].weights.at(0).shape, (std::vector<int64_t>{32 * 32, 8}));
  EXPECT_EQ(model.layers[1].weights.at(0).shape, (std::vector<int64_t>{16 * 16 + 1, 16}));
  EXPECT_EQ(std::get<LearnedSpec>(model.layers[1].spec->spec).position_offset, 1);
  EXPECT_EQ(ProblemOf(R"({"model_type": "pvt", "num_encoder_blocks": 10})").substr(0, 24), "num_encoder_blocks is 10");
  EXPECT_EQ(ProblemOf(R"({"model_type": "pvt", "num_encoder_blocks": 5})"),
            "num_encoder_blocks is 5 stages");  // no default for a fifth
}

TEST(Stages, DinatHasWindowsOfItsKernel) {
  const ModelEncoding model = Read(R"({"model_type": "dinat", "depths": [1, 2], "num_heads": [2, 4], "kernel_size": 5})");
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_EQ(model.layers[1].layers, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(std::get<WindowBiasSpec>(model.layers[1].spec->spec).window_width, 5);
  EXPECT_EQ(model.layers[1].weights.at(0).shape, (std::vector<int64_t>{81, 4}));
  EXPECT_EQ(ProblemOf(R"({"model_type": "dinat", "depths": [1, 2], "num_heads": [2]})"), "num_heads is 1 entries");
}

TEST(Stages, SegGptHasATermAndATable) {
  const ModelEncoding model = Read(R"({"model_type": "seggpt"})");
  ASSERT_EQ(model.layers.size(), 2u);
  EXPECT_EQ(model.layers[0].kind, PositionKind::kTerm);
  EXPECT_EQ(model.layers[0].weights.at(0).shape, (std::vector<int64_t>{2 * 56 - 1, 64}));
  EXPECT_EQ(model.layers[0].weights.at(1).shape, (std::vector<int64_t>{2 * 28 - 1, 64}));
  EXPECT_EQ(model.layers[1].weights.at(0).shape, (std::vector<int64_t>{197, 1024}));
  EXPECT_EQ(Read(R"({"model_type": "seggpt", "use_relative_position_embeddings": false})").layers.size(), 1u);
}

TEST(Boxes, LayoutLmHasBucketsOfTokensAndCoordinates) {
  const ModelEncoding second = Read(R"({"model_type": "layoutlmv2", "has_spatial_attention_bias": false})");
  ASSERT_EQ(second.layers.size(), 2u + 4u);
  EXPECT_EQ(second.layers[1].layer_type, "relative");
  EXPECT_EQ(std::get<T5BucketSpec>(second.layers[1].spec->spec).scale, 1.0);
  const ModelEncoding third = Read(R"({"model_type": "layoutlmv3", "rel_2d_pos_bins": 16, "max_rel_2d_pos": 40})");
  ASSERT_EQ(third.layers.size(), 4u + 5u);
  const auto& rows = std::get<T5BucketSpec>(third.layers[3].spec->spec);
  EXPECT_EQ(third.layers[3].layer_type, "relative_y");
  EXPECT_EQ(rows.num_buckets, 16);
  EXPECT_EQ(rows.max_distance, 40);
  EXPECT_EQ(rows.scale, 0.125);  // divided by √64
}

TEST(Boxes, CpmAntReadsItsFirstRowsByDistance) {
  const ModelEncoding model = Read(R"({"model_type": "cpmant", "segment_types": 4, "position_bias_num_buckets": 64})");
  ASSERT_EQ(model.layers.size(), 1u);
  EXPECT_EQ(model.layers[0].weights.at(0).shape, (std::vector<int64_t>{64, 32}));
  EXPECT_NE(model.layers[0].weights.at(0).source.find("the first 64 of the 80 rows"), std::string::npos);
  EXPECT_TRUE(Warns(model.layers[0], "reads row 64 + 4*a + b"));
}

TEST(Convolutions, AreNamedWithTheirNumbers) {
  const auto text = [](const char* json) {
    const ModelEncoding model = Read(json);
    EXPECT_EQ(model.layers.at(0).unserved, "positional_convolution");
    return model.layers.at(0).warnings.at(0).message;
  };
  EXPECT_NE(text(R"({"model_type": "wav2vec2", "num_conv_pos_embeddings": 64})").find("kernel 64, groups 16, layers 1"),
            std::string::npos);
  EXPECT_NE(text(R"({"model_type": "data2vec-audio"})").find("kernel 19, groups 16, layers 5"), std::string::npos);
  EXPECT_NE(text(R"({"model_type": "sew", "squeeze_factor": 2})").find("stride 2"), std::string::npos);
  EXPECT_EQ(ProblemOf(R"({"model_type": "hubert", "num_conv_pos_embeddings": 0})"), "num_conv_pos_embeddings is 0");
  EXPECT_TRUE(Warns(Read(R"({"model_type": "wavlm"})").layers.at(0), "kernel 128, groups 16, layers 1"));
}

TEST(Diffusion, TheStepIsSinusoidsWithCosinesFirst) {
  const ModelEncoding model = Read(R"({"model_type": "vibevoice_diffusion", "diffusion_max_period": 1000})");
  const auto& spec = std::get<TimestepSpec>(model.layers.at(0).spec->spec);
  EXPECT_EQ(spec.dim, 256);
  EXPECT_EQ(spec.max_period, 1000);
  EXPECT_EQ(spec.downscale_freq_shift, 0);
  EXPECT_TRUE(spec.flip_sin_to_cos);
}

// Sizes of the configuration classes of transformers 5.24.0.
TEST(ClassSizes, TablesOfFilesThatGiveNone) {
  struct Case {
    const char* file;
    int64_t rows, dim;
  };
  for (const Case& c : {
           Case{R"({"model_type":"vit"})", 197, 768},
           Case{R"({"model_type":"vit","image_size":384})", 577, 768},
           Case{R"({"model_type":"vit","patch_size":32})", 50, 768},
           Case{R"({"model_type":"deit"})", 198, 768},
           Case{R"({"model_type":"dinov2"})", 257, 768},
           Case{R"({"model_type":"clip_vision_model"})", 50, 768},
           Case{R"({"model_type":"siglip_vision_model"})", 196, 768},
           Case{R"({"model_type":"siglip2_vision_model"})", 256, 768},
           Case{R"({"model_type":"internvl_vision"})", 1025, 1024},
           Case{R"({"model_type":"qwen2_audio_encoder"})", 1500, 1280},
       }) {
    const LayerEncoding layer = LayerOf(Read(c.file));
    ASSERT_EQ(layer.kind, PositionKind::kLearned) << c.file;
    EXPECT_EQ(std::get<LearnedSpec>(layer.spec->spec).num_positions, c.rows) << c.file;
    EXPECT_EQ(std::get<LearnedSpec>(layer.spec->spec).dim, c.dim) << c.file;
  }
  const LayerEncoding vit = LayerOf(Read(R"({"model_type":"vit","image_size":[32,64]})"));
  EXPECT_EQ(std::get<LearnedSpec>(vit.spec->spec).num_positions, 9);
  EXPECT_TRUE(HasNote(vit.defaults, "patch_size", "16 (default of class vit)"));
  EXPECT_FALSE(HasNote(vit.defaults, "image_size"));
  EXPECT_TRUE(HasNote(LayerOf(Read(R"({"model_type":"qwen2_audio_encoder"})")).defaults, "max_source_positions",
                      "1500 (default of class "));
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"vit","image_size":null})")).kind, PositionKind::kUnserved);
  // What a class says of its parts goes before what their class says.
  const LayerEncoding tower = LayerOf(Read(R"({"model_type":"llava"})"), "vision");
  EXPECT_EQ(std::get<LearnedSpec>(tower.spec->spec).num_positions, 577);
}

TEST(ClassSizes, SomeHeadsDoNotFollowTheHiddenSize) {
  for (const auto& [type, head_dim] :
       {std::pair<const char*, int64_t>{"cohere2_moe", 128}, {"afmoe", 128}, {"lfm3", 128}, {"molmo2_text", 128}}) {
    const ModelEncoding model =
        Read(absl::StrCat(R"({"model_type":")", type, R"(","hidden_size":1024,"num_attention_heads":16})"));
    bool any = false;
    for (const LayerEncoding& layer : model.layers) {
      if (layer.kind != PositionKind::kRope) continue;
      any = true;
      EXPECT_EQ(RopeOf(layer).head_dim, head_dim) << type;
      EXPECT_TRUE(HasNote(layer.defaults, "head_dim", "(default of class ")) << type;
    }
    EXPECT_TRUE(any) << type;
  }
}

}  // namespace
}  // namespace phasor::server
