#include "server/queue_threads.h"

#include <utility>

#include "server/time_slice.h"

namespace phasor::server {

void EmptyQueue(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<CompletionEvent*>(tag)->Complete(ok);
}

QueueThreads::QueueThreads(grpc::CompletionQueue* queue, int threads, std::function<bool()> busy,
                           std::chrono::milliseconds stuck)
    : queue_(queue), busy_(std::move(busy)), stuck_(stuck), resting_(threads - 1) {
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
  for (std::thread& thread : threads_) thread.join();
  if (watcher_.joinable()) watcher_.join();
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
  if (unwatched_.load()) {
    const std::lock_guard lock(mutex_);
    unwatched_ = false;
    watch_.notify_one();
  }
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
    if (quiet >= kQuiet) {
      unwatched_ = true;
      // An event that began before it could see that.
      if (events_.load() != seen || working_.load() > 0) unwatched_ = false;
      watch_.wait(lock, [this] { return stopping_ || !unwatched_.load(); });
      quiet = 0;
    }
    watch_.wait_for(lock, stuck_, [this] { return stopping_; });
    const uint64_t events = events_.load();
    const int working = working_.load();
    quiet = events == seen && working == 0 ? quiet + 1 : 0;
    if (events == seen && working > 0 && working >= awake()) WakeLocked();
    seen = events;
  }
}

}  // namespace phasor::server
