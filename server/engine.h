// spec → plan → cache → backend. Knows nothing of the wire: requests come validated, answers leave as pieces of memory.
#ifndef PHASOR_SERVER_ENGINE_H_
#define PHASOR_SERVER_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "server/bytes.h"
#include "server/call_context.h"
#include "server/region.h"
#include "server/request.h"

namespace phasor::server {

struct StageTimes {
  int64_t decode_ns = 0, queue_ns = 0, build_ns = 0, copy_ns = 0;
};

enum class CacheOutcome : uint8_t { kNone, kHit, kPartial, kMiss, kCoalesced, kBypass };

// One array of an answer; `data` is empty when the caller asked for none (validate_only, not modified).
struct Array {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // empty: dense
  Chunks data;
  // What the data lies in, as one piece; null, both: it goes with the answer.
  std::shared_ptr<const Region> region = nullptr;
  std::shared_ptr<const DeviceAllocation> allocation = nullptr;
};

struct PrecomputeResult {
  absl::Status status;
  CacheOutcome cache = CacheOutcome::kNone;
  StageTimes stages;
  std::string fingerprint;  // 32 bytes
  bool not_modified = false;
  int64_t payload_bytes = 0;
  double attention_factor = 1;
  std::optional<double> softmax_scale_multiplier;
  std::vector<Note> warnings;  // fields relative to the item: "spec.rope.yarn.factor"
  std::vector<int64_t> rope_delta;
  std::optional<Array> inv_freq, cos, sin, table, bias;
  std::shared_ptr<const Region> shared_region;  // of the server's, that the arrays are shared in …
  std::chrono::milliseconds shared_lease{0};    // … and how long it is kept after its last use
};

struct ApplyResult {
  absl::Status status;
  CacheOutcome cache = CacheOutcome::kNone;
  StageTimes stages;
  std::string fingerprint;
  int64_t payload_bytes = 0;
  std::optional<double> softmax_scale_multiplier;
  std::vector<Note> warnings;
  std::vector<int64_t> rope_delta;
  std::vector<Array> tensors;
};

struct ScoresResult {
  absl::Status status;
  StageTimes stages;
  std::string fingerprint;  // 32 bytes
  int64_t payload_bytes = 0;
  double scale = 1;
  std::vector<Note> warnings;
  std::optional<Array> scores, values;
};

template <typename R>
struct Answer {
  absl::Status status;  // of the call as a whole: CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE (queue full, draining)
  std::vector<R> results;
  StageTimes stages;
};
template <typename R>
using Done = absl::AnyInvocable<void(Answer<R>) &&>;

// A cached plan's tiles, for ListTables.
struct CachedPlan {
  std::string name;  // hex of the first 8 bytes of its fingerprint, a dot, the dtype
  std::string scheme;
  std::string dtype;
  int64_t tiles = 0, rows = 0, bytes = 0, hits = 0;
};

struct EngineOptions {
  int worker_threads = 0;  // 0: from the cgroup quota, at least 1
  int64_t cache_bytes = int64_t{1} << 30;
  int64_t max_queue = 1024;
  int64_t max_inflight_bytes = int64_t{4} << 30;
  int64_t pool_keep_bytes = int64_t{512} << 20;  // pooled buffers kept for reuse
};

// Counts for metrics and GetServerInfo; a consistent-enough snapshot.
struct EngineStats {
  int64_t cache_bytes = 0, cache_capacity_bytes = 0, evicted_in_use_bytes = 0;
  int64_t cache_hits = 0, cache_misses = 0, cache_coalesced = 0, cache_evictions = 0;  // tiles, since start
  int64_t pool_used_bytes = 0, pool_free_bytes = 0;
  int64_t shared_bytes = 0;  // of shared memory; the engine leaves this to who has the regions
  int64_t inflight_bytes = 0;
  int64_t queue_length = 0;
  double queue_oldest_age_seconds = 0;
  int worker_threads = 0;
};

class Engine {
 public:
  // Seconds that building one tile took, for the histogram; called from workers, must be thread-safe and cheap. May be
  // empty.
  using BuildObserver = std::function<void(double seconds)>;

  Engine(EngineOptions options, std::unique_ptr<Backend> backend, BuildObserver observer);
  // Waits for running slices; queued calls end with UNAVAILABLE. Not on a worker (inside `done`). Pieces of answers may live
  // longer.
  ~Engine();

  // Answers by calling `done` exactly once: on the calling thread when every item is refused, only described, or cached with
  // at most 32 KiB to copy; else on a worker. Never blocks. Items keep their order; a refused item answers its status.
  // Admits the call itself: charges request.charged_bytes() and what it needs beside until the last piece of the answer is
  // released (the transport charges only what it holds beyond that). A refused call answers UNAVAILABLE with a Refusal
  // (refusal.h).
  void Precompute(std::shared_ptr<CallContext> context, ValidatedPrecompute request, Done<PrecomputeResult> done);
  void Apply(std::shared_ptr<CallContext> context, ValidatedApply request, Done<ApplyResult> done);
  void Scores(std::shared_ptr<CallContext> context, ValidatedScores request, Done<ScoresResult> done);

  // Plan of a canonical spec through the plan cache. Up to 2 ms on a miss.
  absl::StatusOr<std::shared_ptr<const Resolved>> ResolvePlan(const CanonicalSpec& spec,
                                                              std::optional<int64_t> sequence_length, Precision precision);

  // Builds rows [0, rows) into the cache (of a bias: distances −rows < d < rows) and waits for it: start-up only.
  // RESOURCE_EXHAUSTED when the cache cannot hold them.
  absl::Status Warm(const TableSource& source, DType dtype, int64_t rows);
  // The error that Warm would give with a cache of `cache_bytes`, short of failures of the machine. Up to 2 ms.
  static absl::Status CheckWarm(const TableSource& source, DType dtype, int64_t rows, int64_t cache_bytes);

  // Calls `work` once, on a worker, when its turn comes among large stages: with OK, or with the error of the call's
  // context, or (on the thread that stops the engine) UNAVAILABLE. For work of a few milliseconds that is none of the above.
  void RunOnWorker(std::shared_ptr<const CallContext> context, std::function<void(absl::Status)> work);

  // Admission: charges bytes of work in flight until the returned handle dies. UNAVAILABLE when they do not fit, unless
  // nothing else is in flight (a single call within the limits is always served).
  absl::StatusOr<std::shared_ptr<const void>> Charge(int64_t bytes);

  std::vector<CachedPlan> ListTables() const;  // most recently used first
  bool HasTable(const std::string& name) const;
  std::pair<int64_t, int64_t> Evict(const std::vector<std::string>& names, bool all);  // tiles, bytes

  EngineStats stats() const;
  // Bytes charged now.
  int64_t inflight_bytes() const;
  // Returns pooled buffers that nobody uses to the system, but for `keep_bytes` of them.
  void TrimPool(int64_t keep_bytes);
  const Backend& backend() const;

  // From now on new calls end with UNAVAILABLE; those taken run on.
  void Drain();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// SHA-256(numerics version ‖ plan key) — the fingerprint of a whole plan (ResolveModel) — 32 bytes.
std::string PlanFingerprint(const Plan& plan);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ENGINE_H_
