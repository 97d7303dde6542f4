// Keys of positions that a class does not read: each is said with its value, and what means nothing or agrees is not.
#include <gtest/gtest.h>

#include <string>

#include "server/resolve/position_keys.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::string Class(std::string_view model_type, std::string_view extra) {
  return absl::StrCat(R"({"model_type":")", absl::string_view(model_type.data(), model_type.size()),
                      R"(","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,"max_position_embeddings":512)",
                      extra.empty() ? "" : ",", absl::string_view(extra.data(), extra.size()), "}");
}

struct Case {
  const char* model_type;
  const char* key;
  const char* value;
  const char* words;  // of the value in the warning
};

TEST(UnreadKeys, AreSaidWithTheirValue) {
  for (const Case& c : {
           Case{"llama", "alibi", "true", "true is not read: class llama"},
           {"llama", "position_embedding_type", R"("relative_key")", "\"relative_key\" is not read"},
           {"llama", "position_embedding_type", R"("absolute")", "\"absolute\" is not read"},
           {"llama", "rope_type", R"("yarn")", "\"yarn\" is not read"},
           {"llama", "factor", "4", "4 is not read"},
           {"llama", "use_dynamic_ntk", "true", "true is not read"},
           {"llama", "use_logn_attn", "true", "true is not read"},
           {"llama", "rope_ratio", "50", "50 is not read"},
           {"llama", "rope_local_base_freq", "10000.0", "10000 is not read"},
           {"llama", "global_rope_theta", "160000", "160000 is not read"},
           {"llama", "no_rope_layers", "[1, 1, 1, 0]", "a list of 4 is not read"},
           {"llama", "qk_rope_head_dim", "64", "64 is not read"},
           {"llama", "relative_attention_num_buckets", "32", "32 is not read"},
           {"llama", "clamp_len", "8", "8 is not read"},
           {"bert", "rope_theta", "500000", "500000 is not read: class bert"},
           {"bert", "rope_scaling", R"({"type": "linear", "factor": 2})", "an object is not read"},
           {"bert", "partial_rotary_factor", "0.5", "0.5 is not read"},
           {"gpt2", "rope_theta", "10000", "10000 is not read"},
           {"gpt2", "alibi", "true", "true is not read"},
           {"t5", "rope_parameters", R"({"rope_theta": 1e6})", "an object is not read"},
           {"bloom", "rotary_dim", "16", "16 is not read"},
       }) {
    const std::string json = Class(c.model_type, absl::StrCat("\"", c.key, "\":", c.value));
    const ModelEncoding model = Read(json);
    EXPECT_TRUE(HasNote(model.warnings, c.key, c.words)) << json;
  }
}

TEST(UnreadKeys, AListOfAttentionTypesIsReadByItsClassesAlone) {
  const std::string list = R"("num_hidden_layers": 2, "attn_type_list": [0, 1])";
  EXPECT_TRUE(HasNote(Read(Class("llama", list)).warnings, "attn_type_list", "is not read"));
  EXPECT_FALSE(HasNote(Read(Class("minimax", list)).warnings, "attn_type_list", "is not read"));
  EXPECT_FALSE(HasNote(Read(Class("minimax_text_01", list)).warnings, "attn_type_list", "is not read"));
}

