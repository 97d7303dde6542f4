// Runs an item's Work: memory, gathering, steps, arrays.
#ifndef PHASOR_SERVER_WORK_JOB_H_
#define PHASOR_SERVER_WORK_JOB_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "server/call.h"
#include "server/fingerprint.h"
#include "server/guarded.h"
#include "server/plan_cache.h"
#include "server/tensor_rotation.h"
#include "server/work.h"

namespace phasor::server {

using PlanEntries = std::vector<std::shared_ptr<const PlanEntry>>;

// Resolves every source of the work, on this thread. Errors: those of Resolve, below the source's path.
absl::StatusOr<PlanEntries> ResolveSources(EngineCore* core, const Work& work);

// Plans found in the cache; empty when one is missing (and there are sources).
std::optional<PlanEntries> FindSources(EngineCore* core, const Work& work);

// SHA-256 over numerics version, the sources' plan keys, the work's key and the arrays' types and shapes; that of the plain
// window that the work spells, where it does; empty where the work has no key.
std::string WorkFingerprint(const Work& work, const PlanEntries& plans);

// The arrays without data, in order.
std::vector<std::pair<Slot, Array>> DescribeArrays(const Work& work);

// Where the arrays of a result go.
void SetArray(Slot slot, Array array, PrecomputeResult* result);
void SetArray(Slot slot, Array array, ApplyResult* result);
void SetArray(Slot slot, Array array, ScoresResult* result);

// Ends its item (Call::EndItem) when it is done. The call keeps the item, and so the work, until then.
template <typename R>
class WorkJob : public std::enable_shared_from_this<WorkJob<R>> {
 public:
  WorkJob(std::shared_ptr<Call<R>> call, size_t index, std::shared_ptr<const Work> work, PlanEntries plans)
      : call_(std::move(call)), index_(index), work_(std::move(work)), plans_(std::move(plans)) {}

  void Start() {
    absl::Status status = Allocate();
    if (!status.ok()) return call_->EndItem(index_, std::move(status));
    int64_t blocks = 0;
    for (size_t i = 0; i < work_->inputs.size(); ++i) {
      const Chunks& payload = work_->inputs[i].payload;
      gathers_.emplace_back(payload);
      first_block_.push_back(blocks);
      // What is worked on where it lies is there already.
      const bool in_place = payload.size() == 1 && payload[0].data == memory_.inputs[i];
      gather_bytes_.push_back(in_place ? 0 : work_->inputs[i].bytes);
      blocks += (gather_bytes_.back() + kBlock - 1) / kBlock;
    }
    if (blocks == 0) return BuildSteps();
    Stage stage;
    stage.rows = blocks;
    stage.rows_per_slice = kBlocksPerSlice;
    stage.run = [self = this->shared_from_this()](RowRange rows) { return self->GatherBlocks(rows); };
    stage.done = [self = this->shared_from_this()](StageReport report) {
      self->result().stages.queue_ns += report.queue_ns;
      self->result().stages.copy_ns += report.run_ns;
      if (!report.status.ok()) return self->call_->EndItem(self->index_, std::move(report.status));
      self->BuildSteps();
    };
    call_->RunStage(std::move(stage), blocks * kBlock);
  }

 private:
  static constexpr int64_t kBlock = int64_t{256} << 10;
  static constexpr int64_t kBlocksPerSlice = 8;

  R& result() { return call_->result(index_); }

  absl::StatusOr<std::byte*> NewBuffer(int64_t bytes) {
    if (bytes == 0) return nullptr;
    auto buffer = call_->core()->pool.Allocate(bytes);
    if (!buffer.ok()) return buffer.status();
    std::byte* data = (*buffer)->data();
    buffers_.push_back(*std::move(buffer));
    return data;
  }

  absl::Status Allocate() {
    memory_.inputs.resize(work_->inputs.size(), nullptr);
    for (size_t i = 0; i < work_->outputs.size(); ++i) {
      const WorkArray& array = work_->outputs[i];
      std::byte* data = call_->PlaceOf(index_, i);
      if (data == nullptr) {
        auto buffer = NewBuffer(array.bytes);
        if (!buffer.ok()) return buffer.status();
        data = *buffer;
      }
      if (array.input >= 0) memory_.inputs[static_cast<size_t>(array.input)] = data;
      memory_.outputs.push_back(data);
    }
    for (size_t i = 0; i < work_->inputs.size(); ++i) {
      if (memory_.inputs[i] != nullptr) continue;
      auto data = NewBuffer(work_->inputs[i].bytes);
      if (!data.ok()) return data.status();
      memory_.inputs[i] = *data;
    }
    auto scratch = NewBuffer(work_->scratch_bytes);
    if (!scratch.ok()) return scratch.status();
    memory_.scratch = *scratch;
    return absl::OkStatus();
  }

