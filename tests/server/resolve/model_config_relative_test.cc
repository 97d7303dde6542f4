// Classes whose relative terms differ from the papers', and pages with biases between boxes: what terms_golden_test does not
// see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Funnel, PositionsOfPooledBlocksAreTheCallers) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"funnel"})"));
  EXPECT_EQ(layer.kind, PositionKind::kTerm);
  EXPECT_TRUE(std::get<XlnetSpec>(layer.spec->spec).separate_cls);
  EXPECT_TRUE(HasNote(layer.warnings, "block_sizes", "1 - 2^b for the class token"));
  EXPECT_TRUE(HasNote(layer.defaults, "separate_cls", "true"));
  EXPECT_TRUE(LacksWeights(layer));
  EXPECT_EQ(ErrorField(R"({"model_type":"funnel","attention_type":"other"})"), "attention_type");
  EXPECT_EQ(ErrorField(R"({"model_type":"funnel","d_model":7})"), "d_model");
}

TEST(FastSpeech2, SidesHaveTheirOwnHeads) {
  const ModelEncoding model =
      Read(R"({"model_type":"fastspeech2_conformer","hidden_size":384,"decoder_num_attention_heads":4})");
  EXPECT_THAT(LayerOf(model, "encoder").weights[1].shape, ElementsAre(2, 192));
  EXPECT_THAT(LayerOf(model, "decoder").weights[1].shape, ElementsAre(4, 96));
  EXPECT_EQ(ErrorField(R"({"model_type":"fastspeech2_conformer","encoder_num_attention_heads":0})"),
            "encoder_num_attention_heads");
}

TEST(GemmaSound, NeedsNoVectorsAndSaysWhatTheClassDoesAround) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"gemma3n_audio"})"));
  const ConformerSpec& spec = std::get<ConformerSpec>(layer.spec->spec);
  EXPECT_EQ(spec.dim, 1536);
  EXPECT_EQ(spec.num_heads, 8);
  EXPECT_TRUE(spec.concatenated && spec.base_inclusive);
  ASSERT_EQ(layer.weights.size(), 1u);
  EXPECT_TRUE(layer.weights[0].required);
  EXPECT_EQ(layer.softmax_scale, 1.0);
  EXPECT_TRUE(HasNote(layer.warnings, "conf_num_attention_heads", "softplus(per_dim_scale)"));
  EXPECT_TRUE(HasNote(layer.warnings, "conf_attention_context_left", "distances 12 … 0"));
  EXPECT_EQ(ErrorField(R"({"model_type":"gemma3n_audio","conf_num_attention_heads":0})"), "conf_num_attention_heads");
  EXPECT_EQ(ErrorField(R"({"model_type":"gemma3n_audio","hidden_size":15})"), "hidden_size");
}

// Gemma 4 counts the oldest key as distance context/2: with other contexts its rows are others, or some keys have none.
TEST(GemmaSound, RowsOfOtherContextsAreShiftedOrNamed) {
  const auto with = [](std::string_view keys) {
    return LayerOf(Read(absl::StrCat(R"({"model_type":"gemma4_audio",)", absl::string_view(keys.data(), keys.size()), "}")));
  };
  const LayerEncoding shifted = with(R"("attention_chunk_size":20)");
  EXPECT_TRUE(HasNote(shifted.warnings, "attention_context_left", "positions 4 further"));
  for (const char* keys : {R"("attention_chunk_size":4)", R"("attention_context_right":2)"}) {
    const LayerEncoding layer = with(keys);
    EXPECT_EQ(layer.kind, PositionKind::kUnserved) << keys;
    EXPECT_TRUE(HasNote(layer.warnings, "attention_context_left", "no row")) << keys;
  }
}

TEST(Inkling, LayerTypesAndScalesAreTheClasss) {
  const ModelEncoding first =
      Read(R"({"model_type":"inkling_text","num_hidden_layers":3,"local_layer_ids":[0,2],"log_scaling_n_floor":4096})");
  const LayerEncoding sliding = LayerOf(first, "hybrid_sliding"), full = LayerOf(first, "hybrid");
  EXPECT_THAT(sliding.layers, ElementsAre(0, 2));
  EXPECT_EQ(std::get<ShawSpec>(sliding.spec->spec).clip, 512);
  EXPECT_EQ(std::get<ShawSpec>(full.spec->spec).clip, 1024);
  EXPECT_THAT(full.query_scale, HasSubstr("0.1·ln(max(1, (position + 1)/4096))"));
  EXPECT_EQ(sliding.query_scale, "");
  EXPECT_TRUE(HasNote(full.warnings, "d_rel", "omit_content and scale 1"));
  const LayerEncoding second = LayerOf(Read(R"({"model_type":"inkling2_text"})"), "hybrid");
  EXPECT_THAT(second.query_scale, HasSubstr("/128000"));
  EXPECT_EQ(second.layers.front(), 5);
  EXPECT_EQ(ErrorField(R"({"model_type":"inkling2_text","rel_extent":0})"), "rel_extent");
  EXPECT_EQ(ErrorField(R"({"model_type":"inkling2_text","d_rel":-1})"), "d_rel");
}

