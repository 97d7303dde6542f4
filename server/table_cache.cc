#include "server/table_cache.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/engine.h"
#include "server/unshared.h"

namespace phasor::server {
namespace {

std::string NameOf(const TileKey& key) {
  const std::string_view dtype = Name(key.dtype);
  return absl::StrCat(absl::BytesToHexString(absl::string_view(key.plan->fingerprint.data(), 8)), ".",
                      absl::string_view(dtype.data(), dtype.size()));
}

}  // namespace

bool operator==(const TileKey& a, const TileKey& b) {
  return a.index == b.index && a.dtype == b.dtype && a.inverse == b.inverse &&
         (a.plan == b.plan || a.plan->key == b.plan->key);
}

size_t TileKeyHash::operator()(const TileKey& key) const {
  const uint64_t mixed =
      static_cast<uint64_t>(key.index) * 16 + static_cast<uint64_t>(key.dtype) * 2 + (key.inverse ? 1 : 0);
  return key.plan->key_hash ^ (mixed * 0x9e3779b97f4a7c15u);
}

int64_t TileBytes(const PlanEntry& plan, DType dtype) {
  if (const AnglePlan* angle = plan.angle()) return 2 * kTileRows * angle->pairs() * SizeOf(dtype);
  return VectorsOf(*plan.bias()) * kTileRows * SizeOf(dtype);
}

Tile::~Tile() {
  if (evicted_.load(std::memory_order_acquire)) evicted_bytes_->fetch_sub(bytes(), std::memory_order_relaxed);
}

void Tile::MarkEvicted() const {
  evicted_bytes_->fetch_add(bytes(), std::memory_order_relaxed);
  evicted_.store(true, std::memory_order_release);
}

TableCache::TableCache(int64_t capacity_bytes, Builder* builder)
    : capacity_(capacity_bytes), builder_(builder), evicted_bytes_(std::make_shared<std::atomic<int64_t>>(0)) {}

TableCache::~TableCache() { Evict({}, true); }

void TableCache::Touch(Entry& entry) {
  ++entry.hits;
  ++stats_.hits;
  lru_.splice(lru_.begin(), lru_, entry.position);
}

void TableCache::Remove(Entries::iterator entry, std::vector<TileHandle>* dropped) {
  stats_.bytes -= entry->second.tile->bytes();
  entry->second.tile->MarkEvicted();
  dropped->push_back(std::move(entry->second.tile));
  lru_.erase(entry->second.position);
  entries_.erase(entry);
}

bool TableCache::FindAll(TileKey key, std::span<const TileUse> uses, std::vector<TileHandle>* tiles) {
  std::vector<Entry*> found;
  found.reserve(uses.size());
  std::lock_guard lock(mutex_);
  for (const TileUse& use : uses) {
    key.index = use.index;
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || entry->second.tile == nullptr) return false;
    found.push_back(&entry->second);
  }
  for (Entry* entry : found) {
    Touch(*entry);
    tiles->push_back(entry->tile);
  }
  return true;
}

TileHandle TableCache::Find(const TileKey& key) {
  std::lock_guard lock(mutex_);
  const auto entry = entries_.find(key);
  if (entry == entries_.end() || entry->second.tile == nullptr) return nullptr;
  Touch(entry->second);
  return entry->second.tile;
}

// Calls hold their tiles until they are answered, however many items they have: without a bound a few kilobytes of items
// that ask for a row each would make gigabytes.
bool TableCache::RoomToBuild(int64_t tile_bytes) const {
  return stats_.building_bytes + evicted_bytes_->load(std::memory_order_relaxed) + tile_bytes <= capacity_ / 2;
}

TableCache::Acquired TableCache::Acquire(const TileKey& key, Lane lane, std::shared_ptr<TileWaiter> waiter) {
  std::shared_ptr<StageTicket> ticket;
  bool joined = false;
  {
    std::lock_guard lock(mutex_);
    auto entry = entries_.find(key);
    joined = entry != entries_.end();
    if (joined && entry->second.tile != nullptr) {
      Touch(entry->second);
      return {Outcome::kReady, entry->second.tile};
    }
    if (!joined) {
      const int64_t bytes = TileBytes(*key.plan, key.dtype);
      if (waiter->context() != nullptr && !RoomToBuild(bytes)) return {Outcome::kFull, nullptr};
      entry = entries_.try_emplace(key).first;
      entry->second.building_bytes = bytes;
      stats_.building_bytes += bytes;
    }
    entry->second.waiters.push_back(std::move(waiter));
    ++(joined ? stats_.coalesced : stats_.misses);
    if (joined && lane == Lane::kSmall) {
      ticket = std::move(entry->second.ticket);
    } else if (!joined && lane == Lane::kLarge) {
      ticket = entry->second.ticket = std::make_shared<StageTicket>();
    }
  }
  if (joined) {
    if (ticket != nullptr) builder_->Promote(ticket);
    return {Outcome::kJoined, nullptr};
  }
  builder_->Start(key, lane, std::move(ticket));
  return {Outcome::kStarted, nullptr};
}

