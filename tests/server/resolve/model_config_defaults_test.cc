// Every value that the file leaves out is listed with where it came from, once, and says what is answered; and what a nested
// dict leaves out, or says of nothing, is said too.
#include <gtest/gtest.h>

#include <string>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::string Class(std::string_view model_type, std::string_view extra) {
  return absl::StrCat(R"({"model_type":")", absl::string_view(model_type.data(), model_type.size()),
                      R"(","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,"max_position_embeddings":512)",
                      extra.empty() ? "" : ",", absl::string_view(extra.data(), extra.size()), "}");
}

LayerEncoding First(std::string_view json) {
  const ModelEncoding model = Read(json);
  EXPECT_FALSE(model.layers.empty()) << json;
  return model.layers.empty() ? LayerEncoding() : model.layers.front();
}

TEST(Defaults, AsManyKeyHeadsAsHeads) {
  constexpr const char* kKey = "num_key_value_heads";
  EXPECT_TRUE(HasNote(First(Class("llama", "")).defaults, kKey, "4 (as many as num_attention_heads)"));
  EXPECT_FALSE(HasNote(First(Class("llama", R"("num_key_value_heads":4)")).defaults, kKey));
  EXPECT_TRUE(HasNote(First(R"({"model_type":"mistral","hidden_size":4096,"num_attention_heads":32})").defaults, kKey,
                      "8 (default"));
}

TEST(Defaults, FalconsOneKeyHead) {
  const LayerEncoding layer = First(Class("falcon", ""));
  EXPECT_EQ(layer.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(layer.defaults, "multi_query", "true (default of class falcon)"));
  EXPECT_FALSE(HasNote(layer.defaults, "num_key_value_heads"));
  EXPECT_FALSE(HasNote(First(Class("falcon", R"("multi_query":true)")).defaults, "multi_query"));
  EXPECT_EQ(First(Class("falcon", R"("multi_query":false)")).num_kv_heads, 4);
  EXPECT_EQ(First(Class("falcon", R"("multi_query":false,"num_kv_heads":2)")).num_kv_heads, 2);
  const LayerEncoding both = First(Class("falcon", R"("num_kv_heads":2)"));
  EXPECT_EQ(both.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(both.warnings, "num_kv_heads", "2 is not read: multi_query counts"));
}

TEST(Defaults, FalconsKeyHeadsByItsFlags) {
  const LayerEncoding grouped =
      First(Class("falcon", R"("new_decoder_architecture":true,"num_kv_heads":2,"multi_query":true)"));
  EXPECT_EQ(grouped.num_kv_heads, 2);
  EXPECT_FALSE(HasNote(grouped.warnings, "num_kv_heads"));
  EXPECT_EQ(First(Class("falcon", R"("new_decoder_architecture":true)")).num_kv_heads, 4);
  // Three numbers that the class's code cannot bring together.
  EXPECT_TRUE(HasNote(First(Class("falcon", R"("multi_query":false,"num_kv_heads":2)")).warnings, "num_kv_heads",
                      "2 counts; the class's code makes as many key heads as heads (4)"));
  EXPECT_FALSE(HasNote(First(Class("falcon", R"("multi_query":false,"num_kv_heads":4)")).warnings, "num_kv_heads"));
}

// The code published with Falcon-40B and with Falcon-7B, before transformers had the class.
TEST(Defaults, KeyHeadsOfFalconsFirstFiles) {
  const LayerEncoding large = First(Class("RefinedWeb", R"("n_head_kv":2,"alibi":false)"));
  EXPECT_EQ(large.num_kv_heads, 2);
  EXPECT_FALSE(HasNote(large.warnings, "n_head_kv"));
  EXPECT_FALSE(HasNote(large.defaults, "multi_query"));
  EXPECT_EQ(First(Class("RefinedWeb", "")).num_kv_heads, 4);
  const LayerEncoding both = First(Class("RefinedWeb", R"("n_head_kv":2,"multi_query":true)"));
  EXPECT_EQ(both.num_kv_heads, 2);
  EXPECT_TRUE(HasNote(both.warnings, "multi_query", "not read: n_head_kv counts"));
  EXPECT_EQ(First(Class("RefinedWebModel", R"("multi_query":true)")).num_kv_heads, 1);
  const LayerEncoding small = First(Class("RefinedWebModel", ""));
  EXPECT_EQ(small.num_kv_heads, 4);
  EXPECT_TRUE(HasNote(small.defaults, "multi_query", "false (default of class RefinedWebModel)"));
  EXPECT_EQ(First(Class("RefinedWeb", R"("n_head_kv":2,"alibi":true)")).num_kv_heads, 2) << "with slopes too";
}

TEST(Defaults, TwoNamesForTheKeyHeads) {
  const ModelEncoding two = Read(Class("falcon", R"("new_decoder_architecture":true,"num_kv_heads":2,"n_head_kv":4)"));
  EXPECT_EQ(two.layers.front().num_kv_heads, 2);
  EXPECT_TRUE(HasNote(two.warnings, "n_head_kv", "4 is not read: num_kv_heads 2 goes first"));
  EXPECT_FALSE(HasNote(Read(Class("llama", R"("num_key_value_heads":2,"num_kv_heads":2)")).warnings, "num_kv_heads"));
}

