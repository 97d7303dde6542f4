// The client's side of a stream, against a server made for the occasion: checksums, going on after a break, giving up.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "client/phasor_client.h"

namespace phasor::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Message = v1::StreamPrecomputeResponse;

Message Header(const std::string& fingerprint, int64_t item = 0, int64_t first_row = 0) {
  Message message;
  message.set_item(item);
  v1::StreamHeader* header = message.mutable_header();
  header->mutable_result()->set_fingerprint(fingerprint);
  header->mutable_result()->mutable_table()->set_dtype(v1::DTYPE_F16);
  header->mutable_result()->set_payload_bytes(18);
  header->set_rows(9);
  header->set_first_row(first_row);
  return message;
}

Message Chunk(const std::string& data, int64_t offset, int64_t item = 0) {
  Message message;
  message.set_item(item);
  message.mutable_chunk()->set_offset_bytes(offset);
  v1::ChunkData* array = message.mutable_chunk()->add_arrays();
  array->set_array(v1::RESULT_ARRAY_TABLE);
  array->set_data(data);
  return message;
}

Message End(int64_t item = 0) {
  Message message;
  message.set_item(item);
  message.mutable_end();
  return message;
}

// Answers the n-th call with the n-th script, and notes where it was asked to begin.
class Scripted final : public v1::PositionService::Service {
 public:
  struct Script {
    std::vector<Message> messages;
    grpc::Status status;
  };
  explicit Scripted(std::vector<Script> scripts) : scripts_(std::move(scripts)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ClientOptions options;
    options.max_attempts = 3;
    client_ = Client::Connect("127.0.0.1:" + std::to_string(port_), options);
  }

  grpc::Status StreamPrecompute(grpc::ServerContext* context, const v1::StreamPrecomputeRequest* request,
                                grpc::ServerWriter<Message>* writer) override {
    const size_t call = asked_.size();
    asked_.push_back(std::to_string(request->first_item()) + ":" + std::to_string(request->first_row()));
    context->AddTrailingMetadata("grpc-retry-pushback-ms", "1");
    if (call >= scripts_.size()) return {grpc::StatusCode::INTERNAL, "no script"};
    for (const Message& message : scripts_[call].messages) writer->Write(message);
    return scripts_[call].status;
  }

  // The messages that the sink got, in short.
  absl::Status Stream(std::vector<std::string>* got) {
    v1::StreamPrecomputeRequest request;
    request.add_items();
    request.add_items();
    return client_->StreamPrecompute(request, {}, [&](const Message& message, const raw::Payloads& payloads) {
      std::string text = message.has_header() ? "header" : message.has_end() ? "end" : "chunk ";
      for (const v1::ChunkData& array : message.chunk().arrays()) {
        const auto pieces = payloads.Find(array.data());
        for (const raw::Piece& piece : pieces.value_or(std::span<const raw::Piece>())) {
          text.append(reinterpret_cast<const char*>(piece.data), piece.size);
        }
      }
      got->push_back(text);
      return text == "chunk bad" ? absl::OutOfRangeError("the sink is full") : absl::OkStatus();
    });
  }

  const std::vector<std::string>& asked() const { return asked_; }

 private:
  const std::vector<Script> scripts_;
  std::vector<std::string> asked_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

const grpc::Status kGone(grpc::StatusCode::UNAVAILABLE, "gone");

TEST(StreamPrecomputeClientTest, GoesOnWhereItBrokeOff) {
  Scripted server({
      {{Header("A"), Chunk("0011", 0), Chunk("2233", 4)}, kGone},
      {{}, kGone},
      {{Header("A", 0, 4), Chunk("4455", 8)}, kGone},
      {{Header("A", 0, 6), Chunk("667788", 12), End()}, kGone},
      {{Header("B", 1), Chunk("00", 0, 1)}, kGone},
      {{Header("B", 1, 1), Chunk("1122334455667788", 2, 1), End(1)}, {}},
  });
  std::vector<std::string> got;
  EXPECT_EQ(server.Stream(&got), absl::OkStatus());
  EXPECT_THAT(got, ElementsAre("header", "chunk 0011", "chunk 2233", "chunk 4455", "chunk 667788", "end", "header",
                               "chunk 00", "chunk 1122334455667788", "end"));
  EXPECT_THAT(server.asked(), ElementsAre("0:0", "0:4", "0:4", "0:6", "1:0", "1:1"));
}

TEST(StreamPrecomputeClientTest, GivesUpAtOnePlace) {
  Scripted server({{{Header("A"), Chunk("0011", 0)}, kGone}, {{}, kGone}, {{}, kGone}, {{}, kGone}});
  std::vector<std::string> got;
  const absl::Status status = server.Stream(&got);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gone"));
  EXPECT_EQ(server.asked().size(), 3u);
}

TEST(StreamPrecomputeClientTest, OtherBitsAreNotJoined) {
  Scripted server({{{Header("A"), Chunk("0011", 0)}, kGone}, {{Header("other", 0, 2), Chunk("2233", 4)}, {}}});
  std::vector<std::string> got;
  EXPECT_EQ(server.Stream(&got).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(got, ElementsAre("header", "chunk 0011"));
}

TEST(StreamPrecomputeClientTest, AWrongChecksumIsDataLoss) {
  Message good = Chunk("123456789", 0), bad = Chunk("123456780", 9);
  good.mutable_chunk()->mutable_arrays(0)->set_crc32c(0xE3069283);
  bad.mutable_chunk()->mutable_arrays(0)->set_crc32c(0xE3069283);
  Scripted server({{{Header("A"), good, bad}, {}}});
  std::vector<std::string> got;
  const absl::Status status = server.Stream(&got);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the chunk at byte 9"));
  EXPECT_THAT(got, ElementsAre("header", "chunk 123456789"));
}

TEST(StreamPrecomputeClientTest, TheSinkMayStopIt) {
  Scripted server({{{Header("A"), Chunk("bad", 0), Chunk("next", 3)}, {}}});
  std::vector<std::string> got;
  EXPECT_EQ(server.Stream(&got), absl::OutOfRangeError("the sink is full"));
  EXPECT_THAT(got, ElementsAre("header", "chunk bad"));
}

}  // namespace
}  // namespace phasor::client
