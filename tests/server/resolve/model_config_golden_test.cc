// Every published configuration of tests/golden/models, in as it stands, against the numbers that its file expects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/encodings/buckets.h"
#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"

namespace phasor::server {
namespace {

bool Has(const Value& entry, const char* key) { return entry.HasMember(key) && !entry[key].IsNull(); }

// Exact numbers are decimal strings; plain ones are JSON numbers.
double Number(const Value& value) { return value.IsString() ? std::strtod(value.GetString(), nullptr) : value.GetDouble(); }

void ExpectClose(double got, const Value& want, double tolerance, const std::string& what) {
  EXPECT_NEAR(got, Number(want), tolerance * std::fabs(Number(want))) << what;
}

std::string ScheduleName(const RopeSpec& spec) {
  static constexpr const char* kNames[] = {"default", "linear",   "ntk_aware",    "dynamic",  "yarn",
                                           "llama3",  "longrope", "proportional", "qwen1_ntk"};
  return kNames[spec.schedule.index()];
}

std::vector<double> FrequenciesOf(const Plan& plan) {
  const auto* angle = std::get_if<AnglePlan>(&plan);
  return angle ? angle->inv_freq : std::vector<double>();
}

void CheckRope(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kRope);
  ASSERT_TRUE(layer.spec.has_value());
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  EXPECT_EQ(spec.head_dim, want["head_dim"].GetInt64());
  EXPECT_EQ(*spec.rotary_dim, want["rotary_dim"].GetInt64());
  EXPECT_EQ(*spec.pairing == Pairing::kInterleaved ? "interleaved" : "half_split", std::string(want["pairing"].GetString()));
  EXPECT_EQ(ScheduleName(spec), want["schedule"].GetString());
  EXPECT_EQ(*spec.base, Number(want["base"]));
  std::optional<int64_t> length;
  if (Has(want, "at_length")) length = want["at_length"].GetInt64();
  const auto resolved = Resolve(*layer.spec, length, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  ExpectClose(resolved->attention_factor, want["attention_factor_exact"], 1e-15, "attention_factor");
  EXPECT_EQ(resolved->softmax_scale_multiplier.has_value(), Has(want, "softmax_scale_multiplier"));
  if (Has(want, "softmax_scale_multiplier")) {
    ExpectClose(resolved->softmax_scale_multiplier.value_or(0), want["softmax_scale_multiplier_exact"], 1e-15, "multiplier");
  }
  const std::vector<double> inv_freq = FrequenciesOf(resolved->plan);
  ASSERT_EQ(inv_freq.size(), want["inv_freq"].Size());
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    ExpectClose(inv_freq[i], want["inv_freq"][static_cast<unsigned>(i)], 1e-14, "inv_freq");
  }
  EXPECT_EQ(layer.query_scale, Has(want, "query_scale") ? want["query_scale"]["formula"].GetString() : "");
}

// Which coordinate turns each pair, by the expectation's own words.
void CheckAxes(const LayerEncoding& layer, const Value& want) {
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  ASSERT_TRUE(spec.axes.has_value());
  std::vector<int64_t> sections;
  for (const Value& section : want["mrope_section"].GetArray()) sections.push_back(section.GetInt64());
  EXPECT_EQ(spec.axes->sections, sections);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  std::vector<int64_t> axes;
  for (const Value& axis : want["axis_of_pair"].GetArray()) axes.push_back(axis.GetInt64());
  EXPECT_THAT(std::get<AnglePlan>(resolved->plan).axis_of_pair, ::testing::ElementsAreArray(axes));
}

// Rows, then columns, with the same frequencies: those of the golden times `turn`.
void CheckTwoAxes(const LayerEncoding& layer, const Value& want, double turn) {
  ASSERT_EQ(layer.kind, PositionKind::kRope);
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  EXPECT_EQ(*spec.rotary_dim, want["rotary_dim"].GetInt64());
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  const auto expected = want["inv_freq"].GetArray();
  ASSERT_EQ(plan.inv_freq.size(), 2u * expected.Size());
  for (size_t i = 0; i < plan.inv_freq.size(); ++i) {
    const double frequency = Number(expected[static_cast<unsigned>(i % expected.Size())]);
    EXPECT_NEAR(plan.inv_freq[i], turn * frequency, 1e-14 * frequency) << "pair " << i;
    EXPECT_EQ(plan.axis_of_pair[i], i / expected.Size()) << "pair " << i;
  }
}

// An image tower.
void CheckGrid(const LayerEncoding& layer, const Value& want) { CheckTwoAxes(layer, want, 1); }

void CheckAlibi(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kAlibi);
  const AlibiSpec& spec = std::get<AlibiSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_heads, want["num_heads"].GetInt64());
  EXPECT_EQ(layer.num_q_heads, want["num_heads"].GetInt64());
  EXPECT_EQ(*spec.max_bias, Number(want["max_bias"]));
  EXPECT_EQ(*spec.form, AlibiForm::kCausal);
  EXPECT_EQ(layer.scale_after.has_value(), Has(want, "scale_after"));
  if (Has(want, "scale_after")) ExpectClose(*layer.scale_after, want["scale_after"], 1e-15, "scale_after");
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const auto& slopes = std::get<BiasPlan>(resolved->plan).slopes;
  ASSERT_EQ(slopes.size(), want["slopes"].Size());
  for (size_t i = 0; i < slopes.size(); ++i)
    ExpectClose(slopes[i].hi, want["slopes"][static_cast<unsigned>(i)], 1e-15, "slope");
}

