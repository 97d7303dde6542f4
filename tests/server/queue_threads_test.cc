// Who waits for a queue's events: one thread while little is to do, all of them while there is more, one again afterwards.
#include "server/queue_threads.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"
#include "gtest/gtest.h"

namespace phasor::server {
namespace {

using std::chrono::milliseconds;

// An event that happens when it is set, keeps its thread for a while, and notes which one it was.
class Event final : public CompletionEvent {
 public:
  void Set(grpc::CompletionQueue* queue, milliseconds takes) {
    takes_ = takes;
    alarm_.Set(queue, std::chrono::system_clock::now(), this);
  }
  void Complete(bool ok) override {
    std::this_thread::sleep_for(takes_);
    thread_ = std::this_thread::get_id();
    done_.store(true);
  }
  bool done() const { return done_.load(); }
  std::thread::id thread() const { return thread_; }

 private:
  grpc::Alarm alarm_;
  milliseconds takes_{0};
  std::thread::id thread_;
  std::atomic<bool> done_{false};
};

class QueueThreadsTest : public ::testing::Test {
 protected:
  void Start(int threads, milliseconds stuck = std::chrono::seconds(60)) {
    threads_ = std::make_unique<QueueThreads>(&queue_, threads, [this] { return busy_.load(); }, stuck);
  }
  void TearDown() override {
    queue_.Shutdown();
    threads_.reset();
  }
  bool Await(const std::function<bool()>& holds) {
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
         std::chrono::steady_clock::now() < end;) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }
  // How many threads ran these events, each of which takes a while.
  size_t ThreadsOf(int events) {
    std::vector<std::unique_ptr<Event>> all;
    for (int i = 0; i < events; ++i) {
      all.push_back(std::make_unique<Event>());
      all.back()->Set(&queue_, milliseconds(30));
    }
    std::set<std::thread::id> ids;
    for (const auto& event : all) {
      EXPECT_TRUE(Await([&] { return event->done(); }));
      ids.insert(event->thread());
    }
    return ids.size();
  }

  grpc::CompletionQueue queue_;
  std::atomic<bool> busy_{false};
  std::unique_ptr<QueueThreads> threads_;
};

TEST_F(QueueThreadsTest, OneThreadWaitsWhileLittleIsToDo) {
  Start(4);
  EXPECT_EQ(threads_->awake(), 1);
  EXPECT_EQ(ThreadsOf(5), 1u);
  EXPECT_EQ(threads_->awake(), 1);
}

TEST_F(QueueThreadsTest, OneEndsItsRestForEachWake) {
  Start(3);
  busy_ = true;
  threads_->Wake();
  EXPECT_TRUE(Await([&] { return threads_->awake() == 2; }));
  std::this_thread::sleep_for(2 * QueueThreads::kLinger);
  EXPECT_EQ(threads_->awake(), 2);
  EXPECT_EQ(ThreadsOf(6), 2u);
  for (int i = 0; i < 5; ++i) threads_->Wake();
  EXPECT_TRUE(Await([&] { return threads_->awake() == 3; }));
  EXPECT_EQ(ThreadsOf(9), 3u);
}

TEST_F(QueueThreadsTest, TheyRestAgainWhenItIsOver) {
  Start(4);
  for (int round = 0; round < 3; ++round) {
    busy_ = true;
    for (int i = 0; i < 3; ++i) threads_->Wake();
    EXPECT_TRUE(Await([&] { return threads_->awake() == 4; }));
    busy_ = false;
    EXPECT_TRUE(Await([&] { return threads_->awake() == 1; }));
    EXPECT_EQ(ThreadsOf(3), 1u);
  }
  // Woken for nothing, it rests again.
  threads_->Wake();
  EXPECT_TRUE(Await([&] { return threads_->awake() == 2; }));
  EXPECT_TRUE(Await([&] { return threads_->awake() == 1; }));
}

// A thread that is long at an event, though nothing says that there is much to do, keeps no other event waiting.
TEST_F(QueueThreadsTest, ALongEventEndsTheRestOfAnother) {
  Start(3, QueueThreads::kStuck);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(milliseconds(round * 100));  // also when nobody has watched for a while
    Event slow, slower, quick;
    slow.Set(&queue_, milliseconds(2000));
    std::this_thread::sleep_for(milliseconds(50));
    slower.Set(&queue_, milliseconds(2000));
    std::this_thread::sleep_for(milliseconds(50));
    quick.Set(&queue_, milliseconds(0));
    EXPECT_TRUE(Await([&] { return quick.done(); }));
    EXPECT_FALSE(slow.done());
    EXPECT_FALSE(slower.done());
    EXPECT_EQ(threads_->awake(), 3);
    EXPECT_TRUE(Await([&] { return slow.done() && slower.done(); }));
    EXPECT_TRUE(Await([&] { return threads_->awake() == 1; }));
  }
}

TEST_F(QueueThreadsTest, TheyEndWithTheQueueAtRestAndAwake) {
  Start(4);
  busy_ = true;
  threads_->Wake();
  EXPECT_TRUE(Await([&] { return threads_->awake() == 2; }));
  Event last;
  last.Set(&queue_, milliseconds(20));
  queue_.Shutdown();
  threads_.reset();
  EXPECT_TRUE(last.done());
}

TEST_F(QueueThreadsTest, WakesFromManyThreadsWhileItComesAndGoes) {
  Start(4);
  std::atomic<bool> stop{false};
  std::vector<std::thread> wakers;
  for (int t = 0; t < 3; ++t) {
    wakers.emplace_back([&, t] {
      for (int i = 0; !stop.load(); ++i) {
        busy_ = (i + t) % 3 != 0;
        threads_->Wake();
        if (i % 64 == 0) std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  for (int i = 0; i < 10; ++i) EXPECT_GE(ThreadsOf(4), 1u);
  stop = true;
  for (std::thread& waker : wakers) waker.join();
  busy_ = false;
  EXPECT_TRUE(Await([&] { return threads_->awake() == 1; }));
}

}  // namespace
}  // namespace phasor::server
