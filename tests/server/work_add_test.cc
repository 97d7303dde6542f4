// What the parser makes of additions: every field's errors, and what decides fingerprints.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/request_parser.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

constexpr auto kBad = absl::StatusCode::kInvalidArgument;

std::string F32(const std::string& shape, int64_t elements) {
  return absl::StrCat("dtype: DTYPE_F32 shape: ", shape, " data: \"", std::string(static_cast<size_t>(4 * elements), 'x'),
                      "\"");
}

// [2, 3, 4], sinusoids of width 4.
std::string Text(const std::string& add, const std::string& more = "", const std::string& shape = "[2, 3, 4]") {
  return absl::StrCat("items { spec { sinusoidal { dim: 4 } } add { ", add, " } ", more, " tensors { ", F32(shape, 24),
                      " } }");
}

const Work& WorkOf(const absl::StatusOr<ValidatedApply>& batch) {
  EXPECT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
  return *batch->items()[0]->work;
}

TEST(ParseAddTest, Layouts) {
  for (const auto& [layout, shape] : {std::pair("LAYOUT_UNSPECIFIED", "[2, 3, 4]"),
                                      {"LAYOUT_BSD", "[2, 3, 4]"},
                                      {"LAYOUT_SBD", "[2, 3, 4]"},
                                      {"LAYOUT_TD", "[6, 4]"}}) {
    const auto batch = Apply(Text("", absl::StrCat("layout: ", layout), shape));
    const Work& work = WorkOf(batch);
    EXPECT_EQ(work.sources.size(), 1u);
    EXPECT_EQ(work.outputs.size(), 1u);
    EXPECT_EQ(work.outputs[0].input, 0);
    EXPECT_EQ(work.output_bytes(), 96);
    EXPECT_EQ(batch->charged_bytes(), 192);
  }
}

