#include "server/device_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "server/refusal.h"

namespace phasor::server {
namespace {

constexpr std::chrono::milliseconds kShortestDeviceLease{10};

DeviceStoreOptions WithLease(DeviceStoreOptions options) {
  options.lease = std::max(options.lease, kShortestDeviceLease);
  return options;
}

}  // namespace

DeviceStore::DeviceStore(const DeviceStoreOptions& options, std::shared_ptr<const DeviceSharing> sharing,
                         std::function<Clock::time_point()> now)
    : options_(WithLease(options)), sharing_(std::move(sharing)), now_(std::move(now)) {
  if (!on()) return;
  devices_ = sharing_->devices();
  thread_ = std::thread([this] { Expire(); });
}

DeviceStore::~DeviceStore() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string_view DeviceStore::why_off() const {
  if (options_.max_handles <= 0) return "--cuda-ipc-handles is 0";
  return sharing_ == nullptr ? "its backend has no devices" : "";
}

DeviceStore::Allocations DeviceStore::TakeIdle(Clock::time_point since, size_t most) {
  Allocations idle;
  for (auto node = nodes_.end(); node != nodes_.begin() && idle.size() < most;) {
    --node;
    if (node->last_use > since) break;
    // Who holds one may have taken it long ago. Only this list makes new holders, with the lock held.
    if (node->allocation.use_count() > 1) continue;
    idle.push_back(std::move(node->allocation));
    node = nodes_.erase(node);
  }
  return idle;
}

absl::StatusOr<std::shared_ptr<const DeviceAllocation>> DeviceStore::Open(int device, std::string_view handle) {
  Allocations closed;  // after the lock
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = now_();
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
    if (node->allocation->device() != device || node->allocation->handle() != handle) continue;
    node->last_use = now;
    nodes_.splice(nodes_.begin(), nodes_, node);
    ++stats_.found;
    return nodes_.front().allocation;
  }
  // One at a time, with the lock held: the driver does no two at once either, and of callers with one handle only the first
  // maps it.
  auto mapping = sharing_->Open(device, handle);
  if (!mapping.ok()) {
    ++stats_.refused;
    if (!absl::IsResourceExhausted(mapping.status())) return mapping.status();
    return MakeQuotaRefusal("device memory", absl::StrCat("the device has no room to map it: ", mapping.status().message()));
  }
  auto allocation = std::make_shared<const DeviceAllocation>(sharing_, device, std::string(handle), *mapping);
  if (static_cast<int64_t>(nodes_.size()) >= options_.max_handles) closed = TakeIdle(now, 1);
  if (static_cast<int64_t>(nodes_.size()) >= options_.max_handles) {
    ++stats_.refused;
    closed.push_back(std::move(allocation));
    return MakeQuotaRefusal("device memory", absl::StrCat("calls work on ", nodes_.size(), " of ", options_.max_handles,
                                                          " allocations (--cuda-ipc-handles)"));
  }
  nodes_.push_front({allocation, now});
  ++stats_.opened;
  if (nodes_.size() == 1) wake_.notify_all();
  return allocation;
}

void DeviceStore::DropIdle() {
  Allocations closed;
  const std::lock_guard lock(mutex_);
  closed = TakeIdle(now_() - options_.lease, nodes_.size());
}

void DeviceStore::Expire() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (nodes_.empty()) {
      wake_.wait(lock);
      continue;
    }
    // What is held beyond its lease is looked at again after a part of one.
    const Clock::duration left =
        std::max<Clock::duration>(nodes_.back().last_use + options_.lease - now_(), options_.lease / 4);
    wake_.wait_for(lock, left);
    if (stop_) break;
    Allocations closed = TakeIdle(now_() - options_.lease, nodes_.size());
    if (closed.empty()) continue;
    lock.unlock();
    closed.clear();
    lock.lock();
  }
}

DeviceStore::Stats DeviceStore::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.open = static_cast<int64_t>(nodes_.size());
  return stats;
}

}  // namespace phasor::server
