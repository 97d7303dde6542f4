// Client::StreamApply: the bits of Apply, whatever the tensors' sizes, and how streams fail.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/phasor_client.h"
#include "tests/e2e/fixture.h"

namespace phasor::client {
namespace {

using ::testing::HasSubstr;

struct Tensor {
  std::vector<int64_t> shape;
  std::shared_ptr<const std::vector<float>> numbers;

  explicit Tensor(std::vector<int64_t> extents) : shape(std::move(extents)) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(count));
    for (size_t i = 0; i < values->size(); ++i) (*values)[i] = static_cast<float>(i % 251) - 100;
    numbers = std::move(values);
  }
  raw::Piece piece() const {
    return {numbers, reinterpret_cast<const std::byte*>(numbers->data()), numbers->size() * sizeof(float)};
  }
};

v1::ApplyItem ItemOf(const std::vector<Tensor>& tensors) {
  v1::ApplyItem item;
  item.mutable_spec()->mutable_rope()->set_head_dim(8);
  item.mutable_positions()->mutable_range()->set_start(7);
  for (const Tensor& tensor : tensors) {
    v1::Tensor* wire = item.add_tensors();
    wire->set_dtype(v1::DTYPE_F32);
    for (const int64_t extent : tensor.shape) wire->add_shape(extent);
  }
  return item;
}

std::vector<raw::Piece> PiecesOf(const std::vector<Tensor>& tensors) {
  std::vector<raw::Piece> pieces;
  for (const Tensor& tensor : tensors) pieces.push_back(tensor.piece());
  return pieces;
}

std::string Bytes(const raw::Payloads& payloads, const std::string& token) {
  std::string bytes;
  const auto pieces = payloads.Find(token);
  for (const raw::Piece& piece : *pieces) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  return bytes;
}

// What each tensor became.
std::vector<std::string> Streamed(Client& client, const std::vector<Tensor>& tensors) {
  std::vector<std::string> all(tensors.size());
  int headers = 0, ends = 0;
  const absl::Status status = client.StreamApply(
      ItemOf(tensors), {}, PiecesOf(tensors), [&](const v1::StreamApplyResponse& message, const raw::Payloads& payloads) {
        headers += message.has_header() ? 1 : 0;
        ends += message.has_end() ? 1 : 0;
        if (message.has_chunk()) {
          std::string& tensor = all[static_cast<size_t>(message.chunk().tensor())];
          EXPECT_EQ(message.chunk().offset_bytes(), static_cast<int64_t>(tensor.size()));
          tensor += Bytes(payloads, message.chunk().data());
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(headers, 1);
  EXPECT_EQ(ends, 1);
  return all;
}

std::vector<std::string> InOneCall(Client& client, const std::vector<Tensor>& tensors) {
  v1::ApplyRequest request;
  raw::Payloads payloads;
  *request.add_items() = ItemOf(tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const raw::Piece piece = tensors[i].piece();
    request.mutable_items(0)->mutable_tensors(static_cast<int>(i))->set_data(payloads.Add({&piece, 1}));
  }
  const auto reply = client.Apply(request, payloads);
  EXPECT_TRUE(reply.ok()) << reply.status();
  std::vector<std::string> all;
  for (const v1::Tensor& tensor : reply->message.results(0).tensors()) all.push_back(Bytes(reply->payloads, tensor.data()));
  return all;
}

TEST(ClientStreamApplyTest, HasTheBitsOfApply) {
  server::TestServer server;
  const auto client = Client::Over(server.channel());
  // Below a chunk; rows of 32 bytes that do not divide a chunk, in 5 MB; a token larger than a chunk; none.
  for (const std::vector<Tensor>& tensors : {std::vector<Tensor>{Tensor({1, 3, 2, 8})},
                                             {Tensor({1, 40001, 4, 8}), Tensor({1, 40001, 1, 8})},
                                             {Tensor({2, 3, 40000, 8})},
                                             {Tensor({1, 0, 2, 8})}}) {
    EXPECT_TRUE(Streamed(*client, tensors) == InOneCall(*client, tensors)) << tensors[0].numbers->size();
  }
}

TEST(ClientStreamApplyTest, AnItemThatFailsSaysSo) {
  server::TestServer server;
  const auto client = Client::Over(server.channel());
  const std::vector<Tensor> tensors = {Tensor({1, 100000, 8, 8})};
  v1::ApplyItem item = ItemOf(tensors);
  item.mutable_spec()->mutable_rope()->set_head_dim(7);
  std::string error;
  const absl::Status status =
      client->StreamApply(item, {}, PiecesOf(tensors), [&](const v1::StreamApplyResponse& message, const raw::Payloads&) {
        EXPECT_TRUE(message.has_header());
        error = message.header().status().message();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(error, HasSubstr("head_dim"));
}

TEST(ClientStreamApplyTest, AnErrorOfTheSinkEndsTheStream) {
  server::TestServer server;
  const auto client = Client::Over(server.channel());
  const std::vector<Tensor> tensors = {Tensor({1, 100000, 8, 8})};
  int messages = 0;
  const absl::Status status =
      client->StreamApply(ItemOf(tensors), {}, PiecesOf(tensors), [&](const v1::StreamApplyResponse&, const raw::Payloads&) {
        return ++messages == 2 ? absl::DataLossError("enough") : absl::OkStatus();
      });
  EXPECT_EQ(status, absl::DataLossError("enough"));
  EXPECT_EQ(messages, 2);
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double value) { return value == 0; }));
}

TEST(ClientStreamApplyTest, TensorsMustFitTheirShapes) {
  const auto client = Client::Connect("127.0.0.1:1");
  const auto error = [&](std::vector<int64_t> shape, size_t bytes, size_t tensors = 1) {
    v1::ApplyItem item;
    v1::Tensor* tensor = item.add_tensors();
    for (const int64_t extent : shape) tensor->add_shape(extent);
    const std::vector<std::byte> data(bytes + 1);
    const std::vector<raw::Piece> pieces(tensors, raw::Piece{nullptr, data.data(), bytes});
    const auto sink = [](const v1::StreamApplyResponse&, const raw::Payloads&) { return absl::OkStatus(); };
    return std::string(client->StreamApply(item, {}, pieces, sink).message());
  };
  EXPECT_THAT(error({2, 3}, 25), HasSubstr("tensors[0]: given 25 bytes"));
  EXPECT_THAT(error({2, 0}, 4), HasSubstr("tensors[0]: given 4 bytes"));
  EXPECT_THAT(error({2, -3}, 24), HasSubstr("tensors[0]: given 24 bytes"));
  EXPECT_THAT(error({int64_t{1} << 40, int64_t{1} << 40}, 24), HasSubstr("tensors[0]: given 24 bytes"));
  EXPECT_THAT(error({2, 3}, 24, 2), HasSubstr("tensors: given 2; allowed: 1"));
}

TEST(ClientStreamApplyTest, AServerThatIsNotThereIsTriedAgainAndNamed) {
  ClientOptions options;
  options.max_attempts = 2;
  const auto client = Client::Connect("127.0.0.1:1", options);
  const std::vector<Tensor> tensors = {Tensor({1, 3, 2, 8})};
  const absl::Status status =
      client->StreamApply(ItemOf(tensors), {}, PiecesOf(tensors),
                          [](const v1::StreamApplyResponse&, const raw::Payloads&) { return absl::OkStatus(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

}  // namespace
}  // namespace phasor::client