TEST(ParseAddTest, ErrorsNameTheField) {
  struct Case {
    std::string text;
    Expected expected;
  };
  const std::string other = "other { sinusoidal { dim: 4 } }";
  const std::string mask = "positions { mask { mask { dtype: DTYPE_BOOL shape: [2, 3] data: \"\\1\\1\\1\\1\\1\\1\" } } }";
  std::string halves;  // three times 0.5
  for (int i = 0; i < 3; ++i) halves += "\\0\\0\\0\\0\\0\\0\\340\\077";
  for (const Case& c : {
           Case{"items { spec { rope { head_dim: 4 } } add {} }", {kBad, "items[0].spec", "not added", "sinusoidal"}},
           {"items { spec { sinusoidal { dim: 4 } } add {} }", {kBad, "items[0].tensors", "nothing", "1"}},
           {"items { add {} }", {kBad, "items[0].spec", "nothing", "one of"}},
           {Text("", "layout: LAYOUT_BSHD"), {kBad, "items[0].layout", "LAYOUT_BSHD", "LAYOUT_TD"}},
           {Text("", "layout: 77"), {kBad, "items[0].layout", "77", "LAYOUT_SBD"}},
           {Text("", "roles: TENSOR_ROLE_KEY"), {kBad, "items[0].roles", "roles", "none"}},
           {Text("", "table {}"), {kBad, "items[0].table", "a table", "none"}},
           {Text("", "", "[6, 4]"), {kBad, "items[0].tensors[0].shape", "2 axes", "3 axes [batch, sequence, channels]"}},
           {Text("", "", "[2, 2, 6]"), {kBad, "items[0].tensors[0].shape[2]", "6", "4"}},
           {Text("", absl::StrCat("tensors { ", F32("[3, 2, 4]", 24), " }")),
            {kBad, "items[0].tensors[1].shape[0]", "2", "3, as in tensors[0]"}},
           {Text("", "positions { range { start: 2147483647 count: 3 } }"),
            {kBad, "items[0].positions.range", "2147483649", "2147483647"}},
           {Text("offsets { first { " + F32("[2, 4]", 8) + " } }",
                 "positions { ids { dtype: DTYPE_F64 shape: [3] data: \"" + halves + "\" } }"),
            {kBad, "items[0].positions", "fractional", "whole"}},
           {Text("", "positions { multi_axis { axes { dtype: DTYPE_I32 shape: [3] data: \"" + std::string(12, '\1') +
                         "\" } axes { dtype: DTYPE_I32 shape: [3] data: \"" + std::string(12, '\1') + "\" } } }"),
            {kBad, "items[0].positions", "2 axes", "one axis: several are for grid_sinusoidal"}},
           {"items { spec { learned { num_positions: 2 dim: 4 } } add {} tensors { " + F32("[2, 3, 4]", 24) + " } }",
            {kBad, "items[0].spec.weights", "nothing", "table"}},
           {Text("scale: 2 scale_sqrt_dim: true"), {kBad, "items[0].add.scale", "2 with", "one of"}},
           {Text("scale: nan"), {kBad, "items[0].add.scale", "nan", "finite"}},
           {Text("scale: 1e39"), {kBad, "items[0].add.scale", "1e+39", "holds"}},
           {Text("scale: 70000 scale_dtype: DTYPE_F16"), {kBad, "items[0].add.scale", "70000", "holds"}},
           {Text("scale: 2 scale_dtype: DTYPE_I32"), {kBad, "items[0].add.scale_dtype", "DTYPE_I32", "DTYPE_BF16"}},
           {Text("scale: 2 scale_dtype: 99"), {kBad, "items[0].add.scale_dtype", "99", "DTYPE_BF16"}},
           {Text("scale_dtype: DTYPE_BF16"), {kBad, "items[0].add.scale_dtype", "DTYPE_BF16", "without a factor"}},
           {Text("zero_padding: true"), {kBad, "items[0].add.zero_padding", "true", "positions.mask"}},
           {Text("dropout { probability: 1 }"), {kBad, "items[0].add.dropout.probability", "1", "below 1"}},
           {Text("dropout { probability: -0.1 }"), {kBad, "items[0].add.dropout.probability", "-0.1", "0 to"}},
           {Text("dropout { probability: nan }"), {kBad, "items[0].add.dropout.probability", "nan", "0 to"}},
           {Text("gate {}"), {kBad, "items[0].add.gate.other", "nothing", "width"}},
           {Text("gate { other { sinusoidal { dim: 6 } } }"), {kBad, "items[0].add.gate.other", "dim 6", "4"}},
           {Text("gate { other { alibi { num_heads: 6 } } }"), {kBad, "items[0].add.gate.other", "not added", "sinusoidal"}},
           {Text("gate { other { sinusoidal { dim: 4 } } other_sequence_length: 0 }"),
            {kBad, "items[0].add.gate.other_sequence_length", "0", "1 …"}},
           {Text("backward: true", "positions { multi_axis { axes { dtype: DTYPE_I32 shape: [3] data: \"" +
                                       std::string(12, '\1') + "\" } axes { dtype: DTYPE_I32 shape: [3] data: \"" +
                                       std::string(12, '\1') + "\" } } }"),
            {kBad, "items[0].positions", "2 axes", "one axis: several are for grid_sinusoidal"}},
           {"items { spec { grid_sinusoidal { dim: 4 columns: [2, 2] } } add { backward: true } tensors { " +
                F32("[2, 3, 4]", 24) + " } }",
            {kBad, "items[0].positions", "1 axis", "2, as the spec has"}},
           {Text("gate { other { sinusoidal { dim: 4 base: -1 } } }"),
            {kBad, "items[0].add.gate.other.sinusoidal.base", "-1", "0"}},
           {Text("gate { " + other + " gate { " + F32("[5]", 5) + " } }"),
            {kBad, "items[0].add.gate.gate.shape", "[5]", "[], [4], [3, 1] or [2, 3, 1]"}},
           {Text("gate { " + other + " gate { dtype: DTYPE_I32 data: \"1234\" } }"),
            {kBad, "items[0].add.gate.gate.dtype", "DTYPE_I32", "DTYPE_F32"}},
           {Text("gate { " + other + " gate { dtype: DTYPE_F32 data: \"12345\" } }"),
            {kBad, "items[0].add.gate.gate.data", "5 bytes", "4 bytes"}},
           {Text("backward: true gate { " + other + " }"), {kBad, "items[0].add.gate", "a gate", "backward"}},
           {Text("offsets {}"), {kBad, "items[0].add.offsets", "nothing", "first"}},
           {Text("offsets { first { " + F32("[2, 5]", 10) + " } }"),
            {kBad, "items[0].add.offsets.first.shape", "[2, 5]", "[k, 4]"}},
           {Text("offsets { last { " + F32("[8]", 8) + " } }"), {kBad, "items[0].add.offsets.last.shape", "[8]", "[k, 4]"}},
           {Text("backward: true offsets { last { " + F32("[2, 4]", 8) + " } }"),
            {kBad, "items[0].add.offsets", "offsets", "backward"}},
           {Text("offsets { last { " + F32("[2, 4]", 8) + " } }", "sequence_length: 2"),
            {kBad, "items[0].sequence_length", "2", "more than every position"}},
           {Text("offsets { last { " + F32("[2, 4]", 8) + " } }", "sequence_length: 0"),
            {kBad, "items[0].sequence_length", "0", "1 …"}},
       }) {
    ExpectError(ItemStatus(Apply(c.text)), c.expected, c.text);
  }
  EXPECT_TRUE(ItemStatus(Apply(Text("zero_padding: true", mask))).ok())
      << ItemStatus(Apply(Text("zero_padding: true", mask)));
}

