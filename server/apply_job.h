// One plain rotation of a call on its way. Part of apply_call.cc.
#ifndef PHASOR_SERVER_APPLY_JOB_H_
#define PHASOR_SERVER_APPLY_JOB_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/apply_call.h"
#include "server/describe.h"
#include "server/tensor_rotation.h"
#include "server/tile_set.h"
#include "server/unshared.h"

namespace phasor::server {

// One item: finds the tables of the tensors' types, then works on the tensors side by side.
class ApplyJob : public std::enable_shared_from_this<ApplyJob> {
 public:
  ApplyJob(std::shared_ptr<ApplyCall> call, size_t index, std::shared_ptr<const PlanEntry> plan)
      : call_(std::move(call)), index_(index), plan_(std::move(plan)) {}

  // Instead of Start, on the caller's thread: true when every table was in the cache and the item is done; else it has to be
  // started anew.
  bool FinishNow() {
    const Stopwatch watch;
    if (!FindTiles()) return false;
    for (size_t i = 0; i < item().tensors.size(); ++i) {
      if (item().tensors[i].bytes == 0) continue;
      const auto work = MakeWork(i);
      if (!work.ok() || !RotateAll(**work).ok()) return false;  // a worker will find the same error, or memory
    }
    for (TensorInput& tensor : item().tensors) tensor.payload.clear();
    SetOutcome();
    result().stages.build_ns = watch.ns();
    return true;
  }

  // Takes the item's rotations into a group: true when every table was in the cache and its tensors lie ready, to be ended
  // by Grouped; else the item has to be started anew.
  bool Join(std::vector<phasor::Task>* tasks, std::vector<int64_t>* rows) {
    const Stopwatch watch;
    const size_t had = tasks->size();
    bool joined = FindTiles();
    for (size_t i = 0; joined && i < item().tensors.size(); ++i) {
      if (item().tensors[i].bytes == 0) continue;
      auto made = MakeWork(i);
      joined = made.ok();
      if (!joined) break;
      const Work& work = **made;
      work.gather.Copy(0, work.bytes, work.data);
      joined = work.rotation.Collect(tasks, rows);
      grouped_.push_back(*std::move(made));
    }
    result().stages.copy_ns += watch.ns();
    if (joined) return true;
    tasks->resize(had);
    rows->resize(had);
    return false;
  }

  // The group's work has ended, and how.
  void Grouped(const absl::Status& status, int64_t build_ns) {
    grouped_.clear();
    for (TensorInput& tensor : item().tensors) tensor.payload.clear();
    result().stages.build_ns += build_ns;
    if (!status.ok()) return call_->EndItem(index_, Unshared(status));
    SetOutcome();
    call_->FinishItem(index_);
  }

  void Start() {
    // f64 tensors have a table of their own type; the others share one of f32.
    for (const TensorInput& tensor : item().tensors) {
      auto& tiles = TilesFor(tensor);
      if (tiles != nullptr) continue;
      tiles = NewTiles(tensor);
    }
    open_.store(1);
    for (const auto& tiles : tiles_) {
      if (tiles == nullptr) continue;
      open_.fetch_add(1);
      tiles->Acquire(
          TilesOfPositions(item().positions, 0), !Consecutive(item().positions), /*once=*/false, call_->lane(),
          [self = shared_from_this()](absl::Status status) { self->End(std::move(status), &ApplyJob::TilesReady); });
    }
    End(absl::OkStatus(), &ApplyJob::TilesReady);
  }

 private:
  static constexpr int64_t kGatherBlock = int64_t{256} << 10;
  static constexpr int64_t kGatherBlocksPerSlice = 8;

  // A tensor on its way.
  struct Work {
    Work(const TensorInput& tensor, const RotationShape& shape, const TableRows& rows, bool per_batch, std::byte* out)
        : gather(tensor.payload), rotation(tensor, shape, rows, per_batch, out), bytes(tensor.bytes), data(out) {}
    Gather gather;
    TensorRotation rotation;
    int64_t bytes;
    std::byte* data;
  };

