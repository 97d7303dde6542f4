// The room that a stream's pieces take while one of them fails.
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <variant>

#include "gtest/gtest.h"

#include "kernels/backend.h"
#include "tests/e2e/fixture.h"
#include "tests/testing/fake_backend.h"

namespace phasor::server {
namespace {

// The first rows of a table of 64 pairs fail once a second piece of it is being made; that one, and those of 32 pairs, wait.
struct BrokenTable {
  phasor::testing::Gate gate;
  std::atomic<bool> armed{false};
  std::atomic<int> pieces{0};  // of 32 pairs

  absl::Status Before(const phasor::Task& task) {
    const auto* angles = std::get_if<AngleTask>(&task);
    if (angles == nullptr || !armed) return absl::OkStatus();
    if (angles->plan->pairs() == 64 && angles->positions.start == 0) {
      gate.AwaitWaiting(1);
      return absl::InternalError("broken");
    }
    if (angles->plan->pairs() == 32) ++pieces;
    gate.Wait();
    return absl::OkStatus();
  }
};

class BrokenBackend final : public Backend {
 public:
  explicit BrokenBackend(std::shared_ptr<BrokenTable> table) : table_(std::move(table)) {}
  std::string_view name() const override { return "cpu"; }
  std::string description() const override { return "one that breaks"; }
  absl::Status Run(const phasor::Task& task, RowRange rows, const CancelFlag* cancel) const override {
    absl::Status status = table_->Before(task);
    return status.ok() ? cpu_->Run(task, rows, cancel) : status;
  }

 private:
  const std::shared_ptr<BrokenTable> table_;
  const std::unique_ptr<Backend> cpu_ = *CreateBackend("cpu");
};

// Pieces that are still being made count against the window, though nobody waits for them any more.
TEST(StreamPrecomputeTest, PiecesOfAnItemThatFailedKeepTheirRoomUntilTheyAreMade) {
  const auto table = std::make_shared<BrokenTable>();
  ServerOptions options = LoopbackOptions();
  options.worker_threads = 4;
  options.cache_bytes = 0;
  options.streams.window = 2;
  options.make_backend = [table](const BackendOptions&) { return std::make_unique<BrokenBackend>(table); };
  TestServer server(options);
  table->armed = true;
  v1::StreamPrecomputeRequest request;
  request.set_chunk_bytes(64 << 10);
  for (const int64_t head_dim : {128, 64}) {
    v1::PrecomputeItem* item = request.add_items();
    item->mutable_spec()->mutable_rope()->set_head_dim(head_dim);
    item->mutable_table()->mutable_positions()->mutable_range()->set_count(1024);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = server.position().StreamPrecompute(&context, request);
  table->gate.AwaitWaiting(2);  // a piece of the first item, whose room is left, and one of the second
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(table->pieces, 1);
  table->gate.Open();
  std::map<int64_t, v1::StreamEnd> ends;
  v1::StreamPrecomputeResponse message;
  while (reader->Read(&message)) {
    if (message.has_end()) ends[message.item()] = message.end();
  }
  ASSERT_TRUE(reader->Finish().ok());
  EXPECT_EQ(ends[0].status().code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ends[1].status().code(), 0);
  EXPECT_EQ(ends[1].sent_bytes(), 1024 * 32 * 4);
  EXPECT_EQ(table->pieces, 4);
  EXPECT_TRUE(server.AwaitMetric("phasor_inflight_bytes", [](double n) { return n == 0; }));
}

}  // namespace
}  // namespace phasor::server
