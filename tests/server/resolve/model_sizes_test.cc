// Sizes that can be none are refused, whether or not the answer needs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

std::string With(std::string_view model_type, std::string_view key, std::string_view value) {
  const auto absl_of = [](std::string_view text) { return absl::string_view(text.data(), text.size()); };
  return absl::StrCat(R"({"model_type":")", absl_of(model_type),
                      R"(","hidden_size":64,"num_attention_heads":4,"head_dim":16,"num_hidden_layers":2,)",
                      R"("max_position_embeddings":512,"rope_theta":1e4,")", absl_of(key), "\":", absl_of(value), "}");
}

TEST(ModelSizes, AreAtLeastOne) {
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"}) {
    for (const char* value : {"-1", "0", "-4096", "2.5", "NaN"}) {
      for (const char* model_type : {"llama", "gpt2", "bert", "bloom", "t5", "mamba", "nobody"}) {
        // 0 says that there is none, which is refused by who needs one.
        if (std::string_view(key) == "head_dim" && std::string_view(value) == "0" &&
            model_type != std::string_view("llama")) {
          continue;
        }
        const auto error = SpecErrorOf(ReadModelConfig(With(model_type, key, value)).status());
        ASSERT_TRUE(error) << model_type << " " << key << " " << value;
        EXPECT_EQ(error->field, key) << model_type << " " << value;
        EXPECT_THAT(error->allowed,
                    ::testing::AnyOf(HasSubstr("a whole number, 1 … "), HasSubstr("a whole number, 0 … 65536")))
            << key;
      }
    }
    EXPECT_EQ(SpecErrorOf(ReadModelConfig(With("llama", key, "-1")).status())->given, "-1");
    EXPECT_EQ(ErrorField(With("llama", key, "4.0")), "OK") << key;
    EXPECT_EQ(ErrorField(With("llama", key, "null")), "OK") << key;
  }
}

TEST(ModelSizes, ByTheNameThatTheFileHas) {
  EXPECT_EQ(ErrorField(R"({"model_type":"gpt2","n_embd":64,"n_head":4,"n_layer":-1})"), "n_layer");
  EXPECT_EQ(ErrorField(R"({"model_type":"gpt2","n_embd":-64,"n_head":4,"n_layer":1})"), "n_embd");
  EXPECT_EQ(ErrorField(R"({"model_type":"t5","d_model":64,"num_heads":4,"num_layers":0})"), "num_layers");
  EXPECT_EQ(ErrorField(R"({"model_type":"llava","text_config":{"model_type":"llama","num_hidden_layers":-1}})"),
            "text_config.num_hidden_layers");
}

TEST(ModelSizes, StacksOfLayersMayBeEmpty) {
  EXPECT_EQ(ErrorField(R"({"model_type":"bart","d_model":64,"encoder_layers":-1,"decoder_layers":2})"), "encoder_layers");
  EXPECT_EQ(ErrorField(R"({"model_type":"bart","d_model":64,"encoder_layers":0,"decoder_layers":2})"), "OK");
}

TEST(ModelSizes, OfAPartLeaveThePartOut) {
  const ModelEncoding model = Read(R"({"model_type":"llava","text_config":{"model_type":"llama","rope_theta":1e4},)"
                                   R"("vision_config":{"model_type":"clip_vision_model","num_hidden_layers":-1}})");
  EXPECT_TRUE(
      HasNote(model.warnings, "vision_config", "vision_config.num_hidden_layers is -1, allowed: a whole number, 1 … 10000"));
}

TEST(ModelSizes, OtherTypesAreLeftToWhoNeedsThem) {
  EXPECT_EQ(ErrorField(With("llama", "vocab_size", R"("many")")), "OK");
  EXPECT_EQ(ErrorField(With("gpt2", "head_dim", "[16,16]")), "OK");
}

}  // namespace
}  // namespace phasor::server
