#include "server/control_thread.h"

#include <utility>

namespace phasor::server {

ControlThread::ControlThread(size_t max_waiting) : max_waiting_(max_waiting), thread_([this] { Run(); }) {}

ControlThread::~ControlThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool ControlThread::Submit(absl::AnyInvocable<void() &&>& work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void ControlThread::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    std::move(work)();
    lock.lock();
  }
}

}  // namespace phasor::server
