// Errors of every field of biases over windows, of learned functions of positions, and of resizing.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

// weights { … } of float32 ones.
std::string Ones(const std::string& name, std::vector<int64_t> shape, float value = 1) {
  int64_t count = 1;
  std::string text = "weights { name: \"" + name + "\" tensor { dtype: DTYPE_F32";
  for (int64_t extent : shape) {
    absl::StrAppend(&text, " shape: ", extent);
    count *= extent;
  }
  std::string data;
  for (int64_t i = 0; i < count; ++i) absl::StrAppend(&data, Escaped({value}));
  return text + " data: " + data + " } } ";
}

std::string Item(const std::string& spec, const std::string& bias, const std::string& more = "") {
  return "items { spec { " + spec + " } bias { " + bias + " } " + more + " }";
}

const std::string kSwin = "window_bias { window_height: 2 window_width: 2 } ";
const std::string kSwinTable = kSwin + Ones("table", {9, 3});
const std::string kFour = "queries: 4 keys: 4";
const std::string kFire = "fire {} " + Ones("w1", {5, 1}) + Ones("b1", {5}) + Ones("w2", {3, 5}) + Ones("b2", {3});
const std::string kDynamic =
    "dynamic_position_bias {} " + Ones("w1", {4, 1}) + Ones("b1", {4}) + Ones("w2", {2, 4}) + Ones("b2", {2});
const std::string kGates = "forgetting_bias {} " + Ones("gates", {2, 3, 8});
const std::string kQ = Ones("q", {2, 6, 4}), kK = Ones("k", {2, 6, 4});

struct Bad {
  std::string item;
  Expected expected;
};

void ExpectErrors(const std::vector<Bad>& cases) {
  for (const Bad& c : cases) ExpectError(ItemStatus(Precompute(c.item)), c.expected, c.item);
}

