// Terms of the scores and biases of windows, with keys that differ from the classes' defaults, against the library's own
// modules (tests/golden/transformers/terms.json).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/encodings/buckets.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

std::vector<int64_t> Whole(const Value& list) {
  std::vector<int64_t> numbers;
  for (const Value& number : list.GetArray()) numbers.push_back(number.GetInt64());
  return numbers;
}

NeededWeight WeightOf(const LayerEncoding& layer, const std::string& name) {
  for (const NeededWeight& weight : layer.weights) {
    if (weight.name == name) return weight;
  }
  ADD_FAILURE() << "no weight " << name;
  return {};
}

// A parameter of the library whose name ends so; fails when there is none.
std::vector<int64_t> ShapeOf(const Value& want, const std::string& ending) {
  for (const auto& member : want["shapes"].GetObject()) {
    if (std::string_view(member.name.GetString()).ends_with(ending)) return Whole(member.value);
  }
  ADD_FAILURE() << "no parameter " << ending;
  return {};
}

void CheckDeberta(const LayerEncoding& layer, const Value& want) {
  const DebertaSpec& spec = std::get<DebertaSpec>(layer.spec->spec);
  std::vector<std::string> terms;
  for (const Value& term : want["terms"].GetArray()) terms.push_back(term.GetString());
  EXPECT_EQ(*spec.c2p, std::count(terms.begin(), terms.end(), "c2p") == 1);
  EXPECT_EQ(*spec.p2c, std::count(terms.begin(), terms.end(), "p2c") == 1);
  ASSERT_EQ(layer.weights.size(), terms.size());
  EXPECT_NEAR(*layer.softmax_scale * want["divisor"].GetDouble(), 1, 1e-6);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const LogBuckets& buckets = std::get<DebertaPlan>(resolved->plan).buckets;
  // The library's table is twice the span long, and every projection keeps its rows.
  const std::vector<int64_t> table = ShapeOf(want, "rel_embeddings.weight");
  EXPECT_EQ(buckets.rows(), table[0]);
  for (const NeededWeight& weight : layer.weights) {
    EXPECT_THAT(weight.shape, ::testing::ElementsAre(layer.num_q_heads, table[0], table[1] / layer.num_q_heads));
    EXPECT_EQ(weight.source.find("LayerNorm(") != std::string::npos,
              want["shapes"].MemberCount() > 1 && want["shapes"].HasMember("encoder.LayerNorm.weight"));
  }
  for (const Value& row : want["rows"].GetArray()) {
    EXPECT_EQ(buckets.at(-row[0].GetInt64()), row[1].GetInt64()) << "query - key = " << row[0].GetInt64();
  }
}

void CheckShaw(const LayerEncoding& layer, const Value& want) {
  const ShawSpec& spec = std::get<ShawSpec>(layer.spec->spec);
  EXPECT_FALSE(spec.query_term_too);
  ASSERT_TRUE(spec.key_minus_query);
  const ClippedDistances rows{spec.clip, true};
  const NeededWeight keys = WeightOf(layer, "keys");
  EXPECT_THAT(keys.shape, ::testing::ElementsAre(rows.rows(), want["shapes"]["distance_embedding.weight"][1].GetInt64()));
  // Rows of the library's table stand in the middle of the asked one; those beyond repeat its ends.
  const int64_t library_rows = want["table_rows"].GetInt64();
  const int64_t before = spec.clip - want["left"].GetInt64();
  for (const Value& row : want["rows"].GetArray()) {
    const int64_t in_library = std::clamp<int64_t>(rows.at(row[0].GetInt64()) - before, 0, library_rows - 1);
    EXPECT_EQ(in_library, row[1].GetInt64()) << "key - query = " << row[0].GetInt64();
  }
  EXPECT_NE(keys.source.find("row repeated " + std::to_string(rows.rows() - library_rows) + " times"), std::string::npos)
      << keys.source;
}

