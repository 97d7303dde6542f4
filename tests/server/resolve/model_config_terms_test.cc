// Terms of the scores and biases of windows: what keys mean, what is missing, what contradicts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::string Deberta(std::string_view extra) {
  return absl::StrCat(R"({"model_type":"deberta-v2","hidden_size":768,"num_attention_heads":12,"relative_attention":true,)"
                      R"("position_biased_input":false)",
                      extra.empty() ? "" : ",", absl::string_view(extra.data(), extra.size()), "}");
}

TEST(Deberta, TypesMayBeOneString) {
  const LayerEncoding list = LayerOf(Read(Deberta(R"("pos_att_type":["p2c","c2p"])")));
  const LayerEncoding text = LayerOf(Read(Deberta(R"("pos_att_type":"P2C | c2p")")));
  EXPECT_EQ(list.kind, PositionKind::kTerm);
  EXPECT_EQ(list.spec->spec, text.spec->spec);
  EXPECT_EQ(list.softmax_scale, text.softmax_scale);
}

TEST(Deberta, MinusOneMeansTheModelsLength) {
  const LayerEncoding layer = LayerOf(Read(Deberta(R"("pos_att_type":"c2p","max_relative_positions":-1)")));
  EXPECT_EQ(*std::get<DebertaSpec>(layer.spec->spec).max_relative_positions, 512);
  EXPECT_EQ(*std::get<DebertaSpec>(layer.spec->spec).position_buckets, 0);  // not 256, the scheme's own default
  EXPECT_TRUE(HasNote(layer.defaults, "max_relative_positions", "512"));
}

TEST(Deberta, SourcesSayHowTheTablesAreMade) {
  const auto source = [](std::string_view extra) { return LayerOf(Read(Deberta(extra))).weights.at(0).source; };
  EXPECT_THAT(source(R"("pos_att_type":"c2p","share_att_key":true,"norm_rel_ebd":"layer_norm")"),
              ::testing::StartsWith("key_proj(LayerNorm(encoder.rel_embeddings.weight)"));
  EXPECT_THAT(source(R"("pos_att_type":"p2c","share_att_key":true)"), ::testing::StartsWith("query_proj(encoder.rel"));
  EXPECT_THAT(source(R"("pos_att_type":"p2c")"), ::testing::StartsWith("pos_query_proj(encoder.rel"));
}

TEST(Deberta, VersionOneDoesNotReadKeysOfVersionTwo) {
  const ModelEncoding model =
      Read(R"({"model_type":"deberta","relative_attention":true,"pos_att_type":"c2p|p2c|p2p","position_buckets":256,)"
           R"("share_att_key":true,"position_biased_input":false})");
  const LayerEncoding layer = LayerOf(model);
  EXPECT_EQ(*std::get<DebertaSpec>(layer.spec->spec).position_buckets, 0);
  EXPECT_THAT(layer.weights.at(0).source, ::testing::StartsWith("pos_proj("));
  EXPECT_DOUBLE_EQ(*layer.softmax_scale, 1 / std::sqrt(64.0 * 4));  // p2p counts, though it adds nothing
  EXPECT_TRUE(HasNote(model.warnings, "position_buckets", "does not read"));
  EXPECT_TRUE(HasNote(model.warnings, "share_att_key", "does not read"));
  EXPECT_TRUE(HasNote(model.warnings, "pos_att_type", "counts in the scale"));
}

TEST(Deberta, WithoutTermsThereAreNoPositionsInTheScores) {
  const LayerEncoding layer = LayerOf(Read(Deberta("")));
  EXPECT_EQ(layer.kind, PositionKind::kNone);
  EXPECT_TRUE(HasNote(layer.warnings, "pos_att_type", "neither"));
}

TEST(Deberta, TheTableAtTheInputIsALayerTypeOfItsOwn) {
  const ModelEncoding model =
      Read(R"({"model_type":"deberta-v2","hidden_size":768,"num_attention_heads":12,"relative_attention":true,)"
           R"("pos_att_type":"c2p"})");
  EXPECT_EQ(LayerOf(model).kind, PositionKind::kTerm);
  const LayerEncoding table = LayerOf(model, "embedding");
  EXPECT_EQ(table.kind, PositionKind::kLearned);
  EXPECT_TRUE(HasNote(table.defaults, "position_biased_input"));
}

TEST(Deberta, Errors) {
  EXPECT_EQ(ErrorField(Deberta(R"("pos_att_type":"c2p","position_buckets":7)")), "position_buckets");
  EXPECT_EQ(ErrorField(Deberta(R"("pos_att_type":"c2p","position_buckets":256,"max_relative_positions":100)")),
            "max_relative_positions");
  EXPECT_EQ(ErrorField(Deberta(R"("pos_att_type":[1])")), "pos_att_type[0]");
}

