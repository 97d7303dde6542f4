// Which layers rotate and by what, where the class, or a list of its own, says so; parts that a file lacks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

// transformers 5.24.0: attention of each class; layers.json holds all of them to it.
TEST(LayersWithoutRotation, ByClass) {
  for (const std::string type : {"afmoe", "flint", "kolibri1", "lara_mini", "cohere2_moe"}) {
    const ModelEncoding model = Read(R"({"model_type":")" + type + R"("})");
    EXPECT_EQ(LayerOf(model, "full_attention").kind, PositionKind::kNone) << type;
    EXPECT_EQ(LayerOf(model, "sliding_attention").kind, PositionKind::kRope) << type;
  }
  const ModelEncoding afmoe = Read(R"({"model_type":"afmoe","num_hidden_layers":6,"global_attn_every_n_layers":3})");
  EXPECT_EQ(LayerOf(afmoe, "full_attention").layers, (std::vector<int64_t>{2, 5}));
  // Its own file agrees with itself.
  const ModelEncoding own = Read(
      R"({"model_type":"afmoe","num_hidden_layers":2,"global_attn_every_n_layers":2,
          "layer_types":["sliding_attention","full_attention"]})");
  for (const Note& note : own.warnings) EXPECT_NE(note.field, "global_attn_every_n_layers") << note.message;
}

TEST(LayersWithoutRotation, DenseLayersOfCohere2MoeRotate) {
  const ModelEncoding model = Read(R"({"model_type":"cohere2_moe","num_hidden_layers":6,"first_k_dense_replace":2})");
  EXPECT_EQ(LayerOf(model, "dense_full_attention").kind, PositionKind::kRope);
  EXPECT_EQ(LayerOf(model, "dense_full_attention").layers, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(LayerOf(model, "full_attention").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(model, "full_attention").layers, (std::vector<int64_t>{5}));
}

TEST(LayerBases, ZeroDoesNotRotateAndOthersHaveTheirOwn) {
  const ModelEncoding model = Read(
      R"({"model_type":"granite_swa","num_hidden_layers":4,"head_dim":64,"layer_rope_theta":[10000.0,0,500000.0,10000.0],
          "rope_parameters":{"rope_type":"default","rope_theta":77.0}})");
  EXPECT_EQ(LayerOf(model, "nope_layers").kind, PositionKind::kNone);
  EXPECT_EQ(LayerOf(model, "nope_layers").layers, (std::vector<int64_t>{1}));
  EXPECT_EQ(*RopeOf(LayerOf(model, "theta_10000")).base, 10000);
  EXPECT_EQ(*RopeOf(LayerOf(model, "theta_500000")).base, 500000);
  EXPECT_EQ(LayerOf(model, "theta_10000").layers, (std::vector<int64_t>{0, 3}));
  // Muse's layers that rotate all have the model's base, whatever the list says.
  const ModelEncoding muse = Read(
      R"({"model_type":"muse_spark_text","num_hidden_layers":3,"layer_rope_theta":[10000.0,0,500000.0],
          "layer_types":["sliding_attention","full_attention","sliding_attention"],"rope_theta":1234.0})");
  EXPECT_EQ(*RopeOf(LayerOf(muse, "sliding_attention")).base, 1234);
  EXPECT_EQ(LayerOf(muse, "full_attention").kind, PositionKind::kNone);
  const auto wrong = ReadModelConfig(R"({"model_type":"granite_swa","layer_rope_theta":[1,-2]})");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(SpecErrorOf(wrong.status())->field, "layer_rope_theta[1]");
}

