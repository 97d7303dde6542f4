#include "server/queue_threads.h"

#include <utility>

#include "server/time_slice.h"

namespace phasor::server {

void ServeQueue(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<CompletionEvent*>(tag)->Complete(ok);
}

QueueThreads::QueueThreads(grpc::CompletionQueue* queue, int threads, std::function<bool()> busy)
    : queue_(queue), busy_(std::move(busy)), resting_(threads - 1) {
  threads_.reserve(static_cast<size_t>(threads));
  threads_.emplace_back([this] {
    AskForTimeSlice(kShortSlice);
    ServeQueue(queue_);
  });
  for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { Help(); });
}

QueueThreads::~QueueThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void QueueThreads::Wake() {
  if (resting_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  if (woken_ == resting_) return;
  ++woken_;
  wake_.notify_one();
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
    if (next == grpc::CompletionQueue::GOT_EVENT) static_cast<CompletionEvent*>(tag)->Complete(ok);
    const auto now = Clock::now();
    if (busy_()) {
      last_busy = now;
    } else if (now - last_busy >= kLinger) {
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  ++resting_;
}

}  // namespace phasor::server