void CheckXlnet(const LayerEncoding& layer, const Value& want) {
  XlnetSpec spec = std::get<XlnetSpec>(layer.spec->spec);
  const auto shape = WeightOf(layer, "w_r").shape;
  const auto of_library = ShapeOf(want, "rel_attn.r");  // [dim, heads, d]
  EXPECT_THAT(shape, ::testing::ElementsAre(of_library[1] * of_library[2], of_library[0]));
  EXPECT_EQ(WeightOf(layer, "r_w_bias").shape, ShapeOf(want, "r_w_bias"));
  EXPECT_EQ(WeightOf(layer, "seg_embed").shape, ShapeOf(want, "seg_embed"));
  const int64_t keys = want["keys"].GetInt64();
  for (const Value& sample : want["samples"].GetArray()) {
    const int64_t clamp = spec.clamp_length.value_or(keys + 1);
    const int64_t distance = std::clamp(keys - sample[0].GetInt64(), -clamp, clamp);
    const int64_t half = spec.dim / 2;
    const int64_t pair = sample[1].GetInt64() % half;
    const double angle = static_cast<double>(distance) *
                         std::pow(*spec.base, -2.0 * static_cast<double>(pair) / static_cast<double>(spec.dim));
    const double got = sample[1].GetInt64() < half ? std::sin(angle) : std::cos(angle);
    EXPECT_NEAR(got, sample[2].GetDouble(), 2e-6) << "row " << sample[0].GetInt64();
  }
  // The last row: bidirectional tables end at -(queries - 1), the others at distance 0.
  const Value& last = want["samples"][want["samples"].Size() - 1];
  EXPECT_EQ(spec.unidirectional, keys - last[0].GetInt64() == 0);
}

// Rows of the library's own table: [distance, column, value].
void CheckSinusoids(const Value& samples, int64_t dim, double base, bool concatenated, bool base_inclusive) {
  for (const Value& sample : samples.GetArray()) {
    const int64_t column = sample[1].GetInt64(), half = dim / 2;
    const int64_t pair = concatenated ? column % half : column / 2;
    const bool sine = concatenated ? column < half : column % 2 == 0;
    const double exponent = static_cast<double>(pair) / static_cast<double>(base_inclusive ? half - 1 : half);
    const double angle = sample[0].GetDouble() * std::pow(base, -exponent);
    EXPECT_NEAR(sine ? std::sin(angle) : std::cos(angle), sample[2].GetDouble(), 3e-6)
        << "distance " << sample[0].GetInt64() << " column " << column;
  }
}

void CheckConformer(const LayerEncoding& layer, const Value& want) {
  ASSERT_TRUE(std::holds_alternative<ConformerSpec>(layer.spec->spec));
  const ConformerSpec& spec = std::get<ConformerSpec>(layer.spec->spec);
  std::vector<std::vector<int64_t>> shapes;
  for (const auto& member : want["shapes"].GetObject()) shapes.push_back(Whole(member.value));
  EXPECT_EQ(WeightOf(layer, "w_r").shape, shapes[0]);
  if (want.HasMember("sinusoids")) {
    CheckSinusoids(want["sinusoids"], spec.dim, *spec.base, spec.concatenated, spec.base_inclusive);
  }
  if (want.HasMember("horizon")) {  // no vectors
    ASSERT_EQ(shapes.size(), 1u);
    EXPECT_EQ(layer.weights.size(), 1u);
    EXPECT_EQ(spec.num_heads, layer.num_q_heads);
    const int64_t past = want["horizon"][0].GetInt64(), oldest = want["oldest"].GetInt64();
    const auto has = [&](const std::string& words) {
      return std::any_of(layer.warnings.begin(), layer.warnings.end(),
                         [&](const Note& note) { return note.message.find(words) != std::string::npos; });
    };
    EXPECT_TRUE(has("distances " + std::to_string(past) + " … " + std::to_string(-want["horizon"][1].GetInt64())));
    EXPECT_EQ(has("positions " + std::to_string(oldest - past) + " further"), oldest != past);
    return;
  }
  ASSERT_EQ(shapes.size(), 3u);
  EXPECT_EQ(WeightOf(layer, "u").shape, shapes[1]);
  EXPECT_EQ(WeightOf(layer, "v").shape, shapes[2]);
}

