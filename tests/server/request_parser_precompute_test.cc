#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/request_parser.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

TEST(ParsePrecomputeTest, DefaultsAreFilled) {
  const auto batch = Precompute(absl::StrCat("items { ", kRope, " table { positions { range { count: 4 } } } }"));
  ASSERT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
  const PrecomputeItem& item = Only(batch);
  EXPECT_EQ(item.dtype, DType::kF32);
  EXPECT_EQ(item.source.precision, Precision::kExact);
  EXPECT_EQ(item.source.sequence_length, std::nullopt);
  EXPECT_EQ(std::get<RopeSpec>(item.source.spec.spec).base, 10000.0);
  const auto& table = std::get<TableRequest>(item.window);
  EXPECT_EQ(table.form, TableForm::kHalf);
  EXPECT_EQ(table.positions.count, 4);
  EXPECT_EQ(table.positions.start, 0);
  EXPECT_EQ(table.positions.stride, 1);
  EXPECT_EQ(table.positions.largest, 3);
  EXPECT_TRUE(table.positions.ids.empty());
  EXPECT_EQ(item.payload_bytes, 2 * 4 * 4 * 4);
  EXPECT_EQ(batch->charged_bytes(), item.payload_bytes);
  EXPECT_FALSE(batch->validate_only());
}

TEST(ParsePrecomputeTest, PayloadSizesByFormAndType) {
  struct Case {
    const char* item;
    int64_t bytes;
  };
  for (const Case& c : {
           Case{"spec { rope { head_dim: 8 } } dtype: DTYPE_BF16 table { positions { range { count: 3 } } }", 2 * 3 * 4 * 2},
           Case{"spec { rope { head_dim: 8 rotary_dim: 4 } } table { positions { range { count: 3 } } form: "
                "TABLE_FORM_DUPLICATED }",
                2 * 3 * 4 * 4},
           Case{"spec { rope { head_dim: 8 } } dtype: DTYPE_F64 table { positions { range { count: 3 } } form: "
                "TABLE_FORM_CONCATENATED include_inv_freq: true }",
                3 * 8 * 8 + 4 * 8},
           Case{"spec { rope { head_dim: 8 } } dtype: DTYPE_F16 table { positions { range { count: 3 } } form: "
                "TABLE_FORM_INTERLEAVED_DUPLICATED }",
                2 * 3 * 8 * 2},
           Case{"spec { sinusoidal { dim: 7 } } table { positions { range { count: 3 } } include_inv_freq: true }",
                3 * 7 * 4 + 4 * 8},
           Case{"spec { sinusoidal { dim: 7 spacing: SINUSOIDAL_SPACING_ENDPOINT_INCLUSIVE layout: "
                "SINUSOIDAL_LAYOUT_CONCATENATED } } table { positions { range { count: 3 } } include_inv_freq: true }",
                3 * 7 * 4 + 3 * 8},
           Case{"spec { rope { head_dim: 8 } } table { positions { range { count: 0 } } }", 0},
           Case{"spec { alibi { num_heads: 6 } } bias { queries: 3 keys: 5 }", 6 * 7 * 4},
           Case{"spec { alibi { num_heads: 6 } } bias { queries: 3 keys: 5 form: BIAS_FORM_FULL first_head: 2 head_count: 3 "
                "}",
                3 * 15 * 4},
           Case{"spec { alibi { num_heads: 6 } } dtype: DTYPE_F64 bias { queries: 3 keys: 5 form: BIAS_FORM_ROW first_head: "
                "5 }",
                5 * 8},
       }) {
    const auto batch = Precompute(absl::StrCat("items { ", c.item, " }"));
    ASSERT_TRUE(ItemStatus(batch).ok()) << c.item << ItemStatus(batch);
    EXPECT_EQ(Only(batch).payload_bytes, c.bytes) << c.item;
  }
}

TEST(ParsePrecomputeTest, BiasDefaults) {
  const auto batch = Precompute("items { spec { alibi { num_heads: 6 } } bias { queries: 3 keys: 5 first_head: 2 } }");
  ASSERT_TRUE(ItemStatus(batch).ok());
  const auto& bias = std::get<BiasRequest>(Only(batch).window);
  EXPECT_EQ(bias.query_offset, 2);
  EXPECT_EQ(bias.first_head, 2);
  EXPECT_EQ(bias.heads, 4);
  EXPECT_EQ(bias.form, BiasForm::kVector);
}