bool TableCache::BeginBuild(const TileKey& key) {
  std::vector<std::shared_ptr<TileWaiter>> waiters;
  {
    std::lock_guard lock(mutex_);
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) return false;
    const auto& waiting = entry->second.waiters;
    const bool wanted = std::any_of(waiting.begin(), waiting.end(), [](const std::shared_ptr<TileWaiter>& w) {
      return w->context() == nullptr || w->context()->Check().ok();
    });
    if (wanted) return true;
    waiters = std::move(entry->second.waiters);
    stats_.building_bytes -= entry->second.building_bytes;
    entries_.erase(entry);
  }
  for (const auto& waiter : waiters) waiter->TileDone(key.index, waiter->context()->Check());
  return false;
}

void TableCache::FinishBuild(const TileKey& key, absl::StatusOr<std::shared_ptr<Buffer>> memory) {
  std::vector<std::shared_ptr<TileWaiter>> waiters;
  std::vector<TileHandle> dropped;  // dies after the lock is released
  absl::StatusOr<TileHandle> tile = TileHandle();
  if (memory.ok()) {
    tile = std::make_shared<const Tile>(*std::move(memory), last_id_.fetch_add(1) + 1, evicted_bytes_);
  } else {
    tile = memory.status();
  }
  {
    std::lock_guard lock(mutex_);
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) return;
    waiters = std::move(entry->second.waiters);
    stats_.building_bytes -= std::exchange(entry->second.building_bytes, 0);
    if (tile.ok()) {
      while (stats_.bytes + (*tile)->bytes() > capacity_ && !lru_.empty()) {
        Remove(entries_.find(*lru_.back()), &dropped);
        ++stats_.evictions;
      }
      entry->second.waiters.clear();
      entry->second.ticket.reset();
      entry->second.tile = *tile;
      entry->second.position = lru_.insert(lru_.begin(), &entry->first);
      stats_.bytes += (*tile)->bytes();
    } else {
      entries_.erase(entry);
    }
  }
  for (const auto& waiter : waiters) {
    if (tile.ok()) {
      waiter->TileDone(key.index, *tile);
    } else {
      waiter->TileDone(key.index, Unshared(tile.status()));
    }
  }
}

std::vector<CachedPlan> TableCache::List() const {
  std::vector<CachedPlan> plans;
  std::unordered_map<std::string, size_t> index;
  std::lock_guard lock(mutex_);
  for (const TileKey* key : lru_) {
    const Entry& entry = entries_.at(*key);
    const auto [at, inserted] = index.try_emplace(NameOf(*key), plans.size());
    if (inserted) {
      CachedPlan plan;
      plan.name = at->first;
      plan.scheme = key->plan->scheme;
      plan.dtype = std::string(Name(key->dtype));
      plans.push_back(std::move(plan));
    }
    CachedPlan& plan = plans[at->second];
    ++plan.tiles;
    plan.rows += kTileRows;
    plan.bytes += entry.tile->bytes();
    plan.hits += entry.hits;
  }
  return plans;
}

bool TableCache::Has(const std::string& name) const {
  std::lock_guard lock(mutex_);
  return std::any_of(lru_.begin(), lru_.end(), [&](const TileKey* key) { return NameOf(*key) == name; });
}

std::pair<int64_t, int64_t> TableCache::Evict(const std::vector<std::string>& names, bool all) {
  const std::unordered_set<std::string> wanted(names.begin(), names.end());
  std::vector<TileHandle> dropped;
  int64_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const auto here = entry++;
      if (here->second.tile == nullptr) continue;
      if (!all && !wanted.contains(NameOf(here->first))) continue;
      bytes += here->second.tile->bytes();
      Remove(here, &dropped);
      ++stats_.evictions;
    }
  }
  return {static_cast<int64_t>(dropped.size()), bytes};
}

TableCache::Stats TableCache::stats() const {
  std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.evicted_in_use_bytes = evicted_bytes_->load(std::memory_order_relaxed);
  return stats;
}

}  // namespace phasor::server
