// The engine under contention, overload, cancellation, failure and shutdown.
#include <algorithm>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/refusal.h"
#include "server/table_cache.h"
#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

const FakeBackend& Oracle() {
  static const FakeBackend oracle{std::make_shared<FakeBackendState>()};
  return oracle;
}

bool IsTableBuild(const Task& task) { return std::holds_alternative<AngleTask>(task); }

// Everything that was taken has been given back.
void ExpectQuiet(TestEngine& engine) {
  EXPECT_TRUE(TestEngine::Eventually([&] {
    const EngineStats stats = engine->stats();
    return stats.inflight_bytes == 0 && stats.queue_length == 0 && stats.evicted_in_use_bytes == 0;
  }));
}

TEST(EngineLoad, ManyCallersOneColdTableOneBuild) {
  Gate gate;
  EngineOptions options;
  options.worker_threads = 2;
  TestEngine engine(options, [&](const Task& task, RowRange) {
    if (IsTableBuild(task)) gate.Wait();
    return absl::OkStatus();
  });
  const PrecomputeItem item = TableItem(Rope(), Range(10, 20));
  std::vector<std::future<Answer<PrecomputeResult>>> answers(64);
  std::vector<std::thread> callers;
  for (auto& answer : answers) {
    callers.emplace_back([&] { answer = engine.Send({item}); });
  }
  gate.AwaitWaiting(1);
  EXPECT_TRUE(TestEngine::Eventually([&] { return engine->stats().cache_coalesced == 63; }));
  gate.Open();
  for (std::thread& caller : callers) caller.join();
  const Expected expected = ExpectTable(Oracle(), item);
  int misses = 0;
  for (auto& future : answers) {
    const auto answer = future.get();
    ASSERT_TRUE(answer.status.ok());
    ExpectSame(expected, answer.results[0]);
    misses += answer.results[0].cache == CacheOutcome::kMiss;
  }
  EXPECT_EQ(misses, 1);
  EXPECT_EQ(engine.builds(), 1);
  EXPECT_EQ(engine.fake().angle_rows, kTileRows);
  answers.clear();
  ExpectQuiet(engine);
}

// A large call has queued all its tiles; a small one needs the last of them.
TEST(EngineLoad, ASmallCallDoesNotWaitForTheLargeOneWhoseTileItNeeds) {
  constexpr int64_t kTiles = 64;
  Gate gate;
  std::mutex mutex;
  std::vector<int64_t> order;  // of tiles, as their builds begin
  EngineOptions options;
  options.worker_threads = 1;
  TestEngine engine(options, [&](const Task& task, RowRange rows) {
    if (!IsTableBuild(task)) return absl::OkStatus();
    gate.Wait();
    std::lock_guard lock(mutex);
    if (rows.begin == 0) order.push_back(TileOf(std::get<AngleTask>(task).positions.start));
    return absl::OkStatus();
  });
  auto large = engine.Send({TableItem(Rope(), Range(0, kTiles * kTileRows))});
  gate.AwaitWaiting(1);
  const PrecomputeItem last = TableItem(Rope(), Range((kTiles - 1) * kTileRows + 5, 20));
  auto small = engine.Send({last});
  gate.Open();
  const auto answer = small.get();
  ASSERT_TRUE(answer.status.ok());
  ExpectSame(ExpectTable(Oracle(), last), answer.results[0]);
  EXPECT_EQ(answer.results[0].cache, CacheOutcome::kCoalesced);
  EXPECT_TRUE(large.get().status.ok());
  EXPECT_EQ(engine.builds(), kTiles);
  std::lock_guard lock(mutex);
  EXPECT_LT(std::find(order.begin(), order.end(), kTiles - 1) - order.begin(), 4);
  EXPECT_EQ(static_cast<int64_t>(order.size()), kTiles);
}