TEST(ParsePrecomputeTest, Positions) {
  struct Case {
    std::string positions;
    std::vector<int64_t> wanted;
  };
  const std::string i32 = Escaped<int32_t>({7, -2, 9, 1});
  const std::string i64 = Escaped<int64_t>({7, -2, 2147483647, 1});
  for (const Case& c : std::vector<Case>{
           {"range { start: -3 count: 4 stride: 2 }", {-3, -1, 1, 3}},
           {"range { start: 5 count: 3 stride: -5 } sequence_offsets: 10", {15, 10, 5}},
           {"range { count: 1 stride: 9223372036854775807 }", {0}},
           {"list { ids: [4, -4, 0] }", {4, -4, 0}},
           {"list { ids: [4, -4, 0] } sequence_offsets: -1", {3, -5, -1}},
           {"list { }", {}},
           {"ids { dtype: DTYPE_I32 shape: 4 data: " + i32 + " }", {7, -2, 9, 1}},
           {"ids { dtype: DTYPE_I64 shape: 4 data: " + i64 + " }", {7, -2, 2147483647, 1}},
           {"ids { dtype: DTYPE_I32 shape: 3 strides: 1 data: " + i32 + " }", {7, -2, 9}},
           {"mask { mask { dtype: DTYPE_BOOL shape: 5 data: \"\\000\\001\\001\\000\\001\" } }", {0, 0, 1, 0, 2}},
           {"mask { mask { dtype: DTYPE_BOOL shape: [2, 2] data: \"\\000\\001\\001\\001\" } pad_position: 1 }",
            {1, 0, 0, 1}},
           {"mask { mask { dtype: DTYPE_BOOL shape: [2, 2] data: \"\\000\\001\\001\\001\" } } sequence_offsets: [10, 20]",
            {10, 10, 20, 21}},
           {"mask { mask { dtype: DTYPE_BOOL shape: [2, 2] strides: [3, 1] data: \"\\000\\001\\007\\001\\001\" } }",
            {0, 0, 0, 1}},
           {"mask { mask { dtype: DTYPE_I32 shape: 2 data: " + Escaped<int32_t>({1, 1}) + " } }", {0, 1}},
           {"packed { cu_seqlens: [0, 2, 2, 5] }", {0, 1, 0, 1, 2}},
           {"packed { cu_seqlens: [0, 2, 2, 5] } sequence_offsets: [10, 20, 30]", {10, 11, 30, 31, 32}},
           {"packed { cu_seqlens: 0 }", {}},
       }) {
    const auto batch = Precompute(absl::StrCat("items { ", kRope, " table { positions { ", c.positions, " } } }"));
    ASSERT_TRUE(ItemStatus(batch).ok()) << c.positions << ItemStatus(batch);
    const PositionSet& set = std::get<TableRequest>(Only(batch).window).positions;
    ASSERT_EQ(set.count, static_cast<int64_t>(c.wanted.size())) << c.positions;
    for (int64_t row = 0; row < set.count; ++row) EXPECT_EQ(set.at(row), c.wanted[static_cast<size_t>(row)]) << c.positions;
    const auto largest = std::max_element(c.wanted.begin(), c.wanted.end());
    EXPECT_EQ(set.largest, largest == c.wanted.end() ? -1 : *largest) << c.positions;
  }
}

TEST(ParsePrecomputeTest, EnumsMapByName) {
  const auto batch = Precompute(
      "items { spec { sinusoidal { dim: 8 layout: SINUSOIDAL_LAYOUT_CONCATENATED } } precision: PRECISION_COMPAT_F32"
      " table { positions { range { count: 1 } } } if_fingerprint_not: \"0123456789abcdef0123456789abcdef\" }");
  ASSERT_TRUE(ItemStatus(batch).ok());
  EXPECT_EQ(Only(batch).source.precision, Precision::kCompatF32);
  EXPECT_EQ(std::get<TableRequest>(Only(batch).window).form, TableForm::kSinCosConcatenated);
  EXPECT_EQ(Only(batch).if_fingerprint_not, "0123456789abcdef0123456789abcdef");
}

TEST(ParsePrecomputeTest, SequenceLengthIsKeptWhereTheSchemeNeedsItOnly) {
  const std::string table = " sequence_length: 8192 table { positions { range { count: 1 } } } }";
  EXPECT_EQ(Only(Precompute(absl::StrCat("items { ", kRope, table))).source.sequence_length, std::nullopt);
  const auto batch =
      Precompute("items { spec { rope { head_dim: 8 dynamic_ntk { factor: 2 max_position: 4096 } } }" + table);
  ASSERT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
  EXPECT_EQ(Only(batch).source.sequence_length, 8192);
}