// Types without attention carry no positions, in a class of relative terms as in one that rotates.
TEST(Inkling, LayersOfLinearAttentionAloneHaveNoPositions) {
  for (const char* type : {"inkling_text", "inkling2_text", "inkling2_loop_text", "llama"}) {
    const ModelEncoding model = Read(absl::StrCat(R"({"model_type":")", type, R"(","hidden_size":64,"num_hidden_layers":2,)",
                                                  R"("layer_types":["linear_attention","linear_attention"]})"));
    ASSERT_EQ(model.layers.size(), 1u) << type;
    EXPECT_EQ(model.layers[0].layer_type, "linear_attention") << type;
    EXPECT_THAT(model.layers[0].layers, ElementsAre(0, 1)) << type;
    EXPECT_EQ(model.layers[0].kind, PositionKind::kNone) << type;
    EXPECT_FALSE(model.layers[0].spec) << type;
    EXPECT_THAT(model.layers[0].weights, IsEmpty()) << type;
    EXPECT_TRUE(HasNote(model.warnings, "layer_types", "the 2 layers of type linear_attention carry no positions")) << type;
  }
}

TEST(LayoutLm, BiasesNeedTheirFlags) {
  const auto biases = [](const std::string& text) {
    const ModelEncoding model = Read(text);
    return std::count_if(model.layers.begin(), model.layers.end(),
                         [](const LayerEncoding& layer) { return layer.kind == PositionKind::kBias; });
  };
  EXPECT_EQ(biases(R"({"model_type":"layoutlmv3"})"), 3);
  // Version 3 has biases between boxes only beside those along the text; version 2 has them alone.
  constexpr char kBoxesAlone[] = R"("has_relative_attention_bias":false,"has_spatial_attention_bias":true})";
  EXPECT_EQ(biases(absl::StrCat(R"({"model_type":"layoutlmv3",)", kBoxesAlone)), 0);
  EXPECT_EQ(biases(absl::StrCat(R"({"model_type":"layoutlmv2",)", kBoxesAlone)), 2);
  EXPECT_EQ(ErrorField(R"({"model_type":"layoutlmv3","rel_2d_pos_bins":65})"), "rel_2d_pos_bins");
  EXPECT_EQ(ErrorField(R"({"model_type":"layoutlmv3","max_rel_pos":3})"), "max_rel_pos");
}

TEST(Udop, PositionsLieOnAGridOfBoxesAndPatches) {
  const ModelEncoding model = Read(R"({"model_type":"udop"})");
  EXPECT_TRUE(HasNote(model.warnings, "relative_bias_args", "default of the class"));
  const LayerEncoding across = LayerOf(model, "encoder.horizontal");
  EXPECT_EQ(std::get<T5BucketSpec>(across.spec->spec).distance_divisor, 140);
  EXPECT_TRUE(HasNote(across.warnings, "relative_bias_args.type", "times 14000"));
  EXPECT_EQ(std::get<T5BucketSpec>(LayerOf(model, "encoder.1d").spec->spec).distance_divisor, 1);
  EXPECT_FALSE(*std::get<T5BucketSpec>(LayerOf(model, "decoder").spec->spec).bidirectional);
  const LayerEncoding large = LayerOf(
      Read(R"({"model_type":"udop","image_size":512,"relative_bias_args":[{"type":"vertical","scaling_factor":300}]})"),
      "encoder.vertical");
  EXPECT_EQ(std::get<T5BucketSpec>(large.spec->spec).distance_divisor, 24000 / 300);  // lcm(2000, 64, 300)
  const auto field = [](std::string_view bias) {
    return ErrorField(
        absl::StrCat(R"({"model_type":"udop","relative_bias_args":)", absl::string_view(bias.data(), bias.size()), "}"));
  };
  EXPECT_EQ(field(R"([{"type":"2d"}])"), "relative_bias_args[0].type");
  EXPECT_EQ(field(R"([{"type":"1d"},{}])"), "relative_bias_args[1].type");
  EXPECT_EQ(field(R"([1])"), "relative_bias_args[0]");
  EXPECT_EQ(field(R"({"type":"1d"})"), "relative_bias_args");
  EXPECT_EQ(field(R"([{"type":"vertical","scaling_factor":0}])"), "relative_bias_args[0].scaling_factor");
}

TEST(EsmFold2, PairsAddRowsByThreeDistances) {
  const ModelEncoding model = Read(R"({"model_type":"esmfold2"})");
  EXPECT_EQ(std::get<ShawSpec>(LayerOf(model, "pair_embedding.residue").spec->spec).clip, 32);
  const LayerEncoding chain = LayerOf(model, "pair_embedding.chain");
  EXPECT_TRUE(HasNote(chain.warnings, "num_relative_chain_bins", "column 133 + n"));
  EXPECT_TRUE(HasNote(chain.warnings, "num_relative_chain_bins", "one entity adds column 132"));
  EXPECT_EQ(ErrorField(R"({"model_type":"esmfold2","num_relative_residx_bins":-1})"), "num_relative_residx_bins");
}

TEST(SeamlessSpeech, CountsItsOwnHeads) {
  const LayerEncoding layer = LayerOf(
      Read(
          R"({"model_type":"seamless_m4t","hidden_size":1024,"encoder_attention_heads":8,"speech_encoder_attention_heads":32})"),
      "speech");
  EXPECT_THAT(layer.weights[1].shape, ElementsAre(32, 32));
  EXPECT_EQ(layer.num_q_heads, 32);
}

}  // namespace
}  // namespace phasor::server
