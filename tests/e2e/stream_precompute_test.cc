// StreamPrecompute through a real socket: the bits of Precompute in pieces, from any row, of any size, in little memory.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

constexpr char kMethod[] = "method=\"phasor.v1.PositionService/StreamPrecompute\"}";
constexpr int64_t kLeast = 64 << 10;

template <typename M>
M From(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// CRC-32C bit by bit.
uint32_t SlowCrc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

// What came of one item.
struct Streamed {
  v1::StreamHeader header;
  std::map<v1::ResultArray, std::string> arrays;
  int chunks = 0;
  bool ended = false;
  v1::StreamEnd end;
};
struct Outcome {
  grpc::Status status;
  std::map<int64_t, Streamed> items;
};

// Checks the order of messages, offsets and checksums on the way.
void Take(const v1::StreamPrecomputeResponse& message, bool checksums, std::map<int64_t, Streamed>* items) {
  const bool is_new = items->count(message.item()) == 0;
  Streamed& item = (*items)[message.item()];
  ASSERT_EQ(is_new, message.has_header());
  ASSERT_FALSE(item.ended);
  if (message.has_header()) item.header = message.header();
  if (message.has_end()) {
    item.ended = true;
    item.end = message.end();
  }
  if (!message.has_chunk()) return;
  ++item.chunks;
  int64_t bytes = 0;
  for (const v1::ChunkData& data : message.chunk().arrays()) {
    std::string& array = item.arrays[data.array()];
    const v1::PrecomputeResult& result = item.header.result();
    const v1::Tensor& shape = result.has_cos() ? result.cos() : result.has_table() ? result.table() : result.bias();
    const bool is_list = data.array() == v1::RESULT_ARRAY_INV_FREQ || item.header.rows() == 0;
    const int64_t row = is_list ? 0 : shape.shape(shape.shape_size() - 1);
    const int64_t size = shape.dtype() == v1::DTYPE_F64 || shape.dtype() == v1::DTYPE_I64   ? 8
                         : shape.dtype() == v1::DTYPE_F32 || shape.dtype() == v1::DTYPE_I32 ? 4
                                                                                            : 2;
    const int64_t first = is_list ? 0 : item.header.first_row() * row * size;
    ASSERT_EQ(message.chunk().offset_bytes(), first + static_cast<int64_t>(array.size()));
    ASSERT_EQ(data.has_crc32c(), checksums);
    if (checksums) {
      ASSERT_EQ(data.crc32c(), SlowCrc32c(data.data()));
    }
    array += data.data();
    bytes += static_cast<int64_t>(data.data().size());
  }
  ASSERT_LE(bytes, 4 << 20);
}

Outcome Stream(TestServer& server, const v1::StreamPrecomputeRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = server.position().StreamPrecompute(&context, request);
  Outcome outcome;
  v1::StreamPrecomputeResponse message;
  while (reader->Read(&message)) Take(message, !request.no_checksums(), &outcome.items);
  outcome.status = reader->Finish();
  return outcome;
}

v1::PrecomputeResponse Whole(TestServer& server, const v1::StreamPrecomputeRequest& stream) {
  v1::PrecomputeRequest request;
  *request.mutable_items() = stream.items();
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

std::map<v1::ResultArray, std::string> ArraysOf(const v1::PrecomputeResult& result) {
  std::map<v1::ResultArray, std::string> arrays;
  if (result.has_cos()) arrays[v1::RESULT_ARRAY_COS] = result.cos().data();
  if (result.has_sin()) arrays[v1::RESULT_ARRAY_SIN] = result.sin().data();
  if (result.has_table()) arrays[v1::RESULT_ARRAY_TABLE] = result.table().data();
  if (result.has_bias()) arrays[v1::RESULT_ARRAY_BIAS] = result.bias().data();
  if (result.has_inv_freq()) arrays[v1::RESULT_ARRAY_INV_FREQ] = result.inv_freq().data();
  return arrays;
}

std::string WithoutData(v1::PrecomputeResult result) {
  for (v1::Tensor* array : {result.mutable_cos(), result.mutable_sin(), result.mutable_table(), result.mutable_bias(),
                            result.mutable_inv_freq()}) {
    array->clear_data();
  }
  result.clear_stages();
  result.clear_cache();
  return result.ShortDebugString();
}

std::string Weight(const std::string& name, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  v1::Weight weight;
  weight.set_name(name);
  weight.mutable_tensor()->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : shape) weight.mutable_tensor()->add_shape(extent);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) * 0.015625f - 1;
  weight.mutable_tensor()->set_data(values.data(), values.size() * sizeof(float));
  std::string text;
  google::protobuf::TextFormat::PrintToString(weight, &text);
  return absl::StrCat("weights { ", text, " } ");
}

