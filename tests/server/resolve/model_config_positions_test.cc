// What an answer says about positions and queries beside the spec: factors on queries by position, ids from images and
// videos, the slice of a head that rotates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/resolve/gguf_testing.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using Layout = MropeRule::Layout;

double ScaleAt(const QueryScaleRule& rule, double position) {
  const double period = static_cast<double>(rule.period);
  if (rule.kind == QueryScaleRule::Kind::kLogN) return std::max(1.0, std::log(position + 1) / std::log(period));
  return 1 + rule.coefficient * std::log(1 + std::floor((position + static_cast<double>(rule.shift)) / period));
}

TEST(QueryScale, IsWhatTheLibraryMultipliesBy) {
  const rapidjson::Document golden = ReadLibraryJson("query_scales.json");
  ASSERT_TRUE(golden.IsObject());
  EXPECT_EQ(golden["cases"].Size(), 5u);
  for (const auto& each : golden["cases"].GetArray()) {
    const std::string config = JsonText(each["config"]);
    SCOPED_TRACE(config);
    const LayerEncoding layer = LayerOf(Read(config), each["layer_type"].GetString());
    ASSERT_TRUE(layer.query_scale_rule.has_value());
    EXPECT_FALSE(layer.query_scale.empty());
    for (const auto& sample : each["samples"].GetArray()) {
      EXPECT_NEAR(ScaleAt(*layer.query_scale_rule, sample[0].GetDouble()), sample[1].GetDouble(), 2e-7)
          << "position " << sample[0].GetInt();
    }
  }
}

TEST(QueryScale, RefusesWhatNoRuleCanBe) {
  EXPECT_EQ(ErrorField(R"({"model_type":"llama4_text","floor_scale":0})"), "floor_scale");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama4_text","attn_scale":-0.1})"), "attn_scale");
  EXPECT_EQ(ErrorField(Llama(R"("rope_parameters":{"rope_theta":1e6,"original_max_position_embeddings":8192,)"
                             R"("llama_4_scaling_beta":-1})")),
            "rope_parameters.llama_4_scaling_beta");
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"qwen","hidden_size":64,"num_attention_heads":4,"use_logn_attn":false})"))
                .query_scale_rule.has_value(),
            false);
}

// A model of 16 heads of 128 in a wrapper with an image tower.
MropeRule MropeOf(std::string_view type, std::string_view vision) {
  const auto view = [](std::string_view text) { return absl::string_view(text.data(), text.size()); };
  const bool half = type.starts_with("glm4v");  // of the head rotates
  const std::string_view sections = half ? "[8,12,12]" : type.starts_with("ernie") ? "[22,22,20]" : "[24,20,20]";
  const ModelEncoding model = Read(absl::StrCat(
      R"({"model_type":")", view(type), R"(","text_config":{"hidden_size":2048,"num_attention_heads":16,)",
      R"("rope_parameters":{"rope_type":"default","rope_theta":1e6,)", half ? R"("partial_rotary_factor":0.5,)" : "",
      R"("mrope_section":)", view(sections), "}},", R"("vision_config":{)", view(vision), "}}"));
  const LayerEncoding layer = LayerOf(model);
  EXPECT_TRUE(layer.mrope.has_value()) << type;
  return layer.mrope.value_or(MropeRule());
}

// Glm4vTextRotaryEmbedding takes [8, 12, 12] where there is no mrope_section; they are those of 32 pairs, half of a head.
TEST(Mrope, GlmsOwnSectionsFitHalfOfAHead) {
  const auto with = [](const char* more) {
    return LayerOf(Read(absl::StrCat(R"({"model_type":"glm4v_text","hidden_size":4096,"num_attention_heads":32,)",
                                     R"("rope_parameters":{"rope_type":"default","rope_theta":10000)", more, "}}")));
  };
  const LayerEncoding half = with(R"(,"partial_rotary_factor":0.5)");
  ASSERT_EQ(half.kind, PositionKind::kRope) << half.unserved;
  EXPECT_EQ(std::get<RopeSpec>(half.spec->spec).axes->sections, (std::vector<int64_t>{8, 12, 12}));
  EXPECT_EQ(with("").unserved, "mrope");  // the class's own forward fails: 64 pairs
}