TEST(ParsePrecomputeTest, ItemErrors) {
  struct Case {
    std::string item;
    Expected expected;
  };
  const std::string rope = kRope;
  const std::string table = rope + " table { positions { range { count: 4 } } }";
  const auto positions = [&](const std::string& text) { return rope + " table { positions { " + text + " } }"; };
  const auto bias = [&](const std::string& text) { return "spec { alibi { num_heads: 4 } } bias { " + text + " }"; };
  for (const Case& c : std::vector<Case>{
           {"", {kBad, "items[0].spec", "nothing", "one of rope, sinusoidal, alibi"}},
           {"spec { }", {kBad, "items[0].spec", "nothing", "rope"}},
           {"spec { rope { head_dim: 8 rotary_dim: 7 } } table { positions { range { count: 1 } } }",
            {kBad, "items[0].spec.rope.rotary_dim", "7", "2 … 8"}},
           {"spec { rope { head_dim: 8 pairing: 5 } }",
            {kBad, "items[0].spec.rope.pairing", "5", "PAIRING_INTERLEAVED (2)"}},
           {"spec { rope { head_dim: 8 dynamic_ntk { factor: 2 max_position: 9 } } }",
            {kBad, "items[0].sequence_length", "nothing", "depend on it"}},
           {"spec { rope { } }", {kBad, "items[0].spec.rope.head_dim", "nothing", "2 … 65536"}},
           {"spec { rope { head_dim: 8 base: 0 } }", {kBad, "items[0].spec.rope.base", "0", "> 0"}},
           {"spec { rope { head_dim: 8 linear { } } }", {kBad, "items[0].spec.rope.linear.factor", "nothing", "> 0"}},
           {"spec { rope { head_dim: 8 linear { factor: -1 } } }", {kBad, "items[0].spec.rope.linear.factor", "-1", "> 0"}},
           {"spec { rope { head_dim: 8 yarn { factor: 2 } } }",
            {kBad, "items[0].spec.rope.yarn.original_max_position", "nothing", "1 … 2147483648"}},
           {"spec { rope { head_dim: 8 yarn { factor: 2 original_max_position: 9 beta_fast: 0 } } }",
            {kBad, "items[0].spec.rope.yarn.beta_fast", "0", "…"}},
           {"spec { alibi { } }", {kBad, "items[0].spec.alibi.num_heads", "nothing", "1 … 65536"}},
           {table + " sequence_length: 0", {kBad, "items[0].sequence_length", "0", "1 … 2147483648"}},
           {table + " precision: 7", {kBad, "items[0].precision", "7", "PRECISION_EXACT (1), PRECISION_COMPAT_F32 (2)"}},
           {table + " dtype: DTYPE_I32",
            {kBad, "items[0].dtype", "DTYPE_I32", "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16"}},
           {table + " dtype: 99", {kBad, "items[0].dtype", "99", "DTYPE_F32"}},
           {table + " if_fingerprint_not: \"short\"", {kBad, "items[0].if_fingerprint_not", "5 bytes", "32 bytes"}},
           {rope, {kBad, "items[0].window", "nothing", "table"}},
           {rope + " bias { queries: 1 keys: 1 }", {kBad, "items[0].bias", "a bias for spec.rope", "table"}},
           {"spec { alibi { num_heads: 4 } } table { positions { range { count: 1 } } }",
            {kBad, "items[0].table", "alibi", "bias"}},
           {rope + " table { positions { range { count: 4 } } form: 9 }",
            {kBad, "items[0].table.form", "9", "TABLE_FORM_HALF (1)"}},
           {"spec { sinusoidal { dim: 8 } } table { positions { range { count: 4 } } form: TABLE_FORM_HALF }",
            {kBad, "items[0].table.form", "TABLE_FORM_HALF", "unset"}},
           {rope + " table { }", {kBad, "items[0].table.positions", "nothing", "range, list, ids, mask, packed"}},
           {positions("range { }"), {kBad, "items[0].table.positions.range.count", "nothing", "0 or more"}},
           {positions("range { count: -1 }"), {kBad, "items[0].table.positions.range.count", "-1", "0 or more"}},
           {positions("range { count: 2 stride: 0 }"), {kBad, "items[0].table.positions.range.stride", "0", "any other"}},
           {positions("range { count: 2 start: 2147483648 }"),
            {kBad, "items[0].table.positions.range.start", "2147483648", "-2147483647 … 2147483647"}},
           {positions("range { count: 0 start: -9223372036854775808 } sequence_offsets: -5"),
            {kBad, "items[0].table.positions.range.start", "-9223372036854775808", "2147483647"}},
           {positions("range { count: 2 start: 2147483647 }"),
            {kBad, "items[0].table.positions.range", "last position 2147483648", "-2147483647 … 2147483647"}},
           {positions("range { count: 3 stride: 9223372036854775807 }"),
            {kBad, "items[0].table.positions.range", "a last position", "max_position"}},
           {positions("range { start: 2147483640 count: 10 } sequence_offsets: -1"),
            {kBad, "items[0].table.positions.range", "last position 2147483649", "max_position"}},
           {positions("range { start: 2147483640 count: 2 } sequence_offsets: 7"),
            {kBad, "items[0].table.positions.range", "last position 2147483648 with the offset 7", "max_position"}},
           {positions("range { start: 2147483640 count: 2 } sequence_offsets: 10"),
            {kBad, "items[0].table.positions.range", "first position 2147483650 with the offset 10", "max_position"}},
           {positions("range { count: 16777217 }"), {kBad, "items[0].table.positions.range", "16777217", "16777216"}},
           {positions("list { ids: [0, 1, -2147483648, 2147483648] }"),
            {kBad, "items[0].table.positions.list.ids[2]", "-2147483648", "max_position"}},
           {positions("list { ids: 2147483647 } sequence_offsets: 1"),
            {kBad, "items[0].table.positions.list.ids[0]", "2147483648", "max_position"}},
           {positions("list { ids: 1 } sequence_offsets: 9223372036854775807"),
            {kBad, "items[0].table.positions.sequence_offsets[0]", "9223372036854775807", "max_position"}},
           {positions("list { ids: 1 } sequence_offsets: [1, 2]"),
            {kBad, "items[0].table.positions.sequence_offsets", "2 entries", "1, one per batch row"}},
           {positions("packed { cu_seqlens: [0, 1, 2] } sequence_offsets: 1"),
            {kBad, "items[0].table.positions.sequence_offsets", "1 entries", "2, one per sequence"}},
           {positions("ids { shape: 1 data: \"1234\" }"),
            {kBad, "items[0].table.positions.ids.dtype", "DTYPE_UNSPECIFIED", "DTYPE_I32, DTYPE_I64"}},
           {positions("multi_axis { axes { } }"), {kBad, "items[0].table.positions.multi_axis.axes", "1 axes", "2 … 4"}},
           {positions("context_parallel { size: 2 }"),
            {kBad, "items[0].table.positions.context_parallel.cu_seqlens", "nothing", "end of every sequence"}},
           {positions("mask { }"), {kBad, "items[0].table.positions.mask.mask", "nothing", "0 and 1"}},
           {positions("mask { mask { dtype: DTYPE_BOOL shape: 2 data: \"\\001\\002\" } }"),
            {kBad, "items[0].table.positions.mask.mask[0, 1]", "2", "0 or 1"}},
           {positions("mask { mask { dtype: DTYPE_BOOL shape: 1 data: \"\\001\" } pad_position: 2 }"),
            {kBad, "items[0].table.positions.mask.pad_position", "2", "0 or 1"}},
           {positions("packed { }"), {kBad, "items[0].table.positions.packed.cu_seqlens", "nothing", "at least 1"}},
           {positions("packed { cu_seqlens: [1, 2] }"), {kBad, "items[0].table.positions.packed.cu_seqlens[0]", "1", "0"}},
           {positions("packed { cu_seqlens: [0, 5, 4] }"),
            {kBad, "items[0].table.positions.packed.cu_seqlens[2]", "4", "at least 5"}},
           {positions("packed { cu_seqlens: [0, 9223372036854775807] }"),
            {kBad, "items[0].table.positions.packed.cu_seqlens", "9223372036854775807", "max_positions"}},
           {"spec { sinusoidal { dim: 8 position_offset: 2 } } table { positions { range { start: 2147483646 count: 1 } } }",
            {kBad, "items[0].table.positions", "position_offset 2", "2147483647"}},
           {bias("queries: 0 keys: 4"), {kBad, "items[0].bias.queries", "nothing", "1 or more"}},
           {bias("queries: 4"), {kBad, "items[0].bias.keys", "nothing", "1 or more"}},
           {bias("queries: 99999999999 keys: 1"), {kBad, "items[0].bias.queries", "99999999999", "max_positions"}},
           {bias("queries: 4 keys: 4 query_offset: 2147483645"),
            {kBad, "items[0].bias.query_offset", "2147483645", "2147483644"}},
           {bias("queries: 4 keys: 4 query_offset: -9223372036854775808"),
            {kBad, "items[0].bias.query_offset", "-9223372036854775808", "-2147483647"}},
           {bias("queries: 4 keys: 4 first_head: 4"), {kBad, "items[0].bias.first_head", "4", "0 … 3"}},
           {bias("queries: 4 keys: 4 first_head: -1"), {kBad, "items[0].bias.first_head", "-1", "0 … 3"}},
           {bias("queries: 4 keys: 4 first_head: 1 head_count: 4"), {kBad, "items[0].bias.head_count", "4", "1 … 3"}},
           {bias("queries: 4 keys: 4 first_head: 1 head_count: 9223372036854775807"),
            {kBad, "items[0].bias.head_count", "9223372036854775807", "1 … 3"}},
           {bias("queries: 4 keys: 4 form: 8"), {kBad, "items[0].bias.form", "8", "BIAS_FORM_FULL (1)"}},
           {bias("queries: 16777216 keys: 16777216 form: BIAS_FORM_FULL"),
            {kBad, "items[0].bias", "1125899906842624", "max_item_elements"}},
           {"spec { rope { head_dim: 4096 } } dtype: DTYPE_F64 table { positions { range { count: 65536 } } form: "
            "TABLE_FORM_DUPLICATED }",
            {kBad, "items[0].table", "4294967296", "max_item_bytes"}},
       }) {
    ExpectError(ItemStatus(Precompute("items { " + c.item + " }")), c.expected, c.item);
  }
}