std::vector<std::string> Items() {
  const std::string rows = "positions { range { start: -7 count: 5001 stride: 3 } }";
  return {
      absl::StrCat("spec { rope { head_dim: 34 attention_factor: 1.5 } } table { include_inv_freq: true ", rows, " }"),
      "spec { rope { head_dim: 64 } } dtype: DTYPE_BF16 table { form: TABLE_FORM_DUPLICATED positions { range { start: 4000 "
      "count: 4003 } } }",
      absl::StrCat("spec { rope { head_dim: 10 } } dtype: DTYPE_F64 table { inverse: true form: TABLE_FORM_CONCATENATED ",
                   rows, " }"),
      "spec { sinusoidal { dim: 33 position_offset: 2 padding_row: 5 } } table { positions { range { count: 3000 } } }",
      "spec { timestep { dim: 64 } } table { positions { range { count: 2001 } } }",
      absl::StrCat("spec { learned { position_offset: 2 } ", Weight("table", {1500, 40}),
                   " } table { positions { range { count: 1498 } } }"),
      "spec { learned { num_positions: 40000 dim: 8 position_offset: 2 } } table { indices: true positions { range { count: "
      "30001 "
      "} } }",
      "spec { grid_sinusoidal { dim: 64 grid: [40, 30] } } table { positions { range { count: 1200 } } }",
      "spec { rope { head_dim: 32 xpos {} } } sequence_length: 3001 table { role: TENSOR_ROLE_KEY positions { range { "
      "count: 3001 } } }",
      absl::StrCat("spec { pope { head_dim: 24 } ", Weight("delta", {3, 24}),
                   " } table { role: TENSOR_ROLE_KEY positions { range { count: 901 } } }"),
      "spec { alibi { num_heads: 6 } } bias { queries: 301 keys: 407 form: BIAS_FORM_FULL first_head: 1 head_count: 4 }",
      "spec { alibi { num_heads: 3 } } bias { queries: 90 keys: 70 form: BIAS_FORM_FULL }",
      "spec { alibi { num_heads: 3 } } bias { queries: 2 keys: 40000 form: BIAS_FORM_FULL query_offset: -9 }",
      "spec { alibi { num_heads: 8 } } dtype: DTYPE_F16 bias { queries: 9000 keys: 21000 }",
      "spec { alibi { num_heads: 5 } } bias { queries: 9 keys: 21000 form: BIAS_FORM_ROW query_offset: 70 }",
      absl::StrCat("spec { t5_bucket { num_heads: 4 } ", Weight("table", {32, 4}),
                   " } bias { queries: 150 keys: 160 form: BIAS_FORM_FULL }"),
      "spec { alibi { num_heads: 4 } } bias { queries: 100 keys: 300 form: BIAS_FORM_FULL masking { causal: true } }",
      "spec { t5_bucket { num_heads: 2 } } bias { queries: 120 keys: 300 indices: true }",
      "spec { alibi { num_heads: 4 } } dtype: DTYPE_BF16 bias { queries: 100 keys: 300 key_positions { range { start: 9 } "
      "sequence_offsets: [0, 7] } masking { causal: true prefix: [3, 90] } }",
      absl::StrCat("spec { t5_bucket { num_heads: 4 } ", Weight("table", {32, 4}),
                   " } bias { queries: 200 keys: 200 masking { causal: true query_cu_seqlens: [0, 70, 71, 200] } }"),
      absl::StrCat("spec { window_bias { window_height: 13 window_width: 12 class_token: true } ", Weight("table", {578, 3}),
                   " } bias { queries: 157 keys: 157 }"),
      absl::StrCat("spec { continuous_window_bias { window_height: 13 window_width: 12 } ", Weight("w1", {8, 2}),
                   Weight("b1", {8}), Weight("w2", {3, 8}), " } bias { queries: 156 keys: 156 }"),
      absl::StrCat("spec { dynamic_position_bias {} ", Weight("w1", {8, 1}), Weight("b1", {8}), Weight("w2", {3, 8}),
                   Weight("b2", {3}),
                   " } bias { queries: 200 keys: 210 form: BIAS_FORM_FULL masking { sliding_window: 9 } }"),
      absl::StrCat("spec { forgetting_bias { logits: true } ", Weight("gates", {3, 300}),
                   " } bias { queries: 100 keys: 300 form: BIAS_FORM_FULL }"),
      absl::StrCat("spec { tupe {} ", Weight("q", {3, 150, 8}), Weight("k", {3, 150, 8}),
                   " } bias { queries: 150 keys: 150 form: BIAS_FORM_FULL masking { causal: true } }"),
      absl::StrCat("spec { fire {} ", Weight("w1", {8, 1}), Weight("b1", {8}), Weight("w2", {3, 8}), Weight("b2", {3}),
                   " } bias { queries: 100 keys: 200 form: BIAS_FORM_FULL }"),
      "spec { window_bias { window_height: 9 window_width: 8 num_heads: 2 } } bias { queries: 72 keys: 72 indices: true }",
      "spec { rope { head_dim: 16 } } table { positions { list { ids: [5, 9, -3, 77777, 0] } } }",
      "spec { rope { head_dim: 16 } } table { include_inv_freq: true positions { range { count: 0 } } }",
  };
}