TEST(Defaults, MptsKeyHeads) {
  const auto mpt = [](std::string_view keys) {
    return First(
        Class("mpt", absl::StrCat(R"("attn_config":{"alibi":true,)", absl::string_view(keys.data(), keys.size()), "}")));
  };
  EXPECT_EQ(mpt(R"("attn_type":"multihead_attention")").num_kv_heads, 4);
  EXPECT_EQ(mpt(R"("attn_type":"grouped_query_attention","kv_n_heads":2)").num_kv_heads, 2);
  const LayerEncoding one = mpt(R"("attn_type":"multiquery_attention","kv_n_heads":2)");
  EXPECT_EQ(one.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(one.warnings, "attn_config.kv_n_heads", "2 is not read: attn_type is multiquery_attention"));
}

TEST(Defaults, GptBigCodesOneKeyHead) {
  const LayerEncoding layer = First(Class("gpt_bigcode", ""));
  EXPECT_EQ(layer.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(layer.defaults, "multi_query", "true"));
  EXPECT_EQ(First(Class("gpt_bigcode", R"("multi_query":false)")).num_kv_heads, 4);
}

TEST(Defaults, ChatGlmsGroups) {
  EXPECT_TRUE(HasNote(First(Class("chatglm", "")).defaults, "multi_query_attention", "false"));
  const LayerEncoding shared = First(Class("chatglm", R"("multi_query_attention":true)"));
  EXPECT_EQ(shared.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(shared.defaults, "multi_query_group_num", "1 (default"));
  EXPECT_EQ(First(Class("chatglm", R"("multi_query_attention":true,"multi_query_group_num":2)")).num_kv_heads, 2);
  EXPECT_TRUE(
      HasNote(Read(Class("chatglm", R"("multi_query_group_num":2)")).warnings, "multi_query_group_num", "2 is not read"));
}

TEST(Defaults, DbrxsKeyHeadsAreThoseOfAttnConfig) {
  const LayerEncoding layer = First(R"({"model_type":"dbrx","d_model":64,"n_heads":16,"attn_config":{"kv_n_heads":8}})");
  EXPECT_EQ(layer.num_kv_heads, 8);
  EXPECT_FALSE(HasNote(layer.defaults, "num_key_value_heads"));
  const LayerEncoding without = First(R"({"model_type":"dbrx","d_model":64,"n_heads":16})");
  EXPECT_EQ(without.num_kv_heads, 1);
  EXPECT_TRUE(HasNote(without.defaults, "num_key_value_heads", "1 (default of class dbrx)"));
}

TEST(Defaults, Debertas) {
  const LayerEncoding plain = First(Class("deberta-v2", ""));
  EXPECT_TRUE(HasNote(plain.defaults, "relative_attention", "false"));
  EXPECT_TRUE(HasNote(plain.defaults, "position_biased_input", "true"));
  const LayerEncoding relative = First(Class("deberta-v2", R"("relative_attention":true,"pos_att_type":["c2p"])"));
  EXPECT_TRUE(HasNote(relative.defaults, "position_buckets", "-1"));
  EXPECT_FALSE(HasNote(relative.defaults, "relative_attention"));
}

TEST(Defaults, Beits) {
  const std::string sizes = R"("image_size":32,"patch_size":16)";
  for (const char* key :
       {"use_relative_position_bias", "use_shared_relative_position_bias", "use_absolute_position_embeddings"}) {
    EXPECT_TRUE(HasNote(First(Class("beit", sizes)).defaults, key, "false")) << key;
    const LayerEncoding with = First(Class("beit", absl::StrCat(sizes, ",\"", key, "\":true")));
    EXPECT_FALSE(HasNote(with.defaults, key)) << key;
    EXPECT_EQ(with.defaults.empty(), false);
  }
}

TEST(Defaults, MiniMaxRotatesTheWholeHead) {
  EXPECT_TRUE(HasNote(First(R"({"model_type":"minimax_m2","rope_theta":5e6})").defaults, "rotary_dim", "128 (head_dim)"));
  EXPECT_FALSE(HasNote(First(R"({"model_type":"minimax_m2","rope_theta":5e6,"rotary_dim":64})").defaults, "rotary_dim"));
}

TEST(Defaults, OnceEach) {
  for (const char* model_type :
       {"llama", "gemma3_text", "gemma4", "bert", "falcon", "vit", "swin", "deepseek_v3", "gpt_neox"}) {
    for (const LayerEncoding& layer : Read(absl::StrCat(R"({"model_type":")", model_type, "\"}")).layers) {
      for (size_t i = 0; i < layer.defaults.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
          EXPECT_FALSE(layer.defaults[i].field == layer.defaults[j].field &&
                       layer.defaults[i].message == layer.defaults[j].message)
              << model_type << " " << layer.defaults[i].field;
        }
      }
    }
  }
}

