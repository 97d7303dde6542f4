// UploadTensor: streams that end well, streams that do not, and what their content is good for.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/phasor_client.h"
#include "server/fingerprint.h"
#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

constexpr char kCalls[] = "method=\"phasor.v1.PositionService/UploadTensor\"}";

std::string Calls(const std::string& code) { return "phasor_requests_total{code=\"" + code + "\"," + kCalls; }

ServerOptions SmallQuota() {
  ServerOptions options = LoopbackOptions();
  options.uploads.total_bytes = 1 << 20;
  options.uploads.peer_bytes = 1 << 20;
  options.limits.max_upload_bytes = 8 << 20;
  return options;
}

// One message of a stream.
struct Piece {
  int64_t size_bytes = 0;
  std::string sha256;
  std::string data;
};

struct Answer {
  grpc::Status status;
  v1::UploadTensorResponse response;
};

Answer Send(TestServer& server, const std::vector<Piece>& pieces) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  Answer answer;
  const auto writer = server.position().UploadTensor(&context, &answer.response);
  for (const Piece& piece : pieces) {
    v1::UploadTensorRequest request;
    request.set_size_bytes(piece.size_bytes);
    request.set_sha256(piece.sha256);
    request.set_data(piece.data);
    if (!writer->Write(request)) break;
  }
  writer->WritesDone();
  answer.status = writer->Finish();
  return answer;
}

// Nothing is left of calls that ended.
void ExpectIdle(TestServer& server) {
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

TEST(UploadTest, ContentComesInPiecesAndIsNamedByItsHash) {
  TestServer server;
  const Answer answer = Send(server, {{10, "", "0123"}, {0, "", "45"}, {99, "ignored", "6789"}});
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.sha256(), Sha256("0123456789"));
  EXPECT_EQ(answer.response.size_bytes(), 10);
  EXPECT_EQ(answer.response.ttl_seconds(), 3600);
  EXPECT_EQ(server.Metric("phasor_upload_bytes"), 10);
  EXPECT_EQ(server.Metric("phasor_upload_objects"), 1);
  ASSERT_TRUE(server.AwaitMetric(Calls("OK"), [](double n) { return n == 1; }));
  EXPECT_GT(server.Metric(std::string("phasor_request_bytes_total{") + kCalls), 10);
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(server.admin().GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok());
  EXPECT_EQ(info.memory().upload_bytes(), 10);
  EXPECT_EQ(info.memory().upload_capacity_bytes(), int64_t{2} << 30);
  EXPECT_EQ(info.memory().upload_peer_capacity_bytes(), int64_t{1} << 30);
  EXPECT_EQ(info.upload_ttl_seconds(), 3600);
  ExpectIdle(server);
}

TEST(UploadTest, HostileStreamsAreRefusedAndLeaveNothingBehind) {
  struct Case {
    std::vector<Piece> pieces;
    const char* reason;
    const char* field;
    const char* text;
  };
  const std::string hash = Sha256("0123456789");
  const Case cases[] = {
      {{}, "INVALID_FIELD", "size_bytes", "no message"},
      {{{0, "", "0123"}}, "INVALID_FIELD", "size_bytes", "given nothing"},
      {{{-1, "", "0123"}}, "INVALID_FIELD", "size_bytes", "-1"},
      {{{(8 << 20) + 1, "", "0123"}}, "LIMIT_EXCEEDED", "size_bytes", "max_upload_bytes"},
      {{{10, "", ""}}, "INVALID_FIELD", "data", "0 bytes in all"},
      {{{10, "", "012345678"}}, "INVALID_FIELD", "data", "9 bytes in all"},
      {{{10, "", "0123456789+"}}, "INVALID_FIELD", "data", "more than 10 bytes"},
      {{{10, "", "0123456789"}, {0, "", "+"}}, "INVALID_FIELD", "data", "more than 10 bytes"},
      {{{10, "", "01234"}, {0, "", ""}}, "INVALID_FIELD", "data", "nothing"},
      {{{10, "short", "0123456789"}}, "INVALID_FIELD", "sha256", "5 bytes"},
      {{{10, hash, "9876543210"}}, "INVALID_FIELD", "sha256", "the content's SHA-256"},
      {{{(1 << 20) + 1, "", "0"}}, "QUOTA_EXCEEDED", "", "--upload-peer-bytes"},
  };
  TestServer server(SmallQuota());
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const bool quota = std::string(c.reason) == "QUOTA_EXCEEDED";
    const Answer answer = Send(server, c.pieces);
    const auto info = DetailOf<google::rpc::ErrorInfo>(answer.status);
    EXPECT_EQ(answer.status.error_code(), quota ? grpc::StatusCode::RESOURCE_EXHAUSTED : grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(info.reason(), c.reason);
    EXPECT_THAT(answer.status.error_message(), HasSubstr(c.text));
    if (quota) {
      EXPECT_THAT(DetailOf<google::rpc::QuotaFailure>(answer.status).violations(0).subject(), HasSubstr("127.0.0.1"));
    } else {
      EXPECT_EQ(DetailOf<google::rpc::BadRequest>(answer.status).field_violations(0).field(), c.field);
    }
  }
  EXPECT_EQ(server.Metric("phasor_upload_bytes"), 0);
  EXPECT_EQ(server.Metric("phasor_upload_objects"), 0);
  EXPECT_EQ(server.Metric("phasor_uploads_refused_total"), 1);
  ExpectIdle(server);
}

