// Biases over windows and learned functions of positions with positions, masks and batches: parsed, run, compared with the
// bias of each batch row and with the mask's rule said in words.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "tests/kernels/program/golden_weights.h"
#include "tests/kernels/program/window_specs.h"
#include "tests/server/apply_harness.h"

namespace phasor::server {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

class Harness {
 public:
  PrecomputeResult Run(const v1::PrecomputeItem& item) { return engine_.One(item); }

  // The bias as floats, its shape checked.
  std::vector<float> Bias(const v1::PrecomputeItem& item, const std::vector<int64_t>& shape) {
    const PrecomputeResult result = Run(item);
    EXPECT_TRUE(result.status.ok()) << result.status;
    if (!result.status.ok() || !result.bias) return {};
    EXPECT_EQ(result.bias->shape, shape);
    const std::string bytes = BytesOf(*result.bias);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  ApplyHarness engine_{"cpu"};
};

std::string DataOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), 4 * values.size());
}

void AddWeight(const std::string& name, const std::vector<int64_t>& shape, const std::vector<double>& values,
               v1::PrecomputeItem* item) {
  v1::Weight* weight = item->mutable_spec()->add_weights();
  weight->set_name(name);
  weight->mutable_tensor()->set_dtype(v1::DTYPE_F32);
  weight->mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  weight->mutable_tensor()->set_data(DataOf({values.begin(), values.end()}));
}

v1::PrecomputeItem ItemOf(const std::string& text) {
  v1::PrecomputeItem item;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
  return item;
}

v1::PrecomputeItem FireItem(const std::string& bias) {
  v1::PrecomputeItem item = ItemOf("spec { fire {} } bias { form: BIAS_FORM_FULL " + bias + " }");
  AddWeight("w1", {5, 1}, RuleValues(1, 5), &item);
  AddWeight("b1", {5}, RuleValues(2, 5), &item);
  AddWeight("w2", {2, 5}, RuleValues(3, 10), &item);
  AddWeight("b2", {2}, RuleValues(4, 2), &item);
  return item;
}

v1::PrecomputeItem GatesItem(const std::vector<int64_t>& shape, const std::string& bias) {
  v1::PrecomputeItem item = ItemOf("spec { forgetting_bias { logits: true } } bias { form: BIAS_FORM_FULL " + bias + " }");
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  AddWeight("gates", shape, RuleValues(5, count, 4), &item);
  return item;
}

// Swin's shift mask: one mask per window of the image, for all heads.
TEST(WindowWorkTest, ShiftedWindowsHaveAMaskEach) {
  Harness harness;
  v1::PrecomputeItem item = ItemOf("spec { window_bias { window_height: 2 window_width: 2 } } bias { queries: 4 keys: 4 }");
  AddWeight("table", {9, 3}, RuleValues(7, 27), &item);
  const std::vector<float> plain = harness.Bias(item, {3, 4, 4});
  v1::Tensor* mask = item.mutable_bias()->mutable_masking()->mutable_additive();
  mask->set_dtype(v1::DTYPE_F32);
  for (int64_t extent : {2, 1, 4, 4}) mask->add_shape(extent);
  std::vector<float> added(32, 0.0f);
  for (size_t i = 16; i < 32; ++i) added[i] = i % 3 == 0 ? -100.0f : 0.0f;
  mask->set_data(DataOf(added));
  const std::vector<float> masked = harness.Bias(item, {2, 3, 4, 4});
  for (size_t i = 0; i < masked.size(); ++i) {
    const size_t window = i / 48, entry = i % 48;
    EXPECT_EQ(masked[i], plain[entry] + added[window * 16 + entry % 16]) << i;
  }
}

TEST(WindowWorkTest, PositionsThatSpellThePlainWindowAreIt) {
  Harness harness;
  const v1::PrecomputeItem plain = FireItem("queries: 3 keys: 9");
  const v1::PrecomputeItem spelled =
      FireItem("queries: 3 keys: 9 query_positions { list { ids: [6, 7, 8] } } key_positions { range { count: 9 } }");
  const PrecomputeResult a = harness.Run(plain), b = harness.Run(spelled);
  ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(harness.Bias(plain, {2, 3, 9}), harness.Bias(spelled, {2, 3, 9}));
}

