// sequence_offsets under rules that do more than count: the tokens of a sequence follow those that are cached.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/positions.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

using Ids = std::vector<int64_t>;

Ids IdsOf(const PositionSet& set) {
  Ids ids;
  for (int64_t row = 0; row < set.count; ++row) ids.push_back(set.at(row));
  return ids;
}

// Positions of a tensor of `batch` × `tokens`.
Ids Applied(const std::string& positions, int64_t batch, int64_t tokens) {
  const auto parsed =
      Apply(absl::StrCat("items { spec { rope { head_dim: 2 } } positions { ", positions,
                         " } tensors { dtype: DTYPE_F32 shape: [", batch, ", ", tokens, ", 1, 2] } } validate_only: true"));
  EXPECT_TRUE(ItemStatus(parsed).ok()) << ItemStatus(parsed);
  return ItemStatus(parsed).ok() ? IdsOf(Only(parsed).positions) : Ids();
}

// With 100 keys cached, key i stands at (100 + i) mod 3, not at 100 + i mod 3.
TEST(PositionOffsetsTest, ChunksAreCountedFromTheFirstCachedToken) {
  const std::string rule = "remapped { side: ATTENTION_SIDE_KEY chunk_size: 3 } sequence_offsets: ";
  EXPECT_EQ(Applied(rule + "100", 1, 5), (Ids{1, 2, 0, 1, 2}));
  EXPECT_EQ(Applied(rule + "[100, 0]", 2, 3), (Ids{1, 2, 0, 0, 1, 2}));
  EXPECT_EQ(Applied(rule + "[4, 4]", 2, 3), (Ids{1, 2, 0})) << "one row for both";
}

TEST(PositionOffsetsTest, DualChunkKeysStayWithinTheChunk) {
  const std::string rule = "remapped { side: ATTENTION_SIDE_KEY dual_chunk { chunk_size: 6 local_size: 2 } } ";
  EXPECT_EQ(Applied(rule + "sequence_offsets: 5", 1, 5), (Ids{1, 2, 3, 0, 1}));
  const std::string query =
      "remapped { side: ATTENTION_SIDE_QUERY dual_chunk { chunk_size: 6 local_size: 2 part: DUAL_CHUNK_PART_SUCCESSIVE } } ";
  EXPECT_EQ(Applied(query + "sequence_offsets: 5", 1, 3), (Ids{5, 6, 6}));
}

// While decoding with a window of 4, a query at 9 has reached it; the constant of queries counts for its row alone.
TEST(PositionOffsetsTest, SelfExtendSeesHowFarTheSequenceIs) {
  const std::string rule =
      "remapped { side: ATTENTION_SIDE_QUERY self_extend { group_size: 2 neighbor_window: 4 } } sequence_offsets: [9, 0]";
  EXPECT_EQ(Applied(rule, 2, 2), (Ids{4 + 2, 5 + 2, 0, 0}));
}

TEST(PositionOffsetsTest, PrefixOfAGridStaysAtZero) {
  const auto parsed = Precompute(
      "items { spec { rope { head_dim: 4 axes { sections: [1, 1] } } } table { positions { grid { extents: [1, 2] prefix: 2 "
      "} sequence_offsets: 5 } } }");
  const auto moved = Precompute(
      absl::StrCat("items { spec { rope { head_dim: 4 axes { sections: [1, 1] } } } table { positions { multi_axis { axes { "
                   "dtype: DTYPE_I64 shape: 4 data: ",
                   Escaped<int64_t>({0, 0, 5, 5}),
                   " } axes { dtype: DTYPE_I64 shape: 4 data: ", Escaped<int64_t>({0, 0, 5, 6}), " } } } } }"));
  ASSERT_TRUE(ItemStatus(parsed).ok() && ItemStatus(moved).ok()) << ItemStatus(parsed) << ItemStatus(moved);
  EXPECT_EQ(Only(parsed).work->key, Only(moved).work->key);
}

TEST(PositionOffsetsTest, Errors) {
  const auto item = [](const std::string& positions) {
    return absl::StrCat(
        "items { spec { rope { head_dim: 2 } } table { positions { remapped { count: 2 side: "
        "ATTENTION_SIDE_KEY chunk_size: 3 ",
        positions, " } } }");
  };
  ExpectError(ItemStatus(Precompute(item("} sequence_offsets: [1, 2]"))),
              {kBad, "items[0].table.positions.sequence_offsets", "2 entries", "none, or 1"}, "two");
  ExpectError(ItemStatus(Precompute(item("} sequence_offsets: 4294967296"))),
              {kBad, "items[0].table.positions.sequence_offsets[0]", "4294967296", "max_position"}, "far");
  ExpectError(ItemStatus(Precompute(item("start: 2147483000 } sequence_offsets: 1000"))),
              {kBad, "items[0].table.positions.sequence_offsets[0]", "1000", "remapped.start"}, "sum");
}

}  // namespace
}  // namespace phasor::server