TEST(ParseAddTest, TheKeyHoldsWhatDecidesBits) {
  const std::string gate = "gate { other { sinusoidal { dim: 4 base: 5 } } gate { dtype: DTYPE_F32 data: \"abcd\" } }";
  const std::string texts[] = {
      Text(""),
      Text("scale: 2"),
      Text("scale: 2.1 scale_dtype: DTYPE_F16"),
      Text("backward: true"),
      Text("backward: true scale: 2.5"),
      Text("dropout { probability: 0.5 }"),
      Text("dropout { probability: 0.5 seed: 1 }"),
      Text("dropout { probability: 0.5 offset: 1 }"),
      Text("dropout { probability: 0.25 }"),
      Text("", "positions { range { start: 1 } }"),
      Text("", "positions { list { ids: [0, 1, 3] } }"),
      Text("", "positions { sequence_offsets: [0, 1] }"),
      Text(gate),
      Text("gate { other { sinusoidal { dim: 4 base: 5 } } gate { dtype: DTYPE_F32 data: \"abce\" } }"),
      Text("gate { other { sinusoidal { dim: 4 base: 5 position_offset: 1 } } gate { dtype: DTYPE_F32 data: \"abcd\" } }"),
      Text("offsets { first { " + F32("[1, 4]", 4) + " } }"),
      Text("offsets { last { " + F32("[1, 4]", 4) + " } }"),
      Text("offsets { last { " + F32("[1, 4]", 4) + " } }", "sequence_length: 4"),
      Text("", "positions { mask { mask { dtype: DTYPE_BOOL shape: [2, 3] data: \"\\0\\1\\1\\1\\1\\1\" } } }"),
      Text("zero_padding: true",
           "positions { mask { mask { dtype: DTYPE_BOOL shape: [2, 3] data: \"\\0\\1\\1\\1\\1\\1\" } } }"),
  };
  std::set<std::string> keys;
  for (const std::string& text : texts) EXPECT_TRUE(keys.insert(WorkOf(Apply(text)).key).second) << text;
  // Spellings of one thing.
  EXPECT_EQ(WorkOf(Apply(Text("scale: 2"))).key, WorkOf(Apply(Text("scale_sqrt_dim: true"))).key);
  EXPECT_EQ(WorkOf(Apply(Text(""))).key, WorkOf(Apply(Text("scale: 1", "positions { range { count: 3 } }"))).key);
}

// Nothing that is made beside the tensors is larger than what the caller sent.
TEST(ParseAddTest, ScratchIsForNumbersOfAnotherType) {
  EXPECT_EQ(WorkOf(Apply(Text(""))).scratch_bytes, 0);
  EXPECT_EQ(WorkOf(Apply(Text("offsets { first { " + F32("[3, 4]", 12) + " } }"))).scratch_bytes, 0);
  EXPECT_EQ(
      WorkOf(Apply(Text("offsets { first { dtype: DTYPE_BF16 shape: [3, 4] data: \"" + std::string(24, 'x') + "\" } }")))
          .scratch_bytes,
      64);
}

// Places of tokens take memory, which one call may take so much of.
TEST(ParseAddTest, PlacesCount) {
  Limits limits;
  limits.max_request_bytes = 600;
  const std::string text = "items { spec { sinusoidal { dim: 1 } } add { offsets { last { " + F32("[1, 1]", 1) +
                           " } } } layout: LAYOUT_TD tensors { dtype: DTYPE_F16 shape: [200, 1] data: \"" +
                           std::string(400, 'x') + "\" } }";
  const auto batch = Apply(text, limits);
  ExpectError(ItemStatus(batch), {kBad, "items[0].add.offsets", "800", "600"}, text);
}

}  // namespace
}  // namespace phasor::server
