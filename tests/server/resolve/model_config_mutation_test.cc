// Damaged configurations: never a crash, never success with a number that is not finite. Fixed seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "server/resolve/model_config.h"
#include "server/resolve/needed_weights.h"

namespace phasor::server {
namespace {

constexpr char kFolder[] = PHASOR_SOURCE_DIR "/tests/golden/models";

// The text between `"config":` and `"expect":`, as it stands in the golden file.
std::vector<std::string> Configs() {
  std::vector<std::string> configs;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    if (file.path().extension() != ".json") continue;
    std::ifstream in(file.path());
    std::stringstream text;
    text << in.rdbuf();
    const std::string all = text.str();
    const size_t begin = all.find('{', all.find("\"config\":"));
    const size_t end = all.rfind('}', all.find("\"expect\":"));
    configs.push_back(all.substr(begin, end - begin + 1));
  }
  std::sort(configs.begin(), configs.end());
  return configs;
}

void ExpectFinite(const std::optional<double>& value, const std::string& text) {
  EXPECT_TRUE(!value || std::isfinite(*value)) << text;
}

void CheckSpec(const EncodingSpec& spec, const std::string& text) {
  if (const auto* rope = std::get_if<RopeSpec>(&spec)) {
    ExpectFinite(rope->base, text);
    ExpectFinite(rope->attention_factor, text);
    EXPECT_GE(rope->head_dim, 2) << text;
    EXPECT_LE(*rope->rotary_dim, rope->head_dim) << text;
  }
  // What was canonicalised once is canonical.
  const auto again = CanonicalizeWithoutWeights(spec);
  ASSERT_TRUE(again.ok()) << text;
  EXPECT_EQ(again->spec, spec) << text;
}

void Check(const std::string& text) {
  const auto model = ReadModelConfig(text);
  if (!model.ok()) {
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return;
  }
  EXPECT_FALSE(model->layers.empty()) << text;
  for (const LayerEncoding& layer : model->layers) {
    ExpectFinite(layer.softmax_scale, text);
    ExpectFinite(layer.scale_after, text);
    ExpectFinite(layer.embedding_multiplier, text);
    EXPECT_EQ(layer.kind == PositionKind::kUnserved, !layer.unserved.empty()) << text;
    const bool served = layer.kind != PositionKind::kUnserved && layer.kind != PositionKind::kNone;
    ASSERT_EQ(served, layer.spec.has_value()) << text;
    if (served) CheckSpec(layer.spec->spec, text);
  }
}

TEST(Mutations, UndamagedTextsRead) {
  const auto configs = Configs();
  ASSERT_GE(configs.size(), 64u);
  for (const std::string& config : configs) EXPECT_TRUE(ReadModelConfig(config).ok()) << config;
}

TEST(Mutations, BytesFlippedRemovedOrRepeated) {
  const auto configs = Configs();
  std::mt19937 random(20240611);
  const auto below = [&](size_t n) { return random() % n; };
  constexpr char kBytes[] = "0123456789.-eE{}[],:\"nulltrefasNI \\x\x80";
  for (int i = 0; i < 15000; ++i) {
    std::string text = configs[below(configs.size())];
    for (size_t hits = 1 + below(3); hits > 0 && !text.empty(); --hits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = kBytes[below(sizeof(kBytes) - 1)];
          break;
        case 2:
          text.erase(at, 1 + below(8));
          break;
        default:
          text.insert(at, text.substr(at, 1 + below(8)));
      }
    }
    Check(text);
  }
}

TEST(Mutations, ValuesReplaced) {
  const auto configs = Configs();
  std::mt19937 random(42);
  const char* values[] = {"null", "0",  "-1",     "1e308", "NaN",  "-Infinity",        "\"7\"",     "true",
                          "[]",   "{}", "1e-320", "0.3",   "-0.0", "9007199254740993", "2147483648"};
  for (int i = 0; i < 15000; ++i) {
    std::string text = configs[random() % configs.size()];
    // The value after a random colon, when it is a scalar.
    const size_t colon = text.find(':', random() % text.size());
    if (colon == std::string::npos) continue;
    const size_t end = text.find_first_of(",}]", colon);
    text.replace(colon + 1, end - colon - 1, values[random() % std::size(values)]);
    Check(text);
  }
}

TEST(Mutations, EveryTruncationIsRefused) {
  for (const std::string& config : Configs()) {
    for (size_t size = 0; size < config.size(); size += 1 + config.size() / 97) {
      EXPECT_FALSE(ReadModelConfig(std::string_view(config).substr(0, size)).ok());
    }
  }
}

}  // namespace
}  // namespace phasor::server
