#include "server/request_parser.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"

#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

// Tensors, by way of ids.

TEST(ParseTensorTest, Errors) {
  struct Case {
    std::string tensor;
    Expected expected;
  };
  for (const Case& c : std::vector<Case>{
           {"dtype: DTYPE_BF16", {kBad, "items[0].table.positions.ids.dtype", "DTYPE_BF16", "DTYPE_I32, DTYPE_I64"}},
           {"dtype: 40", {kBad, "items[0].table.positions.ids.dtype", "40", "DTYPE_I32, DTYPE_I64"}},
           {"dtype: DTYPE_I32 shape: [1,1,1,1,1,1,1,1,1] data: \"1234\"",
            {kBad, "items[0].table.positions.ids.shape", "9 axes", "at most 8"}},
           {"dtype: DTYPE_I32 shape: -1", {kBad, "items[0].table.positions.ids.shape[0]", "-1", "0 or more"}},
           {"dtype: DTYPE_I32 shape: [9223372036854775807, 2]",
            {kBad, "items[0].table.positions.ids.shape", "9223372036854775807", "2^40"}},
           {"dtype: DTYPE_I32 shape: [4294967296, 4294967296, 0]",
            {kBad, "items[0].table.positions.ids.shape", "4294967296", "2^40"}},
           {"dtype: DTYPE_I32 shape: 1073741825",
            {kBad, "items[0].table.positions.ids.shape", "1073741825", "max_item_elements"}},
           {"dtype: DTYPE_I32 shape: 2", {kBad, "items[0].table.positions.ids.data", "nothing", "8 bytes"}},
           {"dtype: DTYPE_I32 shape: 2 data: \"1234567\"",
            {kBad, "items[0].table.positions.ids.data", "7 bytes", "8 bytes for shape [2] of DTYPE_I32"}},
           {"dtype: DTYPE_I32 shape: 2 data: \"123456789\"",
            {kBad, "items[0].table.positions.ids.data", "9 bytes", "8 bytes"}},
           {"dtype: DTYPE_I32 shape: 2 shared_memory { }",
            {kUnserved, "items[0].table.positions.ids.shared_memory", "shared memory", "not served"}},
           {"dtype: DTYPE_I32 shape: 2 device { }",
            {kUnserved, "items[0].table.positions.ids.device", "device memory", "not served"}},
           {"dtype: DTYPE_I32 shape: 2 upload { }",
            {kBad, "items[0].table.positions.ids.upload.sha256", "0 bytes", "32 bytes"}},
           {"dtype: DTYPE_I32 shape: [2, 2] data: \"0123456789abcdef\"",
            {kBad, "items[0].table.positions.ids.shape", "2 axes", "[count]"}},
           {"dtype: DTYPE_I32 data: \"0123\"", {kBad, "items[0].table.positions.ids.shape", "0 axes", "[count]"}},
       }) {
    ExpectError(ItemStatus(Precompute(absl::StrCat("items { ", kRope, " table { positions { ids { ", c.tensor, " } } } }"))),
                c.expected, c.tensor);
  }
}

// The batch.

TEST(ParseBatchTest, AnItemsErrorIsItsOwn) {
  const std::string good = absl::StrCat("items { ", kRope, " table { positions { range { count: 4 } } } } ");
  const auto batch = Precompute(good + "items { } " + good);
  ASSERT_TRUE(batch.ok());
  ASSERT_EQ(batch->items().size(), 3u);
  EXPECT_TRUE(batch->items()[0].ok());
  EXPECT_EQ(MetadataOf(ToRpcStatus(batch->items()[1].status()), "field"), "items[1].spec");
  EXPECT_TRUE(batch->items()[2].ok());
  EXPECT_EQ(batch->charged_bytes(), 2 * 128);
}

TEST(ParseBatchTest, ErrorsOfTheCall) {
  ExpectError(Precompute("").status(), {kBad, "items", "nothing", "1 … 1024"}, "no items");
  ExpectError(Apply("").status(), {kBad, "items", "nothing", "1 … 1024"}, "no items");
  Limits limits;
  limits.max_batch_items = 2;
  ExpectError(Precompute("items {} items {} items {}", limits).status(), {kBad, "items", "3", "max_batch_items"}, "3 items");

  const std::string item = absl::StrCat("items { ", kRope, " table { positions { range { count: 4 } } } } ");  // 128 bytes
  limits = {};
  limits.max_total_bytes = 255;
  EXPECT_TRUE(Precompute(item, limits).ok());
  ExpectError(Precompute(item + item, limits).status(), {kBad, "items", "256", "max_total_bytes"}, "the answer");
  limits = {};
  limits.max_request_bytes = 191;
  ExpectError(Apply(ApplyText(""), limits).status(), {kBad, "items", "192", "max_request_bytes"}, "the request");
  limits = {};
  limits.max_item_bytes = 127;
  ExpectError(ItemStatus(Precompute(item, limits)), {kBad, "items[0].table", "128", "max_item_bytes"}, "an item");
}

