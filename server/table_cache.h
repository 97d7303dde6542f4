// Tiles: pieces of tables that are built once and shared by every request that needs them.
#ifndef PHASOR_SERVER_TABLE_CACHE_H_
#define PHASOR_SERVER_TABLE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"
#include "kernels/tasks/shared_table.h"
#include "server/buffer_pool.h"
#include "server/call_context.h"
#include "server/plan_cache.h"
#include "server/scheduler.h"

namespace phasor::server {

struct CachedPlan;  // engine.h

// Rows of a tile. Tile t of a table holds positions [t·4096, (t+1)·4096); of a bias, distances likewise. t may be negative.
inline constexpr int64_t kTileRows = 4096;
constexpr int64_t TileOf(int64_t row) { return row >> 12; }  // floor, also below zero
static_assert(TileOf(kTileRows) == 1 && TileOf(-1) == -1 && TileOf(-kTileRows) == -1);

// Which tile. Compared in full: the plan's whole key, never a hash alone.
struct TileKey {
  std::shared_ptr<const PlanEntry> plan;
  DType dtype = DType::kF32;
  bool inverse = false;
  int64_t index = 0;
};
bool operator==(const TileKey& a, const TileKey& b);
struct TileKeyHash {
  size_t operator()(const TileKey& key) const;
};

// A tile that is needed, and how many of its rows.
struct TileUse {
  int64_t index = 0;
  int64_t rows = 0;
};

// Bytes of a tile: of a table, cos [4096, pairs] then sin [4096, pairs]; of a bias, [heads of the plan, 4096]. Every array
// starts on a page.
int64_t TileBytes(const PlanEntry& plan, DType dtype);

// A finished tile. Immutable.
class Tile {
 public:
  // `id` > 0 names its content: no other tile of the cache ever has it.
  Tile(std::shared_ptr<Buffer> memory, uint64_t id, std::shared_ptr<std::atomic<int64_t>> evicted_bytes)
      : memory_(std::move(memory)),
        shared_{id, memory_->data(), memory_->size()},
        evicted_bytes_(std::move(evicted_bytes)) {}
  ~Tile();
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;

  const std::byte* data() const { return memory_->data(); }
  int64_t bytes() const { return memory_->size(); }
  // The same bytes, named: what a device may keep.
  const SharedTable& shared() const { return shared_; }
  // The cache let go of it; until it dies it counts as evicted but in use. Called once, by the cache.
  void MarkEvicted() const;

 private:
  std::shared_ptr<Buffer> memory_;
  const SharedTable shared_;
  std::shared_ptr<std::atomic<int64_t>> evicted_bytes_;
  mutable std::atomic<bool> evicted_{false};
};
using TileHandle = std::shared_ptr<const Tile>;

// Whoever waits for a tile.
class TileWaiter {
 public:
  virtual ~TileWaiter() = default;
  // Whose call it is; null when the wait cannot be given up (warming).
  virtual const CallContext* context() const = 0;
  // Called once per wait, without locks held, by the thread that finished (or dropped) the build. Must not block.
  virtual void TileDone(int64_t index, absl::StatusOr<TileHandle> tile) = 0;
};

// Thread-safe. A tile is absent, being built, or ready. Ready tiles are bounded in bytes, the least recently used leave
// first; a tile in use stays alive through its handles. One build per tile whoever asks: it belongs to the cache, and a
// waiter that gives up does not end it. A failed build fails its waiters and leaves nothing behind.
class TableCache {
 public:
  // Starts builds, asynchronously. Calls BeginBuild once and then, if it said so, FinishBuild.
  // Promote: what Start began (or is about to begin) with that ticket shall go on as if it had been started in the small
  // lane.
  class Builder {
   public:
    virtual ~Builder() = default;
    virtual void Start(const TileKey& key, Lane lane, std::shared_ptr<StageTicket> ticket) = 0;
    virtual void Promote(const std::shared_ptr<StageTicket>& ticket) = 0;
  };

  TableCache(int64_t capacity_bytes, Builder* builder);
  ~TableCache();

  // Whether tiles of that size are kept at all: up to a quarter of the capacity.
  bool Cacheable(int64_t tile_bytes) const { return Cacheable(tile_bytes, capacity_); }
  static bool Cacheable(int64_t tile_bytes, int64_t capacity) { return tile_bytes > 0 && tile_bytes <= capacity / 4; }
  int64_t capacity_bytes() const { return capacity_; }

  // All those tiles of the plan (key.index does not count), appended to `tiles`, when all are ready (hits then); else false
  // and no effect.
  bool FindAll(TileKey key, std::span<const TileUse> uses, std::vector<TileHandle>* tiles);

  // The tile if it is ready (a hit), else null and no effect.
  TileHandle Find(const TileKey& key);

  enum class Outcome : uint8_t { kReady, kJoined, kStarted, kFull };
  struct Acquired {
    Outcome outcome;
    TileHandle tile;  // when ready
  };
  // The tile, or a wait for it: unless it is ready, `waiter` will be called (perhaps before this returns). Starts the build
  // when nobody has. Joining one of the large lane from the small lane takes it there: a small call does not wait behind all
  // that a large one has started before. Only for Cacheable sizes. kFull, without a wait: what is being built, and
  // what has left the cache but not its users, would be more than half of the capacity; warming (no context) is not refused.
  Acquired Acquire(const TileKey& key, Lane lane, std::shared_ptr<TileWaiter> waiter);

  // For the builder. False: every waiter's call is over, the build was dropped, do not build.
  bool BeginBuild(const TileKey& key);
  void FinishBuild(const TileKey& key, absl::StatusOr<std::shared_ptr<Buffer>> memory);

  std::vector<CachedPlan> List() const;  // most recently used first
  bool Has(const std::string& name) const;
  // Removes the tiles of plans with those names, or all; those being built stay. Number of tiles and their bytes.
  std::pair<int64_t, int64_t> Evict(const std::vector<std::string>& names, bool all);

  struct Stats {
    int64_t bytes = 0, building_bytes = 0, evicted_in_use_bytes = 0;
    int64_t hits = 0, misses = 0, coalesced = 0, evictions = 0;  // tiles
  };
  Stats stats() const;

 private:
  struct Entry {
    TileHandle tile;                                   // null while being built
    std::vector<std::shared_ptr<TileWaiter>> waiters;  // while being built
    std::shared_ptr<StageTicket> ticket;               // while being built in the large lane
    int64_t building_bytes = 0;                        // while being built
    int64_t hits = 0;
    std::list<const TileKey*>::iterator position;  // in lru_, when ready
  };
  using Entries = std::unordered_map<TileKey, Entry, TileKeyHash>;

  // With the lock held.
  void Touch(Entry& entry);
  bool RoomToBuild(int64_t tile_bytes) const;
  void Remove(Entries::iterator entry, std::vector<TileHandle>* dropped);

  const int64_t capacity_;
  Builder* const builder_;
  const std::shared_ptr<std::atomic<int64_t>> evicted_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::list<const TileKey*> lru_;  // ready tiles, the most recently used first; points at keys of entries_
  Stats stats_;
  std::atomic<uint64_t> last_id_{0};
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TABLE_CACHE_H_