void CheckFunnel(const LayerEncoding& layer, const Value& want) {
  const XlnetSpec& spec = std::get<XlnetSpec>(layer.spec->spec);
  EXPECT_FALSE(spec.unidirectional);
  EXPECT_EQ(spec.separate_cls, want["separate_cls"].GetBool());
  const auto kernel = ShapeOf(want, "r_kernel");  // [dim, heads, d]
  EXPECT_THAT(WeightOf(layer, "w_r").shape, ::testing::ElementsAre(kernel[1] * kernel[2], kernel[0]));
  EXPECT_EQ(WeightOf(layer, "r_w_bias").shape, ShapeOf(want, "r_w_bias"));
  EXPECT_EQ(WeightOf(layer, "seg_embed").shape, ShapeOf(want, "seg_embed"));
  if (want.HasMember("sinusoids")) CheckSinusoids(want["sinusoids"], spec.dim, *spec.base, true, false);
}

// The library's table stands in the rows from `extent` on; it holds n + 1 for distance n and is 0 beyond.
void CheckInkling(const LayerEncoding& layer, const Value& want) {
  const ShawSpec& spec = std::get<ShawSpec>(layer.spec->spec);
  const int64_t extent = want["extent"].GetInt64();
  const ClippedDistances rows{spec.clip, spec.key_minus_query};
  EXPECT_THAT(WeightOf(layer, "keys").shape, ::testing::ElementsAre(2 * extent + 1, want["d_rel"].GetInt64()));
  EXPECT_NE(WeightOf(layer, "keys").source.find("row " + std::to_string(extent) + " + n is its column n"),
            std::string::npos);
  for (const Value& sample : want["profile"].GetArray()) {
    const int64_t column = rows.at(-sample[0].GetInt64()) - extent;  // at() takes key − query
    EXPECT_EQ(column >= 0 && column < extent ? column + 1 : 0, sample[1].GetInt64()) << sample[0].GetInt64();
  }
}

void CheckBuckets(const LayerEncoding& layer, const Value& want) {
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const BucketPlan& plan = std::get<BucketPlan>(resolved->plan);
  std::vector<int64_t> shape = Whole(want["shapes"].MemberBegin()->value);
  if (want["shapes"].HasMember("transposed")) std::swap(shape[0], shape[1]);
  EXPECT_EQ(WeightOf(layer, "table").shape, shape);
  if (want.HasMember("scale")) {
    EXPECT_NEAR(plan.scale, want["scale"].GetDouble(), 1e-15);
  }
  for (const Value& sample : want["buckets"].GetArray()) {
    EXPECT_EQ(plan.buckets.at(sample[0].GetInt64()), sample[1].GetInt64()) << "key - query = " << sample[0].GetInt64();
  }
}

// A table of clipped distances, spread over buckets: rows of the spec's table as its source says, by key − query.
void CheckPhi4(const LayerEncoding& layer, const Value& want) {
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const DistanceBuckets& buckets = std::get<BucketPlan>(resolved->plan).buckets;
  const int64_t longest = want["clipped"].GetInt64(), side = 2 * (longest + 1);
  EXPECT_THAT(WeightOf(layer, "table").shape, ::testing::ElementsAre(2 * side, layer.num_q_heads));
  for (const Value& sample : want["rows"].GetArray()) {
    const int64_t bucket = buckets.at(sample[0].GetInt64()), r = bucket % side;
    const int64_t of_class = want["symmetric"].GetBool() ? std::min(r, longest - 1)
                             : bucket < side             ? std::max<int64_t>(0, longest - r)
                                                         : std::min(longest + r, 2 * longest - 1);
    EXPECT_EQ(of_class, sample[1].GetInt64()) << "key - query = " << sample[0].GetInt64();
  }
}

void CheckSpeechT5(const LayerEncoding& layer, const Value& want) {
  const ShawSpec& spec = std::get<ShawSpec>(layer.spec->spec);
  const ClippedDistances rows{spec.clip, spec.key_minus_query};
  const int64_t of_class = want["rows_of_class"].GetInt64();
  EXPECT_EQ(rows.rows(), of_class + 1);  // its last row once more
  for (const Value& row : want["query_minus_key"].GetArray()) {
    EXPECT_EQ(std::min(rows.at(-row[0].GetInt64()), of_class - 1), row[1].GetInt64()) << row[0].GetInt64();
  }
}