// A thousand plans of the widest heads would be a minute of work and gigabytes, in a request of a few kilobytes.
TEST(ParseBatchTest, WidthsAreSummed) {
  Limits limits;
  limits.max_call_pairs = 64;
  const std::string item = "items { spec { rope { head_dim: 64 } } table { positions { range { count: 1 } } } } ";
  EXPECT_TRUE(Precompute(item + item, limits).ok());
  ExpectError(Precompute(item + item + item, limits).status(), {kBad, "items", "96", "max_call_pairs"}, "3 × 32 pairs");
}

TEST(ParseBatchTest, ExpandedPositionsAreBounded) {
  Limits limits;
  limits.max_request_bytes = 1000;
  const std::string item = absl::StrCat("items { ", kRope, " table { positions { packed { cu_seqlens: [0, 100] } } } } ");
  const auto batch = Precompute(item + item, limits);
  ASSERT_TRUE(batch.ok());
  EXPECT_TRUE(batch->items()[0].ok());
  ExpectError(batch->items()[1].status(), {kBad, "items[1].table.positions.packed.cu_seqlens", "1600", "max_request_bytes"},
              "the second item");
  // What they take is charged.
  EXPECT_EQ(batch->charged_bytes(), 100 * 8 * 4 + 100 * 8);
}

TEST(ParseBatchTest, MalformedBytes) {
  std::mt19937_64 random(1);
  const absl::Status status = RequestParser(Limits{}).ParseApply(raw::Split("\x0a\x05", 10, random)).status();
  const google::rpc::Status rpc = ToRpcStatus(status);
  EXPECT_EQ(rpc.code(), 3);
  EXPECT_EQ(InfoOf(rpc).reason(), "MALFORMED_MESSAGE");
  EXPECT_EQ(MetadataOf(rpc, "type"), "phasor.v1.ApplyRequest");
  EXPECT_FALSE(RequestParser(Limits{}).ParsePrecompute(grpc::ByteBuffer()).ok());
}

// A message of two-byte items takes a hundred times its size in memory when parsed: it is refused while being read.
TEST(ParseBatchTest, ManyTinyParts) {
  std::string bytes;
  for (int i = 0; i < 200'000; ++i) bytes.append("\x0a\0", 2);
  std::mt19937_64 random(1);
  ExpectError(RequestParser(Limits{}).ParseApply(raw::Split(bytes, 1 << 20, random)).status(),
              {kBad, "items", "more parts", "max_batch_items"}, "200 000 items");
}

TEST(ParseBatchTest, DamagedRequestsNeverBreakPromises) {
  const auto request = FromText<v1::ApplyRequest>(ApplyText(
      "positions { ids { dtype: DTYPE_I32 shape: [2, 3] data: " + Escaped<int32_t>({5, 6, 7, 15, 16, 17}) + " } }"));
  const std::string whole = request.SerializeAsString();
  std::mt19937_64 random(8);
  int valid = 0;
  const google::protobuf::LogSilencer quiet;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    // Payload bytes do not matter: damage the rest.
    const size_t header = 60;
    for (uint64_t k = random() % 3 + 1; k > 0; --k) {
      const size_t at = random() % 2 ? random() % header : bytes.size() - 1 - random() % header;
      bytes[at] = static_cast<char>(random() % 2 ? random() : bytes[at] ^ (1 << random() % 8));
    }
    const auto batch = RequestParser(Limits{}).ParseApply(raw::Split(bytes, 50, random));
    if (!batch.ok()) continue;
    for (const auto& item : batch->items()) {
      if (!item.ok()) continue;
      ++valid;
      const TensorInput& t = item->tensors[0];
      ASSERT_EQ(item->positions.count, item->per_batch ? t.batch * t.sequence : t.sequence);
      ASSERT_LE(item->positions.largest, Limits{}.max_position);
      ASSERT_EQ(TotalSize(t.payload), t.bytes);
      if (t.batch * t.sequence * t.heads == 0) continue;
      const int64_t last =
          (t.batch - 1) * t.batch_stride + (t.sequence - 1) * t.sequence_stride + (t.heads - 1) * t.head_stride + t.head_dim;
      ASSERT_LE(last * SizeOf(t.dtype), t.bytes);
    }
  }
  EXPECT_GT(valid, 200);
}

}  // namespace
}  // namespace phasor::server
