// Files that the gguf package wrote, one per model family, against the answers for those models' config.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "server/resolve/gguf_architectures.h"
#include "tests/server/resolve/gguf_testing.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::string ConfigOf(const std::string& name) { return JsonText(ReadGoldenJson("models/" + name + ".json")["config"]); }

void ExpectClose(double got, double want, double relative, const std::string& what) {
  EXPECT_LE(std::fabs(got - want), relative * std::fabs(want)) << what << " is " << got << ", not " << want;
}

Resolved ResolvedAt(const LayerEncoding& layer, int64_t length) {
  auto resolved = Resolve(*layer.spec, length, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? *std::move(resolved) : Resolved{AnglePlan(), 0, {}, {}};
}

// A tolerance of one rounding to float64 means equal specs, not only equal numbers.
void ExpectSameRope(const LayerEncoding& got, const LayerEncoding& want, const Value& expected) {
  const double relative = expected["relative"].GetDouble();
  RopeSpec got_spec = RopeOf(got);
  const RopeSpec want_spec = RopeOf(want);
  EXPECT_EQ(got_spec.pairing == Pairing::kInterleaved ? "interleaved" : "half_split",
            std::string(expected["pairing"].GetString()));
  EXPECT_EQ(got_spec.pairing != want_spec.pairing, expected.HasMember("reordered"));
  got_spec.pairing = want_spec.pairing;
  if (relative < 1e-12 && !expected.HasMember("schedule")) {
    EXPECT_TRUE(got_spec == want_spec);
  }
  EXPECT_EQ(got_spec.head_dim, want_spec.head_dim);
  EXPECT_EQ(got_spec.rotary_dim, want_spec.rotary_dim);
  std::vector<int64_t> lengths = {1, 4096, 4097, 131072};
  if (expected.HasMember("at_length")) lengths = {expected["at_length"].GetInt64()};
  for (const int64_t length : lengths) {
    SCOPED_TRACE(length);
    const Resolved got_numbers = ResolvedAt(got, length);
    const Resolved want_numbers = ResolvedAt(want, length);
    ExpectClose(got_numbers.attention_factor, want_numbers.attention_factor, relative, "attention_factor");
    const auto& got_angles = std::get<AnglePlan>(got_numbers.plan);
    const auto& want_angles = std::get<AnglePlan>(want_numbers.plan);
    ASSERT_EQ(got_angles.inv_freq.size(), want_angles.inv_freq.size());
    for (size_t i = 0; i < got_angles.inv_freq.size(); ++i) {
      ExpectClose(got_angles.inv_freq[i], want_angles.inv_freq[i], relative, "inv_freq");
    }
  }
}

// Several axes, against the golden numbers of the model.
void ExpectAxes(const LayerEncoding& got, const std::string& name, const Value& expected) {
  const rapidjson::Document golden = ReadGoldenJson("models/" + name + ".json");
  const Value& want = golden["expect"][0];
  ASSERT_STREQ(want["kind"].GetString(), "mrope");
  const RopeSpec spec = RopeOf(got);
  ASSERT_TRUE(spec.axes.has_value());
  std::vector<int64_t> sections;
  for (const Value& section : expected["sections"].GetArray()) sections.push_back(section.GetInt64());
  EXPECT_EQ(spec.axes->sections, sections);
  EXPECT_EQ(spec.axes->layout == AxisLayout::kInterleaved, expected["interleaved"].GetBool());
  EXPECT_EQ(spec.pairing, Pairing::kHalfSplit);
  EXPECT_EQ(spec.head_dim, want["head_dim"].GetInt64());
  EXPECT_EQ(spec.rotary_dim, want["rotary_dim"].GetInt64());
  const Resolved numbers = ResolvedAt(got, 1);
  const auto& inv_freq = std::get<AnglePlan>(numbers.plan).inv_freq;
  ASSERT_EQ(inv_freq.size(), want["inv_freq"].Size());
  for (unsigned i = 0; i < inv_freq.size(); ++i) {
    ExpectClose(inv_freq[i], std::strtod(want["inv_freq"][i].GetString(), nullptr), 1e-14, "inv_freq");
  }
}

void ExpectSameLayer(const LayerEncoding& got, const LayerEncoding& want, const Value& expected) {
  const double relative = std::max(expected["relative"].GetDouble(), 1e-15);
  EXPECT_EQ(got.kind, want.kind);
  if (!got.layers.empty() && !want.layers.empty() && got.layer_type == want.layer_type) {
    EXPECT_EQ(got.layers, want.layers);
  }
  if (want.num_q_heads != 0) {
    EXPECT_EQ(got.num_q_heads, want.num_q_heads);
  }
  if (want.num_kv_heads != 0) {
    EXPECT_EQ(got.num_kv_heads, expected.HasMember("kv_heads") ? expected["kv_heads"].GetInt64() : want.num_kv_heads);
  }
  if (want.max_position != 0) {
    EXPECT_EQ(got.max_position, want.max_position);
  }
  EXPECT_EQ(got.softmax_scale.has_value(), want.softmax_scale.has_value());
  if (got.softmax_scale && want.softmax_scale)
    ExpectClose(*got.softmax_scale, *want.softmax_scale, 2 * relative, "softmax_scale");
  if (got.kind == PositionKind::kAlibi || got.kind == PositionKind::kLearned || got.kind == PositionKind::kBias) {
    EXPECT_TRUE(got.spec->spec == want.spec->spec);
    ASSERT_EQ(got.weights.size(), want.weights.size());
    for (size_t i = 0; i < got.weights.size(); ++i) EXPECT_EQ(got.weights[i].shape, want.weights[i].shape);
  } else if (got.kind == PositionKind::kRope) {
    ExpectSameRope(got, want, expected);
  }
}

class GgufGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufGolden, AnswersAsTheConfigurationDoes) {
  const rapidjson::Document all = ReadGoldenJson("gguf/expected.json");
  const Value& expected = all[GetParam().c_str()];
  const std::string file = ReadBytes(GgufFolder() + "/" + GetParam() + ".gguf");
  const auto head = ParseGgufHead(file);
  ASSERT_TRUE(head.ok()) << head.status();
  const auto got = ReadGguf(file, TensorsOf(*head, file));
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_FALSE(got->layers.empty());
  if (expected.HasMember("sections")) {
    ASSERT_EQ(got->layers.size(), 1u);
    return ExpectAxes(got->layers.front(), GetParam(), expected);
  }
  auto want = ReadModelConfig(ConfigOf(expected.HasMember("model") ? expected["model"].GetString() : GetParam()));
  ASSERT_TRUE(want.ok()) << want.status();
  if (expected.HasMember("part")) {  // a tower of a file of its own
    ASSERT_EQ(got->layers.size(), 1u);
    const LayerEncoding tower = LayerOf(*want, expected["part"].GetString());
    EXPECT_EQ(got->layers[0].layer_type, tower.layer_type);
    EXPECT_TRUE(got->layers[0].spec->spec == tower.spec->spec);
    return ExpectSameLayer(got->layers[0], tower, expected);
  }
  // Towers for images and sound are files of their own.
  std::erase_if(want->layers, [](const LayerEncoding& layer) { return !layer.part.empty(); });
  // Where only one of the two tells layer types apart, the other's answer holds for each.
  for (const LayerEncoding& layer : got->layers) {
    SCOPED_TRACE("layer type '" + layer.layer_type + "'");
    ExpectSameLayer(layer, want->layers.size() == 1 ? want->layers.front() : LayerOf(*want, layer.layer_type), expected);
    EXPECT_EQ(HasNote(layer.warnings, got->model_type + ".rope.dimension_count", "turned the rows"),
              expected.HasMember("reordered") && layer.kind == PositionKind::kRope);
  }
  if (want->layers.size() > 1) {
    EXPECT_EQ(got->layers.size(), want->layers.size());
  }
}