v1::StreamPrecomputeRequest RequestFor(const std::vector<std::string>& items) {
  v1::StreamPrecomputeRequest request;
  request.set_chunk_bytes(kLeast);
  for (const std::string& item : items) *request.add_items() = From<v1::PrecomputeItem>(item);
  return request;
}

TEST(StreamPrecomputeTest, HasTheBitsOfPrecompute) {
  TestServer server;
  const v1::StreamPrecomputeRequest request = RequestFor(Items());
  const v1::PrecomputeResponse whole = Whole(server, request);
  const Outcome streamed = Stream(server, request);
  ASSERT_TRUE(streamed.status.ok()) << streamed.status.error_message();
  ASSERT_EQ(streamed.items.size(), static_cast<size_t>(request.items_size()));
  int most = 0;
  for (int i = 0; i < request.items_size(); ++i) {
    SCOPED_TRACE(request.items(i).ShortDebugString().substr(0, 200));
    const Streamed& item = streamed.items.at(i);
    ASSERT_EQ(whole.results(i).status().code(), 0) << whole.results(i).status().message();
    EXPECT_EQ(WithoutData(item.header.result()), WithoutData(whole.results(i)));
    EXPECT_TRUE(item.ended);
    EXPECT_EQ(item.end.status().code(), 0) << item.end.status().message();
    auto expected = ArraysOf(whole.results(i));
    std::erase_if(expected, [](const auto& array) { return array.second.empty(); });
    EXPECT_TRUE(item.arrays == expected);
    for (const auto& [name, bytes] : expected) {
      if (name != v1::RESULT_ARRAY_INV_FREQ) {
        EXPECT_EQ(item.end.sent_bytes(), static_cast<int64_t>(bytes.size()));
      }
    }
    most = std::max(most, item.chunks);
  }
  EXPECT_GE(most, 20);  // 1.4 MB of 64 KiB at most
}

TEST(StreamPrecomputeTest, GoesOnFromAnyRow) {
  TestServer server;
  v1::StreamPrecomputeRequest request = RequestFor(Items());
  request.set_no_checksums(true);
  const v1::PrecomputeResponse whole = Whole(server, request);
  for (int i = 0; i < request.items_size(); ++i) {
    SCOPED_TRACE(request.items(i).ShortDebugString().substr(0, 200));
    v1::StreamPrecomputeRequest rest = request;
    rest.mutable_items()->DeleteSubrange(i + 1, rest.items_size() - i - 1);
    rest.set_first_item(i);
    const int64_t rows = Stream(server, rest).items.at(i).header.rows();
    for (const int64_t first : {rows, rows / 3, std::min<int64_t>(rows, 1)}) {
      rest.set_first_row(first);
      const Outcome streamed = Stream(server, rest);
      ASSERT_TRUE(streamed.status.ok()) << streamed.status.error_message();
      ASSERT_EQ(streamed.items.size(), 1u);
      const Streamed& item = streamed.items.at(i);
      EXPECT_EQ(item.header.first_row(), first);
      EXPECT_EQ(item.header.result().fingerprint(), whole.results(i).fingerprint());
      for (const auto& [name, bytes] : ArraysOf(whole.results(i))) {
        if (name == v1::RESULT_ARRAY_INV_FREQ) continue;
        const size_t at = rows == 0 ? 0 : bytes.size() / static_cast<size_t>(rows) * static_cast<size_t>(first);
        const auto found = item.arrays.find(name);
        EXPECT_TRUE(bytes.substr(at) == (found == item.arrays.end() ? "" : found->second)) << first << " of " << rows;
      }
    }
  }
}

