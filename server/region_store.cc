#include "server/region_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/refusal.h"

namespace phasor::server {
namespace internal {

// Who holds how much. Outlives the store: regions may.
class RegionLedger {
 public:
  explicit RegionLedger(const RegionOptions& options) : options_(options) {}

  absl::Status Take(const std::string& owner, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = by_owner_.find(owner);
    const int64_t of_owner = found == by_owner_.end() ? 0 : found->second;
    if (bytes > options_.peer_bytes - of_owner) {
      return absl::ResourceExhaustedError(absl::StrCat("regions of this peer hold ", of_owner, " of ", options_.peer_bytes,
                                                       " bytes (--shared-memory-peer-bytes); this one needs ", bytes));
    }
    if (bytes > options_.total_bytes - total_) {
      return absl::ResourceExhaustedError(absl::StrCat("regions hold ", total_, " of ", options_.total_bytes,
                                                       " bytes (--shared-memory-bytes); this one needs ", bytes));
    }
    if (regions_ >= options_.max_regions) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", regions_, " regions of ", options_.max_regions, " (--shared-memory-regions)"));
    }
    total_ += bytes;
    ++regions_;
    by_owner_[owner] += bytes;
    return absl::OkStatus();
  }

  void Return(const std::string& owner, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    total_ -= bytes;
    --regions_;
    const auto found = by_owner_.find(owner);
    found->second -= bytes;
    if (found->second == 0) by_owner_.erase(found);
  }

  int64_t total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }

 private:
  const RegionOptions options_;
  mutable std::mutex mutex_;
  int64_t total_ = 0, regions_ = 0;
  std::unordered_map<std::string, int64_t> by_owner_;
};

}  // namespace internal

namespace {

RegionOptions WithLease(RegionOptions options) {
  options.lease = std::max(options.lease, kShortestLease);
  return options;
}

}  // namespace

RegionStore::RegionStore(const RegionOptions& options, std::function<Clock::time_point()> now)
    : options_(WithLease(options)), now_(std::move(now)), ledger_(std::make_shared<internal::RegionLedger>(options)) {
  if (on()) thread_ = std::thread([this] { Expire(); });
}

RegionStore::~RegionStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (Node& node : nodes_) node.region->Unname();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::shared_ptr<Region>> RegionStore::Make(RegionKind kind, const std::string& owner, int64_t size) {
  const int64_t rounded = Region::Rounded(size);
  absl::Status status = rounded > 0 ? ledger_->Take(owner, rounded)
                                    : absl::ResourceExhaustedError(absl::StrCat("no region can have ", size, " bytes"));
  if (status.ok()) {
    auto made = Region::Make(kind, rounded);
    if (made.ok()) {
      // The room is given back with the region, whoever holds it last.
      Region* const region = made->get();
      return std::shared_ptr<Region>(region, [held = *std::move(made), ledger = ledger_, owner, rounded](Region*) mutable {
        held.reset();
        ledger->Return(owner, rounded);
      });
    }
    ledger_->Return(owner, rounded);
    status = made.status();
  }
  if (absl::IsResourceExhausted(status)) {
    const absl::string_view message = status.message();
    status = MakeQuotaRefusal("shared memory", {message.data(), message.size()});
  }
  const std::lock_guard lock(mutex_);
  ++stats_.refused;
  return status;
}

void RegionStore::Add(Node node) {
  nodes_.push_front(std::move(node));
  nodes_.front().last_use = now_();
  by_name_.emplace(nodes_.front().region->name(), nodes_.begin());
  if (!nodes_.front().key.empty()) by_key_.emplace(nodes_.front().key, nodes_.begin());
  ++stats_.created;
  if (nodes_.size() == 1) wake_.notify_all();
}

bool RegionStore::Touch(Nodes::iterator node) {
  const Clock::time_point now = now_();
  // The thread that drops what has expired may be late. What is held is in use.
  if (now - node->last_use >= options_.lease && node->region.use_count() == 1) return false;
  node->last_use = now;
  nodes_.splice(nodes_.begin(), nodes_, node);
  return true;
}

std::shared_ptr<Region> RegionStore::Remove(Nodes::iterator node) {
  std::shared_ptr<Region> region = std::move(node->region);
  region->Unname();
  by_name_.erase(region->name());
  if (!node->key.empty()) by_key_.erase(node->key);
  nodes_.erase(node);
  return region;
}

absl::StatusOr<std::shared_ptr<Region>> RegionStore::Create(const std::string& owner, int64_t size) {
  auto region = Make(RegionKind::kWritable, owner, size);
  if (!region.ok()) return region;
  const std::lock_guard lock(mutex_);
  Add({*region, {owner}, {}, {}});
  return region;
}

std::shared_ptr<Region> RegionStore::Find(const std::string& owner, std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end() || !found->second->owners.contains(owner) || !Touch(found->second)) return nullptr;
  return found->second->region;
}

bool RegionStore::Release(const std::string& owner, std::string_view name) {
  std::shared_ptr<Region> released;  // unmapped without the lock
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(std::string(name));
  if (found == by_name_.end() || found->second->owners.erase(owner) == 0) return false;
  const bool there = Touch(found->second);
  if (found->second->owners.empty()) released = Remove(found->second);
  return there;
}

std::shared_ptr<Region> RegionStore::FindShared(const std::string& owner, std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(std::string(key));
  if (found == by_key_.end() || !Touch(found->second)) return nullptr;
  found->second->owners.insert(owner);
  ++stats_.shared_hits;
  return found->second->region;
}

absl::StatusOr<std::shared_ptr<Region>> RegionStore::NewShared(const std::string& owner, int64_t size) {
  return Make(RegionKind::kReadOnly, owner, size);
}

absl::StatusOr<std::shared_ptr<Region>> RegionStore::Share(const std::string& owner, std::string_view key,
                                                           std::shared_ptr<Region> region) {
  if (absl::Status status = region->Seal(); !status.ok()) return status;
  std::shared_ptr<Region> replaced;
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(std::string(key)); found != by_key_.end()) {
    if (Touch(found->second)) {
      found->second->owners.insert(owner);
      return found->second->region;
    }
    replaced = Remove(found->second);
    ++stats_.expired;
  }
  Add({region, {owner}, std::string(key), {}});
  return region;
}

void RegionStore::DropExpired() {
  std::vector<std::shared_ptr<Region>> gone;  // unmapping gigabytes takes a while: without the lock
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = now_();
  while (!nodes_.empty() && now - nodes_.back().last_use >= options_.lease) {
    const auto last = std::prev(nodes_.end());
    if (Touch(last)) continue;  // it is held, and so it comes to the front
    gone.push_back(Remove(last));
    ++stats_.expired;
  }
}

void RegionStore::Expire() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (nodes_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Clock::duration left = nodes_.back().last_use + options_.lease - now_();
    if (left > Clock::duration::zero()) {
      wake_.wait_for(lock, left);
      continue;
    }
    lock.unlock();
    DropExpired();
    lock.lock();
  }
}

RegionStore::Stats RegionStore::stats() const {
  Stats stats;
  {
    const std::lock_guard lock(mutex_);
    stats = stats_;
    stats.regions = static_cast<int64_t>(nodes_.size());
  }
  stats.bytes = ledger_->total();
  return stats;
}

}  // namespace phasor::server
