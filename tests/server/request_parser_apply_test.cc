#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/request_parser.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;

TEST(ParseApplyTest, LayoutsAndStrides) {
  struct Case {
    const char* layout;
    const char* shape;
    std::vector<int64_t> extents;  // batch, sequence, heads
    std::vector<int64_t> strides;
  };
  for (const Case& c :
       {Case{"LAYOUT_UNSPECIFIED", "[2, 3, 2, 4]", {2, 3, 2}, {24, 8, 4}},
        Case{"LAYOUT_BSHD", "[2, 3, 2, 4]", {2, 3, 2}, {24, 8, 4}},
        Case{"LAYOUT_BHSD", "[2, 3, 2, 4]", {2, 2, 3}, {24, 4, 8}},
        Case{"LAYOUT_SBHD", "[2, 3, 2, 4]", {3, 2, 2}, {8, 24, 4}}, Case{"LAYOUT_THD", "[6, 2, 4]", {1, 6, 2}, {0, 8, 4}}}) {
    const auto batch = Apply(ApplyText(absl::StrCat("layout: ", c.layout), c.shape));
    ASSERT_TRUE(ItemStatus(batch).ok()) << c.layout << ItemStatus(batch);
    const TensorInput& t = Only(batch).tensors[0];
    EXPECT_THAT((std::vector<int64_t>{t.batch, t.sequence, t.heads}), testing::ElementsAreArray(c.extents)) << c.layout;
    EXPECT_THAT((std::vector<int64_t>{t.batch_stride, t.sequence_stride, t.head_stride}),
                testing::ElementsAreArray(c.strides))
        << c.layout;
    EXPECT_EQ(t.head_dim, 4);
    EXPECT_EQ(t.bytes, 192);
    EXPECT_TRUE(t.strides.empty());
    EXPECT_EQ(TotalSize(t.payload), 192);
    EXPECT_EQ(Only(batch).positions.count, c.extents[1]);
    EXPECT_FALSE(Only(batch).per_batch);
    EXPECT_EQ(Only(batch).payload_bytes, 192);
    EXPECT_EQ(batch->charged_bytes(), 384);
  }
}

TEST(ParseApplyTest, GivenStrides) {
  // BSHD whose memory is BHSD with padded rows.
  const auto strided = [](const std::string& strides, size_t bytes) {
    return ItemStatus(
        Apply("items { spec { rope { head_dim: 4 } } tensors { dtype: DTYPE_BF16 shape: [2, 3, 2, 4] strides: " + strides +
              " data: \"" + std::string(bytes, 'x') + "\" } }"));
  };
  EXPECT_TRUE(strided("[32, 5, 16, 1]", (32 + 10 + 16 + 4) * 2).ok());
  EXPECT_TRUE(strided("[32, 5, 16, 1]", 1000).ok());
  struct Case {
    const char* strides;
    size_t bytes;
    Expected expected;
  };
  for (const Case& c : {
           Case{"[32, 5, 16, 1]", 61 * 2, {kBad, "items[0].tensors[0].data", "122 bytes", "at least 124 bytes"}},
           Case{"[32, 5, 16]", 1000, {kBad, "items[0].tensors[0].strides", "3 entries", "4 entries"}},
           Case{"[32, 5, 16, 2]", 1000, {kBad, "items[0].tensors[0].strides[3]", "2", "1 (the last axis)"}},
           Case{"[32, -5, 16, 1]", 1000, {kBad, "items[0].tensors[0].strides[1]", "-5", "0 or more"}},
           Case{"[32, 3, 16, 1]", 1000, {kBad, "items[0].tensors[0].strides[1]", "3", "at least 4"}},
           Case{"[32, 5, 13, 1]", 1000, {kBad, "items[0].tensors[0].strides[2]", "13", "at least 14"}},
           Case{"[0, 5, 16, 1]", 1000, {kBad, "items[0].tensors[0].strides[0]", "0", "at least 1"}},
           Case{"[9223372036854775807, 5, 16, 1]",
                1000,
                {kBad, "items[0].tensors[0].strides", "9223372036854775807", "2^40"}},
       }) {
    ExpectError(strided(c.strides, c.bytes), c.expected, c.strides);
  }
}