// get_rope_index of each class in transformers 5.24.0; tests/golden/positions has their ids.
TEST(Mrope, LayoutOfEveryClass) {
  for (const auto& [type, layout] : {std::pair("qwen2_vl", Layout::kQwen2Vl), std::pair("qwen2_5_vl", Layout::kQwen25Vl),
                                     std::pair("qwen3_vl", Layout::kQwen3Vl), std::pair("qwen3_vl_moe", Layout::kQwen3Vl),
                                     std::pair("glm4v", Layout::kQwen3Vl), std::pair("glm4v_moe", Layout::kQwen3Vl),
                                     std::pair("glm_ocr", Layout::kQwen3Vl), std::pair("ernie4_5_vl_moe", Layout::kQwen2Vl),
                                     std::pair("paddleocr_vl", Layout::kQwen2Vl)}) {
    EXPECT_EQ(MropeOf(type, R"("spatial_merge_size":2)").layout, layout) << type;
  }
}

TEST(Mrope, NumbersComeFromTheImageTower) {
  const MropeRule rule = MropeOf("qwen2_5_vl", R"("spatial_merge_size":3,"tokens_per_second":2)");
  EXPECT_EQ(rule.spatial_merge, 3);
  EXPECT_EQ(rule.tokens_per_second, 2.0);
  EXPECT_EQ(MropeOf("qwen2_5_vl", "").tokens_per_second, 4.0);  // the class's, which no published file has
  EXPECT_EQ(MropeOf("qwen2_vl", R"("tokens_per_second":2)").tokens_per_second, std::nullopt);
  EXPECT_EQ(MropeOf("ernie4_5_vl_moe", "").temporal_merge, 2);
  EXPECT_EQ(MropeOf("ernie4_5_vl_moe", R"("temporal_merge_size":1)").temporal_merge, 1);
  EXPECT_EQ(
      ErrorField(R"({"model_type":"qwen2_vl","hidden_size":2048,"num_attention_heads":16,)"
                 R"("rope_scaling":{"type":"mrope","mrope_section":[16,24,24]},"vision_config":{"spatial_merge_size":0}})"),
      "vision_config.spatial_merge_size");
}

TEST(Mrope, OmniKeepsItsRateBesideTheTower) {
  const ModelEncoding model = Read(
      R"({"model_type":"qwen2_5_omni","thinker_config":{"model_type":"qwen2_5_omni_thinker","position_id_per_seconds":25,)"
      R"("text_config":{"hidden_size":2048,"num_attention_heads":16,"rope_scaling":{"type":"mrope","mrope_section":[16,24,24]}},)"
      R"("vision_config":{"spatial_merge_size":2}}})");
  const LayerEncoding layer = LayerOf(model);
  ASSERT_TRUE(layer.mrope.has_value());
  EXPECT_EQ(layer.mrope->layout, Layout::kQwen25Vl);
  EXPECT_EQ(layer.mrope->tokens_per_second, 25.0);
  EXPECT_TRUE(HasNote(layer.warnings, "thinker_config.position_id_per_seconds", "use_audio_in_video"));
}

TEST(Mrope, HunyuanCountsItsSections) {
  const auto axes = [](std::string_view sections) {
    const LayerEncoding layer = LayerOf(Read(absl::StrCat(
        R"({"model_type":"hunyuan_vl","text_config":{"hidden_size":2048,"num_attention_heads":16,"head_dim":128,)"
        R"("rope_parameters":{"rope_type":"default","rope_theta":1e4,"mrope_section":)",
        absl::string_view(sections.data(), sections.size()), R"(}},"vision_config":{"spatial_merge_size":2}})")));
    EXPECT_TRUE(layer.mrope.has_value());
    return layer.mrope.value_or(MropeRule());
  };
  EXPECT_EQ(axes("[16,16,16,16]").layout, Layout::kHunyuanVl);
  EXPECT_EQ(axes("[16,16,16,16]").axes, 4);
  EXPECT_EQ(axes("[24,20,20]").axes, 3);
}