TEST(WindowWorkTest, BatchRowsHavePositionsOfTheirOwn) {
  Harness harness;
  // Left padding: the second row's sequence begins at its third key.
  const v1::PrecomputeItem item = FireItem(
      "queries: 2 keys: 4 query_positions { mask { mask { dtype: DTYPE_I32 shape: 2 shape: 2 data: "
      "\"\\001\\000\\000\\000\\001\\000\\000\\000\\000\\000\\000\\000\\001\\000\\000\\000\" } } }");
  const std::vector<float> both = harness.Bias(item, {2, 2, 2, 4});
  const auto fire = [&](const std::string& ids) {
    return harness.Bias(FireItem("queries: 2 keys: 4 query_positions { list { ids: [" + ids + "] } }"), {2, 2, 4});
  };
  std::vector<float> each = fire("0, 1");
  const std::vector<float> second = fire("0, 0");
  // What a token that the mask hides gets is the rule's; the token that counts stands at place 0.
  each.insert(each.end(), second.begin(), second.end());
  for (size_t head = 0; head < 2; ++head) {
    for (size_t k = 0; k < 4; ++k) {
      for (size_t q = 0; q < 2; ++q) EXPECT_EQ(both[(head * 2 + q) * 4 + k], each[(head * 2 + q) * 4 + k]);
      EXPECT_EQ(both[16 + (head * 2 + 1) * 4 + k], each[16 + (head * 2 + 1) * 4 + k]);
    }
  }
}

TEST(WindowWorkTest, MasksComeAfterTheBias) {
  Harness harness;
  const std::vector<float> plain = harness.Bias(GatesItem({2, 3, 6}, "queries: 6 keys: 6"), {2, 3, 6, 6});
  const std::vector<float> masked =
      harness.Bias(GatesItem({2, 3, 6}, "queries: 6 keys: 6 masking { causal: true sliding_window: 3 }"), {2, 3, 6, 6});
  for (int64_t i = 0; i < 2 * 3 * 36; ++i) {
    const int64_t q = i / 6 % 6, k = i % 6;
    const bool seen = k <= q && q - k < 3;
    EXPECT_EQ(masked[i], seen ? plain[i] : kMasked) << i;
  }
}

// Sequences in one pack: places start anew in each, but gates are those of the pack.
TEST(WindowWorkTest, Packs) {
  Harness harness;
  const std::string pack = "queries: 5 keys: 5 masking { causal: true query_cu_seqlens: [0, 2, 5] }";
  const std::vector<float> fire = harness.Bias(FireItem(pack), {2, 5, 5});
  const std::vector<float> alone = harness.Bias(FireItem("queries: 3 keys: 3"), {2, 3, 3});
  const std::vector<float> gates = harness.Bias(GatesItem({3, 5}, pack), {3, 5, 5});
  const std::vector<float> whole = harness.Bias(GatesItem({3, 5}, "queries: 5 keys: 5"), {3, 5, 5});
  for (int64_t q = 0; q < 5; ++q) {
    for (int64_t k = 0; k < 5; ++k) {
      const bool seen = k <= q && (q < 2) == (k < 2);
      const int64_t at = q * 5 + k;
      EXPECT_EQ(fire[at] == kMasked, !seen);
      if (seen && q >= 2) {
        EXPECT_EQ(fire[at], alone[(q - 2) * 3 + k - 2]);
      }
      EXPECT_EQ(gates[at], seen ? whole[at] : kMasked);
    }
  }
}

