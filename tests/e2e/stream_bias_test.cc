// Streams of biases with masks, positions and learned functions, and of tables at lists: beyond what Precompute may make, in
// the memory of a window.
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

v1::PrecomputeItem ItemOf(const std::string& text) {
  v1::PrecomputeItem item;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
  return item;
}

void AddWeight(const std::string& name, const std::vector<int64_t>& shape, v1::PrecomputeItem* item) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) * 0.015625f - 1;
  v1::Weight* weight = item->mutable_spec()->add_weights();
  weight->set_name(name);
  weight->mutable_tensor()->set_dtype(v1::DTYPE_F32);
  weight->mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  weight->mutable_tensor()->set_data(values.data(), values.size() * sizeof(float));
}

v1::PrecomputeItem Perceptron(const std::string& text, int64_t inputs) {
  v1::PrecomputeItem item = ItemOf(text);
  AddWeight("w1", {4, inputs}, &item);
  AddWeight("b1", {4}, &item);
  AddWeight("w2", {2, 4}, &item);
  if (inputs == 1) AddWeight("b2", {2}, &item);
  return item;
}

v1::StreamPrecomputeRequest RequestFor(const v1::PrecomputeItem& item) {
  v1::StreamPrecomputeRequest request;
  request.set_chunk_bytes(kMiB);
  *request.add_items() = item;
  return request;
}

v1::PrecomputeResult Precompute(TestServer& server, const v1::PrecomputeItem& item) {
  v1::PrecomputeRequest request;
  *request.add_items() = item;
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return status.ok() ? response.results(0) : v1::PrecomputeResult();
}

constexpr int64_t kHeads = 5, kSize = 8192, kRowBytes = 4 * kSize;