TEST(Shaw, BertsRelativeKeys) {
  const LayerEncoding layer =
      LayerOf(Read(R"({"model_type":"bert","position_embedding_type":"relative_key","max_position_embeddings":512})"));
  const ShawSpec& spec = std::get<ShawSpec>(layer.spec->spec);
  EXPECT_EQ(spec.clip, 511);  // the table has 2·512 − 1 rows, not 2·512 + 1
  EXPECT_FALSE(spec.query_term_too);
  EXPECT_FALSE(spec.key_minus_query);
  EXPECT_THAT(layer.weights.at(0).shape, ::testing::ElementsAre(1023, 64));
  EXPECT_TRUE(HasNote(layer.warnings, "position_embedding_type", "transformers 5 has no such form"));
  const LayerEncoding both = LayerOf(Read(R"({"model_type":"electra","position_embedding_type":"relative_key_query"})"));
  EXPECT_TRUE(std::get<ShawSpec>(both.spec->spec).query_term_too);
  const LayerEncoding esm = LayerOf(
      Read(R"({"model_type":"esm","position_embedding_type":"relative_key","hidden_size":320,"num_attention_heads":20})"));
  EXPECT_EQ(std::get<ShawSpec>(esm.spec->spec).clip, 1025);
  EXPECT_TRUE(HasNote(esm.warnings, "position_embedding_type", "no positions at all"));
}

TEST(Shaw, SpeechModels) {
  const ModelEncoding seamless = Read(R"({"model_type":"seamless_m4t_v2"})");
  const LayerEncoding speech = LayerOf(seamless, "speech");
  EXPECT_EQ(std::get<ShawSpec>(speech.spec->spec).clip, 64);
  EXPECT_TRUE(HasNote(speech.defaults, "right_max_position_embeddings", "8"));
  EXPECT_TRUE(std::holds_alternative<ConformerSpec>(LayerOf(Read(R"({"model_type":"seamless_m4t"})"), "speech").spec->spec));
  const LayerEncoding t5 = LayerOf(Read(R"({"model_type":"speecht5","encoder_max_relative_position":100})"), "encoder");
  EXPECT_EQ(std::get<ShawSpec>(t5.spec->spec).clip, 100);
  EXPECT_THAT(t5.weights.at(0).source, ::testing::HasSubstr("(200 rows"));
}

TEST(Conformer, TypesOfWav2Vec2) {
  const LayerEncoding relative = LayerOf(Read(R"({"model_type":"wav2vec2-conformer"})"));
  EXPECT_EQ(std::get<ConformerSpec>(relative.spec->spec).dim, 768);
  EXPECT_TRUE(HasNote(relative.defaults, "position_embeddings_type", "relative"));
  EXPECT_TRUE(LacksWeights(relative));
  const LayerEncoding rotary = LayerOf(
      Read(R"({"model_type":"wav2vec2-conformer","position_embeddings_type":"rotary","rotary_embedding_base":5000})"));
  EXPECT_EQ(*RopeOf(rotary).base, 5000);
  EXPECT_TRUE(HasNote(rotary.warnings, "position_embeddings_type", "before it projects"));
  EXPECT_EQ(LayerOf(Read(R"({"model_type":"wav2vec2-bert","position_embeddings_type":null})")).kind, PositionKind::kNone);
  EXPECT_EQ(ErrorField(R"({"model_type":"wav2vec2-bert","position_embeddings_type":"circular"})"),
            "position_embeddings_type");
}

TEST(Xlnet, KeysOfMemoryAndDirections) {
  const LayerEncoding layer = LayerOf(
      Read(R"({"model_type":"xlnet","attn_type":"uni","clamp_len":128,"bi_data":true,"mem_len":384,"same_length":true})"));
  const XlnetSpec& spec = std::get<XlnetSpec>(layer.spec->spec);
  EXPECT_TRUE(spec.unidirectional);
  EXPECT_EQ(spec.clamp_length, 128);
  EXPECT_EQ(spec.dim, 1024);
  EXPECT_TRUE(HasNote(layer.warnings, "bi_data", "negated"));
  EXPECT_TRUE(HasNote(layer.warnings, "mem_len", "384"));
  EXPECT_TRUE(HasNote(layer.warnings, "same_length", "mask"));
  EXPECT_EQ(ErrorField(R"({"model_type":"xlnet","attn_type":"both"})"), "attn_type");
  EXPECT_EQ(ErrorField(R"({"model_type":"xlnet","d_model":15,"n_head":3})"), "d_model");
}