// The same inside attn_config, which MPT and DBRX have.
TEST(UnreadKeys, InsideAttnConfig) {
  const auto nested = [](std::string_view model_type, std::string_view keys) {
    return Read(Class(model_type, absl::StrCat("\"attn_config\":{", absl::string_view(keys.data(), keys.size()), "}")))
        .warnings;
  };
  EXPECT_TRUE(HasNote(nested("dbrx", R"("rope_theta":1e4,"rope_scaling":{"type":"linear","factor":4})"),
                      "attn_config.rope_scaling", "an object is not read: class dbrx"));
  EXPECT_TRUE(HasNote(nested("dbrx", R"("alibi":true)"), "attn_config.alibi", "true is not read"));
  EXPECT_TRUE(HasNote(nested("dbrx", R"("rope_thetta":5e5)"), "attn_config.rope_thetta", "no class has such a key"));
  EXPECT_TRUE(HasNote(nested("mpt", R"("rope_theta":5e5)"), "attn_config.rope_theta", "500000 is not read: class mpt"));
  EXPECT_TRUE(HasNote(nested("mpt", R"("rope_hf_config":{"type":"linear","factor":4})"), "attn_config.rope_hf_config"));
  EXPECT_TRUE(
      HasNote(nested("mpt", R"("alibi":false,"alibi_bias_max":16)"), "attn_config.alibi_bias_max", "16 is not read"));
  EXPECT_TRUE(HasNote(nested("mpt", R"("use_logn_attn":true)"), "attn_config.use_logn_attn", "true is not read"));
  EXPECT_TRUE(HasNote(nested("llama", R"("rope_theta":5e5)"), "attn_config.rope_theta", "class llama"));
  // What is read, what means nothing, and what the class's own code writes into every file.
  EXPECT_TRUE(nested("dbrx", R"("rope_theta":5e5,"kv_n_heads":2,"clip_qkv":8,"alibi":false)").empty());
  EXPECT_TRUE(nested("mpt", R"("alibi":true,"alibi_bias_max":8,"qk_ln":false,"softmax_scale":null,"rope":false,
      "rope_theta":10000,"rope_impl":"dail","rope_dail_config":{"type":"original","pos_idx_in_fp32":true},
      "rope_hf_config":{"type":"no_scaling","factor":1.0})")
                  .empty());
  EXPECT_FALSE(HasNote(nested("mpt", R"("alibi":false,"alibi_bias_max":8)"), "attn_config.alibi_bias_max"));
  // What has no answer says why, and its other keys wait for that.
  EXPECT_FALSE(HasNote(nested("mpt", R"("alibi":false,"rope":true,"rope_theta":5e5)"), "attn_config.rope_theta"));
}

// The numbers that the two classes read from there.
std::string NumbersOf(const CanonicalSpec& spec) {
  if (const auto* rope = std::get_if<RopeSpec>(&spec.spec)) return absl::StrCat(rope->base.value_or(0));
  const auto* alibi = std::get_if<AlibiSpec>(&spec.spec);
  return alibi != nullptr ? absl::StrCat(alibi->max_bias.value_or(0)) : "";
}

TEST(UnreadKeys, NoneInsideAttnConfigIsSilent) {
  for (const char* model_type : {"mpt", "dbrx"}) {
    const auto words = [&](const std::string& keys) {
      const auto model = ReadModelConfig(Class(model_type, absl::StrCat("\"attn_config\":{", keys, "}")));
      std::string text = model.ok() ? "" : "refused";
      if (!model.ok()) return text;
      for (const Note& note : model->warnings) absl::StrAppend(&text, note.field, note.message);
      for (const LayerEncoding& layer : model->layers) {
        for (const Note& note : layer.warnings) absl::StrAppend(&text, note.field, note.message);
        absl::StrAppend(&text, static_cast<int>(layer.kind), layer.unserved, layer.spec ? NumbersOf(*layer.spec) : "");
      }
      return text;
    };
    const std::string before = words("");
    for (const std::string_view key : PositionKeys()) {
      if (key == "rope_impl" || key == "alibi") continue;  // either does the same; MPT's ALiBi is its default
      EXPECT_NE(words(absl::StrCat("\"", absl::string_view(key.data(), key.size()), "\":17")), before)
          << model_type << " " << key;
    }
  }
}

TEST(UnreadKeys, WhatMeansNothingIsNoWarning) {
  for (const char* key :
       {R"("alibi": false)", R"("alibi": null)", R"("rope_scaling": null)", R"("rope_scaling": {})",
        R"("rope_scaling": {"rope_type": "default"})", R"("no_rope_layers": [])", R"("rope_ratio": 1.0)",
        R"("clamp_len": -1)", R"("rope_type": "default")", R"("use_logn_attn": 0)", R"("position_embedding_type": "")",
        R"("original_max_position_embeddings": 512)", R"("use_cache": true)", R"("hidden_act": "silu")"}) {
    for (const char* model_type : {"llama", "gpt2"}) {
      EXPECT_TRUE(Read(Class(model_type, key)).warnings.empty()) << model_type << " " << key;
    }
  }
}

