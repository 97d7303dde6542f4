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

bool DeviceStore::Node::is_idle() const {
  // Who holds a use may have taken it long ago. Only this list makes new holders, with the lock held.
  return std::all_of(uses.begin(), uses.end(), [](const auto& use) { return use.second.is_idle(); });
}

DeviceStore::Nodes::iterator DeviceStore::Find(int device, std::string_view handle) {
  return std::find_if(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.allocation->device() == device && node.allocation->handle() == handle;
  });
}

int64_t DeviceStore::CountOf(const std::string& owner) const {
  return std::count_if(nodes_.begin(), nodes_.end(), [&](const Node& node) { return node.uses.contains(owner); });
}

DeviceStore::Nodes::iterator DeviceStore::IdlestOf(const std::string& owner) {
  auto idlest = nodes_.end();
  Clock::time_point last_use;
  for (auto node = nodes_.begin(); node != nodes_.end(); ++node) {
    const auto use = node->uses.find(owner);
    if (use == node->uses.end() || !use->second.is_idle()) continue;
    if (idlest != nodes_.end() && use->second.last_use > last_use) continue;
    idlest = node;
    last_use = use->second.last_use;
  }
  return idlest;
}

DeviceStore::Nodes::iterator DeviceStore::Idlest() {
  for (auto node = nodes_.end(); node != nodes_.begin();) {
    if ((--node)->is_idle()) return node;
  }
  return nodes_.end();
}

absl::Status DeviceStore::CheckRoom(const std::string& owner, bool is_mapped) {
  const int64_t of_owner = CountOf(owner);
  if (of_owner >= options_.peer_handles && (options_.peer_handles <= 0 || IdlestOf(owner) == nodes_.end())) {
    return MakeQuotaRefusal("device memory", absl::StrCat("calls of this peer work on ", of_owner, " of ",
                                                          options_.peer_handles, " allocations (--cuda-ipc-peer-handles)"));
  }
  if (!is_mapped && static_cast<int64_t>(nodes_.size()) >= options_.max_handles && Idlest() == nodes_.end()) {
    return MakeQuotaRefusal("device memory", absl::StrCat("calls work on ", nodes_.size(), " of ", options_.max_handles,
                                                          " allocations (--cuda-ipc-handles)"));
  }
  return absl::OkStatus();
}

void DeviceStore::Drop(Nodes::iterator node, const std::string& owner, Nodes* closed) {
  if (node->uses.size() == 1) {
    closed->splice(closed->end(), nodes_, node);
  } else {
    node->uses.erase(owner);
  }
}

void DeviceStore::MakeRoom(const std::string& owner, bool is_mapped, Nodes* closed) {
  if (CountOf(owner) >= options_.peer_handles) Drop(IdlestOf(owner), owner, closed);
  if (!is_mapped && static_cast<int64_t>(nodes_.size()) >= options_.max_handles) {
    closed->splice(closed->end(), nodes_, Idlest());
  }
}

DeviceStore::Handle DeviceStore::Touch(Nodes::iterator node, const std::string& owner) {
  Use& use = node->uses[owner];
  // A handle that counts the owner's holders alone, and holds the allocation.
  if (use.handle == nullptr) use.handle = Handle(node->allocation.get(), [held = node->allocation](auto*) {});
  use.last_use = now_();
  nodes_.splice(nodes_.begin(), nodes_, node);
  return use.handle;
}

absl::StatusOr<std::shared_ptr<const DeviceAllocation>> DeviceStore::Open(const std::string& owner, int device,
                                                                          std::string_view handle) {
  Nodes closed;  // after the lock
  const std::lock_guard lock(mutex_);
  const auto found = Find(device, handle);
  const bool is_mapped = found != nodes_.end();
  if (is_mapped && found->uses.contains(owner)) {
    ++stats_.found;
    return Touch(found, owner);
  }
  if (absl::Status status = CheckRoom(owner, is_mapped); !status.ok()) {
    ++stats_.refused;
    return status;
  }
  if (is_mapped) {
    ++stats_.found;
    MakeRoom(owner, is_mapped, &closed);
    return Touch(found, owner);
  }
  // One at a time, with the lock held: the driver does no two at once either, and of callers with one handle only the first
  // maps it. Before anything else goes: a handle that stands for nothing takes nobody's place.
  auto mapping = Map(device, handle);
  if (!mapping.ok()) {
    ++stats_.refused;
    if (!absl::IsResourceExhausted(mapping.status())) return mapping.status();
    return MakeQuotaRefusal("device memory", absl::StrCat("the device has no room to map it: ", mapping.status().message()));
  }
  MakeRoom(owner, is_mapped, &closed);
  nodes_.push_front({std::make_shared<const DeviceAllocation>(sharing_, device, std::string(handle), *mapping), {}});
  ++stats_.opened;
  if (nodes_.size() == 1) wake_.notify_all();
  return Touch(nodes_.begin(), owner);
}

DeviceStore::Nodes DeviceStore::TakeIdleOf(int device) {
  Nodes idle;
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto next = std::next(node);
    if (node->allocation->device() == device && node->is_idle()) idle.splice(idle.end(), nodes_, node);
    node = next;
  }
  return idle;
}

absl::StatusOr<DeviceMapping> DeviceStore::Map(int device, std::string_view handle) {
  auto mapping = sharing_->Open(device, handle);
  if (!absl::IsAlreadyExists(mapping.status())) return mapping;
  TakeIdleOf(device).clear();  // closed here, before the second attempt
  mapping = sharing_->Open(device, handle);
  if (!absl::IsAlreadyExists(mapping.status())) return mapping;
  return absl::UnavailableError(absl::StrCat(
      "what was at the address of this memory was freed while a call worked on it; once that call has ended the "
      "handle opens: ",
      mapping.status().message()));
}

DeviceStore::Nodes DeviceStore::TakeIdle(Clock::time_point since) {
  Nodes idle;
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto next = std::next(node);
    std::erase_if(node->uses, [&](const auto& use) { return use.second.is_idle() && use.second.last_use <= since; });
    if (node->uses.empty()) idle.splice(idle.end(), nodes_, node);
    node = next;
  }
  return idle;
}

void DeviceStore::DropIdle() {
  Nodes closed;
  const std::lock_guard lock(mutex_);
  closed = TakeIdle(now_() - options_.lease);
}

void DeviceStore::Expire() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (nodes_.empty()) {
      wake_.wait(lock);
      continue;
    }
    Clock::time_point first = Clock::time_point::max();
    for (const Node& node : nodes_) {
      for (const auto& [owner, use] : node.uses) first = std::min(first, use.last_use);
    }
    // What is held beyond its lease is looked at again after a part of one.
    wake_.wait_for(lock, std::max<Clock::duration>(first + options_.lease - now_(), options_.lease / 4));
    if (stop_) break;
    Nodes closed = TakeIdle(now_() - options_.lease);
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
