// Calls that are given up as they begin, by many clients at once: the server's threads learn of the end of a call on one
// thread while another has just taken it up.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

struct Pending {
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PrecomputeResponse>> reader;
};

// Calls in bursts, each given up somewhere between before it leaves and after its answer; how many ended.
int CallAndGiveUp(int port, int bursts, int seed) {
  const auto stub = v1::PositionService::NewStub(Connect(port));
  const v1::PrecomputeRequest request = LlamaTable(1);
  int ended = 0;
  for (int burst = 0; burst < bursts; ++burst) {
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<Pending>> calls;
    for (int i = 0; i < 64; ++i) {
      calls.push_back(std::make_unique<Pending>());
      Pending& call = *calls.back();
      call.context.set_deadline(std::chrono::system_clock::now() +
                                std::chrono::microseconds(i % 4 == 0 ? 50 * ((i + seed) % 40) : 10'000'000));
      call.reader = stub->AsyncPrecompute(&call.context, request, &queue);
      call.reader->Finish(&call.response, &call.status, &call);
      if (i % 3 == 0) call.context.TryCancel();
    }
    for (int i = burst % 2; i < 64; i += 2) calls[static_cast<size_t>(i)]->context.TryCancel();
    void* tag = nullptr;
    bool ok = false;
    for (size_t i = 0; i < calls.size() && queue.Next(&tag, &ok); ++i) ++ended;
  }
  return ended;
}

TEST(EarlyCancelTest, NothingIsLostOrTouchedTooLate) {
  ServerOptions options = LoopbackOptions();
  options.rpc_threads = 4;
  TestServer server(options);
  constexpr int kClients = 3, kBursts = 200;
  std::atomic<int> ended{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] { ended += CallAndGiveUp(server->ports().front(), kBursts, c); });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ended.load(), kClients * kBursts * 64);
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_TRUE(server.position().Precompute(&context, LlamaTable(1), &response).ok());
}

}  // namespace
}  // namespace phasor::server