// Which columns of the class's matrix a pair of tokens adds; one of them is the index plus the first that the notes name.
void CheckPairFeature(const LayerEncoding& layer, const Value& want) {
  const ShawSpec& spec = std::get<ShawSpec>(layer.spec->spec);
  const ClippedDistances rows{spec.clip, spec.key_minus_query};
  const auto note = std::find_if(layer.warnings.begin(), layer.warnings.end(),
                                 [](const Note& each) { return each.message.find("adds column ") != std::string::npos; });
  ASSERT_NE(note, layer.warnings.end());
  const int64_t first = std::stoll(note->message.substr(note->message.find("adds column ") + 12));
  for (const Value& pair : want["columns"].GetArray()) {
    EXPECT_THAT(Whole(pair[1]), ::testing::Contains(first + rows.at(-pair[0].GetInt64()))) << pair[0].GetInt64();
  }
  // Of another entity: one column less than of the same.
  if (want.HasMember("one_entity")) {
    EXPECT_EQ(want["one_entity"].Size(), want["columns"][0][1].Size() + 1);
  }
}

// [axis, channel, position, share of the channel itself, share of its partner]
void CheckUnevenPairs(const LayerEncoding& layer, const Value& want) {
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  ASSERT_EQ(spec.pairing, Pairing::kInterleaved);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const auto& inv_freq = std::get<AnglePlan>(resolved->plan).inv_freq;
  for (const Value& sample : want["turns"].GetArray()) {
    const int64_t axis = sample[0].GetInt64(), channel = sample[1].GetInt64(), pair = channel / 2;
    double angle = 0;
    if (channel < *spec.rotary_dim && pair / spec.axes->sections[0] == axis) {
      angle = sample[2].GetDouble() * inv_freq[static_cast<size_t>(pair)];
    }
    EXPECT_NEAR(std::cos(angle), sample[3].GetDouble(), 1e-12) << "channel " << channel;
    EXPECT_NEAR(channel % 2 == 0 ? -std::sin(angle) : std::sin(angle), sample[4].GetDouble(), 1e-12)
        << "channel " << channel;
  }
}

void CheckSwinV2(const LayerEncoding& layer, const Value& want) {
  const auto& spec = std::get<ContinuousWindowBiasSpec>(layer.spec->spec);
  EXPECT_EQ(spec.window_height, want["window"][0].GetInt64());
  EXPECT_EQ(spec.window_width, want["window"][1].GetInt64());
  EXPECT_EQ(WeightOf(layer, "w1").shape, Whole(want["shapes"]["0.weight"]));
  EXPECT_EQ(WeightOf(layer, "b1").shape, Whole(want["shapes"]["0.bias"]));
  EXPECT_EQ(WeightOf(layer, "w2").shape, Whole(want["shapes"]["2.weight"]));
  const auto coordinates = want["coordinates"].GetArray();
  ASSERT_EQ(coordinates.Size(), static_cast<unsigned>(2 * spec.window_height - 1));
  for (int64_t i = 0; i < 2 * spec.window_height - 1; ++i) {
    const double offset = static_cast<double>(i - (spec.window_height - 1));
    const double c = offset / static_cast<double>(std::max<int64_t>(spec.pretrained_height - 1, 1));
    EXPECT_NEAR(std::copysign(std::log2(1 + 8 * std::fabs(c)) / 3, c), coordinates[static_cast<unsigned>(i)].GetDouble(),
                1e-6);
  }
}

