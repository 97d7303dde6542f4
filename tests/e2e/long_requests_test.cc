// Requests that take long to parse, and who waits for them.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

// A few bytes of request that stand for 2^24 ids, and an error that is found after them.
v1::PrecomputeRequest LongRequest() {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem& item = *request.add_items();
  item.mutable_spec()->mutable_rope()->set_head_dim(64);
  item.set_dtype(v1::DTYPE_F64);
  auto& packed = *item.mutable_table()->mutable_positions()->mutable_packed();
  for (const int64_t end : {0, 1 << 23, 1 << 24}) packed.add_cu_seqlens(end);
  return request;
}

struct Pending {
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PrecomputeResponse>> reader;
};

// One thread takes all calls: a small one that comes after twelve long ones has its answer before they have all been parsed.
TEST(LongRequestsTest, SmallCallsDoNotWaitForThem) {
  ServerOptions options = LoopbackOptions();
  options.rpc_threads = 1;
  TestServer server(options);
  grpc::ClientContext warm;
  v1::PrecomputeResponse response;
  ASSERT_TRUE(server.position().Precompute(&warm, LlamaTable(1), &response).ok());

  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Pending>> calls;
  const auto call = [&](const v1::PrecomputeRequest& request) {
    calls.push_back(std::make_unique<Pending>());
    Pending& one = *calls.back();
    one.context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    one.reader = server.position().AsyncPrecompute(&one.context, request, &queue);
    one.reader->Finish(&one.response, &one.status, &one);
  };
  constexpr size_t kLong = 12;
  for (size_t i = 0; i < kLong; ++i) call(LongRequest());
  call(LlamaTable(1));
  const Pending* small = calls.back().get();
  size_t before = 0;
  bool seen = false, ok = false;
  void* tag = nullptr;
  for (size_t i = 0; i < calls.size() && queue.Next(&tag, &ok); ++i) {
    seen = seen || tag == small;
    before += seen ? 0 : 1;
  }
  EXPECT_TRUE(small->status.ok()) << small->status.error_message();
  EXPECT_LT(before, kLong / 2);
  for (size_t i = 0; i < kLong; ++i) {
    EXPECT_TRUE(calls[i]->status.ok()) << calls[i]->status.error_message();
    EXPECT_EQ(calls[i]->response.results(0).status().code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
}

// A call whose deadline has passed while it waited is not parsed.
TEST(LongRequestsTest, ThoseThatAreLateAreLeft) {
  TestServer server;
  std::vector<std::unique_ptr<Pending>> calls;
  grpc::CompletionQueue queue;
  for (int i = 0; i < 40; ++i) {
    calls.push_back(std::make_unique<Pending>());
    Pending& one = *calls.back();
    one.context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    one.reader = server.position().AsyncPrecompute(&one.context, LongRequest(), &queue);
    one.reader->Finish(&one.response, &one.status, &one);
  }
  void* tag = nullptr;
  bool ok = false;
  for (size_t i = 0; i < calls.size(); ++i) ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_requests", [](double n) { return n == 0; }));
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_TRUE(server.position().Precompute(&context, LongRequest(), &response).ok());
}

}  // namespace
}  // namespace phasor::server