TEST(Defaults, WhyAnImagesTableIsNotServed) {
  const LayerEncoding layer = First(R"({"model_type":"vit","image_size":null})");
  EXPECT_EQ(layer.unserved, "learned");
  EXPECT_TRUE(HasNote(layer.warnings, "image_size", "null: nothing says how many rows"));
  EXPECT_TRUE(HasNote(First(R"({"model_type":"vit","patch_size":null,"image_size":224})").warnings, "patch_size", "null"));
  EXPECT_TRUE(HasNote(First(R"({"model_type":"vit","image_size":8})").warnings, "image_size", "8: nothing says"));
}

// ---- Nested dicts

std::string Gemma3(std::string_view dicts) {
  return absl::StrCat(R"({"model_type":"gemma3_text","hidden_size":64,"num_attention_heads":4,"head_dim":16,)"
                      R"("layer_types":["sliding_attention","full_attention"],"num_hidden_layers":2,"rope_parameters":{)",
                      absl::string_view(dicts.data(), dicts.size()), "}}");
}

TEST(NestedDicts, NullIsSaid) {
  const ModelEncoding model =
      Read(Gemma3(R"("full_attention":null,"sliding_attention":{"rope_type":"default","rope_theta":1e4})"));
  const LayerEncoding full = LayerOf(model, "full_attention");
  EXPECT_EQ(full.kind, PositionKind::kNone);
  EXPECT_TRUE(HasNote(full.warnings, "rope_parameters.full_attention", "null: these layers are answered without positions"));
  EXPECT_TRUE(LayerOf(model, "sliding_attention").warnings.empty());
}

TEST(NestedDicts, EntriesOfNoLayerAreSaid) {
  const ModelEncoding model = Read(Gemma3(R"("fulll_attention":{"rope_type":"default","rope_theta":1e6},)"
                                          R"("sliding_attention":{"rope_type":"default","rope_theta":1e4})"));
  EXPECT_TRUE(HasNote(model.warnings, "rope_parameters.fulll_attention", "not read: no layer has this type"));
  EXPECT_FALSE(HasNote(model.warnings, "rope_parameters.sliding_attention"));
  EXPECT_TRUE(HasNote(LayerOf(model, "full_attention").warnings, "rope_parameters", "has no entry"));
}

TEST(NestedDicts, WithoutATypeThatTheClassHas) {
  const LayerEncoding layer = LayerOf(
      Read(R"({"model_type":"gemma4_text","layer_types":["sliding_attention","full_attention"],"num_hidden_layers":2,)"
           R"("rope_parameters":{"full_attention":{"rope_theta":1e6,"partial_rotary_factor":0.25},)"
           R"("sliding_attention":{"rope_type":"default","rope_theta":1e4}}})"),
      "full_attention");
  EXPECT_TRUE(HasNote(layer.defaults, "rope_parameters.full_attention.rope_type", "default"));
  EXPECT_TRUE(HasNote(layer.warnings, "rope_parameters.full_attention.rope_type",
                      "not given: read as default; the own dict of class gemma4"));
  // A class without a dict of its own has the type among its defaults only.
  const LayerEncoding flat = First(Class("llama", R"("rope_parameters":{"rope_theta":1e6})"));
  EXPECT_TRUE(HasNote(flat.defaults, "rope_parameters.rope_type", "default"));
  EXPECT_FALSE(HasNote(flat.warnings, "rope_parameters.rope_type"));
}

TEST(NestedDicts, OfLayersThatDoNotRotate) {
  const ModelEncoding model =
      Read(R"({"model_type":"cohere2","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"sliding_window":8,)"
           R"("layer_types":["sliding_attention","full_attention"],"rope_parameters":{"full_attention":{"rope_theta":1e6},)"
           R"("sliding_attention":{"rope_theta":1e4}}})");
  EXPECT_TRUE(HasNote(LayerOf(model, "full_attention").warnings, "rope_parameters.full_attention", "do not rotate"));
}

TEST(Dicts, AFactorInsideAndAnotherBesideIt) {
  const auto read = [](std::string_view inner, std::string_view outer) {
    return First(Class("llama", absl::StrCat(R"("rope_parameters":{"rope_type":"default","rope_theta":1e4,)"
                                             R"("partial_rotary_factor":)",
                                             absl::string_view(inner.data(), inner.size()), R"(},"partial_rotary_factor":)",
                                             absl::string_view(outer.data(), outer.size()))));
  };
  EXPECT_TRUE(HasNote(read("0.5", "0.25").warnings, "partial_rotary_factor",
                      "0.25 is not read: rope_parameters.partial_rotary_factor 0.5 counts"));
  EXPECT_EQ(RopeOf(read("0.5", "0.25")).rotary_dim, 8);
  EXPECT_FALSE(HasNote(read("0.5", "0.5").warnings, "partial_rotary_factor", "counts"));
}

}  // namespace
}  // namespace phasor::server