  ApplyItem& item() { return call_->item(index_); }
  ApplyResult& result() { return call_->result(index_); }
  std::shared_ptr<TileSet>& TilesFor(const TensorInput& tensor) { return tiles_[tensor.dtype == DType::kF64 ? 1 : 0]; }
  std::shared_ptr<TileSet> NewTiles(const TensorInput& tensor) const {
    const TileKey key{plan_, TableTypeFor(tensor.dtype), call_->item(index_).inverse, 0};
    return std::make_shared<TileSet>(call_->core(), call_->context(), key);
  }

  // Whether every table that the tensors need is in the cache.
  bool FindTiles() {
    for (const TensorInput& tensor : item().tensors) {
      auto& tiles = TilesFor(tensor);
      if (tiles != nullptr) continue;
      tiles = NewTiles(tensor);
      if (!tiles->FindNow(TilesOfPositions(item().positions, 0))) return false;
    }
    return true;
  }

  // One of several things that were waited for is over; the last one goes on with `next`.
  void End(absl::Status status, void (ApplyJob::*next)()) {
    if (!status.ok()) {
      std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = std::move(status);
    }
    if (open_.fetch_sub(1) == 1) (this->*next)();
  }

  void TilesReady() {
    result().stages.build_ns += waiting_.ns();
    if (status_.ok()) status_ = call_->context()->Check();
    if (!status_.ok()) return call_->EndItem(index_, std::move(status_));
    SetOutcome();
    open_.store(1);
    for (size_t i = 0; i < item().tensors.size(); ++i) {
      open_.fetch_add(1);
      StartTensor(i);
    }
    End(absl::OkStatus(), &ApplyJob::Finish);
  }

  void SetOutcome() {
    bool first = true;
    for (const auto& tiles : tiles_) {
      if (tiles == nullptr) continue;
      const CacheOutcome outcome = tiles->outcome();
      if (!first && outcome != result().cache) {
        result().cache = CacheOutcome::kPartial;
      } else {
        result().cache = outcome;
      }
      first = false;
    }
  }

  // The answer's memory of a tensor that is not empty, and the work to be done in it.
  absl::StatusOr<std::shared_ptr<Work>> MakeWork(size_t i) {
    TensorInput& tensor = item().tensors[i];
    std::byte* data = call_->PlaceOf(index_, i);
    if (data == nullptr) {
      auto buffer = call_->core()->pool.Allocate(tensor.bytes);
      if (!buffer.ok()) return buffer.status();
      data = (*buffer)->data();
      const auto held = std::make_shared<const HeldBuffer>(HeldBuffer{*std::move(buffer), call_->charge()});
      result().tensors[i].data = {Bytes{held, data, tensor.bytes}};
    }

    const TileSet* tiles = TilesFor(tensor).get();
    const TableRows rows{call_->core(), plan_.get(), TableTypeFor(tensor.dtype), item().inverse, &item().positions, 0,
                         tiles};
    const auto& rope = std::get<RopeSpec>(item().source.spec.spec);
    const RotationShape shape{rope.pairing.value_or(Pairing::kHalfSplit), rope.first_channel, item().backward};
    return std::make_shared<Work>(tensor, shape, rows, item().per_batch, data);
  }

  // Whether the tensor is to be rotated where it lies.
  bool IsInPlace(size_t i, const Work& work) {
    const auto& payload = item().tensors[i].payload;
    return payload.size() == 1 && payload[0].data == work.data;
  }

  absl::Status RotateAll(const Work& work) const {
    const RowRange all{0, work.rotation.tokens()};
    const CancelFlag* cancel = &call_->context()->cancelled;
    if (all.end > 0 && work.rotation.TokensAreConsecutive()) return work.rotation.GatherAndRotate(work.gather, all, cancel);
    work.gather.Copy(0, work.bytes, work.data);
    return work.rotation.Rotate(all, cancel);
  }