// To its end: its rows are those of the parts that Precompute makes.
TEST(StreamBiasTest, AMaskedBiasBeyondTheLimitOfPrecompute) {
  TestServer server;
  const auto item = [](int64_t head, int64_t heads, int64_t query, int64_t queries) {
    return ItemOf(absl::StrCat("spec { alibi { num_heads: ", kHeads, " } } bias { queries: ", queries, " keys: ", kSize,
                               " query_offset: ", query, " first_head: ", head, " head_count: ", heads,
                               " masking { causal: true chunk_size: 3000 prefix: 17 } }"));
  };
  EXPECT_THAT(Precompute(server, item(0, kHeads, 0, kSize)).status().message(), HasSubstr("max_item_"));
  grpc::ClientContext context;
  const auto reader = server.position().StreamPrecompute(&context, RequestFor(item(0, kHeads, 0, kSize)));
  v1::StreamPrecomputeResponse message;
  int64_t bytes = 0, chunks = 0, most = 0;
  bool ended = false;
  while (reader->Read(&message)) {
    ended = message.has_end();
    if (!message.has_chunk()) continue;
    const std::string& data = message.chunk().arrays(0).data();
    ASSERT_EQ(message.chunk().offset_bytes(), bytes);
    ASSERT_LE(data.size(), static_cast<size_t>(kMiB));
    if (chunks++ % 101 == 0) {
      const int64_t row = bytes / kRowBytes, rows = static_cast<int64_t>(data.size()) / kRowBytes;
      ASSERT_LE(row % kSize + rows, kSize);
      const v1::PrecomputeResult part = Precompute(server, item(row / kSize, 1, row % kSize, rows));
      ASSERT_EQ(part.status().code(), 0) << part.status().message();
      EXPECT_TRUE(part.bias().data() == data) << row;
      most = std::max(most, server->engine().stats().pool_used_bytes);
    }
    bytes += static_cast<int64_t>(data.size());
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(ended);
  EXPECT_EQ(bytes, kHeads * kSize * kRowBytes);
  EXPECT_LE(most, 32 * kMiB);
}

struct Large {
  v1::PrecomputeItem item;
  int64_t held = 4 * kMiB;  // of bytes in flight: the window, and what the request holds
};

std::vector<Large> LargeItems() {
  std::vector<Large> items;
  for (const char* text : {
           "spec { alibi { num_heads: 16 } } bias { queries: 131072 keys: 131072 masking { causal: true sliding_window: "
           "4096 "
           "} }",
           "spec { window_bias { window_height: 256 window_width: 257 num_heads: 2 } } bias { queries: 65792 keys: 65792 "
           "indices: true }",
       }) {
    items.push_back({ItemOf(text)});
  }
  // Places in a pack and positions of rows of their own are held, four bytes each.
  items.push_back({ItemOf("spec { alibi { num_heads: 16 } } bias { queries: 131072 keys: 131072 masking { causal: true "
                          "query_cu_seqlens: [0, 5, 100000, 131072] } }"),
                   6 * kMiB});
  items.push_back(
      {ItemOf("spec { kerple { form: KERPLE_FORM_LOG r1: 1 r2: 1 } } bias { queries: 70000 keys: 65536 "
              "query_positions { range { start: 3 stride: 2 count: 70000 } sequence_offsets: [0, 1, 500000] } }"),
       6 * kMiB});
  items.push_back({ItemOf("spec { rope { head_dim: 65536 axes { sections: [16384, 16384] } } } table { positions { grid { "
                          "extents: [800, 800] } } }"),
                   16 * kMiB});
  items.push_back(
      {ItemOf("spec { alibi { num_heads: 2048 } } dtype: DTYPE_BF16 bias { queries: 2048 keys: 8192 masking {} }"),
       40 * kMiB});
  v1::Tensor* additive = items.back().item.mutable_bias()->mutable_masking()->mutable_additive();
  additive->set_dtype(v1::DTYPE_BF16);
  additive->add_shape(2048);
  additive->add_shape(8192);
  additive->set_data(std::string(2 * 2048 * 8192, 1));
  // Values by distance, or by offset in the window, are made first.
  items.push_back(
      {Perceptron("spec { dynamic_position_bias {} } bias { queries: 90000 keys: 90000 form: BIAS_FORM_FULL }", 1),
       12 * kMiB});
  items.push_back(
      {Perceptron("spec { continuous_window_bias { window_height: 256 window_width: 257 } } bias { queries: 65792 "
                  "keys: 65792 masking { causal: true } }",
                  2),
       12 * kMiB});
  items.push_back({Perceptron("spec { fire {} } bias { queries: 90000 keys: 90000 form: BIAS_FORM_FULL }", 1), 6 * kMiB});
  v1::PrecomputeItem gates = ItemOf("spec { forgetting_bias {} } bias { queries: 65536 keys: 65536 form: BIAS_FORM_FULL }");
  AddWeight("gates", {4, 65536}, &gates);
  items.push_back({std::move(gates), 8 * kMiB});
  return items;
}

// Tens of gigabytes each: what is held in memory is the window and the request, and it ends when its reader leaves.
TEST(StreamBiasTest, HoldsAWindowOfWhateverSize) {
  TestServer server;
  for (const Large& large : LargeItems()) {
    v1::PrecomputeItem shown = large.item;
    shown.mutable_spec()->clear_weights();
    shown.mutable_bias()->mutable_masking()->clear_additive();
    SCOPED_TRACE(shown.ShortDebugString());
    grpc::ClientContext context;
    const auto reader = server.position().StreamPrecompute(&context, RequestFor(large.item));
    v1::StreamPrecomputeResponse message;
    ASSERT_TRUE(reader->Read(&message));
    EXPECT_EQ(message.header().result().status().code(), 0) << message.header().result().status().message();
    EXPECT_GT(message.header().result().payload_bytes(), int64_t{32} << 30);
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(reader->Read(&message));
      EXPECT_TRUE(message.has_chunk());
      EXPECT_LE(server->engine().stats().pool_used_bytes, 48 * kMiB);
    }
    EXPECT_LE(server.Metric("phasor_inflight_bytes"), large.held);
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
    EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  }
}

}  // namespace
}  // namespace phasor::server
