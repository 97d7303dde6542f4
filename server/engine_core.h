// The parts of the engine that every call uses.
#ifndef PHASOR_SERVER_ENGINE_CORE_H_
#define PHASOR_SERVER_ENGINE_CORE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "server/admission.h"
#include "server/buffer_pool.h"
#include "server/engine.h"
#include "server/plan_cache.h"
#include "server/scheduler.h"
#include "server/table_cache.h"

namespace phasor::server {

// Resolved plans that are kept at most: a few KiB each, unless they are wide (then their bytes count, see PlanCache).
inline constexpr size_t kMaxPlans = 1024;

// Also the table cache's builder: a tile is a stage of its own, whoever waits for it.
struct EngineCore final : TableCache::Builder {
  EngineCore(EngineOptions given, std::unique_ptr<Backend> given_backend, Engine::BuildObserver given_observer);

  void Start(const TileKey& key, Lane lane, std::shared_ptr<StageTicket> ticket) override;
  void Promote(const std::shared_ptr<StageTicket>& ticket) override;

  const EngineOptions options;
  const std::unique_ptr<Backend> backend;
  const Engine::BuildObserver observer;
  // Every value takes so long that only rows asked for are computed (the reference backend).
  const bool slow_backend;
  BufferPool pool;
  Admission admission;
  PlanCache plans;
  TableCache cache;
  std::atomic<bool> draining{false};
  std::atomic<int64_t> waiting_calls{0};  // calls that took a worker's time and have not answered
  Scheduler scheduler;                    // last: its stop ends stages that use all of the above
};

// Nanoseconds since construction.
class Stopwatch {
 public:
  Stopwatch() : start_(std::chrono::steady_clock::now()) {}
  int64_t ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_;
};

constexpr int64_t AlignUp(int64_t value, int64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// A buffer together with what must live as long as its bytes are being sent (the call's charge).
struct HeldBuffer {
  std::shared_ptr<Buffer> buffer;
  std::shared_ptr<const void> charge;
};
struct HeldTiles {
  std::vector<TileHandle> tiles;
  std::shared_ptr<const void> charge;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ENGINE_CORE_H_