  void StartTensor(size_t i) {
    if (item().tensors[i].bytes == 0) return End(absl::OkStatus(), &ApplyJob::Finish);
    absl::StatusOr<std::shared_ptr<Work>> made = MakeWork(i);
    if (!made.ok()) return End(made.status(), &ApplyJob::Finish);
    const std::shared_ptr<Work> work = *std::move(made);
    if (IsInPlace(i, *work)) return RotateAll(i, work);
    if (work->rotation.tokens() > 0 && work->rotation.TokensAreConsecutive()) {
      RunStage(i, work, work->rotation.tokens(), work->rotation.tokens_per_slice(), [this, work](RowRange tokens) {
        return work->rotation.GatherAndRotate(work->gather, tokens, &call_->context()->cancelled);
      });
      return;
    }
    // Tokens are scattered over the tensor: all of it has to be there before the first can be rotated.
    Stage gather;
    gather.rows = (work->bytes + kGatherBlock - 1) / kGatherBlock;
    gather.rows_per_slice = kGatherBlocksPerSlice;
    gather.run = [work](RowRange blocks) {
      const int64_t begin = blocks.begin * kGatherBlock;
      work->gather.Copy(begin, std::min(blocks.end * kGatherBlock, work->bytes), work->data + begin);
      return absl::OkStatus();
    };
    gather.done = [self = shared_from_this(), i, work](StageReport report) { self->Gathered(i, work, std::move(report)); };
    call_->RunStage(std::move(gather), work->bytes);
  }

  void Gathered(size_t i, std::shared_ptr<Work> work, StageReport report) {
    AddTimes(report, &StageTimes::copy_ns);
    item().tensors[i].payload.clear();
    if (!report.status.ok()) return End(std::move(report.status), &ApplyJob::Finish);
    RotateAll(i, work);
  }

  // The tensor's bytes are where they belong.
  void RotateAll(size_t i, const std::shared_ptr<Work>& work) {
    if (work->rotation.tokens() == 0) return End(absl::OkStatus(), &ApplyJob::Finish);
    RunStage(i, work, work->rotation.tokens(), 2 * work->rotation.tokens_per_slice(),
             [this, work](RowRange tokens) { return work->rotation.Rotate(tokens, &call_->context()->cancelled); });
  }

  // The tensor's last stage. `run` may use `this`: the stage's end holds it.
  void RunStage(size_t i, const std::shared_ptr<Work>& work, int64_t tokens, int64_t per_slice,
                std::function<absl::Status(RowRange)> run) {
    Stage stage;
    stage.rows = tokens;
    stage.rows_per_slice = per_slice;
    stage.run = std::move(run);
    stage.done = [self = shared_from_this(), i, work](StageReport report) {
      self->AddTimes(report, &StageTimes::build_ns);
      self->item().tensors[i].payload.clear();
      self->End(std::move(report.status), &ApplyJob::Finish);
    };
    call_->RunStage(std::move(stage), work->bytes);
  }

  // Tensors are worked on side by side: the longest counts.
  void AddTimes(const StageReport& report, int64_t StageTimes::* stage) {
    std::lock_guard lock(mutex_);
    times_.queue_ns = std::max(times_.queue_ns, report.queue_ns);
    times_.*stage = std::max(times_.*stage, report.run_ns);
  }

  void Finish() {
    result().stages.queue_ns += times_.queue_ns;
    result().stages.build_ns += times_.build_ns;
    result().stages.copy_ns += times_.copy_ns;
    if (!status_.ok()) return call_->EndItem(index_, std::move(status_));
    call_->FinishItem(index_);
  }

  const std::shared_ptr<ApplyCall> call_;
  const size_t index_;
  const std::shared_ptr<const PlanEntry> plan_;
  std::array<std::shared_ptr<TileSet>, 2> tiles_;  // of f32 and of f64 tables, where needed
  std::vector<std::shared_ptr<Work>> grouped_;     // of a group that has not ended
  Stopwatch waiting_;
  std::atomic<int64_t> open_{0};
  std::mutex mutex_;
  absl::Status status_;  // guarded while more than one thing is open
  StageTimes times_;     // likewise
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_APPLY_JOB_H_
