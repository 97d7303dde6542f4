// StreamApply through a real socket: the bits of Apply chunk by chunk, items that fail and leave the stream alive, windows,
// pauses, hostile messages.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <random>
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
using Request = v1::StreamApplyRequest;
using Response = v1::StreamApplyResponse;

constexpr char kMethod[] = "method=\"phasor.v1.PositionService/StreamApply\"}";

int64_t SizeOfType(v1::Dtype dtype) { return dtype == v1::DTYPE_F64 ? 8 : dtype == v1::DTYPE_F32 ? 4 : 2; }

// An item with tensors full of finite numbers.
v1::ApplyItem Item(const std::string& text, const std::vector<std::vector<int64_t>>& shapes, v1::Dtype dtype,
                   uint32_t seed = 1) {
  v1::ApplyItem item;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
  std::mt19937 random(seed);
  for (const auto& shape : shapes) {
    v1::Tensor* tensor = item.add_tensors();
    tensor->set_dtype(dtype);
    int64_t count = 1;
    for (const int64_t extent : shape) {
      tensor->add_shape(extent);
      count *= extent;
    }
    std::string data(static_cast<size_t>(count * SizeOfType(dtype)), '\0');
    for (char& c : data) c = static_cast<char>(random());
    // The top byte of every number: no infinities and no NaN in any type.
    for (size_t i = static_cast<size_t>(SizeOfType(dtype)) - 1; i < data.size();
         i += static_cast<size_t>(SizeOfType(dtype))) {
      data[i] = static_cast<char>((data[i] & 0x80) | 0x3C);
    }
    tensor->set_data(std::move(data));
  }
  return item;
}