// Their rows end in one more token, or their images are not merged: rules of other classes, with other grids.
TEST(Mrope, ClassesThatGiveOtherGrids) {
  const LayerEncoding hunyuan = LayerOf(Read(
      R"({"model_type":"hy_v4_vl","text_config":{"model_type":"hy_v4_vl_text","rope_parameters":{"rope_type":"default",)"
      R"("rope_theta":1e4,"mrope_section":[12,10,10]}},"vision_config":{"spatial_merge_size":2}})"));
  ASSERT_TRUE(hunyuan.mrope.has_value());
  EXPECT_EQ(hunyuan.mrope->layout, Layout::kQwen3Vl);
  EXPECT_TRUE(HasNote(hunyuan.warnings, "text_config.model_type", "2 patches wider"));
  const LayerEncoding made = LayerOf(Read(
      R"({"model_type":"glm_image","text_config":{"model_type":"glm_image_text","hidden_size":4096,"num_attention_heads":32,)"
      R"("rope_parameters":{"rope_type":"default","rope_theta":1e4,"partial_rotary_factor":0.5,"mrope_section":[8,12,12]}},)"
      R"("vision_config":{"spatial_merge_size":2}})"));
  ASSERT_TRUE(made.mrope.has_value());
  EXPECT_EQ(made.mrope->layout, Layout::kQwen2Vl);
  EXPECT_EQ(made.mrope->spatial_merge, 1);  // the class merges nothing, whatever the tower says
  EXPECT_TRUE(HasNote(made.warnings, "text_config.model_type", "the last first"));
  const LayerEncoding canvas =
      LayerOf(Read(R"({"model_type":"minicpmv4_7","text_config":{"model_type":"qwen3_5_text","hidden_size":2048,)"
                   R"("num_attention_heads":16,"head_dim":256,"rope_parameters":{"rope_type":"default","rope_theta":1e6,)"
                   R"("mrope_section":[11,11,10]}}})"));
  EXPECT_FALSE(canvas.mrope.has_value());
  EXPECT_TRUE(HasNote(canvas.warnings, "text_config.model_type", "one canvas"));
}

TEST(Mrope, OtherReadersGoOnElsewhereAfterAVideo) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"qwen2_vl","hidden_size":2048,"num_attention_heads":16,)"
                                           R"("rope_scaling":{"type":"mrope","mrope_section":[16,24,24]}})"));
  EXPECT_TRUE(HasNote(layer.warnings, "model_type", "transformers 5 goes on"));
  const LayerEncoding omni =
      LayerOf(Read(R"({"model_type":"qwen3_omni_moe_text","hidden_size":2048,"num_attention_heads":16,"head_dim":128,)"
                   R"("rope_parameters":{"rope_theta":1e6,"mrope_section":[24,20,20],"mrope_interleaved":true}})"));
  EXPECT_FALSE(omni.mrope.has_value());  // fractional times
  EXPECT_TRUE(HasNote(omni.warnings, "model_type", "give the ids themselves"));
}

TEST(FirstChannel, SliceOfMlaComesLast) {
  const LayerEncoding layer =
      LayerOf(Read(R"({"model_type":"deepseek_v3","hidden_size":7168,"num_attention_heads":128,"qk_nope_head_dim":128,)"
                   R"("qk_rope_head_dim":64,"rope_interleave":true})"));
  const RopeSpec spec = RopeOf(layer);
  EXPECT_EQ(spec.head_dim, 192);
  EXPECT_EQ(*spec.rotary_dim, 64);
  EXPECT_EQ(spec.first_channel, 128);
  EXPECT_TRUE(HasNote(layer.warnings, "qk_rope_head_dim", "first_channel 0"));
  EXPECT_EQ(*spec.pairing, Pairing::kInterleavedToHalf);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_interleave", "other stored keys"));
  EXPECT_EQ(RopeOf(LayerOf(Read(Llama("")))).first_channel, 0);
}

TEST(FirstChannel, SameInGguf) {
  auto file = SmallGguf("deepseek2");
  file.Uint("deepseek2.attention.key_length", 192).Uint("deepseek2.rope.dimension_count", 64);
  const auto model = file.Read();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(RopeOf(model->layers.front()).first_channel, 128);
}

TEST(QueryScale, SameInGguf) {
  auto file = SmallGguf("mistral3");
  file.Float("mistral3.attention.temperature_scale", 0.5F).Uint("mistral3.rope.scaling.original_context_length", 4096);
  const auto model = file.Read();
  ASSERT_TRUE(model.ok()) << model.status();
  const auto& rule = model->layers.front().query_scale_rule;
  ASSERT_TRUE(rule.has_value());
  EXPECT_EQ(rule->coefficient, 0.5);
  EXPECT_EQ(rule->period, 4096);
  EXPECT_EQ(rule->shift, 0);
  auto negative = SmallGguf("mistral3");
  negative.Float("mistral3.attention.temperature_scale", -1);
  EXPECT_FALSE(negative.Read().ok());
}

}  // namespace
}  // namespace phasor::server