TEST(Hybrids, ListsByOtherKeys) {
  const auto layers_of = [](const std::string& keys) { return LayerOf(Read("{" + keys + "}")).layers; };
  const std::vector<int64_t> last{3};
  EXPECT_EQ(layers_of(R"("model_type":"qwen3_next","num_hidden_layers":4)"), last);
  EXPECT_EQ(layers_of(R"("model_type":"qwen3_next","num_hidden_layers":4,"full_attention_interval":2)"),
            (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(layers_of(R"("model_type":"bamba","num_hidden_layers":4,"attn_layer_indices":[3])"), last);
  EXPECT_EQ(layers_of(R"("model_type":"minimax","num_hidden_layers":4,"attn_type_list":[0,0,0,1])"), last);
  EXPECT_EQ(layers_of(R"("model_type":"lfm2","num_hidden_layers":4,"full_attn_idxs":[3])"), last);
  EXPECT_EQ(layers_of(R"("model_type":"olmo_hybrid","num_hidden_layers":4)"), last);
  EXPECT_EQ(layers_of(R"("model_type":"recurrent_gemma","num_hidden_layers":4)"), (std::vector<int64_t>{2}));
  const ModelEncoding bamba = Read(R"({"model_type":"bamba"})");
  EXPECT_TRUE(std::any_of(bamba.warnings.begin(), bamba.warnings.end(),
                          [](const Note& note) { return note.field == "attn_layer_indices"; }));
}

// The code published with MiniMax-Text-01, whose lightning layers do not rotate.
TEST(Hybrids, MiniMaxText01) {
  const ModelEncoding model = Read(
      R"({"model_type":"minimax_text_01","architectures":["MiniMaxText01ForCausalLM"],"hidden_size":6144,
          "num_attention_heads":64,"num_key_value_heads":8,"head_dim":128,"rotary_dim":64,"rope_theta":10000000,
          "num_hidden_layers":8,"max_position_embeddings":10240000,"attn_type_list":[0,0,0,0,0,0,0,1]})");
  ASSERT_EQ(model.layers.size(), 1u);
  const LayerEncoding layer = LayerOf(model);
  EXPECT_EQ(layer.layers, (std::vector<int64_t>{7}));
  EXPECT_EQ(layer.num_kv_heads, 8);
  EXPECT_EQ(RopeOf(layer).head_dim, 128);
  EXPECT_EQ(RopeOf(layer).rotary_dim, 64);
  EXPECT_EQ(*RopeOf(layer).base, 1e7);
  EXPECT_TRUE(
      HasNote(model.warnings, "attn_type_list", "7 layers of type linear_attention carry no positions of their own"));
  EXPECT_TRUE(HasNote(model.warnings, "attn_type_list", "e^(-slope*distance)"));
  EXPECT_FALSE(HasNote(model.warnings, "model_type"));
  const ModelEncoding without = Read(R"({"model_type":"minimax_text_01","hidden_size":64,"num_attention_heads":4})");
  EXPECT_TRUE(HasNote(without.warnings, "attn_type_list", "not given"));
  EXPECT_EQ(ErrorField(R"({"model_type":"minimax_text_01","attn_type_list":[0,2]})"), "attn_type_list[1]");
}

TEST(LayerTypes, ANameThatNobodyKnowsIsAWarning) {
  const ModelEncoding model = Read(R"({"model_type":"gemma3_text","num_hidden_layers":2,"layer_types":["foo","foo"]})");
  EXPECT_TRUE(std::any_of(model.warnings.begin(), model.warnings.end(), [](const Note& note) {
    return note.field == "layer_types" && note.message.find("\"foo\" is no known type") != std::string::npos;
  }));
}

TEST(Wrappers, PartsThatTheFileLacksAreTheClasss) {
  const ModelEncoding model = Read(R"({"model_type":"mistral3"})");
  EXPECT_EQ(LayerOf(model).kind, PositionKind::kRope);
  EXPECT_EQ(RopeOf(LayerOf(model)).head_dim, 128);
  EXPECT_EQ(LayerOf(model, "vision").kind, PositionKind::kRope);
  for (const std::string part : {"text_config", "vision_config"}) {
    EXPECT_TRUE(std::any_of(model.warnings.begin(), model.warnings.end(), [&](const Note& note) {
      return note.field == part && note.message.find("not given: read as the default of the class") == 0;
    })) << part;
  }
  // The language model's keys stand in the file itself.
  const ModelEncoding flat = Read(R"({"model_type":"qwen2_vl","hidden_size":1536,"num_attention_heads":12})");
  EXPECT_EQ(RopeOf(LayerOf(flat)).head_dim, 128);
  for (const Note& note : flat.warnings) EXPECT_NE(note.field, "text_config");
}

TEST(Wrappers, VoxtralsTextTakesTheRestFromTheWhole) {
  const ModelEncoding model =
      Read(R"({"model_type":"voxtral","text_config":{"model_type":"llama","hidden_size":5120,"num_attention_heads":32}})");
  EXPECT_EQ(*RopeOf(LayerOf(model)).base, 1e8);
  EXPECT_EQ(RopeOf(LayerOf(model)).head_dim, 128);
  const ModelEncoding given =
      Read(R"({"model_type":"voxtral","text_config":{"model_type":"llama","rope_parameters":{"rope_theta":5.0}}})");
  EXPECT_EQ(*RopeOf(LayerOf(given)).base, 5);
}

TEST(Wrappers, DictsOfSettingsAreNoParts) {
  const ModelEncoding model = Read(
      R"({"model_type":"gemma4_unified_text","num_hidden_layers":2,"per_layer_config":{"01":{"head_dim":512}},
          "linear_attn_config":{"head_dim":64,"num_heads":4,"full_attn_layers":[1]}})");
  for (const Note& note : model.warnings) EXPECT_EQ(note.field.find("_config"), std::string::npos) << note.field;
}

}  // namespace
}  // namespace phasor::server