// Of an item that comes in pieces a flag bounds the bytes: errors name that one, not what keeps products from overflowing.
TEST(ParsePrecomputeTest, StreamsNameTheLimitThatIsInForce) {
  Limits limits;
  limits.max_stream_bytes = int64_t{1} << 33;
  const auto status = [&](const std::string& bias) {
    const auto stream = RequestParser(limits).ParseStreamPrecompute(ToWire(FromText<v1::StreamPrecomputeRequest>(
        absl::StrCat("items { spec { alibi { num_heads: 65536 } } bias { ", bias, " form: BIAS_FORM_FULL } }"))));
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.ok() ? stream->batch.items()[0].status() : stream.status();
  };
  const auto says = [&](const std::string& bias) { return std::string(status(bias).message()); };
  EXPECT_EQ(
      says("queries: 65536 keys: 65536"),
      "items[0].bias: given 1125899906842624 bytes of answer; allowed: up to 8589934592 (the server's max_stream_bytes)");
  EXPECT_EQ(
      says("queries: 1048576 keys: 1048576"),
      "items[0].bias: given 72057594037927936 elements, of a byte or more each; allowed: up to 8589934592 (the server's "
      "max_stream_bytes)");
  EXPECT_EQ(says("queries: 2147483647 keys: 2147483647"),
            "items[0].bias: given a size that does not fit in 63 bits; allowed: up to 8589934592 bytes (the server's "
            "max_stream_bytes)");
  ExpectError(ItemStatus(Precompute("items { spec { alibi { num_heads: 65536 } } bias { queries: 65536 keys: 65536 form: "
                                    "BIAS_FORM_FULL } }",
                                    limits)),
              {kBad, "items[0].bias", "281474976710656", "max_item_elements"}, "unary");
}

// Rows of sinusoids are positions after the offset.
TEST(ParsePrecomputeTest, TheServersMaximumHoldsForRowsToo) {
  Limits limits;
  limits.max_position = 1000;
  const auto parse = [&](int64_t start, int64_t offset) {
    return ItemStatus(Precompute(absl::StrCat("items { spec { sinusoidal { dim: 8 position_offset: ", offset,
                                              " } } table { positions { range { start: ", start, " count: 2 } } } }"),
                                 limits));
  };
  EXPECT_TRUE(parse(900, 99).ok());
  EXPECT_TRUE(parse(-900, -100).ok());
  const Expected expected{kBad, "items[0].table.positions", "with position_offset",
                          "-1000 … 1000 (the server's max_position)"};
  ExpectError(parse(900, 100), expected, "901 + 100");
  ExpectError(parse(-900, -101), expected, "-900 - 101");
}

}  // namespace
}  // namespace phasor::server
