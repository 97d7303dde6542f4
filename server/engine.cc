#include "server/engine.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/apply_call.h"
#include "server/engine_core.h"
#include "server/precompute_call.h"
#include "server/tile_set.h"

namespace phasor::server {

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

absl::StatusOr<std::shared_ptr<const Resolved>> Engine::ResolvePlan(const CanonicalSpec& spec,
                                                                    std::optional<int64_t> sequence_length,
                                                                    Precision precision) {
  auto entry = impl_->core.plans.Resolve(spec, sequence_length, precision);
  if (!entry.ok()) return entry.status();
  return std::shared_ptr<const Resolved>(*entry, &(*entry)->resolved);
}

absl::Status Engine::Warm(const TableSource& source, DType dtype, int64_t rows) {
  EngineCore& core = impl_->core;
  const auto plan = core.plans.Resolve(source.spec, source.sequence_length, source.precision);
  if (!plan.ok()) return plan.status();
  if (rows <= 0) return absl::OkStatus();
  const bool bias = (*plan)->bias() != nullptr;
  // A bias of `rows` queries and keys has distances to both sides.
  std::vector<TileUse> uses = bias ? TilesOfRange(1 - rows, 2 * rows - 1) : TilesOfRange(0, rows);
  const int64_t bytes = TileBytes(**plan, dtype);
  if (!core.cache.Cacheable(bytes) || static_cast<int64_t>(uses.size()) > core.cache.capacity_bytes() / bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("warming ", rows, " rows needs ", uses.size(), " tiles of ", bytes,
                                                     " bytes; the cache holds ", core.cache.capacity_bytes()));
  }

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

const Backend& Engine::backend() const { return *impl_->core.backend; }

void Engine::Drain() { impl_->core.draining.store(true, std::memory_order_relaxed); }

}  // namespace phasor::server
