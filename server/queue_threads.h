// The threads that wait for the events of a completion queue.
//
// One of them always waits. The others rest until there is more to do than one thread does, and rest again when that is
// over: whenever a thread has read something, gRPC wakes another one that waits, to take over the waiting. Beside a single
// small call that is most of what the call costs.
#ifndef PHASOR_SERVER_QUEUE_THREADS_H_
#define PHASOR_SERVER_QUEUE_THREADS_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "grpcpp/completion_queue.h"

namespace phasor::server {

// What comes back from a completion queue as a tag.
class CompletionEvent {
 public:
  virtual void Complete(bool ok) = 0;

 protected:
  ~CompletionEvent() = default;
};

// Runs the events that are left in a queue that is shut down.
void EmptyQueue(grpc::CompletionQueue* queue);

class QueueThreads {
 public:
  // Threads rest when `busy` has been false for so long.
  static constexpr std::chrono::milliseconds kLinger{50};
  // All that are awake have been at one event each for so long, or twice: another one is needed.
  static constexpr std::chrono::milliseconds kStuck{10};

  // `busy`: whether there is more to do than one thread does. It is asked by threads that wait, on any of them.
  QueueThreads(grpc::CompletionQueue* queue, int threads, std::function<bool()> busy,
               std::chrono::milliseconds stuck = kStuck);
  ~QueueThreads();  // the queue was shut down

  // `busy` may have become true: ends the rest of a thread, if one rests. Thread-safe.
  void Wake();

  // How many wait. Thread-safe.
  int awake() const { return static_cast<int>(threads_.size()) - resting_.load(std::memory_order_relaxed); }

 private:
  void Serve();
  void Help();
  bool Rest();  // until Wake; false: for good
  void ServeWhileBusy();
  void Run(void* tag, bool ok);
  void WakeLocked();
  // Looks whether the others are stuck, while there is something to see.
  void Watch();
  void WaitForEvent(std::unique_lock<std::mutex>& lock, uint64_t seen);

  grpc::CompletionQueue* const queue_;
  const std::function<bool()> busy_;
  const std::chrono::milliseconds stuck_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> resting_{0};  // changes under the lock
  int woken_ = 0;                // of those that rest
  bool stopping_ = false;
  std::condition_variable watch_;       // of its end
  const int timer_;                     // −1: the system has none left, and Watch never stops looking
  std::atomic<bool> unwatched_{false};  // nothing has happened for a while: the next event sets the timer
  std::atomic<uint64_t> events_{0};     // that have begun
  std::atomic<int> working_{0};         // threads that are at one
  std::vector<std::thread> threads_;
  std::thread watcher_;  // where there is more than one
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_QUEUE_THREADS_H_
