#include "client/cli/load_run.h"

#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace phasor::cli {
namespace {

using Clock = std::chrono::steady_clock;

int64_t Nanoseconds(Clock::duration time) { return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count(); }

// What one caller saw; no other thread looks at it before the end.
struct Seen {
  std::vector<LoadTally> scenarios;
  LatencyHistogram behind;
};

}  // namespace

int64_t LoadTally::failed() const {
  int64_t count = 0;
  for (const auto& [code, failure] : failures) count += failure.count;
  return count;
}

void LoadTally::Add(const CallOutcome& outcome, int64_t latency_ns) {
  ++calls;
  if (outcome.status.ok()) {
    latency.Add(latency_ns);
    sent_bytes += outcome.sent_bytes;
    received_bytes += outcome.received_bytes;
    return;
  }
  Failure& failure = failures[outcome.status.code()];
  if (failure.count++ == 0) failure.message = std::string(outcome.status.message());
}

void LoadTally::Merge(const LoadTally& other) {
  calls += other.calls;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  latency.Merge(other.latency);
  for (const auto& [code, failure] : other.failures) {
    Failure& mine = failures[code];
    if (mine.count == 0) mine.message = failure.message;
    mine.count += failure.count;
  }
}

LoadResult LoadRun::Run() {
  Schedule schedule(plan);
  const Mix mix(weights);
  std::vector<Seen> seen(static_cast<size_t>(callers));
  std::atomic<int64_t> done{0}, failed{0};
  std::mutex mutex;
  std::condition_variable ended;
  int64_t running = callers;

  const Clock::time_point start = Clock::now();
  const auto call_in_turn = [&](size_t caller) {
    prctl(PR_SET_TIMERSLACK, 1000UL);  // of this thread: sleeps end when they should, not up to 50 us later
    Seen& mine = seen[caller];
    mine.scenarios.resize(calls.size());
    client::Client& client = *clients[caller % clients.size()];
    while (const auto arrival = schedule.Next(Nanoseconds(Clock::now() - start))) {
      const Clock::time_point due = start + std::chrono::nanoseconds(arrival->due_ns);
      std::this_thread::sleep_until(due);
      mine.behind.Add(Nanoseconds(Clock::now() - due));
      const size_t scenario = mix.Pick(arrival->index);
      const CallOutcome outcome = calls[scenario](client);
      mine.scenarios[scenario].Add(outcome, Nanoseconds(Clock::now() - due));
      if (!outcome.status.ok()) failed.fetch_add(1, std::memory_order_relaxed);
      done.fetch_add(1, std::memory_order_relaxed);
    }
    const std::lock_guard lock(mutex);
    if (--running == 0) ended.notify_all();
  };
  std::vector<std::thread> threads;
  for (size_t caller = 0; caller < seen.size(); ++caller) threads.emplace_back(call_in_turn, caller);
  {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
      if (progress) progress(done.load(), failed.load(), std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  for (std::thread& thread : threads) thread.join();

  LoadResult result;
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.missed = schedule.missed();
  result.scenarios.resize(calls.size());
  for (const Seen& one : seen) {
    for (size_t i = 0; i < calls.size(); ++i) {
      result.scenarios[i].Merge(one.scenarios[i]);
      result.all.Merge(one.scenarios[i]);
    }
    result.behind.Merge(one.behind);
  }
  return result;
}

}  // namespace phasor::cli
