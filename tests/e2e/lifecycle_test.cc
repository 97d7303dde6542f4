// Starting, warming, draining, stopping.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

std::shared_ptr<Logger> Silent() { return std::make_shared<Logger>(LogOptions{.json = false, .level = LogLevel::kOff}); }

TEST(LifecycleTest, ATakenPortRefusesToStart) {
  TestServer first;
  ServerOptions options = LoopbackOptions();
  options.listen = {"127.0.0.1:" + std::to_string(first->ports().front())};
  const auto second = Server::Start(options, Silent());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()),
              ::testing::AllOf(HasSubstr("--listen"), HasSubstr(options.listen[0]), HasSubstr("taken")));
}

TEST(LifecycleTest, ATakenMetricsPortRefusesUnlessAnotherMayBePicked) {
  ServerOptions options = LoopbackOptions();
  options.metrics_listen = "127.0.0.1:0";
  TestServer first(options);
  ASSERT_GT(first->metrics_port(), 0);
  options.metrics_listen = "127.0.0.1:" + std::to_string(first->metrics_port());
  const auto second = Server::Start(options, Silent());
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--metrics-listen"));
  options.metrics_fallback = true;
  TestServer third(options);
  EXPECT_NE(third->metrics_port(), first->metrics_port());
  EXPECT_GT(third->metrics_port(), 0);
}

TEST(LifecycleTest, SeveralListenersAndAUnixSocket) {
  ServerOptions options = LoopbackOptions();
  const std::string path = ::testing::TempDir() + "phasor_" + std::to_string(getpid()) + ".sock";
  options.listen = {"127.0.0.1:0", "127.0.0.1:0"};
  options.admin_listen = {"unix:" + path};
  TestServer server(options);
  ASSERT_EQ(server->ports().size(), 2u);
  EXPECT_NE(server->ports()[0], server->ports()[1]);
  for (const int port : server->ports()) {
    EXPECT_EQ(CheckHealth(Connect(port), ""), HealthCheckResponse::SERVING);
  }
  const auto admin = v1::AdminService::NewStub(grpc::CreateChannel("unix:" + path, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::EvictTablesRequest request;
  request.set_all(true);
  v1::EvictTablesResponse response;
  EXPECT_TRUE(admin->EvictTables(&context, request, &response).ok());
}

TEST(LifecycleTest, WarmTablesAreThereForTheFirstCall) {
  ServerOptions options = LoopbackOptions();
  options.warm = {R"(dtype=f32,positions=5000,{"rope":{"headDim":128,"base":500000,"llama3":{"factor":8,"lowFreqFactor":1,)"
                  R"("highFreqFactor":4,"originalMaxPosition":8192}}})"};
  TestServer server(options);
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  ASSERT_TRUE(server.position().Precompute(&context, LlamaTable(5000), &response).ok());
  EXPECT_EQ(response.results(0).cache(), v1::CACHE_OUTCOME_HIT);
}

TEST(LifecycleTest, DrainLetsARunningCallEnd) {
  ServerOptions options = LoopbackOptions();
  options.worker_threads = 1;
  TestServer server(options);
  auto running = std::async(std::launch::async, [&server] {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    return server.position().Precompute(&context, SlowTable(50000), &response);
  });
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 1; }));
  server->BeginDrain();
  server->Shutdown(std::chrono::seconds(60));
  const grpc::Status status = running.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  // Nothing answers any more.
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  v1::PrecomputeResponse response;
  EXPECT_EQ(server.position().Precompute(&context, LlamaTable(1), &response).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(LifecycleTest, GraceThatHasPassedCancelsWhatRuns) {
  ServerOptions options = LoopbackOptions();
  options.worker_threads = 1;
  TestServer server(options);
  auto running = std::async(std::launch::async, [&server] {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    return server.position().Precompute(&context, SlowTable(), &response);
  });
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 1; }));
  const Clock::time_point start = Clock::now();
  server->Shutdown(std::chrono::milliseconds(50));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  EXPECT_FALSE(running.get().ok());
}

TEST(LifecycleTest, AnOpenHealthWatchDoesNotHoldUpTheDrain) {
  TestServer server;
  grpc::ClientContext context;
  const auto watch = grpc::health::v1::Health::NewStub(server.channel())->Watch(&context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  server->BeginDrain();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  const Clock::time_point start = Clock::now();
  server->Shutdown(std::chrono::minutes(5));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_FALSE(watch->Finish().ok());
}

// Neither calls that fill the server nor its shutdown keep health from anybody; and health's own streams count for neither.
TEST(LifecycleTest, HealthAnswersWhileCallsAreRefused) {
  ServerOptions options = LoopbackOptions();
  options.worker_threads = 1;
  options.limits.max_inflight_requests = 1;
  TestServer server(options);
  const auto health = grpc::health::v1::Health::NewStub(server.channel());
  grpc::ClientContext watch_context;
  const auto watch = health->Watch(&watch_context, HealthCheckRequest());
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(server->inflight_requests(), 0);

  grpc::ClientContext slow_context;
  auto running = std::async(std::launch::async, [&] {
    v1::PrecomputeResponse table;
    return server.position().Precompute(&slow_context, SlowTable(), &table);
  });
  ASSERT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 1; }));
  const auto refused_with = [&server] {
    grpc::ClientContext context;
    v1::PrecomputeResponse table;
    return server.position().Precompute(&context, LlamaTable(1), &table).error_message();
  };
  EXPECT_THAT(refused_with(), HasSubstr("max_inflight_requests"));
  EXPECT_EQ(CheckHealth(server.channel(), ""), HealthCheckResponse::SERVING);

  auto shutdown = std::async(std::launch::async, [&server] { server->Shutdown(std::chrono::minutes(5)); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  while (refused_with().find("shutting down") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(CheckHealth(server.channel(), ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(CheckHealth(server.channel(), "phasor.v1.PositionService"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(CheckHealth(server.channel(), "liveness"), HealthCheckResponse::SERVING);
  EXPECT_EQ(shutdown.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);

  slow_context.TryCancel();
  EXPECT_EQ(running.get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(shutdown.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(LifecycleTest, ShutdownUnderLoadAnswersOrRefusesEveryCall) {
  TestServer server;
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, refused{0}, other{0}, last_other{0};
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&] {
      const auto stub = v1::PositionService::NewStub(Connect(server->ports().front()));
      while (!stop.load()) {
        grpc::ClientContext context;
        v1::PrecomputeResponse response;
        const grpc::StatusCode code = stub->Precompute(&context, LlamaTable(200), &response).error_code();
        (code == grpc::StatusCode::OK ? answered : code == grpc::StatusCode::UNAVAILABLE ? refused : other).fetch_add(1);
        if (code != grpc::StatusCode::OK && code != grpc::StatusCode::UNAVAILABLE) last_other.store(code);
        if (code != grpc::StatusCode::OK) break;
      }
    });
  }
  while (answered.load() < 50) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server->BeginDrain();
  server->Shutdown(std::chrono::seconds(30));
  stop.store(true);
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(other.load(), 0) << last_other.load();
  EXPECT_EQ(server->inflight_requests(), 0);
}

TEST(LifecycleTest, StartAndStopManyTimes) {
  for (int i = 0; i < 10; ++i) {
    TestServer server;
    if (i % 2 == 0) {
      grpc::ClientContext context;
      v1::GetServerInfoResponse info;
      ASSERT_TRUE(server.admin().GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok());
    }
  }
}

}  // namespace
}  // namespace phasor::server