void CheckLearned(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kLearned);
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  EXPECT_EQ(spec.num_positions, want["table_rows"].GetInt64());
  EXPECT_EQ(spec.dim, want["dim"].GetInt64());
  EXPECT_EQ(*spec.position_offset, want["offset"].GetInt64());
  EXPECT_EQ(spec.padding_row.has_value(), Has(want, "padding_row"));
  if (Has(want, "padding_row")) {
    EXPECT_EQ(*spec.padding_row, want["padding_row"].GetInt64());
  }
  EXPECT_EQ(layer.positions_from_mask, want["uses_mask"].GetBool());
}

void CheckBuckets(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kBias);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const BucketPlan& plan = std::get<BucketPlan>(resolved->plan);
  const Value& buckets = want["buckets"];
  EXPECT_EQ(plan.num_buckets, buckets["num_buckets"].GetInt64());
  EXPECT_EQ(plan.max_distance, buckets["max_distance"].GetInt64());
  EXPECT_EQ(plan.bidirectional, buckets["bidirectional"].GetBool());
  const DistanceBuckets index(plan.num_buckets, plan.max_distance, plan.bidirectional);
  for (const Value& sample : buckets["samples"].GetArray()) {
    EXPECT_EQ(index.at(sample[0].GetInt64()), sample[1].GetInt64()) << "distance " << sample[0].GetInt64();
  }
}

// Swin's entries are about every stage: the stages share the window and differ in heads.
std::vector<const LayerEncoding*> StagesOf(const ModelEncoding& model, const Value& want) {
  std::vector<const LayerEncoding*> stages;
  for (const LayerEncoding& layer : model.layers) {
    if (layer.part.empty() && layer.layer_type == "stage" + std::to_string(stages.size() + 1)) stages.push_back(&layer);
  }
  return stages.size() == want["heads"].Size() ? stages : std::vector<const LayerEncoding*>();
}

void CheckWindow(const LayerEncoding& layer, const Value& want, int64_t heads) {
  ASSERT_EQ(layer.kind, PositionKind::kBias);
  EXPECT_EQ(layer.num_q_heads, heads);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const WindowBiasPlan& plan = std::get<WindowBiasPlan>(resolved->plan);
  EXPECT_EQ(plan.window.height, want["window"][0].GetInt64());
  EXPECT_EQ(plan.window.width, want["window"][1].GetInt64());
  EXPECT_EQ(plan.window.table_rows(), want["table_rows"].GetInt64());
  EXPECT_EQ(plan.window.table_rows(), layer.weights.at(0).shape.at(0));
  EXPECT_EQ(plan.num_heads, heads);
  EXPECT_EQ(layer.weights.at(0).shape.at(1), heads);
  for (const Value& sample : want["samples"].GetArray()) {
    EXPECT_EQ(plan.window.row_of(sample["query"].GetInt64(), sample["key"].GetInt64()), sample["index"].GetInt64());
  }
}

