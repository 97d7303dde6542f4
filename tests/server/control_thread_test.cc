#include "server/control_thread.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

using Work = absl::AnyInvocable<void() &&>;

TEST(ControlThreadTest, RunsEverythingInOrderBeforeItEnds) {
  std::vector<int> order;
  {
    ControlThread thread(100);
    for (int i = 0; i < 50; ++i) {
      Work work = [&order, i] { order.push_back(i); };
      ASSERT_TRUE(thread.Submit(work));
    }
  }
  ASSERT_EQ(order.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(ControlThreadTest, RefusesBeyondItsBoundAndLeavesTheWorkAlone) {
  std::mutex mutex;
  std::condition_variable changed;
  bool started = false, release = false;
  int ran = 0;
  {
    ControlThread thread(2);
    Work blocker = [&] {
      std::unique_lock lock(mutex);
      started = true;
      changed.notify_all();
      changed.wait(lock, [&] { return release; });
    };
    ASSERT_TRUE(thread.Submit(blocker));
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return started; });
    }
    for (int i = 0; i < 2; ++i) {
      Work work = [&ran] { ++ran; };
      EXPECT_TRUE(thread.Submit(work));
    }
    Work third = [&ran] { ran += 100; };
    EXPECT_FALSE(thread.Submit(third));
    ASSERT_TRUE(third);
    {
      const std::lock_guard lock(mutex);
      release = true;
    }
    changed.notify_all();
  }
  EXPECT_EQ(ran, 2);
}

TEST(ControlThreadTest, TakesWorkFromManyThreads) {
  std::atomic<int> ran{0};
  {
    ControlThread thread(10000);
    std::vector<std::thread> callers;
    for (int t = 0; t < 4; ++t) {
      callers.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          Work work = [&ran] { ran.fetch_add(1); };
          ASSERT_TRUE(thread.Submit(work));
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(ran.load(), 2000);
}

}  // namespace
}  // namespace phasor::server