TEST_P(GgufGolden, CompactHeadGivesTheSameAnswer) {
  const std::string file = ReadBytes(GgufFolder() + "/" + GetParam() + ".gguf");
  const auto head = ParseGgufHead(file);
  ASSERT_TRUE(head.ok()) << head.status();
  const std::vector<GgufTensor> tensors = TensorsOf(*head, file);
  const std::string compact = CompactGgufHead(*head);
  EXPECT_LE(compact.size(), head->size);
  EXPECT_EQ(compact.find("tokenizer."), std::string::npos);
  const auto whole = ReadGguf(file, tensors);
  const auto small = ReadGguf(compact, tensors);
  ASSERT_TRUE(whole.ok() && small.ok()) << small.status();
  ASSERT_EQ(small->layers.size(), whole->layers.size());
  for (size_t i = 0; i < whole->layers.size(); ++i) {
    EXPECT_EQ(small->layers[i].spec.has_value(), whole->layers[i].spec.has_value());
    if (!whole->layers[i].spec) continue;
    EXPECT_TRUE(small->layers[i].spec->spec == whole->layers[i].spec->spec);
  }
}

std::vector<std::string> Names() { return GoldenNames("gguf", ".gguf"); }

INSTANTIATE_TEST_SUITE_P(Models, GgufGolden, ::testing::ValuesIn(Names()), GoldenTestName);

TEST(GgufGoldens, AreAllThere) {
  EXPECT_GE(Names().size(), 40u);
  EXPECT_EQ(ReadGoldenJson("gguf/expected.json").MemberCount(), Names().size());
}

// The names of the gguf package, as its pinned version lists them.
TEST(GgufArchitectures, KnowsEveryNameOfThePackage) {
  const rapidjson::Document names = ReadGoldenJson("gguf/architectures.json");
  ASSERT_GE(names.Size(), 126u);
  for (const Value& name : names.GetArray()) {
    EXPECT_NE(FindGgufArchitecture(name.GetString()), nullptr) << name.GetString();
  }
  std::vector<std::string_view> ours;
  for (const GgufArchitecture& architecture : GgufArchitectures()) ours.push_back(architecture.name);
  std::sort(ours.begin(), ours.end());
  EXPECT_EQ(std::adjacent_find(ours.begin(), ours.end()), ours.end());
}

}  // namespace
}  // namespace phasor::server
