// Requests that come again and again: their answers are what they were, until something was evicted.
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

constexpr char kFound[] = "phasor_remembered_answers_found_total";

v1::PrecomputeResponse Call(TestServer& server, const v1::PrecomputeRequest& request) {
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

// What must not change from call to call.
std::string Content(v1::PrecomputeResponse response) {
  response.clear_stages();
  for (auto& result : *response.mutable_results()) {
    result.clear_stages();
    result.clear_cache();
  }
  return response.SerializeAsString();
}

v1::PrecomputeRequest Rows(int64_t first, int64_t count) {
  v1::PrecomputeRequest request = LlamaTable(count);
  request.mutable_items(0)->mutable_table()->mutable_positions()->mutable_range()->set_start(first);
  request.mutable_items(0)->set_max_position(4);  // with a warning
  return request;
}

TEST(RememberedTest, TheAnswerIsTheSameAndComesFromTheCache) {
  TestServer server;
  const v1::PrecomputeRequest request = Rows(3, 5), other = Rows(4, 5);
  const v1::PrecomputeResponse first = Call(server, request);
  ASSERT_EQ(first.results(0).warnings_size(), 1);
  EXPECT_EQ(first.results(0).cache(), v1::CACHE_OUTCOME_MISS);
  for (int i = 0; i < 10; ++i) {
    const v1::PrecomputeResponse again = Call(server, request);
    ASSERT_EQ(Content(again), Content(first)) << i;
    ASSERT_EQ(again.results(0).cache(), v1::CACHE_OUTCOME_HIT) << i;
    EXPECT_GT(again.stages().decode_ns(), 0);
  }
  EXPECT_EQ(server.Metric(kFound), 8);  // kept at the second hit
  EXPECT_EQ(server.Metric("phasor_remembered_answers"), 1);
  EXPECT_GT(server.Metric("phasor_remembered_answers_bytes"), 2000);
  const v1::PrecomputeResponse neighbour = Call(server, other);
  EXPECT_EQ(server.Metric(kFound), 8);
  EXPECT_EQ(neighbour.results(0).cos().data().substr(0, 64 * 4 * 4), first.results(0).cos().data().substr(64 * 4));
}

TEST(RememberedTest, SoIsTheAnswerThatThereIsNothingNew) {
  TestServer server;
  v1::PrecomputeRequest request = Rows(0, 4096);  // of itself too large to be kept
  const std::string fingerprint = Call(server, request).results(0).fingerprint();
  for (int i = 0; i < 4; ++i) Call(server, request);
  EXPECT_EQ(server.Metric("phasor_remembered_answers"), 0);
  request.mutable_items(0)->set_if_fingerprint_not(fingerprint);
  for (int i = 0; i < 5; ++i) {
    const v1::PrecomputeResponse answer = Call(server, request);
    EXPECT_TRUE(answer.results(0).not_modified());
    EXPECT_TRUE(answer.results(0).cos().data().empty());
  }
  EXPECT_EQ(server.Metric(kFound), 3);
}

TEST(RememberedTest, EvictingForgets) {
  ServerOptions options = LoopbackOptions();
  options.admin_listen = {"127.0.0.1:0"};
  TestServer server(options);
  const v1::PrecomputeRequest request = Rows(0, 1);
  for (int i = 0; i < 5; ++i) Call(server, request);
  EXPECT_EQ(server.Metric(kFound), 2);
  const auto admin = v1::AdminService::NewStub(Connect(server->admin_ports().front()));
  grpc::ClientContext context;
  v1::EvictTablesRequest evict;
  v1::EvictTablesResponse evicted;
  evict.set_all(true);
  ASSERT_TRUE(admin->EvictTables(&context, evict, &evicted).ok());
  EXPECT_EQ(server.Metric("phasor_remembered_answers"), 0);
  EXPECT_EQ(Call(server, request).results(0).cache(), v1::CACHE_OUTCOME_MISS);
  EXPECT_EQ(server.Metric(kFound), 2);
}

// Nothing that a later call could answer otherwise: errors, what bypasses the cache, what is only described.
TEST(RememberedTest, OthersAreNotKept) {
  TestServer server;
  v1::PrecomputeRequest wrong = Rows(0, 1);
  *wrong.add_items() = wrong.items(0);
  wrong.mutable_items(1)->mutable_spec()->mutable_rope()->set_head_dim(3);
  v1::PrecomputeRequest described = Rows(0, 1);
  described.set_validate_only(true);
  v1::PrecomputeRequest scattered = Rows(0, 1);
  const int32_t ids[] = {5, 70000, 9};
  auto* positions = scattered.mutable_items(0)->mutable_table()->mutable_positions();
  positions->mutable_ids()->set_dtype(v1::DTYPE_I32);
  positions->mutable_ids()->add_shape(3);
  positions->mutable_ids()->set_data(ids, sizeof(ids));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Call(server, wrong).results(1).status().code(), grpc::StatusCode::INVALID_ARGUMENT);
    Call(server, described);
    EXPECT_NE(Call(server, scattered).results(0).cache(), v1::CACHE_OUTCOME_HIT);
  }
  EXPECT_EQ(server.Metric("phasor_remembered_answers"), 0);
}

TEST(RememberedTest, ACallThatIsLateOrRefusedGetsNone) {
  ServerOptions options = LoopbackOptions();
  TestServer server(options);
  const v1::PrecomputeRequest request = Rows(0, 1);
  for (int i = 0; i < 4; ++i) Call(server, request);
  const double found = server.Metric(kFound);
  server->Shutdown(std::chrono::milliseconds(0));
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_FALSE(server.position().Precompute(&context, request, &response).ok());
  EXPECT_EQ(server.Metric(kFound), found);
}

TEST(RememberedTest, FromManyThreadsWhileTablesAreEvicted) {
  ServerOptions options = LoopbackOptions();
  options.admin_listen = {"127.0.0.1:0"};
  TestServer server(options);
  std::vector<std::string> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(Content(Call(server, Rows(i, 2))));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int row = (i + t) % 8;
        ASSERT_EQ(Content(Call(server, Rows(row, 2))), expected[static_cast<size_t>(row)]);
      }
    });
  }
  const auto admin = v1::AdminService::NewStub(Connect(server->admin_ports().front()));
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    v1::EvictTablesRequest evict;
    v1::EvictTablesResponse evicted;
    evict.set_all(true);
    EXPECT_TRUE(admin->EvictTables(&context, evict, &evicted).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(server.Metric(kFound), 0);
}

}  // namespace
}  // namespace phasor::server
