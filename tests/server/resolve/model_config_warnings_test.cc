// Contradictions in a configuration, and what other loaders make of the same file (encodings.md §6): each is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::string Yarn(std::string_view extra) {
  return Llama(absl::StrCat(R"("rope_theta":1e6,"rope_scaling":{"type":"yarn","original_max_position_embeddings":2048)",
                            extra.empty() ? "" : ",", absl::string_view(extra.data(), extra.size()), "}"));
}

const std::vector<Note>& SpecWarnings(const LayerEncoding& layer) { return layer.spec->warnings; }

TEST(Contradictions, BetasThatAreSwapped) {
  const LayerEncoding swapped = LayerOf(Read(Yarn(R"("factor":4,"beta_fast":1,"beta_slow":32)")));
  EXPECT_TRUE(HasNote(SpecWarnings(swapped), "rope.yarn.beta_fast", "not above beta_slow"));
  EXPECT_FALSE(HasNote(SpecWarnings(LayerOf(Read(Yarn(R"("factor":4)")))), "rope.yarn.beta_fast"));
}

TEST(Contradictions, FactorAgainstTheRatioOfTheLengths) {
  // 8192 / 2048 = 4.
  EXPECT_TRUE(HasNote(LayerOf(Read(Yarn(R"("factor":8)"))).warnings, "rope_scaling.factor", "= 4"));
  EXPECT_FALSE(HasNote(LayerOf(Read(Yarn(R"("factor":4)"))).warnings, "rope_scaling.factor"));
}

TEST(Contradictions, LowAboveHigh) {
  const LayerEncoding layer =
      LayerOf(Read(Llama(R"("rope_theta":5e5,"rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":4,)"
                         R"("high_freq_factor":1,"original_max_position_embeddings":8192})")));
  EXPECT_TRUE(HasNote(SpecWarnings(layer), "rope.llama3.low_freq_factor"));
}

TEST(Contradictions, KeysThatNobodyHas) {
  const ModelEncoding model = Read(Llama(R"("rope_thetta":1e6,"rotary_dims":64,"rope_interleave":null)"));
  EXPECT_TRUE(HasNote(model.warnings, "rope_thetta", "no class has such a key"));
  EXPECT_TRUE(HasNote(model.warnings, "rotary_dims", "no class has such a key"));
  EXPECT_FALSE(HasNote(model.warnings, "rope_interleave"));
  EXPECT_TRUE(HasNote(LayerOf(Read(Yarn(R"("factor":4,"beta_fats":32)"))).warnings, "rope_scaling.beta_fats",
                      "no such key is known"));
  // In a text part, by its path.
  EXPECT_TRUE(HasNote(Read(R"({"model_type":"llava","text_config":{"model_type":"llama","rope_tehta":1}})").warnings,
                      "text_config.rope_tehta"));
}

TEST(Contradictions, LengthsOfLists) {
  const auto longrope = [](int short_entries) {
    std::string ones = "1";
    for (int i = 1; i < short_entries; ++i) ones += ",1";
    std::string all = "1";
    for (int i = 1; i < 64; ++i) all += ",1";
    return Llama(absl::StrCat(R"("rope_theta":1e4,"rope_scaling":{"type":"longrope","factor":2,"short_factor":[)", ones,
                              R"(],"long_factor":[)", all, R"(],"original_max_position_embeddings":4096})"));
  };
  EXPECT_EQ(ErrorField(longrope(63)), "rope_scaling.short_factor");
  EXPECT_EQ(ErrorField(longrope(64)), "OK");
  EXPECT_TRUE(HasNote(Read(Llama(R"("rope_theta":1e4,"layer_types":["full_attention","full_attention"])")).warnings,
                      "layer_types", "not one per layer"));
  EXPECT_TRUE(HasNote(Read(R"({"model_type":"smollm3","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,)"
                           R"("no_rope_layers":[1,1,0]})")
                          .warnings,
                      "no_rope_layers", "not one per layer"));
}

TEST(Contradictions, ABaseThatIsMissing) {
  EXPECT_TRUE(HasNote(LayerOf(Read(Llama(""))).warnings, "rope_theta", "not given: base 10000"));
}

