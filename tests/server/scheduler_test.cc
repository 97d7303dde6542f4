#include "server/scheduler.h"

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "server/refusal.h"
#include "tests/testing/fake_backend.h"

namespace phasor::server {
namespace {

using phasor::testing::Gate;

std::future<StageReport> Submit(Scheduler& scheduler, Stage stage) {
  auto promise = std::make_shared<std::promise<StageReport>>();
  stage.done = [promise](StageReport report) { promise->set_value(std::move(report)); };
  scheduler.Submit(std::move(stage));
  return promise->get_future();
}

Stage Rows(int64_t rows, int64_t per_slice, std::function<absl::Status(RowRange)> run, Lane lane = Lane::kSmall) {
  Stage stage;
  stage.lane = lane;
  stage.rows = rows;
  stage.rows_per_slice = per_slice;
  stage.run = std::move(run);
  return stage;
}

TEST(Scheduler, RunsEveryRowOnceAndReports) {
  Scheduler scheduler(3);
  std::mutex mutex;
  std::multiset<int64_t> seen;
  const StageReport report = Submit(scheduler, Rows(1003, 10,
                                                    [&](RowRange rows) {
                                                      std::lock_guard lock(mutex);
                                                      EXPECT_LE(rows.end - rows.begin, 10);
                                                      for (int64_t r = rows.begin; r < rows.end; ++r) seen.insert(r);
                                                      return absl::OkStatus();
                                                    }))
                                 .get();
  EXPECT_TRUE(report.status.ok());
  EXPECT_GE(report.queue_ns, 0);
  EXPECT_GT(report.run_ns, 0);
  ASSERT_EQ(seen.size(), 1003u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 1003u);
}

TEST(Scheduler, SlicesOfOneStageRunOnSeveralWorkers) {
  Scheduler scheduler(2);
  // Each of the two slices waits for the other: on one worker this would never end.
  std::promise<void> both[2];
  auto result = Submit(scheduler, Rows(
                                      2, 1,
                                      [&](RowRange rows) {
                                        both[rows.begin].set_value();
                                        both[1 - rows.begin].get_future().wait();
                                        return absl::OkStatus();
                                      },
                                      Lane::kLarge));
  EXPECT_TRUE(result.get().status.ok());
}

TEST(Scheduler, AnErrorEndsTheStageEarly) {
  Scheduler scheduler(1);
  std::atomic<int> slices{0};
  const StageReport report =
      Submit(scheduler, Rows(100, 1,
                             [&](RowRange rows) {
                               ++slices;
                               return rows.begin == 2 ? absl::InternalError("broken") : absl::OkStatus();
                             }))
          .get();
  EXPECT_EQ(report.status, absl::InternalError("broken"));
  EXPECT_EQ(slices, 3);
}

TEST(Scheduler, OutOfMemoryIsAStatus) {
  Scheduler scheduler(1);
  const StageReport report = Submit(scheduler, Rows(1, 1, [](RowRange) -> absl::Status { throw std::bad_alloc(); })).get();
  EXPECT_EQ(report.status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(Scheduler, CancelledWorkStopsWithinASlice) {
  Scheduler scheduler(1);
  auto context = std::make_shared<CallContext>();
  std::atomic<int> slices{0};
  Stage stage = Rows(100, 1, [&](RowRange) {
    if (++slices == 3) context->cancelled = true;
    return absl::OkStatus();
  });
  stage.context = context;
  EXPECT_EQ(Submit(scheduler, std::move(stage)).get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(slices, 3);
}

TEST(Scheduler, LateWorkDoesNotBegin) {
  Scheduler scheduler(1);
  auto context = std::make_shared<CallContext>();
  context->deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  std::atomic<int> slices{0};
  Stage stage = Rows(5, 1, [&](RowRange) {
    ++slices;
    return absl::OkStatus();
  });
  stage.context = context;
  EXPECT_EQ(Submit(scheduler, std::move(stage)).get().status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(slices, 0);
}

// One worker, kept busy until Run: so that what waits is all there when its order is decided.
class InOrder {
 public:
  // `before`: slices that peer 1 has had by then, when nobody else was there.
  explicit InOrder(int64_t before = 0) {
    if (before > 0) {
      Add('.', 1, before);
      EXPECT_TRUE(all_.back().get().status.ok());
      all_.clear();
      order_.clear();
    }
    blocker_ = Submit(scheduler_, Rows(1, 1, [this](RowRange) {
                        gate_.Wait();
                        return absl::OkStatus();
                      }));
    gate_.AwaitWaiting(1);
  }
  // Each slice of the stage writes `name`.
  void Add(char name, uint64_t peer, int64_t rows, Lane lane = Lane::kSmall, std::shared_ptr<StageTicket> ticket = nullptr) {
    Stage stage = Rows(rows, 1, [this, name](RowRange) { return order_ += name, absl::OkStatus(); }, lane);
    auto context = std::make_shared<CallContext>();
    context->peer = peer;
    stage.ticket = std::move(ticket);
    stage.context = std::move(context);
    all_.push_back(Submit(scheduler_, std::move(stage)));
  }
  std::string Run() {
    gate_.Open();
    for (auto& one : all_) EXPECT_TRUE(one.get().status.ok());
    return order_;
  }
  Scheduler& scheduler() { return scheduler_; }

 private:
  Gate gate_;
  std::string order_;
  std::vector<std::future<StageReport>> all_;
  std::future<StageReport> blocker_;
  Scheduler scheduler_{1};  // last: it ends before what its stages use
};

TEST(Scheduler, SmallWorkGoesFirstButLargeWorkIsNotStarved) {
  InOrder work;
  work.Add('L', 0, 3, Lane::kLarge);
  for (int i = 0; i < 20; ++i) work.Add('s', 0, 1);
  EXPECT_EQ(work.scheduler().queue_length(), 21);
  EXPECT_GT(work.scheduler().oldest_age_seconds(), 0);
  EXPECT_EQ(work.Run(), "ssssLssssLssssLssssssss");
  EXPECT_EQ(work.scheduler().queue_length(), 0);
  EXPECT_EQ(work.scheduler().oldest_age_seconds(), 0);
}

TEST(Scheduler, PeersTakeTurns) {
  const auto order = [](Lane lane) {
    InOrder work;
    for (int i = 0; i < 8; ++i) work.Add('a', 1, 1, lane);
    for (int i = 0; i < 2; ++i) work.Add('b', 2, 1, lane);
    work.Add('c', 3, 1, lane);
    return work.Run();
  };
  EXPECT_EQ(order(Lane::kSmall), "abcabaaaaaa");
  // The four that are due first take turns.
  const std::string large = order(Lane::kLarge);
  EXPECT_LT(large.rfind('b'), 6u) << large;
  EXPECT_LT(large.find('c'), 4u) << large;
}

// Turns are counted in slices: who had many waits for who had few.
TEST(Scheduler, LongWorkCountsForMore) {
  InOrder work;
  work.Add('A', 1, 3);
  work.Add('a', 1, 1);
  for (int i = 0; i < 4; ++i) work.Add('b', 2, 1);
  EXPECT_EQ(work.Run(), "AAAbbbab");
}

// A stage of many slices that nobody had to wait for is no debt.
TEST(Scheduler, AnIdleLaneForgetsWhatPeersHaveHad) {
  InOrder work(100);
  work.Add('a', 1, 1);
  for (int i = 0; i < 3; ++i) work.Add('b', 2, 1);
  EXPECT_EQ(work.Run(), "abbb");
}

TEST(Scheduler, LargeStagesTakeTurns) {
  InOrder work;
  work.Add('a', 0, 4, Lane::kLarge);
  work.Add('b', 0, 4, Lane::kLarge);
  const std::string order = work.Run();
  EXPECT_TRUE(order == "abababab" || order == "babababa") << order;
}

TEST(Scheduler, PromotedWorkGoesWithTheSmall) {
  InOrder work;
  const auto ticket = std::make_shared<StageTicket>();
  work.Add('A', 1, 2, Lane::kLarge);
  work.Add('B', 1, 2, Lane::kLarge, ticket);
  work.Add('C', 1, 2, Lane::kLarge);
  work.Add('s', 2, 1);
  work.scheduler().Promote(ticket);
  work.scheduler().Promote(ticket);  // once is enough
  EXPECT_EQ(work.scheduler().queue_length(), 4);
  const std::string order = work.Run();
  EXPECT_EQ(order.substr(0, 3), "sBB") << order;
  EXPECT_EQ(order.size(), 7u);
  work.scheduler().Promote(ticket);  // it has ended
  EXPECT_EQ(work.scheduler().queue_length(), 0);
}

TEST(Scheduler, WorkIsPromotedBeforeItIsSubmitted) {
  InOrder work;
  const auto ticket = std::make_shared<StageTicket>();
  work.scheduler().Promote(ticket);
  work.Add('A', 1, 1, Lane::kLarge);
  work.Add('B', 1, 1, Lane::kLarge, ticket);
  EXPECT_EQ(work.Run(), "BA");
}

TEST(Scheduler, WhatIsLeftOfWorkThatHasBegunIsPromoted) {
  Gate gate;
  std::string order;
  Scheduler scheduler(1);
  const auto ticket = std::make_shared<StageTicket>();
  const auto stage = [&](char name) {
    return Rows(
        3, 1,
        [&order, &gate, name](RowRange rows) {
          if (name == 'A' && rows.begin == 0) gate.Wait();
          return order += name, absl::OkStatus();
        },
        Lane::kLarge);
  };
  Stage first = stage('A');
  first.ticket = ticket;
  auto a = Submit(scheduler, std::move(first)), b = Submit(scheduler, stage('B'));
  gate.AwaitWaiting(1);
  scheduler.Promote(ticket);
  gate.Open();
  EXPECT_TRUE(a.get().status.ok());
  EXPECT_TRUE(b.get().status.ok());
  EXPECT_EQ(order, "AAABBB");
}

TEST(Scheduler, PromotedWorkIsNoDebtInTheLaneThatItLeft) {
  InOrder work;
  const auto ticket = std::make_shared<StageTicket>();
  work.Add('A', 1, 1, Lane::kLarge);
  work.Add('B', 1, 50, Lane::kLarge, ticket);
  work.scheduler().Promote(ticket);
  work.Add('C', 1, 1, Lane::kLarge);
  for (int i = 0; i < 6; ++i) work.Add('D', 2, 1, Lane::kLarge);
  std::string order = work.Run();
  std::erase(order, 'B');
  EXPECT_LT(order.find('C'), 4u) << order;
}

TEST(Scheduler, StopEndsWhatWaitsAndWhatComesLater) {
  Scheduler scheduler(1);
  Gate gate;
  std::atomic<int> slices{0};
  auto running = Submit(scheduler, Rows(2, 1, [&](RowRange) {
                          ++slices;
                          gate.Wait();
                          return absl::OkStatus();
                        }));
  gate.AwaitWaiting(1);
  auto waiting = Submit(scheduler, Rows(1, 1, [](RowRange) { return absl::OkStatus(); }));
  std::thread stopper([&] { scheduler.Stop(); });
  // Stop has been seen once a new stage is refused on the spot.
  while (true) {
    auto probe = Submit(scheduler, Rows(1, 1, [](RowRange) { return absl::OkStatus(); }));
    if (probe.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      EXPECT_EQ(RefusalOf(probe.get().status), Refusal::kDraining);
      break;
    }
    std::this_thread::yield();
  }
  gate.Open();
  stopper.join();
  EXPECT_EQ(running.get().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(slices, 1);
  EXPECT_EQ(waiting.get().status.code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace phasor::server