  absl::Status GatherBlocks(RowRange blocks) {
    for (size_t i = 0; i < work_->inputs.size(); ++i) {
      const int64_t bytes = gather_bytes_[i];
      const int64_t begin = std::max(blocks.begin - first_block_[i], int64_t{0}) * kBlock;
      const int64_t end = std::min((blocks.end - first_block_[i]) * kBlock, bytes);
      if (begin < end) gathers_[i].Copy(begin, end, memory_.inputs[i] + begin);
    }
    return absl::OkStatus();
  }

  void BuildSteps() {
    for (const auto& entry : plans_) resolved_.push_back(&entry->resolved);
    RunSteps();
  }

  // The next part's, when those before are through.
  absl::Status TakeSteps() {
    next_ = 0;
    return Guarded([this] {
      auto steps = work_->StepsOf(part_++, resolved_, memory_);
      if (steps.ok()) steps_ = *std::move(steps);
      return steps.status();
    });
  }

  // Steps of a slice or two are run here, one after the other, for about as long as a slice takes; a longer one, and the
  // next one then, is queued, so that others get their turn. A loop, since callers decide how many steps there are.
  void RunSteps() {
    constexpr int64_t kTurnNs = 1'000'000;
    const Stopwatch turn;
    while (true) {
      while (next_ < steps_.size() && steps_[next_].rows <= 0) ++next_;
      if (next_ == steps_.size()) {
        if (part_ == work_->parts()) return Finish();
        if (absl::Status status = TakeSteps(); !status.ok()) return call_->EndItem(index_, std::move(status));
        continue;
      }
      const ProgramStep& step = steps_[next_];
      const int64_t per_slice = RowsPerSlice(*call_->core()->backend, step);
      if (step.rows > 2 * per_slice || turn.ns() > kTurnNs) return QueueStep(step, per_slice);
      const Stopwatch watch;
      absl::Status status = call_->context()->Check();
      if (status.ok()) status = Guarded([&] { return Run(step, {0, step.rows}); });
      result().stages.build_ns += watch.ns();
      if (!status.ok()) return call_->EndItem(index_, std::move(status));
      ++next_;
    }
  }

  absl::Status Run(const ProgramStep& step, RowRange rows) const {
    return RunStep(*call_->core()->backend, step, rows, &call_->context()->cancelled);
  }

  void QueueStep(const ProgramStep& step, int64_t rows_per_slice) {
    Stage stage;
    stage.rows = step.rows;
    stage.rows_per_slice = rows_per_slice;
    stage.run = [self = this->shared_from_this(), &step](RowRange rows) { return self->Run(step, rows); };
    stage.done = [self = this->shared_from_this()](StageReport report) {
      self->result().stages.queue_ns += report.queue_ns;
      self->result().stages.build_ns += report.run_ns;
      if (!report.status.ok()) return self->call_->EndItem(self->index_, std::move(report.status));
      ++self->next_;
      self->RunSteps();
    };
    call_->RunStage(std::move(stage), kInlineBytes + 1);
  }

  void Finish() {
    auto held = std::make_shared<const Held>(Held{std::move(buffers_), call_->charge()});
    for (size_t i = 0; i < work_->outputs.size(); ++i) {
      const WorkArray& from = work_->outputs[i];
      Array array{from.dtype, from.shape, from.strides, {}};
      if (from.bytes > 0) array.data = {Bytes{held, memory_.outputs[i], from.bytes}};
      SetArray(from.slot, std::move(array), &result());
    }
    call_->FinishItem(index_);
  }

  struct Held {
    std::vector<std::shared_ptr<Buffer>> buffers;
    std::shared_ptr<const void> charge;
  };

  const std::shared_ptr<Call<R>> call_;
  const size_t index_;
  const std::shared_ptr<const Work> work_;
  const PlanEntries plans_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  WorkMemory memory_;
  std::vector<Gather> gathers_;
  std::vector<int64_t> first_block_, gather_bytes_;
  std::vector<const Resolved*> resolved_;
  int64_t part_ = 0;                // that is taken next
  std::vector<ProgramStep> steps_;  // of the part before
  size_t next_ = 0;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WORK_JOB_H_
