// Resolved plans by spec: 256-bit arithmetic is not for every call.
#ifndef PHASOR_SERVER_PLAN_CACHE_H_
#define PHASOR_SERVER_PLAN_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "server/fingerprint.h"

namespace phasor::server {

// A plan with everything about it that is worth computing once. Shared by tiles and requests.
struct PlanEntry {
  Resolved resolved;
  std::string key;          // PlanKey(resolved.plan)
  size_t key_hash = 0;      // of `key`; selects buckets, decides nothing
  PlanHash hash{""};        // of `key`
  std::string fingerprint;  // PlanFingerprint(resolved.plan)
  std::string scheme;       // of the spec that it was first resolved from

  const AnglePlan* angle() const { return std::get_if<AnglePlan>(&resolved.plan); }
  // Values by distance, which tiles of the cache hold; nothing where the plan is of another kind.
  std::optional<DistancePlan> bias() const { return DistancePlanOf(resolved.plan); }
};

std::shared_ptr<const PlanEntry> MakePlanEntry(Resolved resolved, std::string_view scheme);

// Thread-safe. Entries are compared by their whole spec; the least recently used leave when there are too many, or when they
// hold too much together: a plan has a few KiB, but the widest ones that a caller may ask for have megabytes.
class PlanCache {
 public:
  explicit PlanCache(size_t max_entries, size_t max_bytes = size_t{64} << 20)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  // The plan, if it is here: microseconds. `sequence_length` does not count where the scheme does not depend on it.
  std::shared_ptr<const PlanEntry> Find(const CanonicalSpec& spec, std::optional<int64_t> sequence_length,
                                        Precision precision);

  // The plan, resolved on this thread when it is not here (0.1–2 ms). Callers that miss one spec at the same time each
  // resolve it: they finish no later than if they had waited for the first.
  // `weight_bytes`, the spec's weights, count; a plan with more of them than a quarter of the cache is not kept, or it would
  // keep a caller's upload for as long.
  absl::StatusOr<std::shared_ptr<const PlanEntry>> Resolve(const CanonicalSpec& spec, std::optional<int64_t> sequence_length,
                                                           Precision precision, int64_t weight_bytes = 0);

 private:
  struct Key {
    EncodingSpec spec;
    std::optional<int64_t> sequence_length;
    Precision precision;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Node {
    Key key;
    size_t hash;
    size_t bytes;
    std::shared_ptr<const PlanEntry> entry;
  };
  using Nodes = std::list<Node>;

  Nodes::iterator Locate(const Key& key, size_t hash);  // with the lock held
  void DropOldest();                                    // with the lock held

  const size_t max_entries_;
  const size_t max_bytes_;
  std::mutex mutex_;
  Nodes nodes_;       // the most recently used first
  size_t bytes_ = 0;  // of all nodes
  std::unordered_multimap<size_t, Nodes::iterator> by_hash_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PLAN_CACHE_H_