TEST(Contradictions, HeadsThatShareNoKeys) {
  EXPECT_TRUE(HasNote(Read(Llama(R"("rope_theta":1e4,"num_key_value_heads":7)")).warnings, "num_key_value_heads",
                      "7 does not divide the 32"));
  EXPECT_TRUE(HasNote(Read(Llama(R"("rope_theta":1e4,"num_key_value_heads":64)")).warnings, "num_key_value_heads"));
  EXPECT_FALSE(HasNote(Read(Llama(R"("rope_theta":1e4,"num_key_value_heads":8)")).warnings, "num_key_value_heads"));
}

TEST(Contradictions, ALengthBelowZero) {
  const auto with = [](std::string_view length) {
    return Read(absl::StrCat(R"({"model_type":"llama","hidden_size":64,"num_attention_heads":4,"rope_theta":1e4,)",
                             R"("max_position_embeddings":)", absl::string_view(length.data(), length.size()), "}"));
  };
  EXPECT_TRUE(HasNote(with("-1").warnings, "max_position_embeddings", "-1 is no length"));
  EXPECT_EQ(LayerOf(with("-1")).max_position, 0);
  EXPECT_FALSE(HasNote(with("64").warnings, "max_position_embeddings"));
}

TEST(Contradictions, AnIntervalAgainstTheList) {
  const auto gemma = [](int pattern) {
    return Read(absl::StrCat(R"({"model_type":"gemma3_text","hidden_size":2560,"num_attention_heads":8,"head_dim":256,)",
                             R"("num_hidden_layers":4,"rope_theta":1e6,"layer_types":["sliding_attention",)",
                             R"("full_attention","sliding_attention","full_attention"],"sliding_window_pattern":)", pattern,
                             "}"));
  };
  EXPECT_TRUE(HasNote(gemma(6).warnings, "sliding_window_pattern", "from layer 1"));
  EXPECT_FALSE(HasNote(gemma(2).warnings, "sliding_window_pattern"));
  EXPECT_EQ(LayerOf(gemma(6), "full_attention").layers, (std::vector<int64_t>{1, 3}));
  const auto exaone = [](std::string_view letters) {
    return Read(absl::StrCat(R"({"model_type":"exaone4","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,)",
                             R"("sliding_window":16,"layer_types":["sliding_attention","sliding_attention",)",
                             R"("full_attention","full_attention"],"sliding_window_pattern":")",
                             absl::string_view(letters.data(), letters.size()), "\"}"));
  };
  EXPECT_TRUE(HasNote(exaone("LG").warnings, "sliding_window_pattern", "from layer 1"));
  EXPECT_FALSE(HasNote(exaone("LLG").warnings, "sliding_window_pattern"));
  const auto smol = [](int interval) {
    return Read(absl::StrCat(R"({"model_type":"smollm3","hidden_size":64,"num_attention_heads":4,"num_hidden_layers":4,)",
                             R"("no_rope_layers":[1,0,1,0],"no_rope_layer_interval":)", interval, "}"));
  };
  EXPECT_TRUE(HasNote(smol(4).warnings, "no_rope_layer_interval", "from layer 1"));
  EXPECT_FALSE(HasNote(smol(2).warnings, "no_rope_layer_interval"));
}

TEST(Contradictions, KeysAroundTheLanguageModel) {
  const auto with = [](std::string_view inner) {
    return Read(Llama(absl::StrCat(R"("rope_theta":1e4,"text_config":{"model_type":"llama","hidden_size":4096,)",
                                   R"("num_attention_heads":32)", absl::string_view(inner.data(), inner.size()), "}")));
  };
  const ModelEncoding differs = with(R"(,"rope_theta":5e5)");
  EXPECT_EQ(*RopeOf(LayerOf(differs)).base, 5e5);
  EXPECT_TRUE(HasNote(differs.warnings, "rope_theta", "10000 is not read: text_config.rope_theta 500000 counts"));
  EXPECT_FALSE(HasNote(with(R"(,"rope_theta":1e4)").warnings, "rope_theta"));
  EXPECT_TRUE(HasNote(with("").warnings, "rope_theta", "text_config describes the language model and has none"));
}

