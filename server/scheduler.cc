#include "server/scheduler.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "server/refusal.h"
#include "server/time_slice.h"

namespace phasor::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSmallBurst = 4;
constexpr size_t kLargeTurns = 4;
// Peers whose turns are kept before those that have none left are forgotten.
constexpr size_t kMostPeers = 4096;

int64_t NanosecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
}

absl::Status Stopped() { return MakeRefusal(Refusal::kDraining, "the server is shutting down"); }

}  // namespace

// A stage and how far it is. Guarded by the scheduler's mutex but for `stage`, of which only the lane changes (under it).
struct Scheduler::Active {
  uint64_t peer() const { return stage.context == nullptr ? 0 : stage.context->peer; }
  int64_t slices_left() const { return (stage.rows - next_row - 1) / stage.rows_per_slice + 1; }

  Stage stage;
  Clock::time_point submitted;
  std::optional<Clock::time_point> started;
  int64_t next_row = 0;
  int running = 0;
  bool queued = true;
  Queue::Stages::iterator position;
  absl::Status status;
};

Scheduler::Queue::Stages::iterator Scheduler::Queue::Add(std::shared_ptr<Active> active) {
  if (due_next.size() > kMostPeers) std::erase_if(due_next, [this](const auto& next) { return next.second <= due; });
  int64_t& next = due_next[active->peer()];
  const int64_t start = std::max(due, next);
  next = start + active->slices_left();
  return stages.emplace(start, std::move(active));
}

void Scheduler::Queue::Remove(Stages::iterator position) {
  stages.erase(position);
  if (stages.empty()) due_next.clear();
}

std::shared_ptr<Scheduler::Active> Scheduler::Queue::Withdraw(Stages::iterator position) {
  std::shared_ptr<Active> active = position->second;
  const auto next = due_next.find(active->peer());
  if (next != due_next.end()) next->second -= active->slices_left();
  Remove(position);
  return active;
}

Scheduler::Scheduler(int threads) {
  threads_.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

Scheduler::~Scheduler() { Stop(); }

void Scheduler::Submit(Stage stage) {
  auto active = std::make_shared<Active>();
  active->stage = std::move(stage);
  active->submitted = Clock::now();
  {
    std::lock_guard lock(mutex_);
    if (!stopping_) {
      if (StageTicket* ticket = active->stage.ticket.get()) {
        ticket->stage_ = active;
        if (ticket->promoted_) active->stage.lane = Lane::kSmall;
      }
      active->position = QueueOf(active->stage.lane).Add(active);
      ++unstarted_;
      if (active->stage.rows > active->stage.rows_per_slice) {
        wake_.notify_all();
      } else {
        wake_.notify_one();
      }
      return;
    }
  }
  std::move(active->stage.done)(StageReport{Stopped(), 0, 0});
}

void Scheduler::Promote(const std::shared_ptr<StageTicket>& ticket) {
  std::shared_ptr<Active> active;  // may turn out to be the last reference: dies without the lock
  std::lock_guard lock(mutex_);
  ticket->promoted_ = true;
  active = ticket->stage_.lock();
  if (active == nullptr || !active->queued || stopping_ || active->stage.lane == Lane::kSmall) return;
  active = large_.Withdraw(active->position);
  active->stage.lane = Lane::kSmall;
  active->position = small_.Add(active);
}

void Scheduler::Work() {
  AskForTimeSlice(kLongSlice);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !small_.stages.empty() || !large_.stages.empty(); });
    if (stopping_) return;
    Claim claim = ClaimSlice();
    lock.unlock();
    RunSlice(claim);
    claim.stage.reset();
    lock.lock();
  }
}

Scheduler::Claim Scheduler::ClaimSlice() {
  const bool large = small_.stages.empty() || (!large_.stages.empty() && small_streak_ >= kSmallBurst);
  Queue& queue = large ? large_ : small_;
  auto position = queue.stages.begin();
  if (large) {
    small_streak_ = 0;
    const size_t turns = std::min(queue.stages.size(), kLargeTurns);
    position = std::next(position, static_cast<int64_t>(turn_++ % turns));
  } else {
    small_streak_ = large_.stages.empty() ? 0 : small_streak_ + 1;
  }

  Claim claim{position->second, {}};
  Active& active = *position->second;
  if (!active.started) {
    active.started = Clock::now();
    queue.due = std::max(queue.due, position->first);
    --unstarted_;
  }
  claim.rows.begin = active.next_row;
  claim.rows.end = active.stage.rows - active.next_row <= active.stage.rows_per_slice
                       ? active.stage.rows
                       : active.next_row + active.stage.rows_per_slice;
  active.next_row = claim.rows.end;
  ++active.running;
  if (active.next_row == active.stage.rows) {
    active.queued = false;
    queue.Remove(active.position);
  }
  return claim;
}

void Scheduler::RunSlice(const Claim& claim) {
  const Stage& stage = claim.stage->stage;
  absl::Status status;
  if (stage.context != nullptr) status = stage.context->Check();
  if (status.ok()) {
    try {
      status = stage.run(claim.rows);
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError("out of memory");
    }
  }
  EndSlice(claim.stage, std::move(status));
}

void Scheduler::EndSlice(const std::shared_ptr<Active>& active, absl::Status status) {
  StageReport report;
  {
    std::lock_guard lock(mutex_);
    if (active->status.ok() && !status.ok()) active->status = std::move(status);
    --active->running;
    if (active->queued && !active->status.ok()) {
      active->queued = false;
      QueueOf(active->stage.lane).Remove(active->position);
    }
    // While stopping, what is still queued is ended by Stop.
    if (active->queued || active->running > 0) return;
    report.status = std::move(active->status);
    report.queue_ns = NanosecondsBetween(active->submitted, *active->started);
    report.run_ns = NanosecondsBetween(*active->started, Clock::now());
  }
  std::move(active->stage.done)(std::move(report));
}

void Scheduler::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  Queue::Stages left;
  {
    std::lock_guard lock(mutex_);
    left.merge(small_.stages);
    left.merge(large_.stages);
    unstarted_ = 0;
  }
  for (const auto& [due, active] : left) std::move(active->stage.done)(StageReport{Stopped(), 0, 0});
}

int64_t Scheduler::queue_length() const {
  std::lock_guard lock(mutex_);
  return unstarted_;
}

double Scheduler::oldest_age_seconds() const {
  std::lock_guard lock(mutex_);
  std::optional<Clock::time_point> oldest;
  for (const Queue* queue : {&small_, &large_}) {
    for (const auto& [due, active] : queue->stages) {
      if (!active->started && (!oldest || active->submitted < *oldest)) oldest = active->submitted;
    }
  }
  if (!oldest) return 0;
  return std::chrono::duration<double>(Clock::now() - *oldest).count();
}

}  // namespace phasor::server
