// Files whose model_type and architectures name two classes, Grok, whose published file is one of them, and TeleChat3.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

TEST(Architectures, OfAnotherClassAreSaid) {
  const ModelEncoding model = Read(R"({"model_type":"bert","architectures":["LlamaForCausalLM"],"hidden_size":64,)"
                                   R"("num_attention_heads":4,"max_position_embeddings":512})");
  EXPECT_TRUE(HasNote(model.warnings, "architectures", "LlamaForCausalLM is of class llama, model_type says bert"));
  EXPECT_EQ(LayerOf(model).kind, PositionKind::kLearned);
}

TEST(Architectures, OfTheClassItselfAreNot) {
  for (
      const char* json :
      {R"({"model_type":"llama","architectures":["LlamaForCausalLM"],"rope_theta":1e4})",
       R"({"model_type":"llama","architectures":["MistralForCausalLM"],"rope_theta":1e4})",  // alike but for sizes
       R"({"model_type":"llama","architectures":["NobodyForCausalLM"],"rope_theta":1e4})",
       R"({"model_type":"gemma3","architectures":["Gemma3ForConditionalGeneration"],"text_config":{"model_type":"gemma3_text"}})",
       R"({"model_type":"kimi_k2","architectures":["DeepseekV3ForCausalLM"],"hidden_size":64,"num_attention_heads":4,"rope_theta":1e4})"}) {
    EXPECT_FALSE(HasNote(Read(json).warnings, "architectures")) << json;
  }
}

// As xai-org/grok-2 has it.
std::string Grok2(std::string_view changes) {
  return absl::StrCat(
      R"({"architectures":["Grok1ForCausalLM"],"hidden_size":8192,"max_position_embeddings":131072,"num_attention_heads":64,)"
      R"("num_key_value_heads":8,"num_hidden_layers":64,"head_dim":128,"rope_theta":208533496,"attn_temperature_len":1024,)"
      R"("sliding_window_size":-1,"model_type":"git","original_max_position_embeddings":8192,"scaling_factor":16.0,)"
      R"("extrapolation_factor":1.0,"attn_factor":1.0,"beta_fast":8,"beta_slow":1,"rope_type":")",
      absl::string_view(changes.data(), changes.size()), "\"}");
}

TEST(Grok, PublishedAsGit) {
  const ModelEncoding model = Read(Grok2("original"));
  EXPECT_TRUE(HasNote(model.warnings, "architectures",
                      "Grok1ForCausalLM is of class grok1, model_type says git; read as the "
                      "former"));
  EXPECT_TRUE(HasNote(model.warnings, "scaling_factor", "16 is not read: rope_type is original"));
  EXPECT_EQ(model.layers.size(), 1u) << "no tower of class git";
  const LayerEncoding layer = LayerOf(model);
  const RopeSpec rope = RopeOf(layer);
  EXPECT_EQ(rope.base, 208533496);
  EXPECT_EQ(rope.rotary_dim, 128);
  EXPECT_TRUE(std::holds_alternative<DefaultSchedule>(rope.schedule));
  EXPECT_EQ(layer.query_scale, "max(1, ln(position)/ln(1024))");
  EXPECT_EQ(layer.num_kv_heads, 8);
}

TEST(Grok, BlendsFrequenciesOrTheirLogarithms) {
  for (const char* type : {"yarn", "yarn_linear", "yarn_log"}) {
    const LayerEncoding layer = LayerOf(Read(Grok2(type)));
    const auto yarn = ScheduleOf<YarnSchedule>(RopeOf(layer));
    EXPECT_EQ(yarn.factor, 16);
    EXPECT_EQ(yarn.original_max_position, 8192);
    EXPECT_EQ(yarn.beta_fast, 8);
    EXPECT_EQ(yarn.log_blend.value_or(false), std::string(type) == "yarn_log");
    const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(resolved->attention_factor, 1) << type;
  }
  EXPECT_EQ(LayerOf(Read(Grok2("theta_scale"))).unserved, "rope_grok_theta_scale");
  EXPECT_EQ(ErrorField(Grok2("warp")), "rope_type");
}

