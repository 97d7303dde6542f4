// Biases over windows and learned functions of positions against the libraries' modules and 60-digit arithmetic
// (tests/golden/window).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "rapidjson/document.h"

#include "tests/kernels/program/golden_weights.h"
#include "tests/kernels/program/window_specs.h"

namespace phasor {
namespace {

using rapidjson::Value;

const rapidjson::Document& Golden() {
  static const auto document = [] {
    std::ifstream file(std::string(PHASOR_SOURCE_DIR) + "/tests/golden/window/expected.json");
    std::ostringstream text;
    text << file.rdbuf();
    auto parsed = std::make_unique<rapidjson::Document>();
    parsed->Parse(text.str().c_str());
    return parsed;
  }();
  return *document;
}

class GoldenCase {
 public:
  explicit GoldenCase(const Value& json) : json_(json) {
    for (const auto& [name, weight] : json["weights"].GetObject()) {
      std::vector<int64_t> shape;
      for (const Value& extent : weight["shape"].GetArray()) shape.push_back(extent.GetInt64());
      weights_[name.GetString()] = RuleWeight(weight["seed"].GetUint64(), shape, weight["scale"].GetDouble());
    }
  }

  std::string name() const { return json_["name"].GetString(); }
  std::vector<int64_t> Positions(const char* side) const {
    std::vector<int64_t> positions;
    for (const Value& position : json_[side].GetArray()) positions.push_back(position.GetInt64());
    return positions;
  }
  EncodingSpec Spec() const {
    const std::string scheme = json_["scheme"].GetString();
    if (scheme == "window_bias") {
      return WindowBiasSpec{.window_height = Int("window_height"),
                            .window_width = Int("window_width"),
                            .class_token = Bool("class_token"),
                            .table = Weight("table")};
    }
    if (scheme == "continuous_window_bias") {
      return ContinuousWindowBiasSpec{.window_height = Int("window_height"),
                                      .window_width = Int("window_width"),
                                      .pretrained_height = Int("pretrained_height"),
                                      .pretrained_width = Int("pretrained_width"),
                                      .w1 = Weight("w1"),
                                      .b1 = Weight("b1"),
                                      .w2 = Weight("w2")};
    }
    if (scheme == "fire") {
      return FireSpec{.c = Double("c"),
                      .threshold = Double("threshold"),
                      .epsilon = Double("epsilon"),
                      .w1 = Weight("w1"),
                      .b1 = Weight("b1"),
                      .w2 = Weight("w2"),
                      .b2 = Weight("b2")};
    }
    if (scheme == "forgetting_bias") return ForgettingBiasSpec{.logits = Bool("logits"), .gates = Weight("gates")};
    if (scheme == "tupe") {
      TupeSpec tupe{.num_buckets = {},
                    .max_distance = {},
                    .q = Weight("q"),
                    .k = Weight("k"),
                    .bias = Weight("bias"),
                    .untied = Weight("untied")};
      if (Int("num_buckets") != 0) tupe.num_buckets = Int("num_buckets"), tupe.max_distance = Int("max_distance");
      return tupe;
    }
    DynamicPositionBiasSpec dynamic{
        .log_distance = Bool("log_distance"), .layer_norm = Bool("layer_norm"), .w = {}, .b = {}, .g = {}, .h = {}};
    for (size_t i = 0; i < dynamic.w.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      dynamic.w[i] = Weight("w" + number), dynamic.b[i] = Weight("b" + number);
      if (i < dynamic.g.size()) dynamic.g[i] = Weight("g" + number), dynamic.h[i] = Weight("h" + number);
    }
    return dynamic;
  }

 private:
  WeightRef Weight(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? WeightRef() : found->second;
  }
  const Value* Find(const char* name) const {
    const auto member = json_["fields"].FindMember(name);
    return member == json_["fields"].MemberEnd() ? nullptr : &member->value;
  }
  int64_t Int(const char* name) const { return Find(name) == nullptr ? 0 : Find(name)->GetInt64(); }
  bool Bool(const char* name) const { return Find(name) != nullptr && Find(name)->GetBool(); }
  std::optional<double> Double(const char* name) const {
    return Find(name) == nullptr ? std::nullopt : std::optional<double>(Find(name)->GetDouble());
  }

