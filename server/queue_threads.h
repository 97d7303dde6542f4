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

// Gives events until the queue is shut down and empty.
void ServeQueue(grpc::CompletionQueue* queue);

class QueueThreads {
 public:
  // Threads rest when `busy` has been false for so long.
  static constexpr std::chrono::milliseconds kLinger{50};

  // `busy`: whether there is more to do than one thread does. It is asked by threads that wait, on any of them.
  QueueThreads(grpc::CompletionQueue* queue, int threads, std::function<bool()> busy);
  ~QueueThreads();  // the queue was shut down

  // `busy` may have become true: ends the rest of a thread, if one rests. Thread-safe.
  void Wake();

  // How many wait. Thread-safe.
  int awake() const { return static_cast<int>(threads_.size()) - resting_.load(std::memory_order_relaxed); }

 private:
  void Help();
  bool Rest();  // until Wake; false: for good
  void ServeWhileBusy();

  grpc::CompletionQueue* const queue_;
  const std::function<bool()> busy_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> resting_{0};  // changes under the lock
  int woken_ = 0;                // of those that rest
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_QUEUE_THREADS_H_
