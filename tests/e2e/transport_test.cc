// Health, reflection, compression, overload, deadlines, cancelling, idleness.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

constexpr const char* kServices[] = {"phasor.v1.PositionService", "phasor.v1.CatalogService", "phasor.v1.AdminService",
                                     "phasor.v1.SharedMemoryService"};

ServerOptions SlowOptions() {
  ServerOptions options = LoopbackOptions();
  options.worker_threads = 1;
  return options;
}

// A Precompute call under way on a thread of its own.
class Background {
 public:
  Background(v1::PositionService::Stub* stub, const v1::PrecomputeRequest& request)
      : thread_([this, stub, request] { status_ = stub->Precompute(&context_, request, &response_); }) {}
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }
  void Cancel() { context_.TryCancel(); }
  const grpc::Status& Join() {
    thread_.join();
    return status_;
  }

 private:
  grpc::ClientContext context_;
  v1::PrecomputeResponse response_;
  grpc::Status status_;
  std::thread thread_;
};

TEST(TransportTest, HealthPerService) {
  TestServer server;
  for (const std::string service : {"", "liveness", kServices[0], kServices[1], kServices[2]}) {
    EXPECT_EQ(CheckHealth(server.channel(), service), HealthCheckResponse::SERVING) << service;
  }
  EXPECT_EQ(CheckHealth(server.channel(), "no.such.Service"), HealthCheckResponse::SERVICE_UNKNOWN);
  server->BeginDrain();
  for (const std::string service : {"", kServices[0], kServices[1], kServices[2]}) {
    EXPECT_EQ(CheckHealth(server.channel(), service), HealthCheckResponse::NOT_SERVING) << service;
  }
  EXPECT_EQ(CheckHealth(server.channel(), "liveness"), HealthCheckResponse::SERVING);
  // Calls are still served meanwhile.
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_TRUE(server.position().Precompute(&context, LlamaTable(4), &response).ok());
}

// One question on a reflection stream; the answer's bytes.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel, const std::string& question) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  auto call = stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  const auto next = [&] { return queue.Next(&tag, &ok) && ok; };
  call->StartCall(nullptr);
  if (!next()) return "";
  const grpc::Slice slice(question);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  if (!next()) return "";
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  if (!next()) return "";
  std::string bytes;
  std::vector<grpc::Slice> slices;
  answer.Dump(&slices);
  for (const grpc::Slice& piece : slices) bytes.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
  call->WritesDone(nullptr);
  next();
  grpc::Status status;
  call->Finish(&status, nullptr);
  next();
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return bytes;
}

TEST(TransportTest, ReflectionListsAndDescribesEveryService) {
  TestServer server;
  const std::string listed = Reflect(server.channel(), std::string("\x3a\x00", 2));  // list_services = ""
  for (const char* service : kServices) EXPECT_THAT(listed, HasSubstr(service));
  EXPECT_THAT(listed, HasSubstr("grpc.health.v1.Health"));
  for (const std::string symbol : {"phasor.v1.PositionService", "grpc.health.v1.Health"}) {
    // file_containing_symbol
    const std::string question = std::string("\x22") + static_cast<char>(symbol.size()) + symbol;
    EXPECT_THAT(Reflect(server.channel(), question), HasSubstr(".proto")) << symbol;
    EXPECT_THAT(Reflect(server.channel(), question), ::testing::Not(HasSubstr("not found"))) << symbol;
  }
}

TEST(TransportTest, CompressedRequestsAreRefusedAndNotInflated) {
  TestServer server;
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    v1::ApplyRequest request;
    v1::Tensor* tensor = request.add_items()->add_tensors();
    tensor->set_data(std::string(8 << 20, '\0'));
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::ApplyResponse response;
    const grpc::Status status = server.position().Apply(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
  // What arrived was kilobytes, and they stayed kilobytes.
  EXPECT_LT(server.Metric("phasor_request_bytes_total{method=\"phasor.v1.PositionService/Apply\"}"), 256 << 10);
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  EXPECT_TRUE(server.admin().GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok());
}

TEST(TransportTest, MessagesOverTheLimitAreRefusedBeforeTheyAreTaken) {
  ServerOptions options = LoopbackOptions();
  options.limits.max_request_bytes = 1 << 20;
  TestServer server(options);
  v1::ApplyRequest request;
  request.add_items()->add_tensors()->set_data(std::string(3 << 20, 'x'));
  grpc::ClientContext context;
  v1::ApplyResponse response;
  EXPECT_EQ(server.position().Apply(&context, request, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(TransportTest, OverloadSaysWhenToComeBack) {
  ServerOptions options = SlowOptions();
  options.limits.max_inflight_requests = 1;
  TestServer server(options);
  Background slow(&server.position(), SlowTable());
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 1; }));
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  const grpc::Status status = server.admin().GetServerInfo(&context, v1::GetServerInfoRequest(), &info);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).reason(), "OVERLOADED");
  EXPECT_GT(DetailOf<google::rpc::RetryInfo>(status).retry_delay().nanos(), 0);
  const auto pushback = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, context.GetServerTrailingMetadata().end());
  EXPECT_GT(std::atoi(std::string(pushback->second.data(), pushback->second.size()).c_str()), 0);
  EXPECT_TRUE(
      server.AwaitMetric("phasor_rejected_requests_total{reason=\"inflight_requests\"}", [](double n) { return n == 1; }));
  slow.Cancel();
  EXPECT_EQ(slow.Join().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  grpc::ClientContext again;
  EXPECT_TRUE(server.admin().GetServerInfo(&again, v1::GetServerInfoRequest(), &info).ok());
}

