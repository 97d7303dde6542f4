// That attention_factor replaces a schedule's own factor is said where the file gives one, not where its reader makes one.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/resolve/gguf_testing.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

bool SaysReplaced(const LayerEncoding& layer) {
  return layer.spec && HasNote(layer.spec->warnings, "rope.attention_factor", "replaces");
}

LayerEncoding Yarn(std::string_view extra) {
  return LayerOf(Read(Llama(absl::StrCat(R"("rope_theta":1e4,"rope_scaling":{"rope_type":"yarn","factor":4,)",
                                         R"("original_max_position_embeddings":2048)",
                                         absl::string_view(extra.data(), extra.size()), "}"))));
}

TEST(AttentionFactor, OfTheFileReplaces) {
  EXPECT_TRUE(SaysReplaced(Yarn(R"(,"attention_factor":1.25)")));
  EXPECT_FALSE(SaysReplaced(Yarn("")));
}

TEST(AttentionFactor, OfEqualMultipliersIsADefault) {
  const LayerEncoding equal = Yarn(R"(,"mscale":0.5,"mscale_all_dim":0.5)");
  EXPECT_EQ(RopeOf(equal).attention_factor, 1);
  EXPECT_FALSE(SaysReplaced(equal));
  EXPECT_TRUE(HasNote(equal.defaults, "rope_scaling.attention_factor", "1 (mscale and mscale_all_dim are equal)"));
}

TEST(AttentionFactor, OfTheFileCountsBesideMultipliers) {
  const LayerEncoding both = Yarn(R"(,"mscale":0.5,"mscale_all_dim":0.5,"attention_factor":1.25)");
  EXPECT_EQ(RopeOf(both).attention_factor, 1.25);
  EXPECT_TRUE(SaysReplaced(both));
  EXPECT_FALSE(HasNote(both.defaults, "rope_scaling.attention_factor"));
  EXPECT_TRUE(HasNote(both.warnings, "rope_scaling.mscale", "attention_factor counts"));
}

TEST(AttentionFactor, OfAClassIsADefault) {
  const auto deepseek = [](std::string_view extra) {
    return LayerOf(
        Read(absl::StrCat(R"({"model_type":"deepseek_v4","num_hidden_layers":2,"rope_scaling":{"rope_type":"yarn",)",
                          R"("factor":16,"original_max_position_embeddings":65536)",
                          absl::string_view(extra.data(), extra.size()), "}}")),
        "compress");
  };
  const LayerEncoding own = deepseek("");
  EXPECT_EQ(RopeOf(own).attention_factor, 1);
  EXPECT_FALSE(SaysReplaced(own));
  EXPECT_TRUE(HasNote(own.defaults, "rope_scaling.attention_factor", "1 (default of class deepseek_v4)"));
  EXPECT_TRUE(SaysReplaced(deepseek(R"(,"attention_factor":1.25)")));
}

LayerEncoding Only(const GgufMaker& maker) {
  const auto model = maker.Read();
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() && model->layers.size() == 1 ? model->layers.front() : LayerEncoding();
}

TEST(AttentionFactor, OfAGgufFile) {
  GgufMaker yarn = SmallGguf("mistral3");
  yarn.String("mistral3.rope.scaling.type", "yarn").Float("mistral3.rope.scaling.factor", 4);
  yarn.Uint("mistral3.rope.scaling.original_context_length", 2048);
  yarn.Float("mistral3.rope.scaling.yarn_log_multiplier", 0.5);
  const LayerEncoding ratio = Only(yarn);
  EXPECT_TRUE(RopeOf(ratio).attention_factor.has_value());
  EXPECT_FALSE(SaysReplaced(ratio));

  const auto longrope = [](bool given) {
    GgufMaker maker = SmallGguf("phi3");
    maker.Uint("phi3.rope.scaling.original_context_length", 4096).Uint("phi3.rope.dimension_count", 128);
    if (given) maker.Float("phi3.rope.scaling.attn_factor", 1.25);
    maker.Tensor("rope_factors_short.weight", std::vector<float>(64, 1));
    maker.Tensor("rope_factors_long.weight", std::vector<float>(64, 2));
    return Only(maker);
  };
  EXPECT_TRUE(SaysReplaced(longrope(true)));
  EXPECT_FALSE(SaysReplaced(longrope(false)));
}

TEST(AttentionFactor, OfAGgufFileWithYarnAndFactors) {
  GgufMaker maker = SmallGguf("qwen2");
  maker.String("qwen2.rope.scaling.type", "yarn").Float("qwen2.rope.scaling.factor", 4);
  maker.Uint("qwen2.rope.scaling.original_context_length", 2048);
  maker.Tensor("rope_factors_short.weight", std::vector<float>(64, 1));
  maker.Tensor("rope_factors_long.weight", std::vector<float>(64, 2));
  EXPECT_FALSE(SaysReplaced(Only(maker)));
}

}  // namespace
}  // namespace phasor::server
