#include "server/memory_keeper.h"

#include <algorithm>
#include <utility>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace phasor::server {

bool QuietWatch::Look(int64_t traffic, int64_t inflight, int64_t resident) {
  if (last_resident_ < 0) GaveBack(resident);
  const bool quiet = traffic - last_ <= kQuietTraffic && inflight <= kQuietTraffic;
  last_ = traffic;
  quiet_ = quiet ? quiet_ + 1 : 0;
  steady_ = quiet && resident - last_resident_ <= kSteadyGrowth ? steady_ + 1 : 0;
  last_resident_ = resident;
  least_resident_ = std::min(least_resident_, resident);
  const bool much_came = quiet_ >= kQuietLooks && traffic - given_back_ >= kLargeTraffic;
  const bool much_stayed = steady_ >= kSteadyLooks && resident - least_resident_ >= kLargeGrowth;
  if (!much_came && !much_stayed) return false;
  given_back_ = traffic;
  return true;
}

void QuietWatch::GaveBack(int64_t resident) {
  last_resident_ = least_resident_ = resident;
  steady_ = 0;
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
    if (!watch.Look(actions_.traffic(), actions_.inflight(), actions_.resident())) continue;
    lock.unlock();
    actions_.give_back();
    watch.GaveBack(actions_.resident());
    lock.lock();
  }
}

void TrimMalloc() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace phasor::server