TEST(StreamPrecomputeTest, AnItemThatFailsLeavesTheOthers) {
  TestServer server;
  v1::StreamPrecomputeRequest request =
      RequestFor({"spec { rope { head_dim: 7 } } table { positions { range { count: 4 } } }",
                  "spec { rope { head_dim: 8 } } table { positions { range { count: 4 } } }",
                  "spec { alibi { num_heads: 4 } } bias { queries: 4 keys: 20000000 masking { causal: true } }",
                  "spec { rope { head_dim: 8 } } table { positions { range { count: 3 } } }"});
  const std::string fingerprint = Whole(server, request).results(1).fingerprint();
  request.mutable_items(1)->set_if_fingerprint_not(fingerprint);
  const Outcome streamed = Stream(server, request);
  ASSERT_TRUE(streamed.status.ok()) << streamed.status.error_message();
  EXPECT_EQ(streamed.items.at(0).header.result().status().code(), 3);
  EXPECT_THAT(streamed.items.at(0).header.result().status().message(), HasSubstr("items[0].spec.rope.head_dim"));
  EXPECT_FALSE(streamed.items.at(0).ended);
  EXPECT_TRUE(streamed.items.at(1).header.result().not_modified());
  EXPECT_EQ(streamed.items.at(1).chunks, 0);
  EXPECT_FALSE(streamed.items.at(1).ended);
  // A row of a masked bias is made whole.
  EXPECT_THAT(
      streamed.items.at(2).header.result().status().message(),
      HasSubstr("items[2].bias.keys: given 20000000 positions; allowed: up to 16777216 (the server's max_positions)"));
  EXPECT_TRUE(streamed.items.at(3).ended);
}

TEST(StreamPrecomputeTest, RefusesWhatItCannotDo) {
  TestServer server;
  const auto error = [&](const std::function<void(v1::StreamPrecomputeRequest&)>& change) {
    v1::StreamPrecomputeRequest request =
        RequestFor({"spec { rope { head_dim: 8 } } table { positions { range { count: 4 } } }"});
    change(request);
    const grpc::Status status = Stream(server, request).status;
    return absl::StrCat(status.error_code(), " ", status.error_message());
  };
  EXPECT_THAT(error([](auto& r) { r.set_chunk_bytes(kLeast - 1); }), HasSubstr("3 chunk_bytes: given 65535"));
  EXPECT_THAT(error([](auto& r) { r.set_chunk_bytes((4 << 20) + 1); }), HasSubstr("65536 … 4194304"));
  EXPECT_THAT(error([](auto& r) { r.set_first_item(1); }), HasSubstr("3 first_item: given 1"));
  EXPECT_THAT(error([](auto& r) { r.set_first_item(-1); }), HasSubstr("0 … 0"));
  EXPECT_THAT(error([](auto& r) { r.set_first_row(-1); }), HasSubstr("3 first_row: given -1"));
  EXPECT_THAT(error([](auto& r) { r.set_first_row(5); }), HasSubstr("0 … 4, the rows of items[0]"));
  v1::StreamPrecomputeRequest large =
      RequestFor({"spec { rope { head_dim: 1024 } } table { positions { range { start: -2147483647 count: 2147483647 } } }",
                  "spec { alibi { num_heads: 65536 } } bias { queries: 2147483647 keys: 2147483647 form: BIAS_FORM_FULL }"});
  const Outcome refused = Stream(server, large);
  ASSERT_TRUE(refused.status.ok());
  EXPECT_THAT(refused.items.at(0).header.result().status().message(),
              HasSubstr("items[0].table: given 8796093018112 bytes of answer; allowed: up to 1099511627776 (the server's "
                        "max_stream_bytes)"));
  EXPECT_EQ(refused.items.at(1).header.result().status().message(),
            "items[1].bias: given a size that does not fit in 63 bits; allowed: up to 1099511627776 bytes (the server's "
            "max_stream_bytes)");
  EXPECT_THAT(error([](auto& r) { r.clear_items(); }), HasSubstr("3 items: given nothing"));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

// A table of 1 TiB in all: what it holds in memory is its window, and it ends when its reader leaves.
TEST(StreamPrecomputeTest, HoldsAWindowOfWhateverSize) {
  TestServer server;
  for (const std::string item :
       {"spec { rope { head_dim: 512 } } table { positions { range { start: -2147483647 count: 500000000 } } }",
        "spec { alibi { num_heads: 16 } } bias { queries: 131072 keys: 131072 form: BIAS_FORM_FULL }",
        "spec { alibi { num_heads: 8 } } bias { queries: 4 keys: 2000000000 form: BIAS_FORM_FULL }",
        "spec { timestep { dim: 256 } } table { positions { range { count: 1000000000 } } }"}) {
    SCOPED_TRACE(item);
    v1::StreamPrecomputeRequest request = RequestFor({item});
    request.set_chunk_bytes(1 << 20);
    grpc::ClientContext context;
    const auto reader = server.position().StreamPrecompute(&context, request);
    v1::StreamPrecomputeResponse message;
    ASSERT_TRUE(reader->Read(&message));
    EXPECT_EQ(message.header().result().status().code(), 0) << message.header().result().status().message();
    EXPECT_GT(message.header().result().payload_bytes(), int64_t{1} << 35);
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(reader->Read(&message));
      EXPECT_TRUE(message.has_chunk());
    }
    EXPECT_LE(server.Metric("phasor_inflight_bytes"), 4 << 20);
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
    EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  }
  EXPECT_LE(server->engine().stats().pool_used_bytes, 64 << 20);
}

