#include "server/tile_set.h"

#include <algorithm>
#include <unordered_map>

namespace phasor::server {
namespace {

constexpr int64_t kDenseRows = 512;
constexpr int64_t kDearTileBytes = int64_t{8} << 20;
constexpr int64_t kDearTileRows = kTileRows / 4;

// Values that take so long that a whole tile is only made when much of it is asked for.
bool IsSlow(const Plan& plan, DType dtype, bool slow_backend) {
  constexpr size_t kManyTerms = 256;
  if (std::holds_alternative<AnglePlan>(plan)) return dtype == DType::kF64 || slow_backend;
  if (const auto* sandwich = std::get_if<SandwichPlan>(&plan)) {
    return sandwich->half_frequencies.size() > kManyTerms || slow_backend;
  }
  return std::holds_alternative<KerplePlan>(plan) && slow_backend;
}

}  // namespace

std::vector<TileUse> TilesOfRange(int64_t first, int64_t count) {
  std::vector<TileUse> uses;
  if (count == 0) return uses;
  const int64_t end = first + count;
  for (int64_t tile = TileOf(first); tile <= TileOf(end - 1); ++tile) {
    const int64_t begin = std::max(first, tile * kTileRows);
    uses.push_back({tile, std::min(end, (tile + 1) * kTileRows) - begin});
  }
  return uses;
}

std::vector<TileUse> TilesOfPositions(const PositionSet& positions, int64_t offset) {
  if (positions.ids.empty() && positions.stride == 1) return TilesOfRange(positions.start + offset, positions.count);
  std::unordered_map<int64_t, int64_t> rows;
  int64_t* last = nullptr;
  int64_t last_tile = 0;
  for (int64_t row = 0; row < positions.count; ++row) {
    const int64_t tile = TileOf(positions.at(row) + offset);
    if (last == nullptr || tile != last_tile) {
      last = &rows[tile];
      last_tile = tile;
    }
    ++*last;
  }
  std::vector<TileUse> uses;
  uses.reserve(rows.size());
  for (const auto& [tile, count] : rows) uses.push_back({tile, count});
  std::sort(uses.begin(), uses.end(), [](const TileUse& a, const TileUse& b) { return a.index < b.index; });
  return uses;
}

bool TileSet::Wanted(const TileUse& use, bool scattered, int64_t tile_bytes) const {
  if (scattered && use.rows < kDenseRows) return false;
  const bool dear = IsSlow(key_.plan->resolved.plan, key_.dtype, core_->slow_backend) || tile_bytes > kDearTileBytes;
  return !dear || use.rows >= kDearTileRows;
}

void TileSet::Acquire(std::vector<TileUse> uses, bool scattered, bool once, Lane lane, Ready ready) {
  uses_ = std::move(uses);
  tiles_.resize(uses_.size());
  ready_ = std::move(ready);
  const int64_t tile_bytes = TileBytes(*key_.plan, key_.dtype);
  const bool cacheable = core_->cache.Cacheable(tile_bytes);
  const bool may_build =
      !once && static_cast<int64_t>(uses_.size()) <= core_->cache.capacity_bytes() / 2 / std::max<int64_t>(tile_bytes, 1);

  for (size_t i = 0; i < uses_.size(); ++i) {
    key_.index = uses_[i].index;
    TileHandle tile;
    if (cacheable && may_build && Wanted(uses_[i], scattered, tile_bytes)) {
      missing_.fetch_add(1);
      TableCache::Acquired acquired = core_->cache.Acquire(key_, lane, shared_from_this());
      if (acquired.outcome == TableCache::Outcome::kStarted || acquired.outcome == TableCache::Outcome::kJoined) {
        ++(acquired.outcome == TableCache::Outcome::kStarted ? started_ : joined_);
        continue;
      }
      missing_.fetch_sub(1);  // not the last: Arrived below is
      tile = std::move(acquired.tile);
    } else if (cacheable) {
      tile = core_->cache.Find(key_);
    }
    ++(tile != nullptr ? found_ : direct_);
    std::lock_guard lock(mutex_);
    tiles_[i] = std::move(tile);
  }
  Arrived();
}

bool TileSet::FindNow(std::vector<TileUse> uses) {
  if (!core_->cache.FindAll(key_, uses, &tiles_)) return false;
  uses_ = std::move(uses);
  found_ = static_cast<int64_t>(uses_.size());
  return true;
}

void TileSet::TileDone(int64_t index, absl::StatusOr<TileHandle> tile) {
  {
    std::lock_guard lock(mutex_);
    if (tile.ok()) {
      const auto use = std::lower_bound(uses_.begin(), uses_.end(), index,
                                        [](const TileUse& u, int64_t value) { return u.index < value; });
      tiles_[static_cast<size_t>(use - uses_.begin())] = *std::move(tile);
    } else if (status_.ok()) {
      status_ = tile.status();
    }
  }
  Arrived();
}

void TileSet::Arrived() {
  if (missing_.fetch_sub(1) != 1) return;
  Ready ready = std::move(ready_);
  std::move(ready)(std::move(status_));
}

const Tile* TileSet::Find(int64_t index) const {
  // Consecutive tiles are the rule: then the place is known without a search.
  if (uses_.empty() || index < uses_.front().index || index > uses_.back().index) return nullptr;
  const size_t guess = static_cast<size_t>(index - uses_.front().index);
  if (guess < uses_.size() && uses_[guess].index == index) return tiles_[guess].get();
  const auto use =
      std::lower_bound(uses_.begin(), uses_.end(), index, [](const TileUse& u, int64_t value) { return u.index < value; });
  return use->index == index ? tiles_[static_cast<size_t>(use - uses_.begin())].get() : nullptr;
}

CacheOutcome TileSet::outcome() const {
  if (found_ > 0) return found_ == static_cast<int64_t>(uses_.size()) ? CacheOutcome::kHit : CacheOutcome::kPartial;
  if (started_ > 0) return CacheOutcome::kMiss;
  if (joined_ > 0) return CacheOutcome::kCoalesced;
  return direct_ > 0 ? CacheOutcome::kBypass : CacheOutcome::kNone;
}

}  // namespace phasor::server