TEST(UploadTest, APieceOfMoreThanFourMebibytesIsRefused) {
  TestServer server;
  const Answer answer = Send(server, {{8 << 20, "", std::string((4 << 20) + 1, 'x')}});
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("4194304"));
  const Answer good = Send(server, {{4 << 20, "", std::string(4 << 20, 'x')}});
  EXPECT_TRUE(good.status.ok()) << good.status.error_message();
}

TEST(UploadTest, ContentThatIsThereIsNotSentAgain) {
  TestServer server;
  const std::string content(100000, 'c');
  ASSERT_TRUE(Send(server, {{100000, "", content}}).status.ok());
  // The announcement alone is answered.
  const Answer again = Send(server, {{100000, Sha256(content), ""}});
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(again.response.sha256(), Sha256(content));
  const Answer wrong = Send(server, {{99999, Sha256(content), ""}});
  EXPECT_EQ(wrong.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(wrong.status.error_message(), HasSubstr("100000"));
  EXPECT_EQ(server.Metric("phasor_upload_objects"), 1);
}

TEST(UploadTest, CancelledAndAbandonedStreamsLeaveNothingBehind) {
  TestServer server(SmallQuota());
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    v1::UploadTensorResponse response;
    const auto writer = server.position().UploadTensor(&context, &response);
    v1::UploadTensorRequest request;
    request.set_size_bytes(1 << 20);
    request.set_data(std::string(static_cast<size_t>(1000 * i), 'x'));
    writer->Write(request);
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(i));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ASSERT_TRUE(server.AwaitMetric("phasor_upload_bytes", [](double n) { return n == 0; }));
  EXPECT_EQ(server.Metric(Calls("INVALID_ARGUMENT")), 0);
  ExpectIdle(server);
}

TEST(UploadTest, DeadlinesEndStreams) {
  TestServer server;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
  v1::UploadTensorResponse response;
  const auto writer = server.position().UploadTensor(&context, &response);
  v1::UploadTensorRequest request;
  request.set_size_bytes(1000);
  request.set_data("x");
  writer->Write(request);
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(server.AwaitMetric("phasor_upload_bytes", [](double n) { return n == 0; }));
  ExpectIdle(server);
}

TEST(UploadTest, ShutdownEndsStreams) {
  TestServer server;
  grpc::ClientContext context;
  v1::UploadTensorResponse response;
  const auto writer = server.position().UploadTensor(&context, &response);
  v1::UploadTensorRequest request;
  request.set_size_bytes(1000);
  request.set_data("x");
  writer->Write(request);
  ASSERT_TRUE(server.AwaitMetric("phasor_upload_bytes", [](double n) { return n == 1000; }));
  server->Shutdown(std::chrono::milliseconds(100));
  EXPECT_FALSE(writer->Finish().ok());
}

TEST(UploadTest, BytesOnTheirWayAreInFlight) {
  ServerOptions options = LoopbackOptions();
  options.limits.max_inflight_bytes = 1 << 20;
  TestServer server(options);
  grpc::ClientContext context;
  v1::UploadTensorResponse response;
  const auto writer = server.position().UploadTensor(&context, &response);
  v1::UploadTensorRequest request;
  request.set_size_bytes(1 << 20);
  writer->Write(request);
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 1 << 20; }));
  const Answer second = Send(server, {{1 << 20, "", "x"}});
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(second.status).reason(), "OVERLOADED");
  EXPECT_TRUE(
      server.AwaitMetric("phasor_rejected_requests_total{reason=\"inflight_bytes\"}", [](double n) { return n == 1; }));
  context.TryCancel();
  EXPECT_FALSE(writer->Finish().ok());
  ExpectIdle(server);
}