// Gates without a batch axis are the same for all rows; what padding and positions leave of them is not.
TEST(WindowWorkTest, SharedGatesHaveSumsForEveryRow) {
  Harness harness;
  const auto item = [](const std::string& bias) {
    v1::PrecomputeItem made =
        ItemOf("spec { forgetting_bias {} } bias { queries: 1 keys: 4 form: BIAS_FORM_FULL " + bias + " }");
    AddWeight("gates", {2, 4}, {1, 2, 4, 8, 16, 32, 64, 128}, &made);
    return made;
  };
  v1::PrecomputeItem padded = item("");
  v1::Tensor* padding = padded.mutable_bias()->mutable_masking()->mutable_key_padding();
  padding->set_dtype(v1::DTYPE_BOOL);
  for (int64_t extent : {3, 4}) padding->add_shape(extent);
  padding->set_data(
      std::string("\1\1\1\1"
                  "\1\0\1\1"
                  "\1\1\0\1",
                  12));
  EXPECT_EQ(harness.Bias(padded, {3, 2, 1, 4}), (std::vector<float>{14, 12,      8,       0, 224, 192,     128,     0,  //
                                                                    12, kMasked, 8,       0, 192, kMasked, 128,     0,  //
                                                                    10, 8,       kMasked, 0, 160, 128,     kMasked, 0}));
  v1::PrecomputeItem placed =
      item("query_positions { list { ids: [3] } } key_positions { list { ids: [0, 1, 2, 3, 3, 2, 1, 0] } }");
  v1::Tensor* all = placed.mutable_bias()->mutable_masking()->mutable_key_padding();
  *all = *padding;
  all->set_shape(0, 2);
  all->set_data(std::string(8, '\1'));
  EXPECT_EQ(harness.Bias(placed, {2, 2, 1, 4}),
            (std::vector<float>{14, 12, 8, 0, 224, 192, 128, 0, 0, 8, 12, 14, 0, 128, 192, 224}));
}

TEST(WindowWorkTest, FingerprintsKnowMasksAndPlaces) {
  Harness harness;
  std::vector<std::string> seen;
  for (const char* more : {"", "masking { causal: true }", "masking { causal: true sliding_window: 2 }",
                           "key_positions { list { ids: [0, 1, 2, 9] } }", "query_offset: 1"}) {
    const PrecomputeResult result = harness.Run(FireItem(std::string("queries: 4 keys: 4 ") + more));
    ASSERT_TRUE(result.status.ok()) << more << result.status;
    for (const std::string& other : seen) EXPECT_NE(other, result.fingerprint) << more;
    seen.push_back(result.fingerprint);
  }
}

TEST(WindowWorkTest, FieldsThatChangeNoBiasAreSaid) {
  Harness harness;
  const auto warnings = [&](v1::PrecomputeItem item, int64_t max_position) {
    item.set_max_position(max_position);
    const PrecomputeResult result = harness.Run(item);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result.warnings;
  };
  struct Case {
    std::string bias;
    int64_t largest;
    std::string field;
  };
  for (const auto& [bias, largest, field] :
       std::vector<Case>{{"queries: 2 keys: 4", 3, "bias.keys"},
                         {"queries: 2 keys: 4 query_offset: 8", 9, "bias.query_offset"},
                         {"queries: 2 keys: 4 query_positions { list { ids: [9, 0] } }", 9, "bias.query_positions"},
                         {"queries: 2 keys: 4 key_positions { list { ids: [0, 1, 7, 2] } }", 7, "bias.key_positions"},
                         {"queries: 6 keys: 6 masking { query_cu_seqlens: [0, 3, 6] key_cu_seqlens: [0, 3, 6] }", 2,
                          "bias.masking.key_cu_seqlens"}}) {
    EXPECT_TRUE(warnings(FireItem(bias), largest + 1).empty()) << bias;
    const std::vector<Note> beyond = warnings(FireItem(bias), largest);
    ASSERT_EQ(beyond.size(), 1u) << bias;
    EXPECT_EQ(beyond[0].field, field) << bias;
    EXPECT_EQ(beyond[0].message, "position " + std::to_string(largest) + " is beyond the model's own maximum of " +
                                     std::to_string(largest) + " positions");
  }
  v1::PrecomputeItem window =
      ItemOf("spec { window_bias { window_height: 2 window_width: 2 } } bias { queries: 4 keys: 4 }");
  AddWeight("table", {9, 3}, RuleValues(7, 27), &window);
  window.set_precision(v1::PRECISION_COMPAT_F32);
  const std::vector<Note> ignored = warnings(window, 1);
  ASSERT_EQ(ignored.size(), 2u);
  EXPECT_EQ(ignored[0].field, "precision");
  EXPECT_EQ(ignored[1].field, "max_position");
}

