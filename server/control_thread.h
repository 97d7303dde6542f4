// One thread for control-plane work that takes too long for a thread of a completion queue (resolving a model, dropping
// gigabytes of tables) and is too rare for the workers' queue.
#ifndef PHASOR_SERVER_CONTROL_THREAD_H_
#define PHASOR_SERVER_CONTROL_THREAD_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/functional/any_invocable.h"

namespace phasor::server {

// Thread-safe.
class ControlThread {
 public:
  explicit ControlThread(size_t max_waiting);
  ~ControlThread();  // runs what waits, then joins

  // Whether there was room. `work` is left alone when there was none.
  bool Submit(absl::AnyInvocable<void() &&>& work);

 private:
  void Run();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<absl::AnyInvocable<void() &&>> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_CONTROL_THREAD_H_