TEST(StreamPrecomputeTest, LargeItemsLeaveTheCacheAlone) {
  ServerOptions options = LoopbackOptions();
  options.cache_bytes = 8 << 20;
  TestServer server(options);
  const auto item = [](int64_t rows) {
    return absl::StrCat("spec { rope { head_dim: 64 } } table { positions { range { count: ", rows, " } } }");
  };
  const auto cache_of = [&](int64_t rows) {
    return v1::CacheOutcome_Name(Stream(server, RequestFor({item(rows)})).items.at(0).end.cache());
  };
  EXPECT_EQ(cache_of(8192), "CACHE_OUTCOME_PARTIAL");  // its first chunk of a tile builds it, the others find it
  EXPECT_EQ(cache_of(8192), "CACHE_OUTCOME_HIT");
  EXPECT_EQ(server->engine().stats().cache_bytes, 2 << 20);
  // Of more than half the cache: what is there is used, and nothing is built.
  EXPECT_EQ(cache_of(40000), "CACHE_OUTCOME_PARTIAL");
  EXPECT_EQ(server->engine().stats().cache_bytes, 2 << 20);
}

TEST(StreamPrecomputeTest, CutsOffWhoDoesNotRead) {
  ServerOptions options = LoopbackOptions();
  options.streams.pause = std::chrono::milliseconds(200);
  TestServer server(options);
  grpc::ClientContext context;
  const auto reader = server.position().StreamPrecompute(
      &context, RequestFor({"spec { rope { head_dim: 512 } } table { positions { range { count: 400000000 } } }"}));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  EXPECT_TRUE(server.AwaitMetric(std::string("phasor_requests_total{code=\"CANCELLED\",") + kMethod,
                                 [](double n) { return n == 1; }));
  v1::StreamPrecomputeResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(server.Metric("phasor_inflight_bytes"), 0);
}

TEST(StreamPrecomputeTest, EndsWithItsDeadline) {
  TestServer server;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  const auto reader = server.position().StreamPrecompute(
      &context, RequestFor({"spec { rope { head_dim: 512 } } table { positions { range { count: 400000000 } } }"}));
  v1::StreamPrecomputeResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
}

TEST(StreamPrecomputeTest, RunsToItsEndWhileTheServerDrains) {
  TestServer server;
  v1::StreamPrecomputeRequest request =
      RequestFor({"spec { rope { head_dim: 128 } } table { positions { range { count: 100000 } } }"});
  grpc::ClientContext context;
  const auto reader = server.position().StreamPrecompute(&context, request);
  v1::StreamPrecomputeResponse message;
  ASSERT_TRUE(reader->Read(&message));
  std::thread shutdown([&] { server->Shutdown(std::chrono::seconds(30)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  bool ended = false;
  while (reader->Read(&message)) ended = message.has_end();
  EXPECT_TRUE(ended);
  EXPECT_TRUE(reader->Finish().ok());
  shutdown.join();
}

TEST(StreamPrecomputeTest, ManyStreamsSideBySide) {
  TestServer server;
  const v1::StreamPrecomputeRequest request = RequestFor(Items());
  const Outcome expected = Stream(server, request);
  std::vector<std::thread> readers;
  for (int r = 0; r < 6; ++r) {
    readers.emplace_back([&] {
      const Outcome got = Stream(server, request);
      EXPECT_TRUE(got.status.ok()) << got.status.error_message();
      for (const auto& [i, item] : expected.items) EXPECT_TRUE(got.items.at(i).arrays == item.arrays);
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

}  // namespace
}  // namespace phasor::server