TEST(Grok, WhatItsScheduleNeeds) {
  const std::string_view sizes = R"({"model_type":"grok-1","hidden_size":512,"num_attention_heads":4,"rope_theta":1e4)";
  const auto with = [&](std::string_view more) {
    return absl::StrCat(absl::string_view(sizes.data(), sizes.size()), absl::string_view(more.data(), more.size()), "}");
  };
  EXPECT_EQ(ErrorField(with(R"(,"rope_type":"yarn_log","original_max_position_embeddings":8192)")), "scaling_factor");
  EXPECT_EQ(ErrorField(with(R"(,"rope_type":"yarn_log","scaling_factor":4)")), "original_max_position_embeddings");
  const LayerEncoding layer =
      LayerOf(Read(with(R"(,"rope_type":"yarn_log","scaling_factor":4,"original_max_position_embeddings":8192)")));
  for (const char* key : {"beta_fast", "beta_slow", "extrapolation_factor"})
    EXPECT_TRUE(HasNote(layer.defaults, key)) << key;
  EXPECT_EQ(RopeOf(LayerOf(Read(with(R"(,"rope_rotate_half_dims":true)")))).rotary_dim, 64);
  EXPECT_TRUE(HasNote(Read(with(R"(,"rope_type":"original","rope_scaling":{"type":"linear","factor":2})")).warnings,
                      "rope_scaling", "rope_type beside it counts"));
}

std::string Telechat3(std::string_view dict) {
  return absl::StrCat(R"({"model_type":"telechat3","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":4,)"
                      R"("max_position_embeddings":32768,"rope_theta":1e6,"rope_scaling":{"factor":4,)"
                      R"("original_max_position_embeddings":8192,)",
                      absl::string_view(dict.data(), dict.size()), "}}");
}

TEST(Telechat3, TakesItsCoefficientByEitherName) {
  for (const char* type : {"yarn", "telechat3-yarn"}) {
    const ModelEncoding model = Read(Telechat3(absl::StrCat(R"("type":")", type, "\"")));
    EXPECT_FALSE(HasNote(model.warnings, "model_type")) << "no unknown class";
    const LayerEncoding layer = LayerOf(model);
    EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(layer)).attention_coefficient, 0.07) << type;
    EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.type", "0.07")) << type;
    const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_NEAR(resolved->attention_factor, 0.07 * std::log(4.0) + 1, 1e-15);
  }
}

TEST(Yarn, ExtraMethodIsGroks) {
  const auto read = [](std::string_view method) {
    return LayerOf(Read(Telechat3(
        absl::StrCat(R"("type":"yarn","extra_method":")", absl::string_view(method.data(), method.size()), "\""))));
  };
  EXPECT_TRUE(ScheduleOf<YarnSchedule>(RopeOf(read("yarn_log"))).log_blend.value_or(false));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(read("yarn_linear"))).attention_coefficient, 0.07);
  EXPECT_TRUE(HasNote(read("yarn").warnings, "rope_scaling.extra_method", "Grok"));
  EXPECT_TRUE(std::holds_alternative<DefaultSchedule>(RopeOf(read("original")).schedule));
  EXPECT_EQ(read("theta_scale").unserved, "rope_grok_theta_scale");
  EXPECT_EQ(ErrorField(Telechat3(R"("type":"yarn","extra_method":"warp")")), "rope_scaling.extra_method");
  // In other classes cos and sin are left alone, as in Grok's.
  const LayerEncoding llama = LayerOf(Read(Llama(
      R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":2048,"extra_method":"yarn_log"})")));
  EXPECT_EQ(ScheduleOf<YarnSchedule>(RopeOf(llama)).attention_coefficient, 0);
}

}  // namespace
}  // namespace phasor::server