// Swin v2: the coordinates that the perceptron sees, sign·log2(1 + 8·|Δ/(pretrained − 1)|)/3, one for each offset.
void CheckContinuous(const LayerEncoding& layer, const Value& want, int64_t heads) {
  ASSERT_EQ(layer.kind, PositionKind::kBias);
  const ContinuousWindowBiasSpec& spec = std::get<ContinuousWindowBiasSpec>(layer.spec->spec);
  EXPECT_EQ(spec.window_height, want["window"][0].GetInt64());
  EXPECT_EQ(spec.window_width, want["window"][1].GetInt64());
  ASSERT_EQ(layer.weights.size(), 3u);
  EXPECT_THAT(layer.weights[2].shape, ::testing::ElementsAre(heads, 512));
  const auto coordinates = want["continuous_coordinates"]["per_axis_values"][0].GetArray();
  ASSERT_EQ(coordinates.Size(), static_cast<unsigned>(2 * spec.window_height - 1));
  for (int64_t i = 0; i < 2 * spec.window_height - 1; ++i) {
    const double c = static_cast<double>(i - (spec.window_height - 1)) / static_cast<double>(spec.pretrained_height - 1);
    const double got = std::copysign(std::log2(1 + 8 * std::fabs(c)) / 3, c);
    EXPECT_NEAR(got, Number(coordinates[static_cast<unsigned>(i)]), 1e-15) << "offset " << i;
  }
}

void CheckStages(const ModelEncoding& model, const Value& want) {
  const auto stages = StagesOf(model, want);
  ASSERT_FALSE(stages.empty());
  for (size_t i = 0; i < stages.size(); ++i) {
    SCOPED_TRACE(stages[i]->layer_type);
    const int64_t heads = want["heads"][static_cast<unsigned>(i)].GetInt64();
    Has(want, "continuous_coordinates") ? CheckContinuous(*stages[i], want, heads) : CheckWindow(*stages[i], want, heads);
  }
}

void CheckDeberta(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kTerm);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const DebertaPlan& plan = std::get<DebertaPlan>(resolved->plan);
  EXPECT_EQ(plan.position_buckets, want["buckets"]["position_buckets"].GetInt64());
  EXPECT_EQ(plan.max_relative_positions, want["buckets"]["max_relative_positions"].GetInt64());
  EXPECT_EQ(plan.buckets.rows(), 2 * want["attention_span"].GetInt64());
  EXPECT_EQ(layer.weights.at(0).shape.at(1), plan.buckets.rows());
  for (const Value& sample : want["table_index"]["samples"].GetArray()) {
    // Samples are of query − key, the index is by key − query.
    EXPECT_EQ(plan.buckets.at(-sample[0].GetInt64()), sample[1].GetInt64()) << "distance " << sample[0].GetInt64();
  }
}

// The plan of relative sinusoids, made with weights of the shapes that the answer asks for.
void CheckRelativeSinusoid(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kTerm);
  XlnetSpec spec = std::get<XlnetSpec>(layer.spec->spec);
  EXPECT_EQ(spec.dim, want["dim"].GetInt64());
  EXPECT_EQ(spec.clamp_length.has_value(), want["clamp_len"].GetInt64() > 0);
  ASSERT_TRUE(LacksWeights(layer));
  const auto zeros = [&](size_t index) {
    const std::vector<int64_t>& shape = layer.weights.at(index).shape;
    return MakeWeight(shape, std::vector<double>(static_cast<size_t>(shape.at(0) * shape.at(1))), "zeros");
  };
  spec.w_r = zeros(0);
  spec.r_w_bias = zeros(1);
  spec.r_r_bias = zeros(2);
  const auto canonical = Canonicalize(spec);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const SinusoidTermPlan& plan = std::get<SinusoidTermPlan>(resolved->plan);
  const auto expected = want["inv_freq"].GetArray();
  ASSERT_EQ(plan.sinusoids->inv_freq.size(), expected.Size());
  for (size_t i = 0; i < expected.Size(); ++i) {
    ExpectClose(plan.sinusoids->inv_freq[i], expected[static_cast<unsigned>(i)], 1e-14, "inv_freq");
  }
}

// Coordinates in [−1, 1]: the angle is 2π·c·inv_freq of the file.
void CheckDinoV3(const LayerEncoding& layer, const Value& want) { CheckTwoAxes(layer, want, 2 * M_PI); }

void CheckSinusoidal(const LayerEncoding& layer, const Value& want) {
  ASSERT_EQ(layer.kind, PositionKind::kSinusoidal);
  const SinusoidalSpec& spec = std::get<SinusoidalSpec>(layer.spec->spec);
  EXPECT_EQ(spec.dim, want["dim"].GetInt64());
  EXPECT_EQ(*spec.base, Number(want["base"]));
  EXPECT_EQ(*spec.layout == SinusoidalLayout::kConcatenated ? "concat" : "interleaved",
            std::string(want["layout"].GetString()));
  EXPECT_EQ(*spec.spacing == SinusoidalSpacing::kPaper ? "paper" : "endpoint_inclusive",
            std::string(want["spacing"].GetString()));
  EXPECT_EQ(*spec.position_offset, want["offset"].GetInt64());
  EXPECT_EQ(spec.padding_row.has_value(), Has(want, "padding_row"));
  if (Has(want, "padding_row")) {
    EXPECT_EQ(*spec.padding_row, want["padding_row"].GetInt64());
  }
  EXPECT_EQ(layer.embedding_multiplier.has_value(), Has(want, "embedding_multiplier"));
  if (Has(want, "embedding_multiplier")) {
    ExpectClose(*layer.embedding_multiplier, want["embedding_multiplier"], 1e-15, "embedding_multiplier");
  }
}

