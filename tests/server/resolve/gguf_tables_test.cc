// GGUF models beside rotation and ALiBi: learned tables, T5's buckets, towers; and YaRN over tensors of factors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/server/resolve/gguf_testing.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelEncoding ReadFile(const GgufMaker& file) {
  const auto model = file.Read();
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : ModelEncoding();
}

std::string Refusal(const GgufMaker& file) {
  const auto model = file.Read();
  const auto error = SpecErrorOf(model.status());
  return error ? error->field : "no SpecError";
}

TEST(GgufTables, RowsAreThoseOfTheTensor) {
  auto file = SmallGguf("gpt2");
  file.Table("position_embd.weight", 768, 1024);
  const LayerEncoding layer = LayerOf(ReadFile(file));
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_positions, 1024);  // not context_length 8192
  EXPECT_EQ(spec.dim, 768);
  EXPECT_EQ(*spec.position_offset, 0);
  EXPECT_THAT(layer.weights.at(0).shape, ElementsAre(1024, 768));
  EXPECT_EQ(layer.weights.at(0).source, "position_embd.weight");
  // A head without the tensor: what its keys say, with a note.
  const LayerEncoding keys = LayerOf(ReadFile(SmallGguf("starcoder")));
  EXPECT_EQ(std::get<LearnedSpec>(keys.spec->spec).num_positions, 8192);
  EXPECT_TRUE(HasNote(keys.defaults, "position_embd.weight", "context_length"));
  EXPECT_TRUE(HasNote(LayerOf(ReadFile(SmallGguf("bert"))).warnings, "position_embd.weight", "RoBERTa"));
  GgufMaker bare;
  bare.String("general.architecture", "gpt2");
  EXPECT_EQ(Refusal(bare), "position_embd.weight");
}

TEST(GgufTables, BucketsEndAt128InLlamaCpp) {
  auto file = SmallGguf("t5");
  file.Uint("t5.attention.relative_buckets_count", 64);
  const ModelEncoding model = ReadFile(file);
  const LayerEncoding encoder = LayerOf(model, "encoder");
  const T5BucketSpec& spec = std::get<T5BucketSpec>(encoder.spec->spec);
  EXPECT_EQ(*spec.num_buckets, 64);
  EXPECT_EQ(*spec.max_distance, 128);
  EXPECT_TRUE(*spec.bidirectional);
  EXPECT_EQ(spec.num_heads, 32);
  EXPECT_EQ(encoder.softmax_scale, 1.0);
  EXPECT_TRUE(HasNote(encoder.warnings, "t5.attention.relative_buckets_count", "counts 128 in any case"));
  EXPECT_THAT(encoder.weights.at(0).source, HasSubstr("enc.blk.N.attn_rel_b.weight"));
  EXPECT_FALSE(*std::get<T5BucketSpec>(LayerOf(model, "decoder").spec->spec).bidirectional);
  EXPECT_EQ(ReadFile(SmallGguf("t5encoder")).layers.size(), 1u);
  auto odd = SmallGguf("t5");
  odd.Uint("t5.attention.relative_buckets_count", 7);
  EXPECT_EQ(Refusal(odd), "t5.attention.relative_buckets_count");
}

GgufMaker Clip(std::string_view projector) {
  GgufMaker file;
  file.String("general.architecture", "clip").Bool("clip.has_vision_encoder", true);
  file.String("clip.projector_type", projector).Uint("clip.vision.embedding_length", 1024);
  file.Uint("clip.vision.attention.head_count", 16).Uint("clip.vision.image_size", 336).Uint("clip.vision.patch_size", 14);
  return file;
}

TEST(GgufTowers, Tables) {
  auto file = Clip("mlp");
  file.Table("v.position_embd.weight", 1024, 577);
  const LayerEncoding layer = LayerOf(ReadFile(file), "vision");
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_positions, 577);
  EXPECT_EQ(*spec.position_offset, 1);  // 24·24 patches after a class token
  EXPECT_EQ(layer.part, "vision");
  const LayerEncoding unseen = LayerOf(ReadFile(Clip("mlp")), "vision");
  EXPECT_EQ(unseen.kind, PositionKind::kUnserved);
  EXPECT_TRUE(HasNote(unseen.warnings, "v.position_embd.weight", "not in the head"));
}

TEST(GgufTowers, RotationAndTableSideBySide) {
  auto file = Clip("qwen3vl_merger");
  file.Table("v.position_embd.weight", 1024, 2304);
  const ModelEncoding model = ReadFile(file);
  const RopeSpec spec = RopeOf(LayerOf(model, "vision"));
  EXPECT_EQ(spec.head_dim, 64);
  EXPECT_EQ(spec.axes->layout, AxisLayout::kReset);
  EXPECT_THAT(spec.axes->sections, ElementsAre(16, 16));
  EXPECT_EQ(*spec.pairing, Pairing::kHalfSplit);
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "vision.embedding").spec->spec).num_positions, 2304);
}

