#include "server/engine_core.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>

#include "server/cgroup.h"
#include "server/unshared.h"

namespace phasor::server {
namespace {

// Positions are below 2^31 in magnitude, distances below 2^32.
constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;
constexpr int64_t kLastDistance = (int64_t{1} << 32) - 1;

// A tile on its way.
class TileBuild {
 public:
  TileBuild(EngineCore* core, const TileKey& key) : core_(core), key_(key) {}

  // Rows of the tile that exist: the outermost tile on the negative side begins one row late.
  RowRange rows() const {
    const int64_t last = key_.plan->angle() != nullptr ? kLastPosition : kLastDistance;
    const int64_t first = key_.index * kTileRows;
    return {std::max(first, -last) - first, std::min(first + kTileRows - 1, last) - first + 1};
  }

  int64_t rows_per_slice() const { return core_->backend->RowsPerSlice(TaskInto(nullptr)); }

  absl::Status Run(RowRange slice) {
    std::call_once(prepared_, [this] { Prepare(); });
    if (!ready_.ok()) return Unshared(ready_);
    const int64_t skipped = rows().begin;
    return core_->backend->Run(TaskInto(memory_->data()), {slice.begin + skipped, slice.end + skipped}, nullptr);
  }

  void Finish(StageReport report) {
    if (dropped_) return;  // its waiters know
    if (!report.status.ok()) {
      core_->cache.FinishBuild(key_, report.status);
      return;
    }
    if (core_->observer) core_->observer(static_cast<double>(report.run_ns) * 1e-9);
    core_->cache.FinishBuild(key_, std::move(memory_));
  }

 private:
  void Prepare() {
    if (!core_->cache.BeginBuild(key_)) {
      dropped_ = true;
      ready_ = absl::CancelledError("nobody waits for this tile");
      return;
    }
    auto memory = core_->pool.Allocate(TileBytes(*key_.plan, key_.dtype));
    ready_ = memory.status();
    if (memory.ok()) memory_ = *std::move(memory);
  }

  Task TaskInto(std::byte* out) const {
    const int64_t first = key_.index * kTileRows;
    if (const AnglePlan* plan = key_.plan->angle()) {
      AngleTask task;
      task.plan = plan;
      task.positions.start = first;
      task.dtype = key_.dtype;
      task.inverse = key_.inverse;
      task.row_stride = plan->pairs();
      task.cos = out;
      if (out != nullptr) task.sin = out + TileBytes(*key_.plan, key_.dtype) / 2;
      return task;
    }
    BiasVectorTask task;
    task.plan = *key_.plan->bias();
    task.dtype = key_.dtype;
    task.first_distance = first;
    task.heads = VectorsOf(task.plan);
    task.out = out;
    task.head_stride = kTileRows;
    return task;
  }

  EngineCore* const core_;
  const TileKey key_;
  std::once_flag prepared_;
  bool dropped_ = false;
  absl::Status ready_;
  std::shared_ptr<Buffer> memory_;
};

}  // namespace

EngineCore::EngineCore(EngineOptions given, std::unique_ptr<Backend> given_backend, Engine::BuildObserver given_observer)
    : options(given),
      backend(std::move(given_backend)),
      observer(std::move(given_observer)),
      slow_backend(backend->name() == "reference"),
      pool(options.pool_keep_bytes, backend->pinning()),
      admission(options.max_inflight_bytes),
      plans(kMaxPlans),
      cache(options.cache_bytes, this),
      scheduler(options.worker_threads > 0 ? options.worker_threads : DefaultWorkerThreads()) {}

void EngineCore::Start(const TileKey& key, Lane lane, std::shared_ptr<StageTicket> ticket) {
  auto build = std::make_shared<TileBuild>(this, key);
  Stage stage;
  stage.lane = lane;
  stage.ticket = std::move(ticket);
  stage.rows = build->rows().end - build->rows().begin;
  stage.rows_per_slice = build->rows_per_slice();
  stage.run = [build](RowRange rows) { return build->Run(rows); };
  stage.done = [build](StageReport report) { build->Finish(std::move(report)); };
  scheduler.Submit(std::move(stage));
}

void EngineCore::Promote(const std::shared_ptr<StageTicket>& ticket) { scheduler.Promote(ticket); }

}  // namespace phasor::server
