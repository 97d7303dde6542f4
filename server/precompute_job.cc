#include "server/precompute_job.h"

#include <utility>

namespace phasor::server {

PrecomputeJob::PrecomputeJob(std::shared_ptr<PrecomputeCall> call, size_t item, std::shared_ptr<const PlanEntry> plan,
                             bool inverse, std::vector<TileUse> uses, bool scattered)
    : call_(std::move(call)),
      index_(item),
      plan_(std::move(plan)),
      tiles_(
          std::make_shared<TileSet>(call_->core(), call_->context(), TileKey{plan_, call_->item(item).dtype, inverse, 0})),
      uses_(std::move(uses)),
      scattered_(scattered) {}

bool PrecomputeJob::FinishNow() {
  if (!AnswersWithSlices() && !call_->MayCopyNow(item().payload_bytes)) return false;
  if (!tiles_->FindNow(uses_)) return false;
  if (AnswersWithSlices()) {
    SetSlices();
  } else {
    call_->CopiesNow(item().payload_bytes);
    const Stopwatch watch;
    absl::Status status = Allocate();
    for (const Step& step : Steps()) {
      if (status.ok()) status = (this->*step.run)({0, step.rows}, &call_->context()->cancelled);
    }
    if (!status.ok()) return false;  // a worker will find the same error, or memory
    result().stages.copy_ns = watch.ns();
  }
  result().cache = tiles_->outcome();
  return true;
}

void PrecomputeJob::Start() {
  waiting_ = Stopwatch();
  tiles_->Acquire(std::move(uses_), scattered_, item().once, call_->lane(),
                  [self = shared_from_this()](absl::Status status) { self->TilesReady(std::move(status)); });
}

void PrecomputeJob::TilesReady(absl::Status status) {
  result().stages.build_ns += waiting_.ns();
  if (status.ok()) status = call_->context()->Check();
  if (!status.ok()) return call_->EndItem(index_, std::move(status));
  result().cache = tiles_->outcome();
  if (tiles_->complete() && AnswersWithSlices()) {
    SetSlices();
    return call_->EndItem();
  }
  status = Allocate();
  if (!status.ok()) return call_->EndItem(index_, std::move(status));
  RunSteps(Steps(), 0);
}

void PrecomputeJob::RunSteps(std::vector<Step> steps, size_t next) {
  if (next == steps.size()) return call_->FinishItem(index_);
  const Step step = steps[next];
  const auto self = shared_from_this();
  Stage stage;
  stage.rows = step.rows;
  stage.rows_per_slice = step.rows_per_slice;
  stage.run = [self, step](RowRange rows) { return (self.get()->*step.run)(rows, &self->call_->context()->cancelled); };
  stage.done = [self, steps = std::move(steps), next](StageReport report) mutable {
    StageTimes& stages = self->result().stages;
    stages.queue_ns += report.queue_ns;
    (self->tiles_->complete() ? stages.copy_ns : stages.build_ns) += report.run_ns;
    if (!report.status.ok()) return self->call_->EndItem(self->index_, std::move(report.status));
    self->RunSteps(std::move(steps), next + 1);
  };
  call_->RunStage(std::move(stage), item().payload_bytes);
}

const std::shared_ptr<const void>& PrecomputeJob::held_tiles() {
  if (held_tiles_ == nullptr) held_tiles_ = std::make_shared<const HeldTiles>(HeldTiles{tiles_->tiles(), call_->charge()});
  return held_tiles_;
}

absl::StatusOr<std::shared_ptr<HeldBuffer>> PrecomputeJob::NewBuffer(int64_t bytes) {
  auto buffer = core()->pool.Allocate(bytes);
  if (!buffer.ok()) return buffer.status();
  return std::make_shared<HeldBuffer>(HeldBuffer{*std::move(buffer), call_->charge()});
}

absl::StatusOr<PrecomputeJob::Room> PrecomputeJob::NewResult(int64_t bytes) {
  if (const SharedPlace& place = call_->place(index_)) return Room{place.region, place.data()};
  auto buffer = NewBuffer(bytes);
  if (!buffer.ok()) return buffer.status();
  std::byte* data = (*buffer)->buffer->data();
  return Room{*std::move(buffer), data};
}

}  // namespace phasor::server