TEST(TransformerXl, DefaultsAndTies) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"transfo-xl","mem_len":1600,"untie_r":false})"));
  const TransformerXlSpec& spec = std::get<TransformerXlSpec>(layer.spec->spec);
  EXPECT_EQ(spec.clamp_length, 1000);  // a default that lives in class code
  EXPECT_EQ(spec.dim, 1024);
  EXPECT_THAT(layer.weights.at(0).shape, ::testing::ElementsAre(1024, 1024));
  EXPECT_THAT(layer.weights.at(1).source, ::testing::HasSubstr("all layers share"));
  const LayerEncoding open = LayerOf(Read(R"({"model_type":"transfo-xl","clamp_len":-1})"));
  EXPECT_EQ(std::get<TransformerXlSpec>(open.spec->spec).clamp_length, std::nullopt);
}

TEST(Swin, ListsMustHaveAnEntryForEveryStage) {
  EXPECT_EQ(ErrorField(R"({"model_type":"swin","depths":[2,2,6,2],"num_heads":[3,6]})"), "num_heads");
  EXPECT_EQ(ErrorField(R"({"model_type":"swinv2","pretrained_window_sizes":[12]})"), "pretrained_window_sizes");
  EXPECT_EQ(ErrorField(R"({"model_type":"swin","depths":[]})"), "depths");
  EXPECT_EQ(ErrorField(R"({"model_type":"swin","window_size":[7]})"), "window_size");
  EXPECT_EQ(ErrorField(R"({"model_type":"swinv2","pretrained_window_sizes":[1,1,1,1]})"), "pretrained_window_sizes");
  const ModelEncoding longer = Read(R"({"model_type":"swin","depths":[2,2],"num_heads":[3,6,12]})");
  EXPECT_TRUE(HasNote(longer.warnings, "num_heads", "last 1 are not read"));
  EXPECT_EQ(longer.layers.size(), 2u);
}

TEST(Swin, AWindowLargerThanItsStage) {
  // Version 2 shrinks the function's window with the image; version 1 cannot shrink its table.
  const LayerEncoding second = LayerOf(Read(R"({"model_type":"swinv2","image_size":256,"window_size":16})"), "stage4");
  EXPECT_EQ(std::get<ContinuousWindowBiasSpec>(second.spec->spec).window_height, 8);
  EXPECT_TRUE(HasNote(second.warnings, "window_size", "8x8"));
  const LayerEncoding first = LayerOf(Read(R"({"model_type":"swin","image_size":224,"window_size":14})"), "stage4");
  EXPECT_EQ(std::get<WindowBiasSpec>(first.spec->spec).window_height, 14);
  EXPECT_TRUE(HasNote(first.warnings, "window_size", "7x7"));
}

TEST(Buckets, MpnetHasATableBesideThem) {
  const ModelEncoding model = Read(R"({"model_type":"mpnet","max_position_embeddings":514,"pad_token_id":1})");
  const LayerEncoding buckets = LayerOf(model);
  EXPECT_EQ(*std::get<T5BucketSpec>(buckets.spec->spec).num_buckets, 32);
  EXPECT_TRUE(*std::get<T5BucketSpec>(buckets.spec->spec).bidirectional);
  const LayerEncoding table = LayerOf(model, "embedding");
  EXPECT_EQ(*std::get<LearnedSpec>(table.spec->spec).position_offset, 2);
  EXPECT_TRUE(HasNote(Read(R"({"model_type":"mpnet","relative_attention_num_buckets":64})").warnings,
                      "relative_attention_num_buckets", "32 buckets in any case"));
}

TEST(Buckets, WavLm) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"wavlm"})"));
  const T5BucketSpec& spec = std::get<T5BucketSpec>(layer.spec->spec);
  EXPECT_EQ(*spec.num_buckets, 320);
  EXPECT_EQ(*spec.max_distance, 800);
  EXPECT_TRUE(HasNote(layer.warnings, "num_buckets", "gate"));
}

TEST(Weights, TablesAreListedForLearnedRowsToo) {
  const LayerEncoding bert = LayerOf(Read(R"({"model_type":"bert"})"));
  ASSERT_EQ(bert.weights.size(), 1u);
  EXPECT_THAT(bert.weights[0].shape, ::testing::ElementsAre(512, 768));
  EXPECT_FALSE(LacksWeights(bert));
}

TEST(Named, FormsWithoutASpecAreNotTakenForNone) {
  const LayerEncoding layer = LayerOf(Read(R"({"model_type":"hubert"})"));
  EXPECT_EQ(layer.kind, PositionKind::kUnserved);
  EXPECT_EQ(layer.unserved, "positional_convolution");
}

}  // namespace
}  // namespace phasor::server
