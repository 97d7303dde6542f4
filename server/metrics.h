// What the server tells about itself to Prometheus. Names, types and labels are a contract: deploy/metrics.md lists them and
// a test compares. Label values come from closed sets, and every series exists from the start.
#ifndef PHASOR_SERVER_METRICS_H_
#define PHASOR_SERVER_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grpcpp/support/status_code_enum.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

#include "kernels/backend.h"
#include "server/answer_memo.h"
#include "server/device_store.h"
#include "server/engine.h"
#include "server/region_store.h"
#include "server/upload_store.h"

namespace phasor::server {

enum class Stage : uint8_t { kDecode, kQueue, kBuild, kCopy, kSend };
inline constexpr int kStages = 5;

// Why a call was turned away.
enum class RejectReason : uint8_t { kNone, kInflightRequests, kInflightBytes, kQueueFull, kDeadline, kDraining };

// How a method's responses are made.
enum class ResponsePath : uint8_t { kProto, kZeroCopy, kShared };

// The series of one method. Children are resolved once, here; all functions are thread-safe.
class MethodMetrics {
 public:
  void Finished(grpc::StatusCode code, double seconds, int64_t request_bytes, int64_t response_bytes);
  // Methods of the data plane only; ignored elsewhere.
  void ObserveStage(Stage stage, double seconds);

 private:
  friend class Metrics;
  std::array<prometheus::Counter*, 17> by_code_{};
  prometheus::Histogram* duration_ = nullptr;
  std::array<prometheus::Histogram*, kStages> stages_{};
  prometheus::Counter* request_bytes_ = nullptr;
  prometheus::Counter* response_bytes_ = nullptr;
};

// One per server. Functions are thread-safe.
class Metrics {
 public:
  struct Build {
    std::string version;
    int numerics_version = 0;
    std::string backend;
    std::string backend_description;
    std::vector<BackendInfo> backends = {};
  };
  explicit Metrics(const Build& build);

  // At start-up, once per method. The pointer lives as long as this object.
  MethodMetrics* AddMethod(const std::string& name, ResponsePath path);

  void Rejected(RejectReason reason);
  void TableBuilt(double seconds);
  // Bytes of results were handed over in shared memory, or on a device.
  void Shared(int64_t bytes);

  // Calls being served now.
  std::atomic<int64_t>& inflight_requests() { return *inflight_requests_; }

  // Adds the engine's gauges and counters, read at every scrape; `stats` may be called until this object dies.
  void WatchEngine(std::function<EngineStats()> stats);

  // The same of the backend's devices, if it has any.
  void WatchBackend(std::function<BackendStats()> stats, int64_t min_device_bytes);

  // The same of connections that were refused; empty: 0.
  void WatchConnections(std::function<int64_t()> refused);

  // The same of the answers that are kept whole.
  void WatchAnswers(std::function<AnswerMemo::Stats()> stats);

  // The same of the uploads; `capacity_bytes` is what they may hold.
  void WatchUploads(std::function<UploadStore::Stats()> stats, int64_t capacity_bytes);

  // The same of regions of shared memory.
  void WatchRegions(std::function<RegionStore::Stats()> stats, int64_t capacity_bytes);

  // The same of memory of devices that is mapped.
  void WatchDeviceMemory(std::function<DeviceStore::Stats()> stats, const DeviceStoreOptions& options);

  // What a listener exposes: everything above, and the process's own figures.
  std::vector<std::weak_ptr<prometheus::Collectable>> collectables() const;

  // The text of a scrape.
  std::string Scrape() const;

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>* requests_;
  prometheus::Family<prometheus::Histogram>* durations_;
  prometheus::Family<prometheus::Histogram>* stages_;
  prometheus::Family<prometheus::Counter>* request_bytes_;
  std::array<prometheus::Counter*, 3> response_bytes_{};
  std::array<prometheus::Counter*, 6> rejected_{};
  prometheus::Histogram* table_build_ = nullptr;
  std::shared_ptr<std::atomic<int64_t>> inflight_requests_;
  std::vector<std::shared_ptr<prometheus::Collectable>> live_;
  std::vector<std::unique_ptr<MethodMetrics>> methods_;
};

// "OK", "INVALID_ARGUMENT", …; anything unknown is "UNKNOWN".
std::string_view StatusCodeName(grpc::StatusCode code);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_METRICS_H_
