// What older versions of transformers do is said of classes that they have, reading keys that they read.
#include <gtest/gtest.h>

#include <string>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

LayerEncoding Yarn(std::string_view model_type, std::string_view dict, std::string_view extra) {
  const auto absl_of = [](std::string_view text) { return absl::string_view(text.data(), text.size()); };
  return LayerOf(Read(absl::StrCat(
      R"({"model_type":")", absl_of(model_type), R"(","hidden_size":4096,"num_attention_heads":32,"num_hidden_layers":4,)",
      R"("max_position_embeddings":8192,"rope_theta":1e4,")", absl_of(dict), R"(":{"rope_type":"yarn",)",
      R"("original_max_position_embeddings":2048)", absl_of(extra), "}}")));
}

bool NamesTheRamp(const LayerEncoding& layer, std::string_view dict = "rope_scaling") {
  return HasNote(layer.warnings, std::string(dict) + ".original_max_position_embeddings",
                 "transformers before 4.51 takes 8192");
}

bool NamesTheFactor(const LayerEncoding& layer, std::string_view dict = "rope_scaling") {
  return HasNote(layer.warnings, std::string(dict) + ".factor", "transformers before 5 fails here");
}

constexpr char kFactor[] = R"(,"factor":4)";

TEST(LibraryVersions, TheRampIsOfClassesThatAreOldEnough) {
  EXPECT_TRUE(NamesTheRamp(Yarn("llama", "rope_scaling", kFactor)));
  EXPECT_TRUE(NamesTheRamp(Yarn("qwen2", "rope_scaling", kFactor)));
  for (const char* younger : {"qwen3", "arcee", "hunyuan_v1_dense", "seed_oss", "solar_open", "nobody"}) {
    EXPECT_FALSE(NamesTheRamp(Yarn(younger, "rope_scaling", kFactor))) << younger;
  }
  EXPECT_FALSE(NamesTheRamp(Yarn("phi3", "rope_scaling", kFactor))) << "refuses the type";
}

TEST(LibraryVersions, TheRampIsOfTheDictThatTheyRead) {
  EXPECT_FALSE(NamesTheRamp(Yarn("llama", "rope_parameters", kFactor), "rope_parameters"));
}

TEST(LibraryVersions, AMissingFactorFailsInVersion4) {
  EXPECT_TRUE(NamesTheFactor(Yarn("llama", "rope_scaling", "")));
  EXPECT_TRUE(NamesTheFactor(Yarn("qwen3", "rope_scaling", R"(,"factor":null)")));
  EXPECT_FALSE(NamesTheFactor(Yarn("solar_open", "rope_scaling", "")));
  EXPECT_FALSE(NamesTheFactor(Yarn("llama", "rope_parameters", ""), "rope_parameters"));
  EXPECT_TRUE(HasNote(Yarn("solar_open", "rope_scaling", "").warnings, "rope_scaling.factor", "ratio of the lengths"));
}

TEST(LibraryVersions, TheBaseAtTheTopIsThatOfVersion4) {
  const auto two = [](std::string_view model_type) {
    return HasNote(Yarn(model_type, "rope_parameters", R"(,"factor":4,"rope_theta":1e6)").warnings,
                   "rope_parameters.rope_theta", "transformers before 5");
  };
  EXPECT_TRUE(two("llama"));
  EXPECT_TRUE(two("qwen3"));
  EXPECT_FALSE(two("solar_open"));
}

}  // namespace
}  // namespace phasor::server