TEST(GgufTowers, PixtralPairsAreThoseOfTheFile) {
  const LayerEncoding layer = LayerOf(ReadFile(Clip("pixtral")), "vision");
  const RopeSpec spec = RopeOf(layer);
  EXPECT_EQ(*spec.pairing, Pairing::kInterleaved);
  EXPECT_EQ(spec.axes->layout, AxisLayout::kSplitFrequencies);
  EXPECT_TRUE(HasNote(layer.warnings, "clip.vision.embedding_length", "turned the rows"));
}

TEST(GgufTowers, SoundAndUnknownForms) {
  auto file = Clip("gemma4v");
  file.Bool("clip.has_audio_encoder", true).String("clip.audio.projector_type", "ultravox");
  file.Table("a.position_embd.weight", 1280, 1500);
  const ModelEncoding model = ReadFile(file);
  EXPECT_EQ(LayerOf(model, "vision").unserved, "vision_gemma4v");
  EXPECT_EQ(std::get<LearnedSpec>(LayerOf(model, "audio").spec->spec).num_positions, 1500);
  GgufMaker headless;
  headless.String("general.architecture", "clip").Bool("clip.has_vision_encoder", true);
  headless.String("clip.projector_type", "pixtral").Uint("clip.vision.embedding_length", 1024);
  EXPECT_EQ(Refusal(headless), "clip.vision.attention.head_count");
}

// A model that has YaRN and a tensor of factors: ggml computes both.
GgufMaker YarnFile() {
  auto file = SmallGguf("llama");
  file.Float("llama.rope.freq_base", 1e6F).String("llama.rope.scaling.type", "yarn").Float("llama.rope.scaling.factor", 4);
  file.Uint("llama.rope.scaling.original_context_length", 2048);
  return file;
}

TEST(GgufYarn, OverFactorsIsBoth) {
  std::vector<float> factors(64);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = 1 + static_cast<float>(i) / 8;
  const LayerEncoding plain = LayerOf(ReadFile(YarnFile()));
  auto file = YarnFile();
  file.Tensor("rope_freqs.weight", factors);
  const LayerEncoding both = LayerOf(ReadFile(file));
  EXPECT_TRUE(HasNote(both.warnings, "llama.rope.scaling.type", "as ggml computes both"));
  const auto want = Resolve(*plain.spec, std::nullopt, Precision::kExact);
  const auto got = Resolve(*both.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
  EXPECT_NEAR(got->attention_factor, 0.1 * std::log(4) + 1, 1e-15);
  EXPECT_EQ(got->attention_factor, want->attention_factor);
  const auto& yarn = std::get<AnglePlan>(want->plan).inv_freq;
  const auto& mixed = std::get<AnglePlan>(got->plan).inv_freq;
  ASSERT_EQ(mixed.size(), 64u);
  // ggml's rope_yarn on theta/factor: theta·(1 − r) + theta/4·r, all divided by the pair's factor.
  for (size_t i = 0; i < mixed.size(); ++i) {
    EXPECT_NEAR(mixed[i], yarn[i] / static_cast<double>(factors[i]), 1e-14 * mixed[i]) << "pair " << i;
  }
}

TEST(GgufYarn, OverTwoLists) {
  auto file = YarnFile();
  file.Tensor("rope_factors_short.weight", std::vector<float>(64, 1));
  file.Tensor("rope_factors_long.weight", std::vector<float>(64, 2));
  const LayerEncoding layer = LayerOf(ReadFile(file));
  const auto& schedule = ScheduleOf<LongRopeSchedule>(RopeOf(layer));
  EXPECT_EQ(schedule.original_max_position, 2048);
  const auto within = Resolve(*layer.spec, 2048, Precision::kExact);
  const auto beyond = Resolve(*layer.spec, 2049, Precision::kExact);
  const auto yarn = Resolve(*LayerOf(ReadFile(YarnFile())).spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(within.ok() && beyond.ok() && yarn.ok());
  EXPECT_EQ(within->attention_factor, yarn->attention_factor);
  for (size_t i = 0; i < 64; ++i) {
    const double want = std::get<AnglePlan>(yarn->plan).inv_freq[i];
    EXPECT_NEAR(std::get<AnglePlan>(within->plan).inv_freq[i], want, 1e-14 * want);
    EXPECT_NEAR(std::get<AnglePlan>(beyond->plan).inv_freq[i], want / 2, 1e-14 * want);
  }
}

TEST(GgufYarn, RefusedWhereTheSoftmaxScaleIsPartOfIt) {
  auto file = SmallGguf("deepseek2");
  file.Uint("deepseek2.attention.key_length", 192).Uint("deepseek2.rope.dimension_count", 64);
  file.String("deepseek2.rope.scaling.type", "yarn").Float("deepseek2.rope.scaling.factor", 40);
  file.Uint("deepseek2.rope.scaling.original_context_length", 4096);
  file.Float("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F);
  file.Tensor("rope_freqs.weight", std::vector<float>(32, 2));
  const LayerEncoding layer = LayerOf(ReadFile(file));
  EXPECT_EQ(layer.unserved, "rope_yarn_freq_factors");
  EXPECT_TRUE(HasNote(layer.warnings, "deepseek2.rope.scaling.yarn_log_multiplier", "no spec says both"));
}

}  // namespace
}  // namespace phasor::server
