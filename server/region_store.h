// Regions of shared memory by their names: who may use them, how much there may be, and for how long.
#ifndef PHASOR_SERVER_REGION_STORE_H_
#define PHASOR_SERVER_REGION_STORE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

#include "server/region.h"

namespace phasor::server {

namespace internal {
class RegionLedger;
}  // namespace internal

// A shorter lease than this counts as this.
inline constexpr std::chrono::milliseconds kShortestLease{10};

struct RegionOptions {
  int64_t total_bytes = 0;                   // of all regions together; 0: no memory is shared
  int64_t peer_bytes = int64_t{1} << 30;     // of the regions that one peer had made
  int64_t max_regions = 128;                 // each takes a file descriptor
  std::chrono::milliseconds lease{300'000};  // after the last use
};

// Thread-safe. A region is kept for its lease after its last use, and while somebody holds it; its room is free again when
// it has no name any more and the last holder lets go. `owner`: who calls (RegionOwner); a region that belongs to another
// owner is to every function as if it did not exist.
class RegionStore {
 public:
  using Clock = std::chrono::steady_clock;

  // `now`: the time that leases go by; tests have their own.
  explicit RegionStore(const RegionOptions& options, std::function<Clock::time_point()> now = &Clock::now);
  // Takes all names away. Regions that are held live on.
  ~RegionStore();
  RegionStore(const RegionStore&) = delete;
  RegionStore& operator=(const RegionStore&) = delete;

  bool on() const { return options_.total_bytes > 0; }
  const RegionOptions& options() const { return options_; }

  // A writable region of `size` ≥ 1 bytes, zeros. MakeQuotaRefusal when a quota or the system is in the way; the message
  // says which. Takes about a millisecond for every 4 MiB.
  absl::StatusOr<std::shared_ptr<Region>> Create(const std::string& owner, int64_t size);
  // The region with this name, or null. Counts as a use.
  std::shared_ptr<Region> Find(const std::string& owner, std::string_view name);
  // Takes the name away, of a read-only region for this owner; false: there is none.
  bool Release(const std::string& owner, std::string_view name);

  // The read-only region that was shared under `key` (whoever shared it), or null. Counts as a use; from now on it is the
  // owner's as well.
  std::shared_ptr<Region> FindShared(const std::string& owner, std::string_view key);
  // One to fill: it has no name before Share. Errors as of Create.
  absl::StatusOr<std::shared_ptr<Region>> NewShared(const std::string& owner, int64_t size);
  // Seals a filled region and shares it under `key`; returns the one that is shared, which another caller may have brought
  // meanwhile.
  absl::StatusOr<std::shared_ptr<Region>> Share(const std::string& owner, std::string_view key,
                                                std::shared_ptr<Region> region);

  // Releases regions whose lease is over. A thread does it in time.
  void DropExpired();

  struct Stats {
    int64_t bytes = 0;                                               // with a name, being filled, or released and still held
    int64_t regions = 0;                                             // with a name
    int64_t created = 0, expired = 0, refused = 0, shared_hits = 0;  // since start
  };
  Stats stats() const;

 private:
  struct Node {
    std::shared_ptr<Region> region;
    std::set<std::string> owners;
    std::string key;  // of shared ones
    Clock::time_point last_use;
  };
  using Nodes = std::list<Node>;

  absl::StatusOr<std::shared_ptr<Region>> Make(RegionKind kind, const std::string& owner, int64_t size);
  // With the lock held.
  void Add(Node node);
  bool Touch(Nodes::iterator node);
  std::shared_ptr<Region> Remove(Nodes::iterator node);
  void Expire();  // the thread's loop

  const RegionOptions options_;
  const std::function<Clock::time_point()> now_;
  const std::shared_ptr<internal::RegionLedger> ledger_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  Nodes nodes_;  // the most recently used first
  std::unordered_map<std::string, Nodes::iterator> by_name_, by_key_;
  Stats stats_;  // bytes and regions are filled in when asked for
  std::thread thread_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REGION_STORE_H_
