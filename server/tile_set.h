// The tiles that one item needs: found, waited for, or left out on purpose.
#ifndef PHASOR_SERVER_TILE_SET_H_
#define PHASOR_SERVER_TILE_SET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

#include "server/engine_core.h"
#include "server/request.h"
#include "server/table_cache.h"

namespace phasor::server {

// The tiles of consecutive rows [first, first + count), in order.
std::vector<TileUse> TilesOfRange(int64_t first, int64_t count);
// The tiles of all positions (each plus `offset`), by index.
std::vector<TileUse> TilesOfPositions(const PositionSet& positions, int64_t offset);

// Which rows are worth a tile when it is not there yet. Consecutive rows: any number, as neighbours will be asked for next;
// but where a whole tile is dear (angles in f64 take about 100 ns a value; or it is larger than 8 MiB) only from a quarter
// of it on. Scattered rows: from 512 on. An item whose tiles would fill more than half of the cache builds none, and so
// cannot push out what others use; nor does one whose tiles are too large to be kept. Rows without a tile are computed for
// this call alone.
class TileSet final : public TileWaiter, public std::enable_shared_from_this<TileSet> {
 public:
  using Ready = absl::AnyInvocable<void(absl::Status) &&>;

  TileSet(EngineCore* core, std::shared_ptr<const CallContext> call, TileKey key)
      : core_(core), call_(std::move(call)), key_(std::move(key)) {}

  // Finds or starts tiles and calls `ready` once: on this thread when nothing is missing, else where the last build ended.
  // With an error: that of the first build that failed. `once`: starts none.
  void Acquire(std::vector<TileUse> uses, bool scattered, bool once, Lane lane, Ready ready);

  // Instead of Acquire: true when every tile is in the cache, and then they are found; else no effect.
  bool FindNow(std::vector<TileUse> uses);

  // From `ready` (or FindNow) on: the tile, or null when its rows are computed directly.
  const Tile* Find(int64_t index) const;
  const std::vector<TileHandle>& tiles() const { return tiles_; }
  const std::vector<TileUse>& uses() const { return uses_; }
  bool complete() const { return direct_ == 0; }
  CacheOutcome outcome() const;

  const CallContext* context() const override { return call_.get(); }
  void TileDone(int64_t index, absl::StatusOr<TileHandle> tile) override;

 private:
  bool Wanted(const TileUse& use, bool scattered, int64_t tile_bytes) const;
  void Arrived();

  EngineCore* const core_;
  const std::shared_ptr<const CallContext> call_;
  TileKey key_;
  std::vector<TileUse> uses_;      // by index
  std::vector<TileHandle> tiles_;  // of the same place in uses_, null: direct
  int64_t found_ = 0, joined_ = 0, started_ = 0, direct_ = 0;
  std::atomic<int64_t> missing_{1};  // waits, and one for Acquire itself
  std::mutex mutex_;                 // of tiles_ and status_ until `ready`
  absl::Status status_;
  Ready ready_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TILE_SET_H_