TEST(WindowBiasParserTest, WhatIsGoodIsTaken) {
  for (const std::string& item :
       {Item(kSwinTable, kFour), Item(kSwinTable, kFour + " form: BIAS_FORM_FULL first_head: 1 head_count: 2"),
        Item("window_bias { window_height: 2 window_width: 2 num_heads: 3 }", kFour + " indices: true"),
        Item(kSwinTable, kFour + " indices: true", "dtype: DTYPE_I32"), Item(kFire, kFour + " form: BIAS_FORM_ROW"),
        Item(kDynamic, kFour), Item(kGates, "queries: 2 keys: 8"), Item("tupe {} " + kQ + kK, "queries: 6 keys: 6")}) {
    EXPECT_TRUE(ItemStatus(Precompute(item)).ok()) << ItemStatus(Precompute(item)) << item;
  }
  const auto batch = Precompute(Item(kGates, "queries: 2 keys: 8"));
  EXPECT_EQ(Only(batch).work->outputs[0].shape, (std::vector<int64_t>{2, 3, 2, 8}));
  const auto vector = Precompute(Item(kDynamic, "queries: 3 keys: 8"));
  EXPECT_EQ(Only(vector).work->outputs[0].shape, (std::vector<int64_t>{2, 10}));
  const auto indices = Precompute(Item(kSwinTable, kFour + " indices: true"));
  EXPECT_EQ(Only(indices).work->outputs[0].shape, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(Only(indices).work->outputs[0].dtype, DType::kI64);
}

TEST(WindowBiasParserTest, ErrorsOfWindows) {
  const std::string table = Ones("table", {9, 3});
  ExpectErrors({
      {Item("window_bias { window_width: 2 } " + table, kFour),
       {kBad, "items[0].spec.window_bias.window_height", "nothing", "1 … 4096"}},
      {Item("window_bias { window_height: 2 window_width: 4097 } " + table, kFour),
       {kBad, "items[0].spec.window_bias.window_width", "4097", "1 … 4096"}},
      {Item(kSwin + Ones("table", {10, 3}), kFour),
       {kBad, "items[0].spec.weights[0].tensor.shape", "[10, 3]", "[9, heads]"}},
      {Item("window_bias { window_height: 2 window_width: 2 class_token: true } " + table, "queries: 5 keys: 5"),
       {kBad, "items[0].spec.weights[0].tensor.shape", "[9, 3]", "[12, heads]"}},
      {Item(kSwin + Ones("table", {9, 3}, std::numeric_limits<float>::infinity()), kFour),
       {kBad, "items[0].spec.weights[0].tensor", "inf at element 0", "finite numbers"}},
      {Item("window_bias { window_height: 2 window_width: 2 num_heads: 4 } " + table, kFour),
       {kBad, "items[0].spec.window_bias.num_heads", "4", "3: the table's columns"}},
      {Item(kSwin, kFour), {kBad, "items[0].spec.window_bias.num_heads", "nothing", "1 … 65536"}},
      {Item("window_bias { window_height: 2 window_width: 2 num_heads: 4 }", kFour),
       {kBad, "items[0].spec.weights", "no table", "bias.indices"}},
      {Item(kSwin + Ones("w1", {9, 3}), kFour), {kBad, "items[0].spec.weights[0].name", "w1", "table"}},
      {Item(kSwinTable, "queries: 5 keys: 4"), {kBad, "items[0].bias.queries", "5", "4, the tokens of the window"}},
      {Item(kSwinTable, "queries: 4"), {kBad, "items[0].bias.keys", "nothing", "4, the tokens of the window"}},
      {Item(kSwinTable, kFour + " query_offset: 2"),
       {kBad, "items[0].bias.query_offset", "2", "0: queries and keys are one window"}},
      {Item(kSwinTable, kFour + " form: BIAS_FORM_VECTOR"),
       {kBad, "items[0].bias.form", "BIAS_FORM_VECTOR", "BIAS_FORM_FULL"}},
      {Item(kSwinTable, kFour + " form: BIAS_FORM_ROW"), {kBad, "items[0].bias.form", "BIAS_FORM_ROW", "BIAS_FORM_FULL"}},
      {Item(kSwinTable, kFour + " first_head: 3"), {kBad, "items[0].bias.first_head", "3", "0 … 2"}},
      {Item(kSwinTable, kFour + " first_head: 1 head_count: 3"), {kBad, "items[0].bias.head_count", "3", "1 … 2"}},
      {Item(kSwinTable, kFour, "dtype: DTYPE_I64"), {kBad, "items[0].dtype", "DTYPE_I64", "DTYPE_F64"}},
      {Item(kSwinTable, kFour + " indices: true", "dtype: DTYPE_F32"),
       {kBad, "items[0].dtype", "DTYPE_F32", "DTYPE_I64, DTYPE_I32"}},
      {"items { spec { " + kSwinTable + " } table { positions { range { count: 4 } } } }",
       {kBad, "items[0].table", "window_bias", "bias"}},
  });
}

TEST(WindowBiasParserTest, ErrorsOfContinuousWindows) {
  const auto spec = [](const std::string& fields, std::vector<int64_t> w1, std::vector<int64_t> b1,
                       std::vector<int64_t> w2) {
    return Item("continuous_window_bias { " + fields + " } " + Ones("w1", w1) + Ones("b1", b1) + Ones("w2", w2), kFour);
  };
  const std::string two = "window_height: 2 window_width: 2";
  EXPECT_TRUE(ItemStatus(Precompute(spec(two, {5, 2}, {5}, {3, 5}))).ok());
  ExpectErrors({
      {spec("window_height: 2", {5, 2}, {5}, {3, 5}),
       {kBad, "items[0].spec.continuous_window_bias.window_width", "nothing", "1 … 4096"}},
      {spec(two + " pretrained_height: 1", {5, 2}, {5}, {3, 5}),
       {kBad, "items[0].spec.continuous_window_bias.pretrained_height", "1", "2 … 4096"}},
      {spec(two + " pretrained_width: -3", {5, 2}, {5}, {3, 5}),
       {kBad, "items[0].spec.continuous_window_bias.pretrained_width", "-3", "2 … 4096"}},
      {spec(two, {5, 3}, {5}, {3, 5}), {kBad, "items[0].spec.weights[0].tensor.shape", "[5, 3]", "[hidden, 2]"}},
      {spec(two, {5, 2}, {4}, {3, 5}), {kBad, "items[0].spec.weights[1].tensor.shape", "[4]", "[5]"}},
      {spec(two, {5, 2}, {5}, {3, 4}), {kBad, "items[0].spec.weights[2].tensor.shape", "[3, 4]", "[heads, 5]"}},
      {Item("continuous_window_bias { " + two + " } " + Ones("w1", {5, 2}), kFour),
       {kBad, "items[0].spec.weights", "no b1", "b1 [5]"}},
  });
}

TEST(WindowBiasParserTest, ErrorsOfFire) {
  const std::string rest = Ones("w1", {5, 1}) + Ones("b1", {5}) + Ones("w2", {3, 5}) + Ones("b2", {3});
  ExpectErrors({
      {Item("fire { c: 0 } " + rest, kFour), {kBad, "items[0].spec.fire.c", "0", "> 0"}},
      {Item("fire { threshold: -1 } " + rest, kFour), {kBad, "items[0].spec.fire.threshold", "-1", "> 0"}},
      {Item("fire { epsilon: -1 } " + rest, kFour), {kBad, "items[0].spec.fire.epsilon", "-1", "0 …"}},
      {Item("fire {} " + Ones("w1", {5, 2}), kFour),
       {kBad, "items[0].spec.weights[0].tensor.shape", "[5, 2]", "[width, 1]"}},
      {Item("fire {} " + Ones("w1", {5, 1}) + Ones("b1", {5}) + Ones("w2", {3, 5}), kFour),
       {kBad, "items[0].spec.weights", "no b2", "b2 [3]"}},
      {Item(kFire, kFour + " form: BIAS_FORM_VECTOR"),
       {kBad, "items[0].bias.form", "BIAS_FORM_VECTOR", "BIAS_FORM_FULL, BIAS_FORM_ROW"}},
      {Item(kFire, kFour + " indices: true"), {kBad, "items[0].bias.indices", "indices of fire", "unset"}},
      {Item(kFire, "keys: 4"), {kBad, "items[0].bias.queries", "nothing", "1 or more"}},
      {Item(kFire, kFour + " query_offset: 9999999999"), {kBad, "items[0].bias.query_offset", "9999999999", "max_position"}},
  });
}

TEST(WindowBiasParserTest, ErrorsOfDynamicPositionBias) {
  const std::string w1 = Ones("w1", {4, 1}) + Ones("b1", {4}), w2 = Ones("w2", {2, 4}) + Ones("b2", {2});
  ExpectErrors({
      {Item("dynamic_position_bias {}", kFour), {kBad, "items[0].spec.weights", "no w1", "w1, b1, w2, b2"}},
      {Item("dynamic_position_bias {} " + w1, kFour), {kBad, "items[0].spec.weights", "no w2", "w1, b1, w2, b2"}},
      {Item("dynamic_position_bias {} " + w1 + Ones("w3", {2, 4}), kFour),
       {kBad, "items[0].spec.weights", "no w2", "every layer"}},
      {Item("dynamic_position_bias {} " + w1 + Ones("w2", {2, 5}), kFour),
       {kBad, "items[0].spec.weights[2].tensor.shape", "[2, 5]", "[heads, 4]"}},
      {Item("dynamic_position_bias {} " + w1 + w2 + Ones("g1", {4}), kFour),
       {kBad, "items[0].spec.weights[4]", "g1", "layer_norm is not set"}},
      {Item("dynamic_position_bias {} " + w1 + w2 + Ones("b3", {4}), kFour),
       {kBad, "items[0].spec.weights[4]", "b3", "there is no such layer"}},
      {Item("dynamic_position_bias { layer_norm: true } " + w1 + w2, kFour),
       {kBad, "items[0].spec.weights", "no g1", "g1 [4]"}},
      {Item("dynamic_position_bias {} " + Ones("w9", {4, 1}), kFour), {kBad, "items[0].spec.weights[0].name", "w9", "w1"}},
  });
}

TEST(WindowBiasParserTest, ErrorsOfForgettingBias) {
  ExpectErrors({
      {Item("forgetting_bias {}", kFour), {kBad, "items[0].spec.weights", "no gates", "gates [heads, keys]"}},
      {Item("forgetting_bias {} " + Ones("gates", {8}), kFour),
       {kBad, "items[0].spec.weights[0].tensor.shape", "[8]", "[heads, keys]"}},
      {Item("forgetting_bias {} " + Ones("gates", {2, 8}, NAN), kFour),
       {kBad, "items[0].spec.weights[0].tensor", "NaN at element 0", "finite numbers"}},
      {Item(kGates, "queries: 2 keys: 9"), {kBad, "items[0].bias.query_offset", "a query at position 8", "0 … 7"}},
      {Item(kGates, "queries: 2 keys: 9 query_offset: 0"), {kBad, "items[0].bias.keys", "a key at position 8", "0 … 7"}},
      {Item(kGates, "queries: 2 keys: 8 query_offset: -1"), {kBad, "items[0].bias.query_offset", "position -1", "0 … 7"}},
  });
}

TEST(WindowBiasParserTest, ErrorsOfTupe) {
  const auto tupe = [](const std::string& fields, const std::string& more) {
    return Item("tupe { " + fields + " } " + kQ + kK + more, "queries: 6 keys: 6");
  };
  ExpectErrors({
      {tupe("num_buckets: 5", Ones("bias", {5, 2})), {kBad, "items[0].spec.tupe.num_buckets", "5", "even"}},
      {tupe("num_buckets: 2", Ones("bias", {2, 2})), {kBad, "items[0].spec.tupe.num_buckets", "2", "4 … 65536"}},
      {tupe("num_buckets: 8 max_distance: 2", Ones("bias", {8, 2})), {kBad, "items[0].spec.tupe.max_distance", "2", "3 …"}},
      {tupe("num_buckets: 8", ""), {kBad, "items[0].spec.weights", "no bias", "bias [8, 2]"}},
      {tupe("", Ones("bias", {2, 4})), {kBad, "items[0].spec.weights[2].tensor.shape[1]", "4", "an odd number"}},
      {tupe("", Ones("bias", {3, 5})), {kBad, "items[0].spec.weights[2].tensor.shape", "[3, 5]", "[2, 2·max − 1]"}},
      {tupe("", Ones("untied", {2, 3})), {kBad, "items[0].spec.weights[2].tensor.shape", "[2, 3]", "[2, 2]"}},
      {Item("tupe {} " + kQ, kFour), {kBad, "items[0].spec.weights", "no k", "k [2, positions, 4]"}},
      {Item("tupe {} " + kQ + kK, "queries: 6 keys: 7"), {kBad, "items[0].bias.query_offset", "position 6", "0 … 5"}},
  });
}

std::string Resize(const std::string& fields, const std::string& more = "", const std::string& shape = "[4, 3]",
                   size_t bytes = 48) {
  return "items { resize { " + fields + " } tensors { dtype: DTYPE_F32 shape: " + shape + " data: \"" +
         std::string(bytes, 'x') + "\" } " + more + " }";
}

TEST(ResizeParserTest, WhatIsGoodIsTaken) {
  const auto batch = Apply(Resize("source: 2 source: 2 target: 3 target: 5"));
  ASSERT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
  EXPECT_EQ(Only(batch).work->outputs[0].shape, (std::vector<int64_t>{15, 3}));
  EXPECT_EQ(Only(batch).payload_bytes, 15 * 3 * 4);
  const auto kept = Apply(Resize("source: 2 target: 7 extra_rows_first: 1 extra_rows_last: 1"));
  EXPECT_EQ(Only(kept).work->outputs[0].shape, (std::vector<int64_t>{9, 3}));
}

TEST(ResizeParserTest, Errors) {
  const std::vector<Bad> cases = {
      {Resize("target: 3"), {kBad, "items[0].resize.source", "nothing", "1 or 2 extents"}},
      {Resize("source: 4 target: 1 target: 1 target: 1"), {kBad, "items[0].resize.target", "3 extents", "1 or 2 extents"}},
      {Resize("source: 4 target: 0"), {kBad, "items[0].resize.target[0]", "0", "1 … "}},
      {Resize("source: 2 source: 2 target: 3"), {kBad, "items[0].resize.target", "1 extents", "2, as source has"}},
      {Resize("source: 3 target: 3"), {kBad, "items[0].tensors[0].shape", "[4, 3]", "[3, columns]"}},
      {Resize("source: 4 target: 3", "", "[12]"), {kBad, "items[0].tensors[0].shape", "[12]", "[4, columns]"}},
      {Resize("source: 4 target: 3 extra_rows_first: -1"), {kBad, "items[0].resize.extra_rows_first", "-1", "0 … "}},
      {Resize("source: 4 target: 3 extra_rows_last: -1"), {kBad, "items[0].resize.extra_rows_last", "-1", "0 … "}},
      {Resize("source: 4 target: 3 interpolation: 9"), {kBad, "items[0].resize.interpolation", "9", "INTERPOLATION_LINEAR"}},
      {Resize("source: 4 target: 3 interpolation: INTERPOLATION_NEAREST antialias: true"),
       {kBad, "items[0].resize.antialias", "INTERPOLATION_NEAREST", "INTERPOLATION_CUBIC"}},
      {Resize("source: 4 target: 3 antialias: true align_corners: true"),
       {kBad, "items[0].resize.align_corners", "antialias", "false"}},
      {Resize("source: 4 target: 3 interpolation: INTERPOLATION_NEAREST align_corners: true"),
       {kBad, "items[0].resize.align_corners", "INTERPOLATION_NEAREST", "false"}},
      {Resize("source: 4 target: 3", "spec { rope { head_dim: 8 } }"), {kBad, "items[0].spec", "a spec", "none"}},
      {Resize("source: 4 target: 3", "positions { range { count: 4 } }"), {kBad, "items[0].positions", "positions", "none"}},
      {Resize("source: 4 target: 3", "layout: LAYOUT_BSHD"), {kBad, "items[0].layout", "1", "unset"}},
      {Resize("source: 4 target: 3", "roles: TENSOR_ROLE_KEY"), {kBad, "items[0].roles", "1 roles", "none"}},
      {"items { resize { source: 4 target: 3 } }", {kBad, "items[0].tensors", "nothing", "1 … "}},
  };
  for (const Bad& c : cases) ExpectError(ItemStatus(Apply(c.item)), c.expected, c.item);
}

}  // namespace
}  // namespace phasor::server