TEST(TransportTest, CancelledCallsAreCountedAndLeaveNothingBehind) {
  TestServer server(SlowOptions());
  for (int i = 0; i < 3; ++i) {
    Background slow(&server.position(), SlowTable());
    ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 1; }));
    slow.Cancel();
    EXPECT_EQ(slow.Join().error_code(), grpc::StatusCode::CANCELLED);
    ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  }
  EXPECT_EQ(server.Metric("phasor_requests_total{code=\"CANCELLED\",method=\"phasor.v1.PositionService/Precompute\"}"), 3);
  EXPECT_EQ(server.Metric("phasor_inflight_bytes"), 0);
  EXPECT_EQ(server.Metric("phasor_queue_length"), 0);
}

TEST(TransportTest, DeadlinesEndCalls) {
  TestServer server(SlowOptions());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  v1::PrecomputeResponse response;
  EXPECT_EQ(server.position().Precompute(&context, SlowTable(), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  // The client's clock may be the first: it then cancels, and that is what the server sees.
  const std::string method = ",method=\"phasor.v1.PositionService/Precompute\"}";
  EXPECT_EQ(server.Metric("phasor_requests_total{code=\"DEADLINE_EXCEEDED\"" + method) +
                server.Metric("phasor_requests_total{code=\"CANCELLED\"" + method),
            1);
}

// Cancels at every point of a call's life that timing can reach: before it is read, while it is queued, built, sent.
TEST(TransportTest, CancellingAtAnyTimeIsSurvived) {
  TestServer server;
  for (int i = 0; i < 200; ++i) {
    Background call(&server.position(), LlamaTable(1 + (i * 37) % 20000));
    std::this_thread::sleep_for(std::chrono::microseconds((i * 53) % 2000));
    call.Cancel();
    const grpc::StatusCode code = call.Join().error_code();
    EXPECT_TRUE(code == grpc::StatusCode::OK || code == grpc::StatusCode::CANCELLED) << code;
  }
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  // What was held for an answer is let go of after the call is counted as ended.
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

TEST(TransportTest, ManyCallsAtOnce) {
  TestServer server;
  std::vector<std::thread> clients;
  for (int t = 0; t < 8; ++t) {
    clients.emplace_back([&server, t] {
      const auto stub = v1::PositionService::NewStub(Connect(server->ports().front()));
      for (int i = 0; i < 100; ++i) {
        grpc::ClientContext context;
        v1::PrecomputeResponse response;
        const int64_t rows = 1 + (t * 100 + i) % 300;
        const grpc::Status status = stub->Precompute(&context, LlamaTable(rows), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        ASSERT_EQ(response.results(0).cos().data().size(), static_cast<size_t>(rows) * 64 * 4);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(server.AwaitMetric("phasor_requests_total{code=\"OK\",method=\"phasor.v1.PositionService/Precompute\"}",
                                 [](double n) { return n == 800; }));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
}

// An API of gRPC sleeps up to 100 ms when a call comes after a second of idleness; ours must not.
TEST(TransportTest, IdlenessDoesNotSlowTheNextCall) {
  TestServer server;
  const auto call = [&server] {
    const Clock::time_point start = Clock::now();
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    EXPECT_TRUE(server.position().Precompute(&context, LlamaTable(4), &response).ok());
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  call();
  double best = 1;
  for (int i = 0; i < 4; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    best = std::min(best, call());
  }
  EXPECT_LT(best, 0.025);
}

}  // namespace
}  // namespace phasor::server
