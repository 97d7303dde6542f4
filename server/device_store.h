// Device memory of other processes on this host that is mapped here: by handle, a few at a time, while it is used.
#ifndef PHASOR_SERVER_DEVICE_STORE_H_
#define PHASOR_SERVER_DEVICE_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/device_sharing.h"

namespace phasor::server {

// One mapped allocation. Held by everyone who works on it; unmapped with the last.
class DeviceAllocation {
 public:
  DeviceAllocation(std::shared_ptr<const DeviceSharing> sharing, int device, std::string handle, DeviceMapping mapping)
      : sharing_(std::move(sharing)), device_(device), handle_(std::move(handle)), mapping_(mapping) {}
  ~DeviceAllocation() { sharing_->Close(device_, mapping_.data); }
  DeviceAllocation(const DeviceAllocation&) = delete;
  DeviceAllocation& operator=(const DeviceAllocation&) = delete;

  int device() const { return device_; }
  const std::string& handle() const { return handle_; }
  std::byte* data() const { return mapping_.data; }  // an address of the device
  int64_t size() const { return mapping_.size; }

 private:
  const std::shared_ptr<const DeviceSharing> sharing_;
  const int device_;
  const std::string handle_;
  const DeviceMapping mapping_;
};

struct DeviceStoreOptions {
  int64_t max_handles = 0;                 // mapped at once; 0: none is ever
  int64_t peer_handles = 64;               // of them, those that one peer named
  std::chrono::milliseconds lease{5'000};  // after the last use; at least 10 ms
};

// Thread-safe. What was mapped stays so for a lease after its last use, since mapping takes longer than most calls; and not
// longer, since the other process's memory is not free again before. Where there is no room, what was used longest ago and
// is not held goes first. A process that frees memory within the lease, against the rules, and gets its address again has a
// new handle that opens only when the old one is closed: then all that is idle on that device goes.
//
// `owner`: who calls (RegionAccess::owner). An allocation counts for every owner who named it, each by its own last use and
// its own calls: an owner at its bound gives up its own, so nobody's use is pushed out by one who takes more and more, and
// none keeps another's room taken.
class DeviceStore {
 public:
  using Clock = std::chrono::steady_clock;

  // `sharing`: the backend's; null: it has no devices. `now`: the time that leases go by; tests have their own.
  DeviceStore(const DeviceStoreOptions& options, std::shared_ptr<const DeviceSharing> sharing,
              std::function<Clock::time_point()> now = &Clock::now);
  // Unmaps what nobody holds; the rest lives on with its holders.
  ~DeviceStore();
  DeviceStore(const DeviceStore&) = delete;
  DeviceStore& operator=(const DeviceStore&) = delete;

  bool on() const { return options_.max_handles > 0 && sharing_ != nullptr; }
  // Why not.
  std::string_view why_off() const;
  const DeviceStoreOptions& options() const { return options_; }
  // Ids of the devices; none where it is off.
  const std::vector<int>& devices() const { return devices_; }

  // The allocation that the handle stands for, mapped now or before. Counts as a use. MakeQuotaRefusal when all that the
  // owner, or all together, may have mapped is in use, or the device has no room; UNAVAILABLE too while a call works on what
  // lies at its address; other errors as DeviceSharing::Open.
  absl::StatusOr<std::shared_ptr<const DeviceAllocation>> Open(const std::string& owner, int device,
                                                               std::string_view handle);

  // Unmaps what nobody used for the lease. A thread does it in time.
  void DropIdle();

  struct Stats {
    int64_t open = 0;                            // now
    int64_t opened = 0, found = 0, refused = 0;  // since start: mapped, mapped already, neither
  };
  Stats stats() const;

 private:
  using Handle = std::shared_ptr<const DeviceAllocation>;
  // What one owner has of an allocation. Its calls hold copies of `handle`, and nobody else does.
  struct Use {
    Handle handle;
    Clock::time_point last_use;
    bool is_idle() const { return handle.use_count() == 1; }
  };
  struct Node {
    Handle allocation;
    std::map<std::string, Use> uses;  // by owner; not empty
    bool is_idle() const;
  };
  using Nodes = std::list<Node>;

  // All with the lock held.
  Nodes::iterator Find(int device, std::string_view handle);
  int64_t CountOf(const std::string& owner) const;
  // The owner's use that is idle longest; end: all are held.
  Nodes::iterator IdlestOf(const std::string& owner);
  // What nobody holds and was used longest ago, likewise.
  Nodes::iterator Idlest();
  // Whether one more of the owner's, already mapped or not, would fit if what is idle went; MakeQuotaRefusal.
  absl::Status CheckRoom(const std::string& owner, bool is_mapped);
  // Makes it; what must be unmapped goes to `closed`, for after the lock.
  void MakeRoom(const std::string& owner, bool is_mapped, Nodes* closed);
  // Takes the owner's use away, and the allocation with the last one.
  void Drop(Nodes::iterator node, const std::string& owner, Nodes* closed);
  // The owner's use of it, now.
  Handle Touch(Nodes::iterator node, const std::string& owner);
  // Takes away what has not been used since, and is not held.
  Nodes TakeIdle(Clock::time_point since);
  // What is idle on that device, whoever used it and when.
  Nodes TakeIdleOf(int device);
  absl::StatusOr<DeviceMapping> Map(int device, std::string_view handle);
  void Expire();  // the thread's loop

  const DeviceStoreOptions options_;
  const std::shared_ptr<const DeviceSharing> sharing_;
  const std::function<Clock::time_point()> now_;
  std::vector<int> devices_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  Nodes nodes_;  // the most recently used first
  Stats stats_;
  std::thread thread_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DEVICE_STORE_H_