v1::ApplyResponse Whole(TestServer& server, const std::vector<v1::ApplyItem>& items) {
  v1::ApplyRequest request;
  for (const v1::ApplyItem& item : items) *request.add_items() = item;
  grpc::ClientContext context;
  v1::ApplyResponse response;
  const grpc::Status status = server.position().Apply(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

// The messages of an item, its tensors in chunks of `rows` rows of the last axis.
std::vector<Request> MessagesOf(int64_t number, const v1::ApplyItem& item, int64_t rows) {
  std::vector<Request> messages(1);
  messages[0].set_item(number);
  *messages[0].mutable_open() = item;
  for (v1::Tensor& tensor : *messages[0].mutable_open()->mutable_tensors()) tensor.clear_data();
  for (int t = 0; t < item.tensors_size(); ++t) {
    const v1::Tensor& tensor = item.tensors(t);
    const int64_t row = tensor.shape(tensor.shape_size() - 1) * SizeOfType(tensor.dtype());
    const size_t step = static_cast<size_t>(std::max<int64_t>(1, row * rows));
    for (size_t at = 0; at < tensor.data().size(); at += step) {
      Request& message = messages.emplace_back();
      message.set_item(number);
      message.mutable_chunk()->set_tensor(t);
      message.mutable_chunk()->set_offset_bytes(static_cast<int64_t>(at));
      message.mutable_chunk()->set_data(tensor.data().substr(at, step));
    }
  }
  return messages;
}

struct Streamed {
  v1::ApplyResult header;
  std::map<int64_t, std::string> tensors;
  int chunks = 0;
  bool ended = false;
  v1::StreamEnd end;
};
struct Outcome {
  grpc::Status status;
  std::map<int64_t, Streamed> items;
};

Outcome Stream(TestServer& server, const std::vector<Request>& messages) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stream = server.position().StreamApply(&context);
  std::thread writer([&] {
    for (const Request& message : messages) {
      if (!stream->Write(message)) return;
    }
    stream->WritesDone();
  });
  Outcome outcome;
  Response message;
  while (stream->Read(&message)) {
    const bool is_new = outcome.items.count(message.item()) == 0;
    Streamed& item = outcome.items[message.item()];
    EXPECT_EQ(is_new, message.has_header());
    EXPECT_FALSE(item.ended);
    if (message.has_header()) item.header = message.header();
    if (message.has_end()) {
      item.ended = true;
      item.end = message.end();
    }
    if (message.has_chunk()) {
      ++item.chunks;
      std::string& tensor = item.tensors[message.chunk().tensor()];
      EXPECT_EQ(message.chunk().offset_bytes(), static_cast<int64_t>(tensor.size()));
      tensor += message.chunk().data();
    }
  }
  writer.join();
  outcome.status = stream->Finish();
  return outcome;
}

std::vector<v1::ApplyItem> Items() {
  const std::string rope = "spec { rope { head_dim: 16 attention_factor: 1.5 } } ";
  return {
      Item(absl::StrCat(rope, "positions { range { start: 100 stride: -2 } }"), {{2, 37, 3, 16}, {2, 37, 1, 16}},
           v1::DTYPE_F32),
      Item(absl::StrCat(rope, "layout: LAYOUT_BHSD rotate { inverse: true }"), {{3, 4, 29, 16}}, v1::DTYPE_BF16),
      Item(absl::StrCat(rope, "layout: LAYOUT_SBHD rotate { backward: true }"), {{31, 2, 5, 16}}, v1::DTYPE_F16),
      Item(absl::StrCat(rope, "layout: LAYOUT_THD positions { range { start: -5 } }"), {{77, 3, 16}, {77, 2, 16}},
           v1::DTYPE_F64),
      Item(absl::StrCat(rope, "layout: LAYOUT_T_HD"), {{41, 48}}, v1::DTYPE_F32),
      Item("spec { rope { head_dim: 24 rotary_dim: 8 pairing: PAIRING_INTERLEAVED first_channel: 2 } } layout: LAYOUT_SBHD "
           "positions { range {} sequence_offsets: [7, 1000, -3] }",
           {{19, 3, 2, 24}}, v1::DTYPE_F32),
      Item(absl::StrCat(rope, "layout: LAYOUT_THD positions { packed { cu_seqlens: [0, 5, 5, 30] } }"), {{30, 2, 16}},
           v1::DTYPE_F32),
      Item("spec { sinusoidal { dim: 12 } } layout: LAYOUT_BSD add { dropout { probability: 0.25 seed: 7 } }", {{3, 50, 12}},
           v1::DTYPE_F32),
      Item(absl::StrCat(rope, "shift {} positions { sequence_offsets: [4, -4] }"), {{2, 9, 2, 16}}, v1::DTYPE_F32),
      Item("resize { source: [4, 4] target: [7, 5] interpolation: INTERPOLATION_LINEAR }", {{16, 10}}, v1::DTYPE_F32),
      Item(rope, {{0, 5, 2, 16}, {0, 5, 1, 16}}, v1::DTYPE_F32),
      Item(rope, {{1, 1, 1, 16}}, v1::DTYPE_F32),
  };
}

TEST(StreamApplyTest, HasTheBitsOfApply) {
  TestServer server;
  const std::vector<v1::ApplyItem> items = Items();
  const v1::ApplyResponse whole = Whole(server, items);
  for (const int64_t rows : {1, 7, 1000}) {
    std::vector<Request> messages;
    for (size_t i = 0; i < items.size(); ++i) {
      for (Request& message : MessagesOf(static_cast<int64_t>(i), items[i], rows)) messages.push_back(std::move(message));
    }
    const Outcome streamed = Stream(server, messages);
    ASSERT_TRUE(streamed.status.ok()) << streamed.status.error_message();
    ASSERT_EQ(streamed.items.size(), items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("item ", i, ", rows ", rows));
      const Streamed& item = streamed.items.at(static_cast<int64_t>(i));
      const v1::ApplyResult& expected = whole.results(static_cast<int>(i));
      ASSERT_EQ(expected.status().code(), 0) << expected.status().message();
      ASSERT_EQ(item.header.status().code(), 0) << item.header.status().message();
      EXPECT_EQ(item.header.fingerprint(), expected.fingerprint());
      EXPECT_EQ(item.header.payload_bytes(), expected.payload_bytes());
      EXPECT_TRUE(item.ended);
      int64_t bytes = 0;
      ASSERT_EQ(item.header.tensors_size(), expected.tensors_size());
      for (int t = 0; t < expected.tensors_size(); ++t) {
        const auto got = item.tensors.find(t);
        EXPECT_TRUE((got == item.tensors.end() ? "" : got->second) == expected.tensors(t).data()) << "tensor " << t;
        EXPECT_TRUE(std::equal(item.header.tensors(t).shape().begin(), item.header.tensors(t).shape().end(),
                               expected.tensors(t).shape().begin(), expected.tensors(t).shape().end()));
        bytes += static_cast<int64_t>(expected.tensors(t).data().size());
      }
      EXPECT_EQ(item.end.sent_bytes(), bytes);
    }
    EXPECT_EQ(streamed.items.at(0).chunks, rows == 1 ? 2 * 37 * 4 : rows == 7 ? 32 + 11 : 2);
  }
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

// Each of these breaks item 1 of three; the others are as if it had not been there.
TEST(StreamApplyTest, AnItemThatFailsLeavesTheStream) {
  TestServer server;
  const v1::ApplyItem good = Item("spec { rope { head_dim: 8 } }", {{1, 6, 2, 8}}, v1::DTYPE_F32);
  const v1::ApplyItem whole = Item("spec { sinusoidal { dim: 8 } } layout: LAYOUT_BSD add {}", {{1, 6, 8}}, v1::DTYPE_F32);
  const std::string expected = Whole(server, {good}).results(0).tensors(0).data();
  const auto error = [&](const v1::ApplyItem& item, const std::function<void(std::vector<Request>&)>& change) {
    std::vector<Request> messages = MessagesOf(0, good, 2);
    std::vector<Request> bad = MessagesOf(1, item, 2);
    change(bad);
    messages.insert(messages.end(), bad.begin(), bad.end());
    for (const Request& message : MessagesOf(2, good, 2)) messages.push_back(message);
    const Outcome streamed = Stream(server, messages);
    EXPECT_TRUE(streamed.status.ok()) << streamed.status.error_message();
    EXPECT_EQ(streamed.items.size(), 3u);
    for (const int64_t i : {0, 2}) {
      EXPECT_TRUE(streamed.items.at(i).ended);
      EXPECT_EQ(streamed.items.at(i).tensors.at(0), expected);
    }
    const Streamed& failed = streamed.items.at(1);
    const google::rpc::Status& status = failed.ended ? failed.end.status() : failed.header.status();
    return absl::StrCat(failed.ended ? "end " : "header ", status.code(), " ", status.message());
  };
  EXPECT_THAT(error(good, [](auto& m) { m[0].mutable_open()->mutable_spec()->mutable_rope()->set_head_dim(7); }),
              HasSubstr("header 3 items[1].spec.rope.head_dim: given 7"));
  EXPECT_THAT(error(good, [](auto& m) { m[0].mutable_open()->mutable_tensors(0)->set_data("x"); }),
              HasSubstr("header 3 items[1].tensors[0]: given storage"));
  EXPECT_THAT(error(good, [](auto& m) { m[0].mutable_open()->mutable_tensors(0)->add_strides(1); }),
              HasSubstr("header 3 items[1].tensors[0].strides"));
  EXPECT_THAT(error(good, [](auto& m) { m.pop_back(); }),
              HasSubstr("end 3 items[1].tensors: given 320 bytes of tensors[0]; allowed: 384 bytes"));
  EXPECT_THAT(error(whole, [](auto& m) { m.pop_back(); }), HasSubstr("header 3 items[1].tensors: given 128 bytes"));
  EXPECT_THAT(error(whole, [](auto& m) { m[1].mutable_chunk()->mutable_data()->pop_back(); }),
              HasSubstr("header 3 items[1].chunk.data: given 63 bytes; allowed: a multiple of 32"));
  EXPECT_THAT(error(good, [](auto& m) { m[2].mutable_chunk()->mutable_data()->pop_back(); }),
              HasSubstr("end 3 items[1].chunk.data: given 63 bytes; allowed: a multiple of 32"));
  EXPECT_THAT(error(good, [](auto& m) { m[2].mutable_chunk()->mutable_data()->append(512, 'x'); }),
              HasSubstr("end 3 items[1].chunk.data: given 576 bytes; allowed: 1 … 320 bytes"));
  EXPECT_THAT(error(good, [](auto& m) { m[2].mutable_chunk()->clear_data(); }), HasSubstr("given 0 bytes"));
  EXPECT_THAT(error(good, [](auto& m) { m[2].mutable_chunk()->set_tensor(1); }),
              HasSubstr("items[1].chunk.tensor: given 1; allowed: 0"));
  EXPECT_THAT(error(good, [](auto& m) { m[2].mutable_chunk()->set_offset_bytes(-8); }),
              HasSubstr("items[1].chunk.offset_bytes: given -8; allowed: 64"));
  EXPECT_THAT(error(good, [](auto& m) { m[2].mutable_chunk()->set_crc32c(5); }),
              HasSubstr("end 3 items[1].chunk.crc32c: given 5; allowed: "));
  EXPECT_THAT(error(good, [](auto& m) { m[0].mutable_open()->mutable_tensors(0)->set_shape(1, int64_t{1} << 40); }),
              HasSubstr("header 3 items[1].tensors[0]"));
  EXPECT_THAT(error(whole, [](auto& m) { m[0].mutable_open()->mutable_tensors(0)->set_shape(1, int64_t{1} << 30); }),
              HasSubstr("max_item_"));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

TEST(StreamApplyTest, MessagesOutOfPlaceEndTheCall) {
  TestServer server;
  const v1::ApplyItem good = Item("spec { rope { head_dim: 8 } }", {{1, 6, 2, 8}}, v1::DTYPE_F32);
  const auto error = [&](const std::function<void(std::vector<Request>&)>& change) {
    std::vector<Request> messages = MessagesOf(0, good, 2);
    change(messages);
    const grpc::Status status = Stream(server, messages).status;
    return absl::StrCat(status.error_code(), " ", status.error_message());
  };
  EXPECT_THAT(error([](auto& m) { m[0].set_item(1); }), HasSubstr("3 item: given 1; allowed: 0"));
  EXPECT_THAT(error([](auto& m) { m[2].set_item(7); }), HasSubstr("3 item: given 7; allowed: 0"));
  EXPECT_THAT(error([](auto& m) { m.erase(m.begin()); }), HasSubstr("3 part: given a chunk; allowed: open"));
  EXPECT_THAT(error([](auto& m) { m[1].clear_part(); }), HasSubstr("3 part: given nothing"));
  EXPECT_THAT(error([](auto& m) { m.push_back(m.back()); }),
              HasSubstr("3 part: given a chunk beyond the tensors of item 0"));
  EXPECT_EQ(error([](auto& m) { m.clear(); }), "0 ");
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

// The client writes and does not read, then sends nothing: what is held is bounded, and both are cut off.
TEST(StreamApplyTest, BoundedWindowsAndPauses) {
  ServerOptions options = LoopbackOptions();
  options.streams.pause = std::chrono::milliseconds(300);
  TestServer server(options);
  const v1::ApplyItem item = Item("spec { rope { head_dim: 128 } }", {{1, 4096, 8, 128}}, v1::DTYPE_F32);
  {
    grpc::ClientContext context;
    const auto stream = server.position().StreamApply(&context);
    const std::vector<Request> messages = MessagesOf(0, item, 2048);
    std::thread writer([&] {
      int64_t number = 0;
      while (true) {
        for (Request message : messages) {
          message.set_item(number);
          if (!stream->Write(message)) return;
        }
        ++number;
      }
    });
    writer.join();  // the server cuts off who does not read
    EXPECT_LE(server->engine().stats().pool_used_bytes, 64 << 20);
    Response message;
    while (stream->Read(&message)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  {
    grpc::ClientContext context;
    const auto stream = server.position().StreamApply(&context);
    stream->Write(MessagesOf(0, item, 2048)[0]);
    Response message;
    EXPECT_TRUE(stream->Read(&message));
    EXPECT_FALSE(stream->Read(&message));
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), HasSubstr("no message came for 300 ms"));
  }
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  EXPECT_EQ(server.Metric(std::string("phasor_requests_total{code=\"DEADLINE_EXCEEDED\",") + kMethod), 1);
}

// What an item that is held until its tensors have come is charged for: itself and what opened it, until it has failed.
TEST(StreamApplyTest, HeldItemsAreChargedUntilTheyFail) {
  TestServer server;
  grpc::ClientContext context;
  const auto stream = server.position().StreamApply(&context);
  const v1::ApplyItem item = Item("spec { learned {} } layout: LAYOUT_BSD add {}", {{1, 4096, 256}}, v1::DTYPE_F32);
  std::vector<Request> messages = MessagesOf(0, item, 512);
  v1::Weight* weight = messages[0].mutable_open()->mutable_spec()->add_weights();
  weight->set_name("table");
  weight->mutable_tensor()->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : {4096, 256}) weight->mutable_tensor()->add_shape(extent);
  weight->mutable_tensor()->set_data(std::string(4 << 20, '\0'));
  ASSERT_TRUE(stream->Write(messages[0]));
  const double window = 2 * (8 << 20);
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [&](double n) { return n >= window + (8 << 20); }));
  messages[1].mutable_chunk()->set_tensor(5);
  ASSERT_TRUE(stream->Write(messages[1]));
  Response message;
  ASSERT_TRUE(stream->Read(&message));
  EXPECT_THAT(message.header().status().message(), HasSubstr("items[0].chunk.tensor: given 5"));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [&](double n) { return n == window; }));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&message));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(StreamApplyTest, ManyStreamsAndLeavingClients) {
  TestServer server;
  std::vector<Request> messages;
  const std::vector<v1::ApplyItem> items = Items();
  const v1::ApplyResponse whole = Whole(server, items);
  for (size_t i = 0; i < items.size(); ++i) {
    for (Request& message : MessagesOf(static_cast<int64_t>(i), items[i], 5)) messages.push_back(std::move(message));
  }
  std::vector<std::thread> clients;
  for (int c = 0; c < 6; ++c) {
    clients.emplace_back([&, c] {
      if (c % 2 == 0) {
        const Outcome got = Stream(server, messages);
        EXPECT_TRUE(got.status.ok()) << got.status.error_message();
        EXPECT_EQ(got.items.at(0).tensors.at(0), whole.results(0).tensors(0).data());
        return;
      }
      grpc::ClientContext context;
      const auto stream = server.position().StreamApply(&context);
      for (int i = 0; i < 20 * c; ++i) stream->Write(messages[static_cast<size_t>(i)]);
      context.TryCancel();
      Response message;
      while (stream->Read(&message)) {
      }
      EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
}

}  // namespace
}  // namespace phasor::server