  const Value& json_;
  std::map<std::string, WeightRef> weights_;
};

struct Sample {
  int64_t head, query, key;
  int64_t At(int64_t queries, int64_t keys) const { return (head * queries + query) * keys + key; }
};
Sample PlaceOf(const Value& v) { return {v[0].GetInt64(), v[1].GetInt64(), v[2].GetInt64()}; }

TEST(WindowBiasGoldenTest, ExactArithmetic) {
  int cases = 0;
  const auto cpu = CreateBackend("cpu"), reference = CreateBackend("reference");
  for (const Value& json : Golden()["cases"].GetArray()) {
    if (!json.HasMember("exact")) continue;
    const GoldenCase golden(json);
    SCOPED_TRACE(golden.name());
    const auto queries = golden.Positions("queries"), keys = golden.Positions("keys");
    const auto wide = RunBiasAs<double>(**cpu, golden.Spec(), queries, keys);
    const auto narrow = RunBiasAs<float>(**cpu, golden.Spec(), queries, keys);
    const auto traits = TraitsOf(Canonicalize(golden.Spec())->spec);
    const int64_t rows = traits->tokens > 0 ? traits->tokens : static_cast<int64_t>(queries.size());
    const int64_t columns = traits->tokens > 0 ? traits->tokens : static_cast<int64_t>(keys.size());
    for (const Value& sample : json["exact"].GetArray()) {
      const size_t at = static_cast<size_t>(PlaceOf(sample).At(rows, columns));
      const double want = std::strtod(sample[3].GetString(), nullptr);
      EXPECT_LE(std::fabs(wide[at] - want), json["bound"].GetDouble() * std::max(1.0, std::fabs(want))) << at;
      EXPECT_EQ(narrow[at], static_cast<float>(want)) << at;
    }
    ++cases;
  }
  EXPECT_GE(cases, 17);
}

TEST(WindowBiasGoldenTest, Libraries) {
  int cases = 0;
  const auto cpu = CreateBackend("cpu");
  for (const Value& json : Golden()["cases"].GetArray()) {
    if (!json.HasMember("library") || !json["library"].HasMember("samples")) continue;
    const GoldenCase golden(json);
    SCOPED_TRACE(golden.name() + ", " + json["library"]["name"].GetString());
    const auto queries = golden.Positions("queries"), keys = golden.Positions("keys");
    const auto bias = RunBiasAs<double>(**cpu, golden.Spec(), queries, keys);
    const auto traits = TraitsOf(Canonicalize(golden.Spec())->spec);
    const int64_t rows = traits->tokens > 0 ? traits->tokens : static_cast<int64_t>(queries.size());
    const int64_t columns = traits->tokens > 0 ? traits->tokens : static_cast<int64_t>(keys.size());
    for (const Value& sample : json["library"]["samples"].GetArray()) {
      const size_t at = static_cast<size_t>(PlaceOf(sample).At(rows, columns));
      EXPECT_NEAR(bias[at], sample[3].GetDouble(), json["library"]["distance"].GetDouble()) << at;
    }
    ++cases;
  }
  EXPECT_GE(cases, 8);
}

// Every bit of a window's bias is the library's (the server's tests compare the indices by their hash).
TEST(WindowBiasGoldenTest, WindowIndices) {
  int cases = 0;
  for (const Value& json : Golden()["cases"].GetArray()) {
    if (!json.HasMember("index_rows")) continue;
    const GoldenCase golden(json);
    SCOPED_TRACE(golden.name());
    const auto spec = std::get<WindowBiasSpec>(golden.Spec());
    const TokenWindow window{spec.window_height, spec.window_width, spec.class_token};
    for (const auto& [row, keys] : json["index_rows"].GetObject()) {
      ASSERT_EQ(keys.Size(), static_cast<size_t>(window.tokens()));
      for (int64_t key = 0; key < window.tokens(); ++key) {
        EXPECT_EQ(window.row_of(std::atoll(row.GetString()), key), keys[static_cast<unsigned>(key)].GetInt64()) << key;
      }
    }
    ++cases;
  }
  EXPECT_EQ(cases, 8);
}

}  // namespace
}  // namespace phasor
