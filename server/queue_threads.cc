#include "server/queue_threads.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "server/time_slice.h"

namespace phasor::server {
namespace {

// `timer` is readable after `after` (> 0). Wakes nobody now.
void SetTimer(int timer, std::chrono::nanoseconds after) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(after);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (after - seconds).count();
  timerfd_settime(timer, 0, &when, nullptr);
}

}  // namespace

void EmptyQueue(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<CompletionEvent*>(tag)->Complete(ok);
}

QueueThreads::QueueThreads(grpc::CompletionQueue* queue, int threads, std::function<bool()> busy,
                           std::chrono::milliseconds stuck)
    : queue_(queue),
      busy_(std::move(busy)),
      stuck_(stuck),
      resting_(threads - 1),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
  threads_.reserve(static_cast<size_t>(threads));
  threads_.emplace_back([this] { Serve(); });
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Help(); });
  if (threads > 1) watcher_ = std::thread([this] { Watch(); });
}

QueueThreads::~QueueThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    watch_.notify_all();
  }
  if (timer_ >= 0) SetTimer(timer_, std::chrono::nanoseconds(1));
  for (std::thread& thread : threads_) thread.join();
  if (watcher_.joinable()) watcher_.join();
  if (timer_ >= 0) close(timer_);
}

void QueueThreads::Wake() {
  if (resting_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  WakeLocked();
}

void QueueThreads::WakeLocked() {
  if (woken_ == resting_) return;
  ++woken_;
  wake_.notify_one();
}

void QueueThreads::Run(void* tag, bool ok) {
  working_.fetch_add(1);
  events_.fetch_add(1);
  // A timer, since waking Watch takes a part of a call after a pause that can be measured, and nearly always is for nothing.
  if (unwatched_.load() && unwatched_.exchange(false)) SetTimer(timer_, stuck_);
  static_cast<CompletionEvent*>(tag)->Complete(ok);
  working_.fetch_sub(1);
}

void QueueThreads::Serve() {
  AskForTimeSlice(kShortSlice);
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) Run(tag, ok);
}

void QueueThreads::Help() {
  AskForTimeSlice(kShortSlice);
  while (Rest()) ServeWhileBusy();
}

bool QueueThreads::Rest() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stopping_ || woken_ > 0; });
  if (stopping_) return false;
  --woken_;
  --resting_;
  return true;
}

void QueueThreads::ServeWhileBusy() {
  using Clock = std::chrono::steady_clock;
  auto last_busy = Clock::now();
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    const auto next = queue_->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kLinger);
    if (next == grpc::CompletionQueue::SHUTDOWN) break;
    if (next == grpc::CompletionQueue::GOT_EVENT) Run(tag, ok);
    const auto now = Clock::now();
    // All the others may be at an event that takes long.
    if (busy_() || working_.load(std::memory_order_relaxed) >= awake() - 1) {
      last_busy = now;
    } else if (now - last_busy >= kLinger) {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  ++resting_;
}

void QueueThreads::Watch() {
  constexpr int kQuiet = 3;
  uint64_t seen = 0;
  int quiet = 0;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (quiet >= kQuiet && timer_ >= 0) {
      WaitForEvent(lock, seen);
      quiet = 0;
    } else {
      watch_.wait_for(lock, stuck_, [this] { return stopping_; });
    }
    const uint64_t events = events_.load();
    const int working = working_.load();
    quiet = events == seen && working == 0 ? quiet + 1 : 0;
    if (events == seen && working > 0 && working >= awake()) WakeLocked();
    seen = events;
  }
}

// Until `stuck_` after the first event that is not among the `seen`, or until the end.
void QueueThreads::WaitForEvent(std::unique_lock<std::mutex>& lock, uint64_t seen) {
  lock.unlock();
  unwatched_ = true;
  // An event that began before it could see that.
  if ((events_.load() != seen || working_.load() > 0) && unwatched_.exchange(false)) SetTimer(timer_, stuck_);
  uint64_t times = 0;
  // Also when a signal ends it: looking once more does no harm.
  [[maybe_unused]] const ssize_t got = read(timer_, &times, sizeof(times));
  lock.lock();
}

}  // namespace phasor::server
