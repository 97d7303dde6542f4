#include "server/memory_keeper.h"

#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace phasor::server {

bool QuietWatch::Look(int64_t traffic, int64_t inflight) {
  const bool quiet = traffic - last_ <= kQuietTraffic && inflight <= kQuietTraffic;
  last_ = traffic;
  quiet_ = quiet ? quiet_ + 1 : 0;
  if (quiet_ < kQuietLooks || traffic - given_back_ < kLargeTraffic) return false;
  given_back_ = traffic;
  return true;
}

MemoryKeeper::MemoryKeeper(Actions actions, std::chrono::milliseconds tick)
    : actions_(std::move(actions)), tick_(tick), thread_([this] { Run(); }) {}

MemoryKeeper::~MemoryKeeper() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void MemoryKeeper::Run() {
  QuietWatch watch;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, tick_, [this] { return stop_; })) {
    if (!watch.Look(actions_.traffic(), actions_.inflight())) continue;
    lock.unlock();
    actions_.give_back();
    lock.lock();
  }
}

void TrimMalloc() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace phasor::server