TEST(Contradictions, ScalingWithoutARotation) {
  const auto falcon = [](std::string_view alibi) {
    return Read(absl::StrCat(R"({"model_type":"falcon","hidden_size":1024,"num_attention_heads":16,"rope_scaling":)",
                             R"({"type":"linear","factor":2},"alibi":)", absl::string_view(alibi.data(), alibi.size()),
                             "}"));
  };
  EXPECT_TRUE(HasNote(falcon("true").warnings, "rope_scaling", "the model has ALiBi"));
  EXPECT_FALSE(HasNote(falcon("false").warnings, "rope_scaling"));
}

TEST(OtherLoaders, BasesInTwoPlaces) {
  const LayerEncoding both = LayerOf(Read(Llama(R"("rope_theta":5e5,"rope_parameters":{"rope_theta":1e6})")));
  EXPECT_EQ(*RopeOf(both).base, 1e6);
  EXPECT_TRUE(HasNote(both.warnings, "rope_parameters.rope_theta", "transformers before 5 takes the latter"));
  const LayerEncoding dict = LayerOf(Read(Llama(R"("rope_parameters":{"rope_theta":1e6})")));
  EXPECT_TRUE(HasNote(dict.warnings, "rope_parameters.rope_theta", "only take base 10000"));
}

TEST(OtherLoaders, NamesAndNulls) {
  EXPECT_TRUE(
      HasNote(LayerOf(Read(Yarn(R"("factor":null)"))).warnings, "rope_scaling.factor", "transformers before 5 fails"));
  EXPECT_TRUE(HasNote(LayerOf(Read(Yarn(R"("factor":4,"attn_factor":0.8782488)"))).warnings, "rope_scaling.attn_factor",
                      "vLLM multiplies"));
  std::string ones = "1";
  for (int i = 1; i < 64; ++i) ones += ",1";
  const LayerEncoding su = LayerOf(
      Read(Llama(absl::StrCat(R"("rope_theta":1e4,"original_max_position_embeddings":4096,"rope_scaling":{"type":"su",)",
                              R"("short_factor":[)", ones, R"(],"long_factor":[)", ones, "]}"))));
  EXPECT_TRUE(HasNote(su.warnings, "rope_scaling.type", "transformers 5.24 refuses"));
  const LayerEncoding partial = LayerOf(Read(Llama(R"("rope_theta":1e4,"partial_rotary_factor":0.5)")));
  EXPECT_EQ(*RopeOf(partial).rotary_dim, 64);
  EXPECT_TRUE(HasNote(partial.warnings, "partial_rotary_factor", "transformers 5 rotates all 64"));
}

TEST(OtherLoaders, TypeNtkIsVllms) {
  const LayerEncoding fixed = LayerOf(Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"type":"ntk","factor":4})")));
  EXPECT_EQ(ScheduleOf<NtkMixedSchedule>(RopeOf(fixed)).factor, 4);
  EXPECT_TRUE(HasNote(fixed.warnings, "rope_scaling.type", "transformers refuses"));
  const LayerEncoding mixed =
      LayerOf(Read(Llama(R"("rope_theta":1e4,"rope_scaling":{"type":"ntk","factor":4,"mixed_b":0.625})")));
  EXPECT_EQ(ScheduleOf<NtkMixedSchedule>(RopeOf(mixed)).mixed_b, 0.625);
  // vLLM's ntk_scaling_rope.py: pair i is divided by exp(a·(i + 1)^b), a = ln(factor)/(d/2)^b; the last one by the factor.
  const auto resolved = Resolve(*mixed.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  const auto& inv_freq = std::get<AnglePlan>(resolved->plan).inv_freq;
  EXPECT_NEAR(inv_freq[0], std::exp(-std::log(4) / std::pow(64, 0.625)), 1e-14);
  EXPECT_NEAR(inv_freq[63], std::pow(1e4, -126.0 / 128) / 4, 1e-17);
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"type":"ntk","factor":4,"mixed_b":-1})")), "rope_scaling.mixed_b");
}