TEST(ParseApplyTest, PayloadArrivesAsSent) {
  auto request = FromText<v1::ApplyRequest>(ApplyText(""));
  std::string bytes(192, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  request.mutable_items(0)->mutable_tensors(0)->set_data(bytes);
  const auto batch = RequestParser(Limits{}).ParseApply(ToWire(request));
  std::string found;
  for (const Bytes& piece : Only(batch).tensors[0].payload) {
    found.append(reinterpret_cast<const char*>(piece.data), static_cast<size_t>(piece.size));
  }
  EXPECT_EQ(found, bytes);
}

TEST(ParseApplyTest, Positions) {
  struct Case {
    std::string more;
    bool per_batch;
    std::vector<int64_t> wanted;
  };
  const std::string two_rows = Escaped<int32_t>({5, 6, 7, 15, 16, 17});
  for (const Case& c : std::vector<Case>{
           {"", false, {0, 1, 2}},
           {"positions { range { start: 10 } }", false, {10, 11, 12}},
           {"positions { range { start: 10 count: 3 stride: -2 } }", false, {10, 8, 6}},
           {"positions { sequence_offsets: [7, 7] }", false, {7, 8, 9}},
           {"positions { sequence_offsets: [7, 100] }", true, {7, 8, 9, 100, 101, 102}},
           {"positions { list { ids: [3, 1, 2] } }", false, {3, 1, 2}},
           {"positions { list { ids: [3, 1, 2] } sequence_offsets: [0, 10] }", true, {3, 1, 2, 13, 11, 12}},
           {"positions { list { ids: [3, 1, 2, 6, 5, 4] } sequence_offsets: [0, 10] }", true, {3, 1, 2, 16, 15, 14}},
           {"positions { ids { dtype: DTYPE_I32 shape: [2, 3] data: " + two_rows + " } }", true, {5, 6, 7, 15, 16, 17}},
           {"positions { ids { dtype: DTYPE_I32 shape: [1, 3] data: " + Escaped<int32_t>({5, 6, 7}) + " } }",
            false,
            {5, 6, 7}},
           {"positions { mask { mask { dtype: DTYPE_BOOL shape: [2, 3] data: \"\\000\\001\\001\\001\\001\\000\" } } }",
            true,
            {0, 0, 1, 0, 1, 0}},
       }) {
    const auto batch = Apply(ApplyText(c.more));
    ASSERT_TRUE(ItemStatus(batch).ok()) << c.more << ItemStatus(batch);
    const ApplyItem& item = Only(batch);
    EXPECT_EQ(item.per_batch, c.per_batch) << c.more;
    std::vector<int64_t> found;
    for (int64_t row = 0; row < item.positions.count; ++row) found.push_back(item.positions.at(row));
    EXPECT_EQ(found, c.wanted) << c.more;
  }
  const auto packed = Apply(
      ApplyText("layout: LAYOUT_THD positions { packed { cu_seqlens: [0, 4, 6] } sequence_offsets: [0, 9] }", "[6, 2, 4]"));
  ASSERT_TRUE(ItemStatus(packed).ok()) << ItemStatus(packed);
  EXPECT_THAT(Only(packed).positions.ids, ElementsAre(0, 1, 2, 3, 9, 10));
}

TEST(ParseApplyTest, QueriesAndKeysShareTokens) {
  const std::string keys =
      "tensors { dtype: DTYPE_BF16 shape: [2, 3, 1, 4] data: \"" + std::string(48, 'k') + "\" } rotate { inverse: true }";
  const auto batch = Apply(ApplyText(keys));
  ASSERT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
  EXPECT_EQ(Only(batch).tensors[1].heads, 1);
  EXPECT_EQ(Only(batch).tensors[1].dtype, DType::kBF16);
  EXPECT_TRUE(Only(batch).inverse);
  EXPECT_EQ(Only(batch).payload_bytes, 192 + 48);
}

TEST(ParseApplyTest, ValidateOnlyNeedsNoData) {
  const auto batch =
      Apply("validate_only: true items { spec { rope { head_dim: 4 } } tensors { dtype: DTYPE_F16 shape: [2, 3, 2, 4] } }");
  ASSERT_TRUE(ItemStatus(batch).ok()) << ItemStatus(batch);
  EXPECT_TRUE(batch->validate_only());
  EXPECT_EQ(Only(batch).payload_bytes, 96);
  EXPECT_TRUE(Only(batch).tensors[0].payload.empty());
}

TEST(ParseApplyTest, EmptyTensors) {
  for (const char* shape : {"[0, 3, 2, 4]", "[2, 0, 2, 4]", "[2, 3, 0, 4]"}) {
    const auto batch = Apply(ApplyText("", shape, 0));
    ASSERT_TRUE(ItemStatus(batch).ok()) << shape << ItemStatus(batch);
    EXPECT_EQ(Only(batch).payload_bytes, 0);
  }
}

TEST(ParseApplyTest, ItemErrors) {
  struct Case {
    std::string text;
    Expected expected;
  };
  const auto more = [](const std::string& text) { return ApplyText(text); };
  for (const Case& c : std::vector<Case>{
           {"items { spec { sinusoidal { dim: 4 } } }", {kBad, "items[0].spec", "does not rotate", "add"}},
           {"items { spec { alibi { num_heads: 4 } } }", {kBad, "items[0].spec", "does not rotate", "rope"}},
           {"items { }", {kBad, "items[0].spec", "nothing", "rope"}},
           {"items { spec { rope { head_dim: 4 } } }", {kBad, "items[0].tensors", "nothing", "1 … 16"}},
           {more("layout: 9"), {kBad, "items[0].layout", "9", "LAYOUT_BSHD (1), LAYOUT_BHSD (2)"}},
           {more("layout: LAYOUT_THD"), {kBad, "items[0].tensors[0].shape", "4 axes", "3 axes [tokens, heads, channels]"}},
           {ApplyText("", "[2, 3, 8]"), {kBad, "items[0].tensors[0].shape", "3 axes", "4 axes [batch, sequence"}},
           {ApplyText("", "[2, 3, 1, 8]"), {kBad, "items[0].tensors[0].shape[3]", "8", "4, the spec's head_dim"}},
           {ApplyText("", "[2, 3, 2, 4]", 191),
            {kBad, "items[0].tensors[0].data", "191 bytes", "192 bytes for shape [2, 3, 2, 4] of DTYPE_F32"}},
           {more("tensors { dtype: DTYPE_I32 shape: [2, 3, 2, 4] }"),
            {kBad, "items[0].tensors[1].dtype", "DTYPE_I32", "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16"}},
           {more("tensors { dtype: DTYPE_F16 shape: [2, 3, 2, 4] }"),
            {kBad, "items[0].tensors[1].data", "nothing", "96 bytes"}},
           {more("tensors { dtype: DTYPE_F16 shape: [1, 3, 1, 4] data: \"" + std::string(24, 'x') + "\" }"),
            {kBad, "items[0].tensors[1].shape[0]", "1", "2, as in tensors[0]"}},
           {more("tensors { dtype: DTYPE_F16 shape: [2, 1, 1, 4] data: \"" + std::string(16, 'x') + "\" }"),
            {kBad, "items[0].tensors[1].shape[1]", "1", "3, as in tensors[0]"}},
           {more("positions { range { count: 4 } }"),
            {kBad, "items[0].positions.range.count", "4", "3, the tensors' sequence"}},
           {more("positions { list { ids: [1, 2] } }"),
            {kBad, "items[0].positions.list.ids", "2 × 1 positions", "3, the tensors' sequence"}},
           {more("positions { list { ids: [1, 2, 3, 4, 5] } }"),
            {kBad, "items[0].positions.list.ids", "5 positions", "3, the tensors' sequence"}},
           {more("positions { ids { dtype: DTYPE_I32 shape: [3, 3] data: \"" + std::string(36, '\x01') + "\" } }"),
            {kBad, "items[0].positions.ids", "3 rows", "1 or 2"}},
           {more("positions { mask { mask { dtype: DTYPE_BOOL shape: 3 data: \"\\001\\001\\001\" } } }"),
            {kBad, "items[0].positions.mask.mask.shape", "1 axes", "[batch, sequence]"}},
           {more("positions { packed { cu_seqlens: [0, 3] } }"),
            {kBad, "items[0].positions.packed", "a batch of 2", "LAYOUT_THD"}},
           {more("positions { sequence_offsets: [1, 2, 3] }"),
            {kBad, "items[0].positions.sequence_offsets", "3 entries", "2, one per batch row"}},
           {ApplyText("layout: LAYOUT_THD positions { packed { cu_seqlens: [0, 5] } }", "[6, 2, 4]"),
            {kBad, "items[0].positions.packed.cu_seqlens[1]", "5", "6, the number of tokens"}},
           {ApplyText("layout: LAYOUT_THD positions { mask { } }", "[6, 2, 4]"),
            {kBad, "items[0].positions.mask", "LAYOUT_THD", "range, list, ids or packed"}},
           {"validate_only: true items { spec { rope { head_dim: 4 } } tensors { dtype: DTYPE_F16 shape: [1, 1, 65537, 4] } "
            "}",
            {kBad, "items[0].tensors[0].shape[2]", "65537", "max_heads"}},
           {"validate_only: true items { spec { rope { head_dim: 4 } } tensors { dtype: DTYPE_F16 shape: [4096, 4097, 1, 4] "
            "} }",
            {kBad, "items[0].tensors[0].shape", "16781312", "max_positions"}},
       }) {
    ExpectError(ItemStatus(Apply(c.text)), c.expected, c.text);
  }
  std::string many;
  for (int i = 0; i < 16; ++i) many += "tensors { dtype: DTYPE_F16 shape: [2, 3, 2, 4] } ";
  ExpectError(ItemStatus(Apply(ApplyText(many))), {kBad, "items[0].tensors", "17", "16"}, "17 tensors");
}

}  // namespace
}  // namespace phasor::server