TEST(EngineLoad, AWaitersCancelDoesNotEndTheBuild) {
  Gate gate;
  TestEngine engine({}, [&](const Task& task, RowRange) {
    if (IsTableBuild(task)) gate.Wait();
    return absl::OkStatus();
  });
  const PrecomputeItem item = TableItem(Rope(), Range(0, 20));
  auto starter_context = std::make_shared<CallContext>(), late_context = std::make_shared<CallContext>();
  auto starter = engine.Send({item}, starter_context);
  gate.AwaitWaiting(1);
  late_context->deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  auto late = engine.Send({item}, late_context);
  auto patient = engine.Send({item});
  EXPECT_TRUE(TestEngine::Eventually([&] { return engine->stats().cache_coalesced == 2; }));
  starter_context->cancelled = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  gate.Open();
  EXPECT_EQ(starter.get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(late.get().status.code(), absl::StatusCode::kDeadlineExceeded);
  ExpectSame(ExpectTable(Oracle(), item), patient.get().results[0]);
  EXPECT_EQ(engine.builds(), 1);
  ExpectQuiet(engine);
}

TEST(EngineLoad, ABuildThatNobodyWaitsForAnyMoreIsNotBegun) {
  Gate gate;
  EngineOptions options;
  options.worker_threads = 1;
  TestEngine engine(options, [&](const Task& task, RowRange) {
    if (IsTableBuild(task) && std::get<AngleTask>(task).dtype == DType::kF16) gate.Wait();
    return absl::OkStatus();
  });
  auto blocker = engine.Send({TableItem(Rope(), Range(0, 20), TableForm::kHalf, DType::kF16)});
  gate.AwaitWaiting(1);
  auto context = std::make_shared<CallContext>();
  auto cancelled = engine.Send({TableItem(Rope(), Range(0, 20))}, context);
  context->cancelled = true;
  gate.Open();
  EXPECT_EQ(cancelled.get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(blocker.get().status.ok());
  EXPECT_EQ(engine.builds(), 1);
  ExpectQuiet(engine);
}

TEST(EngineLoad, AFailedBuildFailsItsWaitersAndIsTriedAgain) {
  Gate gate;
  std::atomic<bool> fail{true};
  TestEngine engine({}, [&](const Task& task, RowRange) {
    if (IsTableBuild(task) && fail) {
      gate.Wait();
      return absl::InternalError("device lost");
    }
    return absl::OkStatus();
  });
  const PrecomputeItem item = TableItem(Rope(), Range(0, 20));
  auto first = engine.Send({item}), second = engine.Send({item});
  EXPECT_TRUE(TestEngine::Eventually([&] { return engine->stats().cache_coalesced == 1; }));
  gate.Open();
  const auto one = first.get(), other = second.get();
  fail = false;
  ExpectSame(ExpectTable(Oracle(), item), engine.One(item));
  ExpectQuiet(engine);
  // Only now: the worker's reference to the status is gone, which ThreadSanitizer does not see of the system's Abseil.
  for (const auto* answer : {&one, &other}) {
    ASSERT_TRUE(answer->status.ok());
    EXPECT_EQ(answer->results[0].status, absl::InternalError("device lost"));
    EXPECT_FALSE(answer->results[0].cos.has_value());
  }
}

TEST(EngineLoad, OutOfMemoryWhileBuildingIsTheItemsStatus) {
  std::atomic<bool> fail{true};
  TestEngine engine({}, [&](const Task& task, RowRange) -> absl::Status {
    if (IsTableBuild(task) && fail) throw std::bad_alloc();
    return absl::OkStatus();
  });
  const PrecomputeItem item = TableItem(Rope(), Range(0, 20));
  EXPECT_EQ(engine.Call({item}).results[0].status.code(), absl::StatusCode::kResourceExhausted);
  fail = false;
  engine.One(item);
}

TEST(EngineLoad, EvictionWhileAnswersAreAlive) {
  EngineOptions options;
  const int64_t tile = 2 * kTileRows * 4 * 4;
  options.cache_bytes = 8 * tile;
  TestEngine engine(options);
  std::vector<PrecomputeResult> alive;
  std::vector<PrecomputeItem> items;
  for (int i = 0; i < 30; ++i) {
    items.push_back(TableItem(Rope(4, 1000 + i), Range(5, 50)));
    alive.push_back(engine.One(items.back()));
    EXPECT_LE(engine->stats().cache_bytes, options.cache_bytes);
  }
  // Small answers hold the whole tiles that they are parts of: of those that have left the cache, half of it. Later ones are
  // made for their calls alone.
  EXPECT_EQ(engine->stats().cache_evictions, 4);
  EXPECT_EQ(engine->stats().evicted_in_use_bytes, 4 * tile);
  EXPECT_EQ(alive[11].cache, CacheOutcome::kMiss);
  EXPECT_EQ(alive[12].cache, CacheOutcome::kBypass);
  engine->Evict({}, true);
  for (size_t i = 0; i < alive.size(); ++i) ExpectSame(ExpectTable(Oracle(), items[i]), alive[i]);
  EXPECT_EQ(engine->stats().inflight_bytes, 30 * items[0].payload_bytes);
  alive.clear();
  ExpectQuiet(engine);
}

TEST(EngineLoad, AnswersOutliveTheEngine) {
  const PrecomputeItem item = TableItem(Rope(), Range(0, 20));
  const PrecomputeItem copied = TableItem(Rope(), Range(0, 20000), TableForm::kConcatenated);
  TestEngine engine;
  const PrecomputeResult slices = engine.One(item), buffer = engine.One(copied);
  engine.Destroy();
  ExpectSame(ExpectTable(Oracle(), item), slices);
  ExpectSame(ExpectTable(Oracle(), copied), buffer);
}

TEST(EngineLoad, ADeadlineThatHasPassedBuildsNothing) {
  TestEngine engine;
  auto context = std::make_shared<CallContext>();
  context->deadline = std::chrono::steady_clock::now() - std::chrono::milliseconds(1);
  const auto answer = engine.Send({TableItem(Rope(), Range(0, 20))}, context).get();
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(answer.results.empty());
  EXPECT_EQ(engine.fake().runs, 0);
  ExpectQuiet(engine);
}

TEST(EngineLoad, CancelStopsLargeWorkWithinASlice) {
  std::shared_ptr<CallContext> context = std::make_shared<CallContext>();
  EngineOptions options;
  options.worker_threads = 1;
  options.cache_bytes = 0;
  std::atomic<int> slices{0};
  TestEngine engine(options, [&](const Task&, RowRange) {
    if (++slices == 2) context->cancelled = true;
    return absl::OkStatus();
  });
  const auto answer = engine.Send({TableItem(Rope(4), Range(0, 1 << 20))}, context).get();
  EXPECT_EQ(answer.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(slices, 2);
  ExpectQuiet(engine);
}

TEST(EngineLoad, AFullQueueAndAFullBudgetRefuse) {
  Gate gate;
  EngineOptions options;
  options.worker_threads = 1;
  options.max_queue = 2;
  options.max_inflight_bytes = 3000;
  TestEngine engine(options, [&](const Task&, RowRange) {
    gate.Wait();
    return absl::OkStatus();
  });
  const auto item = [](double base, int64_t rows) { return TableItem(Rope(4, base), Range(0, rows)); };  // 32 bytes a row
  std::vector<std::future<Answer<PrecomputeResult>>> taken;
  taken.push_back(engine.Send({item(10, 10)}));
  gate.AwaitWaiting(1);
  taken.push_back(engine.Send({item(20, 10)}));
  const auto too_large = engine.Send({item(30, 80)}).get();
  EXPECT_EQ(RefusalOf(too_large.status), Refusal::kInflightBytes);
  taken.push_back(engine.Send({item(30, 10)}));
  const auto too_many = engine.Send({item(40, 10)}).get();
  EXPECT_EQ(RefusalOf(too_many.status), Refusal::kQueueFull);
  EXPECT_TRUE(too_many.results.empty());
  EXPECT_EQ(engine->stats().queue_length, 2);
  EXPECT_GT(engine->stats().queue_oldest_age_seconds, 0);
  EXPECT_EQ(engine->stats().inflight_bytes, 3 * 320);
  gate.Open();
  for (auto& future : taken) EXPECT_TRUE(future.get().status.ok());
  taken.clear();
  ExpectQuiet(engine);
  EXPECT_TRUE(engine.Send({item(50, 10)}).get().status.ok());
}

TEST(EngineLoad, DrainRefusesNewCallsAndFinishesRunningOnes) {
  Gate gate;
  TestEngine engine({}, [&](const Task&, RowRange) {
    gate.Wait();
    return absl::OkStatus();
  });
  const PrecomputeItem item = TableItem(Rope(), Range(0, 20));
  auto running = engine.Send({item});
  gate.AwaitWaiting(1);
  engine->Drain();
  EXPECT_EQ(RefusalOf(engine.Send({item}).get().status), Refusal::kDraining);
  gate.Open();
  const auto answer = running.get();
  ASSERT_TRUE(answer.status.ok());
  ExpectSame(ExpectTable(Oracle(), item), answer.results[0]);
}

TEST(EngineLoad, DestructionEndsEveryCall) {
  Gate gate;
  EngineOptions options;
  options.worker_threads = 1;
  TestEngine engine(options, [&](const Task&, RowRange) {
    gate.Wait();
    return absl::OkStatus();
  });
  std::vector<std::future<Answer<PrecomputeResult>>> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(engine.Send({TableItem(Rope(4, 10 + i), Range(0, 20))}));
  gate.AwaitWaiting(1);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.Open();
  });
  engine.Destroy();
  opener.join();
  int unavailable = 0;
  for (auto& answer : answers) unavailable += absl::IsUnavailable(answer.get().status);
  EXPECT_GE(unavailable, 4);
}

TEST(EngineLoad, BuffersAreReused) {
  TestEngine engine;
  const PrecomputeItem item = TableItem(Rope(), Range(0, 20000), TableForm::kConcatenated);
  engine.One(item);
  const EngineStats before = engine->stats();
  for (int i = 0; i < 5; ++i) engine.One(item);
  EXPECT_TRUE(TestEngine::Eventually([&] { return engine->stats().pool_used_bytes == before.pool_used_bytes; }));
  EXPECT_EQ(engine->stats().pool_free_bytes, before.pool_free_bytes);
}

// Threads that ask for overlapping windows of a few plans, cancel some, while the cache is too small and is emptied at
// times.
TEST(EngineLoad, MixedTraffic) {
  EngineOptions options;
  options.cache_bytes = 12 * 2 * kTileRows * 2 * 4;
  TestEngine engine(options);
  std::vector<PrecomputeItem> items;
  for (int i = 0; i < 8; ++i) {
    items.push_back(TableItem(Rope(2, 100 + i % 3), Range(i * 1500, 60 + i * 10), static_cast<TableForm>(1 + i % 4)));
  }
  items.push_back(TableItem(Rope(2, 100), Ids({1, 5000, 2, -7})));
  std::vector<Expected> expected;
  for (const PrecomputeItem& item : items) expected.push_back(ExpectTable(Oracle(), item));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      uint32_t random = static_cast<uint32_t>(t) + 1;
      for (int i = 0; i < 60; ++i) {
        random = random * 1664525u + 1013904223u;
        const size_t which = (random >> 16) % items.size();
        auto context = std::make_shared<CallContext>();
        auto future = engine.Send({items[which], items[(which + 1) % items.size()]}, context);
        if (i % 7 == 0) context->cancelled = true;
        if (i % 20 == 0) engine->Evict({}, true);
        const auto answer = future.get();
        if (!answer.status.ok()) {
          EXPECT_EQ(answer.status.code(), absl::StatusCode::kCancelled);
          continue;
        }
        ExpectSame(expected[which], answer.results[0]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(engine->stats().cache_bytes, options.cache_bytes);
  ExpectQuiet(engine);
}

}  // namespace
}  // namespace phasor::server