TEST(OtherLoaders, TheRampOfYarn) {
  EXPECT_TRUE(
      HasNote(LayerOf(Read(Yarn(R"("factor":4)"))).warnings, "rope_scaling.original_max_position_embeddings", "takes 8192"));
  const LayerEncoding nested = LayerOf(
      Read(R"({"model_type":"gpt_oss","hidden_size":2880,"num_attention_heads":64,"head_dim":64,"num_hidden_layers":2,)"
           R"("max_position_embeddings":131072,"layer_types":["full_attention","sliding_attention"],"rope_parameters":)"
           R"({"full_attention":{"rope_type":"yarn","factor":32,"rope_theta":150000,"truncate":false,)"
           R"("original_max_position_embeddings":4096},"sliding_attention":{"rope_type":"default","rope_theta":150000}}})"),
      "full_attention");
  EXPECT_EQ(*ScheduleOf<YarnSchedule>(RopeOf(nested)).truncate, false);
  EXPECT_TRUE(HasNote(nested.warnings, "rope_parameters.full_attention.truncate", "transformers 5.24 loses it"));
}

TEST(OtherLoaders, DeepseeksMultipliers) {
  const LayerEncoding layer =
      LayerOf(Read(R"({"model_type":"deepseek_v3","qk_nope_head_dim":128,"qk_rope_head_dim":64,"rope_theta":1e4,)"
                   R"("hidden_size":7168,"num_attention_heads":128,"max_position_embeddings":163840,"rope_scaling":)"
                   R"({"type":"yarn","factor":40,"original_max_position_embeddings":4096,"mscale_all_dim":1}})"));
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  EXPECT_NEAR(resolved->attention_factor, 1.3688879, 1e-7);
  EXPECT_TRUE(HasNote(layer.warnings, "rope_scaling.mscale", "vLLM takes mscale 1"));
}

TEST(OtherLoaders, BasesOfOlmo3AndSlopesOfFalcon) {
  const ModelEncoding olmo =
      Read(R"({"model_type":"olmo3","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":4,)"
           R"("rope_parameters":{"rope_type":"default","rope_theta":5e5}})");
  const LayerEncoding sliding = LayerOf(olmo, "sliding_attention");
  EXPECT_EQ(*RopeOf(sliding).base, 5e5);
  EXPECT_TRUE(HasNote(sliding.warnings, "rope_parameters.rope_theta", "the class's base"));
  const LayerEncoding falcon =
      LayerOf(Read(R"({"model_type":"falcon","alibi":true,"hidden_size":64,"num_attention_heads":4})"));
  EXPECT_TRUE(HasNote(falcon.warnings, "alibi", "bfloat16"));
}

// Towers with a table beside their rotation have an entry for each.
TEST(Towers, TableBesideTheRotation) {
  const ModelEncoding model =
      Read(R"({"model_type":"qwen3_vl","text_config":{"hidden_size":2048,"num_attention_heads":16,"rope_parameters":)"
           R"({"rope_theta":1e6,"mrope_section":[24,20,20],"mrope_interleaved":true}},"vision_config":)"
           R"({"model_type":"qwen3_vl_vision","hidden_size":1152,"num_heads":16,"num_position_embeddings":2304}})");
  EXPECT_EQ(LayerOf(model, "vision").kind, PositionKind::kRope);
  const LayerEncoding table = LayerOf(model, "vision.embedding");
  EXPECT_EQ(std::get<LearnedSpec>(table.spec->spec).num_positions, 2304);
  EXPECT_EQ(table.part, "vision");
  // The class's own image and patch: (336 / 14)² rows. Where the file takes the image away, nothing does.
  const LayerEncoding by_class = LayerOf(Read(R"({"model_type":"glm4v_vision"})"), "embedding");
  EXPECT_EQ(std::get<LearnedSpec>(by_class.spec->spec).num_positions, 576);
  const ModelEncoding glm = Read(R"({"model_type":"glm4v_vision","image_size":null})");
  EXPECT_TRUE(HasNote(glm.warnings, "image_size", "nothing says how large"));
  const LayerEncoding kimi =
      LayerOf(Read(R"({"model_type":"kimi_k25_vision","hidden_size":1152,"num_attention_heads":16,"pos_emb_height":64,)"
                   R"("pos_emb_width":48})"),
              "embedding");
  EXPECT_EQ(std::get<LearnedSpec>(kimi.spec->spec).num_positions, 64 * 48);
}

}  // namespace
}  // namespace phasor::server
