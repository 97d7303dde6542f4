#include "server/engine.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/apply_call.h"
#include "server/engine_core.h"
#include "server/precompute_call.h"
#include "server/scores_call.h"
#include "server/tile_set.h"

namespace phasor::server {
namespace {

std::vector<TileUse> TilesToWarm(const PlanEntry& plan, int64_t rows) {
  if (rows <= 0) return {};
  // A bias of `rows` queries and keys has distances to both sides.
  return plan.bias() ? TilesOfRange(1 - rows, 2 * rows - 1) : TilesOfRange(0, rows);
}

absl::Status FitsCache(const PlanEntry& plan, DType dtype, int64_t rows, const std::vector<TileUse>& uses,
                       int64_t cache_bytes) {
  const int64_t bytes = TileBytes(plan, dtype);
  const auto tiles = static_cast<int64_t>(uses.size());
  if (tiles == 0 || (TableCache::Cacheable(bytes, cache_bytes) && tiles <= cache_bytes / bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("warming ", rows, " rows needs ", tiles, " tiles of ", bytes,
                                                   " bytes; the cache (--cache-bytes) holds ", cache_bytes));
}

}  // namespace

struct Engine::Impl {
  Impl(EngineOptions options, std::unique_ptr<Backend> backend, BuildObserver observer)
      : core(options, std::move(backend), std::move(observer)) {}
  EngineCore core;
};

Engine::Engine(EngineOptions options, std::unique_ptr<Backend> backend, BuildObserver observer)
    : impl_(std::make_unique<Impl>(options, std::move(backend), std::move(observer))) {}

Engine::~Engine() {
  Drain();
  impl_->core.scheduler.Stop();
}

void Engine::Precompute(std::shared_ptr<CallContext> context, ValidatedPrecompute request, Done<PrecomputeResult> done) {
  std::make_shared<PrecomputeCall>(&impl_->core, std::move(context), std::move(request), std::move(done))->Run();
}

void Engine::Apply(std::shared_ptr<CallContext> context, ValidatedApply request, Done<ApplyResult> done) {
  std::make_shared<ApplyCall>(&impl_->core, std::move(context), std::move(request), std::move(done))->Run();
}

void Engine::Scores(std::shared_ptr<CallContext> context, ValidatedScores request, Done<ScoresResult> done) {
  std::make_shared<ScoresCall>(&impl_->core, std::move(context), std::move(request), std::move(done))->Run();
}

absl::StatusOr<std::shared_ptr<const Resolved>> Engine::ResolvePlan(const CanonicalSpec& spec,
                                                                    std::optional<int64_t> sequence_length,
                                                                    Precision precision) {
  auto entry = impl_->core.plans.Resolve(spec, sequence_length, precision);
  if (!entry.ok()) return entry.status();
  return std::shared_ptr<const Resolved>(*entry, &(*entry)->resolved);
}

absl::Status Engine::CheckWarm(const TableSource& source, DType dtype, int64_t rows, int64_t cache_bytes) {
  auto resolved = Resolve(source.spec, source.sequence_length, source.precision);
  if (!resolved.ok()) return resolved.status();
  const auto plan = MakePlanEntry(*std::move(resolved), SchemeOf(source.spec.spec).name);
  return FitsCache(*plan, dtype, rows, TilesToWarm(*plan, rows), cache_bytes);
}

absl::Status Engine::Warm(const TableSource& source, DType dtype, int64_t rows) {
  EngineCore& core = impl_->core;
  const auto plan = core.plans.Resolve(source.spec, source.sequence_length, source.precision);
  if (!plan.ok()) return plan.status();
  const std::vector<TileUse> uses = TilesToWarm(**plan, rows);
  if (uses.empty()) return absl::OkStatus();
  if (absl::Status status = FitsCache(**plan, dtype, rows, uses, core.cache.capacity_bytes()); !status.ok()) return status;

  class Waiter final : public TileWaiter {
   public:
    explicit Waiter(size_t tiles) : missing_(tiles) {}
    const CallContext* context() const override { return nullptr; }
    void TileDone(int64_t, absl::StatusOr<TileHandle> tile) override {
      std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = tile.status();
      if (--missing_ == 0) wake_.notify_all();
    }
    absl::Status Wait() {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return missing_ == 0; });
      return status_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable wake_;
    size_t missing_;
    absl::Status status_;
  };
  const auto waiter = std::make_shared<Waiter>(uses.size());
  for (const TileUse& use : uses) {
    auto acquired = core.cache.Acquire(TileKey{*plan, dtype, false, use.index}, Lane::kLarge, waiter);
    if (acquired.outcome == TableCache::Outcome::kReady) waiter->TileDone(use.index, std::move(acquired.tile));
  }
  return waiter->Wait();
}

void Engine::RunOnWorker(std::shared_ptr<const CallContext> context, std::function<void(absl::Status)> work) {
  Stage stage;
  stage.lane = Lane::kLarge;
  stage.context = std::move(context);
  stage.run = [](RowRange) { return absl::OkStatus(); };
  stage.done = [work = std::move(work)](StageReport report) { work(std::move(report.status)); };
  impl_->core.scheduler.Submit(std::move(stage));
}

absl::StatusOr<std::shared_ptr<const void>> Engine::Charge(int64_t bytes) { return impl_->core.admission.Charge(bytes); }

std::vector<CachedPlan> Engine::ListTables() const { return impl_->core.cache.List(); }
bool Engine::HasTable(const std::string& name) const { return impl_->core.cache.Has(name); }
std::pair<int64_t, int64_t> Engine::Evict(const std::vector<std::string>& names, bool all) {
  return impl_->core.cache.Evict(names, all);
}

EngineStats Engine::stats() const {
  const EngineCore& core = impl_->core;
  const TableCache::Stats cache = core.cache.stats();
  const BufferPool::Stats pool = core.pool.stats();
  EngineStats stats;
  stats.cache_bytes = cache.bytes;
  stats.cache_capacity_bytes = core.cache.capacity_bytes();
  stats.evicted_in_use_bytes = cache.evicted_in_use_bytes;
  stats.cache_hits = cache.hits;
  stats.cache_misses = cache.misses;
  stats.cache_coalesced = cache.coalesced;
  stats.cache_evictions = cache.evictions;
  stats.pool_used_bytes = pool.used_bytes;
  stats.pool_free_bytes = pool.free_bytes;
  stats.inflight_bytes = core.admission.used_bytes();
  stats.queue_length = core.scheduler.queue_length();
  stats.queue_oldest_age_seconds = core.scheduler.oldest_age_seconds();
  stats.worker_threads = core.scheduler.threads();
  return stats;
}

int64_t Engine::inflight_bytes() const { return impl_->core.admission.used_bytes(); }
void Engine::TrimPool(int64_t keep_bytes) { impl_->core.pool.Trim(keep_bytes); }

const Backend& Engine::backend() const { return *impl_->core.backend; }

void Engine::Drain() { impl_->core.draining.store(true, std::memory_order_relaxed); }

}  // namespace phasor::server
