// One call on its way through the engine: admitted, its items worked on side by side, answered once.
#ifndef PHASOR_SERVER_CALL_H_
#define PHASOR_SERVER_CALL_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "server/engine_core.h"
#include "server/guarded.h"
#include "server/refusal.h"

namespace phasor::server {

// Work of up to this many bytes goes into the small lane.
inline constexpr int64_t kSmallCallBytes = int64_t{1} << 20;
// Work of up to this many bytes is done where it comes up instead of being queued as a stage of its own.
inline constexpr int64_t kInlineBytes = int64_t{128} << 10;
// Of that, what a thread that must not be kept waiting may do.
inline constexpr int64_t kInlineCopyBytes = int64_t{32} << 10;

// How a call is admitted.
struct CallSize {
  int64_t bytes = 0;  // charged; decides the lane
  int64_t stream_bytes =
      0;  // Validated::stream_bytes: more than 0 where the call was admitted before, which then decides the lane
};

// R: PrecomputeResult or ApplyResult. Kept alive by the stages and tile waits of its items.
template <typename R>
class Call : public std::enable_shared_from_this<Call<R>> {
 public:
  Call(EngineCore* core, std::shared_ptr<CallContext> context, size_t items, CallSize size, bool validate_only, Done<R> done)
      : core_(core), context_(std::move(context)), size_(size), validate_only_(validate_only), done_(std::move(done)) {
    answer_.results.resize(items);
  }
  virtual ~Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Admits the call, answers on this thread if it can, else queues what is left.
  void Run() {
    absl::Status status = Admit();
    std::vector<size_t> left;
    if (status.ok()) {
      for (size_t i = 0; i < answer_.results.size(); ++i) {
        if (!TryNow(i)) left.push_back(i);
      }
      if (!left.empty()) status = TakePlace();
    }
    if (!status.ok()) return Reply(std::move(status));
    if (left.empty()) return Reply(Failure());
    Launch(std::move(left));
  }

  EngineCore* core() const { return core_; }
  const std::shared_ptr<CallContext>& context() const { return context_; }
  const std::shared_ptr<const void>& charge() const { return charge_; }
  R& result(size_t item) { return answer_.results[item]; }
  Lane lane() const { return std::max(size_.bytes, size_.stream_bytes) <= kSmallCallBytes ? Lane::kSmall : Lane::kLarge; }
  bool validate_only() const { return validate_only_; }

  // An item is being worked on until EndItem.
  void BeginItem() { open_.fetch_add(1); }
  void EndItem() {
    if (open_.fetch_sub(1) == 1) Reply(Failure());
  }
  // Ends the item with an error; whatever it had is dropped, its times stay.
  void EndItem(size_t item, absl::Status status) {
    R failed;
    failed.status = std::move(status);
    failed.stages = result(item).stages;
    result(item) = std::move(failed);
    EndItem();
  }

  // The item's arrays are made: Made, then EndItem.
  void FinishItem(size_t item) {
    absl::Status status = Made(item);
    if (!status.ok()) return EndItem(item, std::move(status));
    EndItem();
  }

  // Where in shared memory array `array` of an item's outputs is to be made; null: in memory of the call's own.
  virtual std::byte* PlaceOf(size_t /*item*/, size_t /*array*/) const { return nullptr; }

  // Runs a stage of one item: here when it is small, else queued. Its context is the call's.
  void RunStage(Stage stage, int64_t bytes) {
    if (bytes > kInlineBytes) {
      stage.context = context_;
      stage.lane = lane();
      core_->scheduler.Submit(std::move(stage));
      return;
    }
    const Stopwatch watch;
    StageReport report;
    report.status = context_->Check();
    if (report.status.ok()) report.status = Guarded([&] { return stage.run({0, stage.rows}); });
    report.run_ns = watch.ns();
    std::move(stage.done)(std::move(report));
  }