void CheckEntry(const ModelEncoding& model, const Value& want) {
  const std::string type = Has(want, "layer_type") ? want["layer_type"].GetString() : "";
  const std::string kind = want["kind"].GetString();
  SCOPED_TRACE("layer type '" + type + "', kind " + kind);
  if (kind == "swin_bias" && want["heads"].Size() > 1) return CheckStages(model, want);
  const auto layer = std::find_if(model.layers.begin(), model.layers.end(),
                                  [&](const LayerEncoding& candidate) { return candidate.layer_type == type; });
  ASSERT_NE(layer, model.layers.end());
  if (Has(want, "layers")) {
    std::vector<int64_t> layers;
    for (const Value& index : want["layers"].GetArray()) layers.push_back(index.GetInt64());
    EXPECT_EQ(layer->layers, layers);
  }
  if (Has(want, "softmax_scale")) {
    ASSERT_TRUE(layer->softmax_scale.has_value());
    ExpectClose(*layer->softmax_scale, want["softmax_scale"], 1e-15, "softmax_scale");
  } else {
    EXPECT_EQ(layer->softmax_scale, std::nullopt);
  }
  if (kind == "rope" || kind == "mrope") CheckRope(*layer, want);
  if (kind == "mrope") CheckAxes(*layer, want);
  if (kind == "rope" || kind == "mrope") return;
  if (kind == "vision_rope_2d") return CheckGrid(*layer, want);
  if (kind == "learned") return CheckLearned(*layer, want);
  if (kind == "t5_bucket") return CheckBuckets(*layer, want);
  if (kind == "swin_bias") return CheckWindow(*layer, want, want["heads"][0].GetInt64());
  if (kind == "deberta_bucket") return CheckDeberta(*layer, want);
  if (kind == "relative_sinusoidal") return CheckRelativeSinusoid(*layer, want);
  if (kind == "rope_2d_dinov3") return CheckDinoV3(*layer, want);
  if (kind == "alibi") return CheckAlibi(*layer, want);
  if (kind == "sinusoidal") return CheckSinusoidal(*layer, want);
  if (kind == "none") {
    EXPECT_EQ(layer->kind, PositionKind::kNone);
    return;
  }
  ADD_FAILURE() << "an entry of a kind that nothing compares";
}

class GoldenModel : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, ResolvesAsPublished) {
  const rapidjson::Document golden = ReadGoldenJson("models/" + GetParam() + ".json");
  ASSERT_TRUE(golden.IsObject());
  const auto model = ReadModelConfig(JsonText(golden["config"]));
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> types;
  for (const Value& want : golden["expect"].GetArray()) {
    CheckEntry(*model, want);
    const std::string type = Has(want, "layer_type") ? want["layer_type"].GetString() : "";
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
    if (std::string(want["kind"].GetString()) != "swin_bias" || want["heads"].Size() == 1) continue;
    types.pop_back();
    for (const LayerEncoding* stage : StagesOf(*model, want)) types.push_back(stage->layer_type);
  }
  // Nothing that is only named, but for parts that the file lacks.
  for (const LayerEncoding& layer : model->layers) {
    const bool lacking = std::any_of(model->warnings.begin(), model->warnings.end(),
                                     [&](const Note& note) { return note.field == layer.part + "_config"; });
    EXPECT_TRUE(lacking || layer.kind != PositionKind::kUnserved) << layer.layer_type;
  }
  // Nothing that the file does not expect, but for parts beside the language model.
  const auto known = std::count_if(model->layers.begin(), model->layers.end(), [&](const LayerEncoding& layer) {
    return layer.part.empty() || std::find(types.begin(), types.end(), layer.layer_type) != types.end();
  });
  EXPECT_EQ(static_cast<size_t>(known), types.size());
}

std::vector<std::string> Names() { return GoldenNames("models", ".json"); }

INSTANTIATE_TEST_SUITE_P(Models, GoldenModel, ::testing::ValuesIn(Names()), GoldenTestName);

TEST(GoldenModels, AreAllThere) { EXPECT_GE(Names().size(), 64u); }

}  // namespace
}  // namespace phasor::server