TEST(UnreadKeys, WhatTheClassHasAnywayIsNoWarning) {
  EXPECT_TRUE(Read(Class("bloom", R"("alibi": true)")).warnings.empty());
  EXPECT_TRUE(Read(Class("bloom", R"("position_embedding_type": "alibi")")).warnings.empty());
  EXPECT_TRUE(Read(Class("llama", R"("position_embedding_type": "rope")")).warnings.empty());
  EXPECT_TRUE(Read(Class("gpt2", R"("position_embedding_type": "absolute")")).warnings.empty());
  EXPECT_TRUE(HasNote(Read(Class("bloom", R"("position_embedding_type": "rope")")).warnings, "position_embedding_type"));
}

TEST(UnreadKeys, WhatIsReadIsNoWarning) {
  EXPECT_TRUE(Read(Class("bert", R"("position_embedding_type": "absolute")")).warnings.empty());
  EXPECT_TRUE(Read(Class("falcon", R"("alibi": true)")).warnings.empty());
  EXPECT_FALSE(HasNote(Read(Class("chatglm", R"("rope_ratio": 50, "rope_theta": 1e4)")).warnings, "rope_ratio", "not read"));
  EXPECT_FALSE(HasNote(Read(Class("gptj", R"("rotary_dim": 16)")).warnings, "rotary_dim"));
}

TEST(UnreadKeys, TwoNamesOfOneThing) {
  const ModelEncoding model = Read(Class("llama", R"("rope_theta": 10000, "rotary_base": 500000)"));
  EXPECT_TRUE(HasNote(model.warnings, "rotary_base", "500000 is not read"));
  EXPECT_FALSE(HasNote(model.warnings, "rope_theta"));
}

TEST(UnreadKeys, OfAnUnknownClass) {
  const ModelEncoding model = Read(Class("nobody", R"("rope_theta": 10000, "use_logn_attn": true)"));
  EXPECT_TRUE(HasNote(model.warnings, "use_logn_attn", "true is not read: class nobody is unknown"));
}

// In parts, and around the language model.
TEST(UnreadKeys, ByTheirPath) {
  const std::string inner = Class("llama", R"("rope_theta": 10000, "use_logn_attn": true)");
  const ModelEncoding model = Read(
      absl::StrCat(R"({"model_type":"llava","alibi":true,"use_logn_attn":true,"text_config":)", inner,
                   R"(,"vision_config":{"model_type":"clip_vision_model","image_size":32,"patch_size":16,"hidden_size":64,)"
                   R"("num_attention_heads":4,"rope_theta":100}})"));
  EXPECT_TRUE(HasNote(model.warnings, "text_config.use_logn_attn", "true is not read"));
  EXPECT_TRUE(HasNote(model.warnings, "vision_config.rope_theta", "100 is not read"));
  EXPECT_TRUE(HasNote(model.warnings, "alibi", "text_config describes the language model"));
  EXPECT_FALSE(HasNote(model.warnings, "use_logn_attn")) << "repeated inside";
}

// A factor beside MLA's own width says the same as the width, or is not read.
TEST(UnreadKeys, FactorsBesideASlice) {
  const auto slice = [](std::string_view factor) {
    return LayerOf(Read(Class("deepseek_v3", absl::StrCat(R"("rope_theta":1e4,"qk_nope_head_dim":48,"qk_rope_head_dim":16,)"
                                                          R"("partial_rotary_factor":)",
                                                          absl::string_view(factor.data(), factor.size())))));
  };
  EXPECT_TRUE(HasNote(slice("0.5").warnings, "partial_rotary_factor", "0.5 is not read: 16 channels"));
  EXPECT_FALSE(HasNote(slice("1").warnings, "partial_rotary_factor"));
  EXPECT_FALSE(HasNote(slice("0.25").warnings, "partial_rotary_factor"));
}

}  // namespace
}  // namespace phasor::server
