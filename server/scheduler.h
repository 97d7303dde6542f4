// Worker threads that run work in slices, several workers on one piece of work at a time.
#ifndef PHASOR_SERVER_SCHEDULER_H_
#define PHASOR_SERVER_SCHEDULER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

#include "kernels/backend.h"
#include "server/call_context.h"

namespace phasor::server {

// Small work goes first, so that a large table does not stand in the way of a decode step.
enum class Lane : uint8_t { kSmall, kLarge };

// How a stage ended.
struct StageReport {
  absl::Status status;   // the first error of a slice, or of the context
  int64_t queue_ns = 0;  // until its first slice began
  int64_t run_ns = 0;    // from then until its last slice ended
};

class StageTicket;

// A piece of work: rows [0, rows), run in slices.
struct Stage {
  Lane lane = Lane::kSmall;
  int64_t rows = 1;            // ≥ 1
  int64_t rows_per_slice = 1;  // ≥ 1, about a millisecond of work or less
  // Checked before every slice; a call that is over runs no more of them. Null: nobody's in particular.
  std::shared_ptr<const CallContext> context;
  // What Promote knows it by; null: it keeps its lane.
  std::shared_ptr<StageTicket> ticket;
  // Runs the rows; called by several threads at once for different rows. After an error no further slice begins.
  std::function<absl::Status(RowRange)> run;
  // Called once, after the last slice, on a worker (or on the thread that stops the scheduler).
  absl::AnyInvocable<void(StageReport) &&> done;
};

// Thread-safe. Fairness: of five slices in a row at least one is a large stage's when one waits. Within a lane peers take
// turns: a stage is due when its peer's earlier ones have had their slices, counted from when the peer began to have work
// here (start-time fair queueing), so that a peer with a hundred stages delays another one's first by its own first alone.
// The four large stages that are due first take turns slice by slice, the others wait (so that little half-done work holds
// memory).
class Scheduler {
 public:
  explicit Scheduler(int threads);  // ≥ 1
  ~Scheduler();                     // Stop()

  // Never blocks. After Stop the stage ends at once, on this thread, with UNAVAILABLE.
  void Submit(Stage stage);

  // What is left to begin of that stage goes on in the small lane, as if it had been submitted there now: somebody with
  // little to do waits for it. No effect once all of it has begun; before Submit, that takes it there. Never blocks.
  void Promote(const std::shared_ptr<StageTicket>& ticket);

  // Lets running slices end, ends every stage that is left with UNAVAILABLE and joins the workers. Not to be called from a
  // stage.
  void Stop();

  int64_t queue_length() const;       // stages of which no slice has begun
  double oldest_age_seconds() const;  // how long the first of them has waited
  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  friend class StageTicket;
  struct Active;
  // The stages of a lane that have slices left to claim, by when they are due: counted in slices.
  struct Queue {
    using Stages = std::multimap<int64_t, std::shared_ptr<Active>>;
    Stages::iterator Add(std::shared_ptr<Active> active);
    void Remove(Stages::iterator position);
    // Takes a stage away; its peer owes nothing for the slices that it has not had here.
    std::shared_ptr<Active> Withdraw(Stages::iterator position);

    Stages stages;
    // Of each peer's next stage, while that is ahead of `due`. Nothing is owed when nobody waits.
    std::unordered_map<uint64_t, int64_t> due_next;
    int64_t due = 0;  // of the stage that last had its first slice
  };
  struct Claim {
    std::shared_ptr<Active> stage;
    RowRange rows;
  };

  void Work();
  Claim ClaimSlice();                                           // with the lock held and work waiting
  void RunSlice(const Claim& claim);                            // without it
  void EndSlice(const std::shared_ptr<Active>&, absl::Status);  // without it
  Queue& QueueOf(Lane lane) { return lane == Lane::kSmall ? small_ : large_; }

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Queue small_, large_;
  int small_streak_ = 0;  // small slices since the last large one, while large ones wait
  size_t turn_ = 0;       // whose turn it is among the large stages that are due first
  int64_t unstarted_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Names one stage before and after it is submitted, and does not keep it.
class StageTicket {
 private:
  friend class Scheduler;
  // Guarded by the scheduler's mutex.
  bool promoted_ = false;
  std::weak_ptr<Scheduler::Active> stage_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SCHEDULER_H_