 protected:
  // True when the item's result is complete without work worth a worker.
  virtual bool TryNow(size_t item) = 0;
  // Works on an item that could not be finished at once, on a worker: BeginItem, and some time later EndItem.
  virtual void Prepare(size_t item, int64_t queue_ns) = 0;
  // The same of several, on one worker: at most ItemsAtOnce.
  virtual void PrepareSome(std::span<const size_t> items, int64_t queue_ns) {
    for (const size_t item : items) Prepare(item, queue_ns);
  }
  virtual int64_t ItemsAtOnce() const { return 1; }
  // Every array of the item is where it belongs.
  virtual absl::Status Made(size_t /*item*/) { return absl::OkStatus(); }
  // The request is no longer needed.
  virtual void DropRequest() = 0;

 private:
  absl::Status Admit() {
    if (size_.stream_bytes > 0) return context_->Check();
    if (core_->draining.load(std::memory_order_relaxed)) {
      return MakeRefusal(Refusal::kDraining, "the server is shutting down");
    }
    absl::Status status = context_->Check();
    if (!status.ok() || validate_only_) return status;
    auto charge = core_->admission.Charge(size_.bytes);
    if (!charge.ok()) return charge.status();
    charge_ = *std::move(charge);
    return absl::OkStatus();
  }

  // A place among the calls that wait for workers; those being worked on do not count.
  absl::Status TakePlace() {
    if (size_.stream_bytes > 0) return absl::OkStatus();
    const int64_t limit = core_->options.max_queue + core_->scheduler.threads();
    if (core_->waiting_calls.fetch_add(1) >= limit) {
      core_->waiting_calls.fetch_sub(1);
      return MakeRefusal(Refusal::kQueueFull, "too many calls wait for a worker");
    }
    has_place_ = true;
    return absl::OkStatus();
  }

  void Launch(std::vector<size_t> items) {
    open_.store(1);  // until every item has begun
    Stage stage;
    stage.lane = lane();
    stage.rows = static_cast<int64_t>(items.size());
    stage.rows_per_slice = ItemsAtOnce();
    stage.context = context_;
    const auto self = this->shared_from_this();
    stage.run = [self, items = std::move(items), watch = Stopwatch()](RowRange rows) {
      self->PrepareSome(
          std::span(items).subspan(static_cast<size_t>(rows.begin), static_cast<size_t>(rows.end - rows.begin)), watch.ns());
      return absl::OkStatus();
    };
    stage.done = [self](StageReport report) {
      if (!report.status.ok()) {
        std::lock_guard lock(self->mutex_);
        self->failure_ = std::move(report.status);
      }
      self->EndItem();
    };
    core_->scheduler.Submit(std::move(stage));
  }

  // The error of the call as a whole, if there is one: asked for last, when every item has ended.
  absl::Status Failure() {
    {
      std::lock_guard lock(mutex_);
      if (!failure_.ok()) return std::move(failure_);
    }
    absl::Status status = context_->Check();
    if (!status.ok()) return status;
    for (const R& result : answer_.results) {
      if (absl::IsUnavailable(result.status)) return result.status;  // the engine stopped below it
    }
    return absl::OkStatus();
  }

  void Reply(absl::Status status) {
    if (has_place_) core_->waiting_calls.fetch_sub(1);
    if (!status.ok()) answer_.results.clear();
    answer_.status = std::move(status);
    for (const R& result : answer_.results) {
      // Items are worked on side by side, so the longest of a stage says more about the call than their sum.
      answer_.stages.queue_ns = std::max(answer_.stages.queue_ns, result.stages.queue_ns);
      answer_.stages.build_ns = std::max(answer_.stages.build_ns, result.stages.build_ns);
      answer_.stages.copy_ns = std::max(answer_.stages.copy_ns, result.stages.copy_ns);
    }
    DropRequest();
    charge_.reset();  // what is being sent holds it
    std::move(done_)(std::move(answer_));
  }

  EngineCore* const core_;
  const std::shared_ptr<CallContext> context_;
  const CallSize size_;
  const bool validate_only_;
  Done<R> done_;
  Answer<R> answer_;
  std::shared_ptr<const void> charge_;
  bool has_place_ = false;
  std::atomic<int64_t> open_{0};
  std::mutex mutex_;
  absl::Status failure_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_CALL_H_