// A megabyte of weights may ask for an hour of products.
TEST(WindowWorkTest, LearnedFunctionsHaveALimit) {
  Harness harness;
  const auto fire = [](int64_t keys) {
    v1::PrecomputeItem item =
        ItemOf("spec { fire {} } bias { form: BIAS_FORM_FULL queries: 1024 keys: " + std::to_string(keys) + " }");
    AddWeight("w1", {4096, 1}, std::vector<double>(4096), &item);
    AddWeight("b1", {4096}, std::vector<double>(4096), &item);
    AddWeight("w2", {64, 4096}, std::vector<double>(64 * 4096), &item);
    AddWeight("b2", {64}, std::vector<double>(64), &item);
    return item;
  };
  // 65 · 4096 products a pair: 2^37 allow 504 keys and a little.
  const PrecomputeResult refused = harness.Run(fire(505));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(refused.status.message()),
            "items[0].bias: given 137678028800 products of the spec's learned function; allowed: up to 137438953472 (the "
            "server's max_function_products)");
  // The same function at scattered positions is asked once for every pair, at consecutive ones once for every distance.
  const auto dynamic = [](const std::string& positions) {
    v1::PrecomputeItem item = ItemOf(
        "spec { dynamic_position_bias {} } bias { queries: 2048 keys: 2048 form: "
        "BIAS_FORM_FULL " +
        positions + " }");
    AddWeight("w1", {256, 1}, std::vector<double>(256), &item);
    AddWeight("b1", {256}, std::vector<double>(256), &item);
    AddWeight("w2", {256, 256}, std::vector<double>(256 * 256), &item);
    AddWeight("b2", {256}, std::vector<double>(256), &item);
    AddWeight("w3", {1, 256}, std::vector<double>(256), &item);
    AddWeight("b3", {1}, std::vector<double>(1), &item);
    return item;
  };
  EXPECT_TRUE(harness.Run(dynamic("")).status.ok());
  EXPECT_THAT(std::string(harness.Run(dynamic("key_positions { range { count: 2048 stride: 2 } }")).status.message()),
              testing::HasSubstr("max_function_products"));
}

TEST(WindowWorkTest, Refused) {
  Harness harness;
  struct Bad {
    v1::PrecomputeItem item;
    std::string message;
  };
  v1::PrecomputeItem window = ItemOf(
      "spec { window_bias { window_height: 2 window_width: 2 num_heads: 1 } } bias { queries: 4 keys: 4 "
      "query_positions { range { count: 4 } } indices: true }");
  v1::PrecomputeItem masked_indices = ItemOf(
      "spec { window_bias { window_height: 2 window_width: 2 num_heads: 1 } } bias { queries: 4 keys: 4 "
      "masking { causal: true } indices: true }");
  for (const Bad& bad :
       {Bad{window, "bias.query_positions"}, Bad{masked_indices, "bias.masking"},
        Bad{GatesItem({3, 5}, "queries: 1 keys: 5 query_positions { list { ids: [5] } }"),
            "bias.query_positions: given a query at position 5"},
        Bad{GatesItem({3, 5}, "queries: 1 keys: 5 key_positions { list { ids: [0, 1, 2, 3, -1] } }"),
            "bias.key_positions: given a key at position -1"},
        Bad{GatesItem({2, 3, 5}, "queries: 5 keys: 5 masking { prefix: [1, 2, 3] }"), "bias.masking.prefix"},
        Bad{FireItem("queries: 2 keys: 4 query_offset: 1 masking { query_cu_seqlens: [0, 2] key_cu_seqlens: [0, 4] }"),
            "bias.query_offset"}}) {
    const PrecomputeResult result = harness.Run(bad.item);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_NE(std::string(result.status.message()).find(bad.message), std::string::npos) << result.status;
  }
}

}  // namespace
}  // namespace phasor::server