void CheckWindow(const LayerEncoding& layer, const Value& want) {
  const auto& spec = std::get<WindowBiasSpec>(layer.spec->spec);
  const std::vector<int64_t> table = ShapeOf(want, "relative_position_bias_table");
  EXPECT_EQ(WeightOf(layer, "table").shape, table);
  EXPECT_EQ(spec.num_heads, table[1]);
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(std::get<WindowBiasPlan>(resolved->plan).window.table_rows(), table[0]);
  if (want.HasMember("window")) {
    EXPECT_EQ(spec.window_height, want["window"][0].GetInt64());
  }
  if (want.HasMember("index")) {
    const TokenWindow& window = std::get<WindowBiasPlan>(resolved->plan).window;
    const std::vector<int64_t> index = Whole(want["index"]);
    const auto tokens = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(index.size()))));
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j)
        ASSERT_EQ(window.row_of(i, j), index[static_cast<size_t>(i * tokens + j)]) << i << " " << j;
    }
  }
  if (want.HasMember("tables")) {
    const bool shared = WeightOf(layer, "table").source.find("all layers share") != std::string::npos;
    EXPECT_EQ(shared, want["tables"].GetInt64() == 1) << WeightOf(layer, "table").source;
  }
}

void CheckLayer(const LayerEncoding& layer, const Value& want) {
  ASSERT_TRUE(layer.spec.has_value());
  if (want.HasMember("blocks")) {
    EXPECT_EQ(layer.layers, Whole(want["blocks"]));
  }
  if (want.HasMember("heads")) {
    EXPECT_EQ(layer.num_q_heads, want["heads"].GetInt64());
  }
  if (want.HasMember("table")) {
    ASSERT_EQ(layer.kind, PositionKind::kLearned);
    EXPECT_EQ(WeightOf(layer, "table").shape, Whole(want["table"]));
  } else if (want.HasMember("buckets")) {
    CheckBuckets(layer, want);
  } else if (want.HasMember("clipped")) {
    CheckPhi4(layer, want);
  } else if (want.HasMember("query_minus_key")) {
    CheckSpeechT5(layer, want);
  } else if (want.HasMember("columns")) {
    CheckPairFeature(layer, want);
  } else if (want.HasMember("turns")) {
    CheckUnevenPairs(layer, want);
  } else if (want.HasMember("profile")) {
    CheckInkling(layer, want);
  } else if (want.HasMember("separate_cls")) {
    CheckFunnel(layer, want);
  } else if (want.HasMember("divisor")) {
    CheckDeberta(layer, want);
  } else if (want.HasMember("table_rows")) {
    CheckShaw(layer, want);
  } else if (want.HasMember("samples")) {
    CheckXlnet(layer, want);
  } else if (want.HasMember("coordinates")) {
    CheckSwinV2(layer, want);
  } else if (want["shapes"].HasMember("rel_pos_h")) {
    EXPECT_EQ(WeightOf(layer, "rel_pos_h").shape, Whole(want["shapes"]["rel_pos_h"]));
    EXPECT_EQ(WeightOf(layer, "rel_pos_w").shape, Whole(want["shapes"]["rel_pos_w"]));
  } else if (std::holds_alternative<WindowBiasSpec>(layer.spec->spec)) {
    CheckWindow(layer, want);
  } else {
    CheckConformer(layer, want);
  }
}

TEST(TermsGolden, EveryCaseMatches) {
  const rapidjson::Document golden = ReadLibraryJson("terms.json");
  ASSERT_TRUE(golden.IsObject());
  const auto cases = golden["cases"].GetArray();
  EXPECT_GE(cases.Size(), 43u);
  for (const Value& each : cases) {
    SCOPED_TRACE(each["name"].GetString());
    const ModelEncoding model = Read(JsonText(each["config"]));
    if (!each.HasMember("part")) {
      // Parts that the file lacks are the class's own.
      const auto given = std::count_if(model.layers.begin(), model.layers.end(), [&](const LayerEncoding& layer) {
        return std::none_of(model.warnings.begin(), model.warnings.end(),
                            [&](const Note& note) { return note.field == layer.part + "_config"; });
      });
      EXPECT_EQ(given, each["layers"].Size());
    }
    for (const Value& want : each["layers"].GetArray()) {
      SCOPED_TRACE(want["layer_type"].GetString());
      CheckLayer(LayerOf(model, want["layer_type"].GetString()), want);
    }
  }
}

}  // namespace
}  // namespace phasor::server