TEST(UploadTest, ManyStreamsAtOnce) {
  TestServer server;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&server, t] {
      const auto client = client::Client::Over(Connect(server->ports().front()));
      for (int i = 0; i < 10; ++i) {
        std::string content(static_cast<size_t>(1 + (t * 10 + i) * 40000), static_cast<char>('a' + t));
        const auto answer = client->UploadTensor(std::as_bytes(std::span(content)));
        ASSERT_TRUE(answer.ok()) << answer.status();
        EXPECT_EQ(answer->sha256(), Sha256(content));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server.Metric("phasor_upload_objects"), 60);
  ExpectIdle(server);
}

// A tensor whose elements were uploaded gives the bits of one whose elements came with the call.
TEST(UploadTest, TensorsTakeUploadedContent) {
  TestServer server;
  std::vector<float> x(2 * 3 * 8);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.25f - 3;
  const std::string bytes(reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float));
  const Answer sent = Send(server, {{static_cast<int64_t>(bytes.size()), "", bytes}});
  ASSERT_TRUE(sent.status.ok());
  v1::ApplyRequest request;
  for (int i = 0; i < 2; ++i) {
    v1::ApplyItem* item = request.add_items();
    item->mutable_spec()->mutable_rope()->set_head_dim(8);
    v1::Tensor* tensor = item->add_tensors();
    tensor->set_dtype(v1::DTYPE_F32);
    for (const int64_t extent : {1, 2, 3, 8}) tensor->add_shape(extent);
    if (i == 0) tensor->set_data(bytes);
    if (i == 1) tensor->mutable_upload()->set_sha256(sent.response.sha256());
  }
  grpc::ClientContext context;
  v1::ApplyResponse response;
  ASSERT_TRUE(server.position().Apply(&context, request, &response).ok());
  ASSERT_EQ(response.results(1).status().code(), 0) << response.results(1).status().message();
  EXPECT_EQ(response.results(0).tensors(0).data(), response.results(1).tensors(0).data());
  EXPECT_NE(response.results(0).tensors(0).data(), bytes);
}

TEST(UploadTest, ErrorsNameTheFieldOfTheUpload) {
  TestServer server;
  ASSERT_TRUE(Send(server, {{10, "", "0123456789"}}).status.ok());
  struct Case {
    std::string sha256;
    int code;
    const char* reason;
    const char* field;
    const char* text;
  };
  const Case cases[] = {
      {Sha256("nothing that was sent"), 9, "UPLOAD_NOT_FOUND", "items[0].tensors[0].upload", "UploadTensor"},
      {"abc", 3, "INVALID_FIELD", "items[0].tensors[0].upload.sha256", "3 bytes"},
      {Sha256("0123456789"), 3, "INVALID_FIELD", "items[0].tensors[0].upload", "given 10 bytes; allowed: 32 bytes"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    v1::ApplyRequest request;
    v1::ApplyItem* item = request.add_items();
    item->mutable_spec()->mutable_rope()->set_head_dim(8);
    v1::Tensor* tensor = item->add_tensors();
    tensor->set_dtype(v1::DTYPE_F32);
    for (const int64_t extent : {1, 1, 1, 8}) tensor->add_shape(extent);
    tensor->mutable_upload()->set_sha256(c.sha256);
    grpc::ClientContext context;
    v1::ApplyResponse response;
    ASSERT_TRUE(server.position().Apply(&context, request, &response).ok());
    const google::rpc::Status& status = response.results(0).status();
    EXPECT_EQ(status.code(), c.code);
    EXPECT_THAT(status.message(), HasSubstr(c.text));
    google::rpc::ErrorInfo info;
    for (const auto& detail : status.details()) detail.UnpackTo(&info);
    ASSERT_TRUE(status.details(0).UnpackTo(&info));
    EXPECT_EQ(info.reason(), c.reason);
    EXPECT_EQ(info.metadata().at("field"), c.field);
  }
}

TEST(UploadTest, ExpiredContentIsNotFound) {
  ServerOptions options = LoopbackOptions();
  options.uploads.ttl = std::chrono::milliseconds(1);
  TestServer server(options);
  ASSERT_TRUE(Send(server, {{10, "", "0123456789"}}).status.ok());
  EXPECT_TRUE(server.AwaitMetric("phasor_uploads_expired_total", [](double n) { return n == 1; }));
  EXPECT_EQ(server.Metric("phasor_upload_bytes"), 0);
}

}  // namespace
}  // namespace phasor::server
