#include "server/metrics.h"

#include <utility>

#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/text_serializer.h"

#include "server/device_metrics.h"
#include "server/metric_samples.h"
#include "server/process_stats.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Seconds: a cached answer takes tens of microseconds, a cold table of a million rows up to seconds.
const Histogram::BucketBoundaries& LatencyBuckets() {
  static const auto* buckets = new Histogram::BucketBoundaries{
      25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10};
  return *buckets;
}

constexpr std::array<std::string_view, 17> kCodes = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};
constexpr std::array<std::string_view, kStages> kStageNames = {"decode", "queue", "build", "copy", "send"};
constexpr std::array<std::string_view, 6> kReasonNames = {"",           "inflight_requests", "inflight_bytes",
                                                          "queue_full", "deadline",          "draining"};

// Families whose values are read when they are scraped.
class LiveFamilies : public prometheus::Collectable {
 public:
  explicit LiveFamilies(std::function<void(std::vector<MetricFamily>*)> fill) : fill_(std::move(fill)) {}
  std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> families;
    fill_(&families);
    return families;
  }

 private:
  std::function<void(std::vector<MetricFamily>*)> fill_;
};

void AddEngine(const EngineStats& stats, std::vector<MetricFamily>* out) {
  const auto gauge = [&](const char* name, const char* help, double value, std::vector<ClientMetric::Label> labels = {}) {
    AddSample(out, name, help, MetricType::Gauge, value, std::move(labels));
  };
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    AddSample(out, name, help, MetricType::Counter, static_cast<double>(value), {{"space", "host"}});
  };
  const auto bytes = [](int64_t value) { return static_cast<double>(value); };
  counter("phasor_table_cache_hits_total", "Tiles found in the table cache.", stats.cache_hits);
  counter("phasor_table_cache_misses_total", "Tiles built because the table cache did not have them.", stats.cache_misses);
  counter("phasor_table_cache_coalesced_total", "Tiles waited for while another call built them.", stats.cache_coalesced);
  counter("phasor_table_cache_evictions_total", "Tiles dropped from the table cache.", stats.cache_evictions);
  gauge("phasor_table_cache_bytes", "Bytes of tables in the cache.", bytes(stats.cache_bytes), {{"space", "host"}});
  gauge("phasor_table_cache_capacity_bytes", "Bytes that the table cache may hold.", bytes(stats.cache_capacity_bytes),
        {{"space", "host"}});
  gauge("phasor_table_cache_evicted_in_use_bytes", "Bytes of evicted tables that responses still send.",
        bytes(stats.evicted_in_use_bytes), {{"space", "host"}});
  gauge("phasor_memory_pool_bytes", "Bytes of pooled buffers and of shared memory.", bytes(stats.pool_used_bytes),
        {{"space", "host"}, {"state", "used"}});
  gauge("phasor_memory_pool_bytes", "", bytes(stats.pool_free_bytes), {{"space", "host"}, {"state", "free"}});
  gauge("phasor_memory_pool_bytes", "", bytes(stats.shared_bytes), {{"space", "shared"}, {"state", "used"}});
  gauge("phasor_inflight_bytes", "Bytes of requests and responses in flight, as admitted.", bytes(stats.inflight_bytes));
  gauge("phasor_queue_length", "Calls waiting for a worker.", static_cast<double>(stats.queue_length));
  gauge("phasor_queue_oldest_age_seconds", "Age of the call that has waited longest.", stats.queue_oldest_age_seconds);
  gauge("phasor_worker_threads", "Threads that build tables and run kernels.", stats.worker_threads);
}

void AddAnswers(const AnswerMemo::Stats& stats, std::vector<MetricFamily>* out) {
  AddSample(out, "phasor_remembered_answers", "Answers of Precompute kept whole, by their requests' bytes.",
            MetricType::Gauge, static_cast<double>(stats.answers));
  AddSample(out, "phasor_remembered_answers_bytes", "Bytes that they and their requests take.", MetricType::Gauge,
            static_cast<double>(stats.bytes));
  AddSample(out, "phasor_remembered_answers_found_total", "Calls that were answered with one of them.", MetricType::Counter,
            static_cast<double>(stats.found));
}

void AddUploads(const UploadStore::Stats& stats, int64_t capacity_bytes, std::vector<MetricFamily>* out) {
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    AddSample(out, name, help, MetricType::Gauge, static_cast<double>(value));
  };
  const auto counter = [&](const char* name, const char* help, int64_t value, std::vector<ClientMetric::Label> labels = {}) {
    AddSample(out, name, help, MetricType::Counter, static_cast<double>(value), std::move(labels));
  };
  gauge("phasor_upload_bytes", "Bytes of uploads: stored, on their way, and expired but still in use.", stats.bytes);
  gauge("phasor_upload_capacity_bytes", "Bytes that uploads may hold.", capacity_bytes);
  gauge("phasor_upload_objects", "Uploads stored.", stats.objects);
  counter("phasor_uploads_stored_total", "Uploads that ended well.", stats.stored);
  counter("phasor_uploads_expired_total", "Uploads dropped because nobody used them for their time to live.", stats.expired);
  counter("phasor_uploads_refused_total", "Uploads that a quota had no room for.", stats.refused);
  counter("phasor_upload_lookups_total", "Uploads looked for by their hash.", stats.found, {{"result", "found"}});
  counter("phasor_upload_lookups_total", "", stats.missed, {{"result", "missing"}});
}

void AddDeviceMemory(const DeviceStore::Stats& stats, const DeviceStoreOptions& options, std::vector<MetricFamily>* out) {
  AddSample(out, "phasor_device_memory_handles", "Allocations of other processes on devices that are mapped now.",
            MetricType::Gauge, static_cast<double>(stats.open));
  AddSample(out, "phasor_device_memory_handles_capacity", "How many may be mapped at once; 0: none is.", MetricType::Gauge,
            static_cast<double>(options.max_handles));
  AddSample(out, "phasor_device_memory_peer_handles_capacity", "How many of them one peer may have named.",
            MetricType::Gauge, static_cast<double>(options.peer_handles));
  const auto opens = [&](const char* result, int64_t value) {
    AddSample(out, "phasor_device_memory_opens_total",
              "Handles of such allocations that calls named, by what became of them.", MetricType::Counter,
              static_cast<double>(value), {{"result", result}});
  };
  opens("mapped", stats.opened);
  opens("found", stats.found);
  opens("refused", stats.refused);
}

void AddRegions(const RegionStore::Stats& stats, int64_t capacity_bytes, std::vector<MetricFamily>* out) {
  const auto gauge = [&](const char* name, const char* help, int64_t value) {
    AddSample(out, name, help, MetricType::Gauge, static_cast<double>(value));
  };
  const auto counter = [&](const char* name, const char* help, int64_t value) {
    AddSample(out, name, help, MetricType::Counter, static_cast<double>(value));
  };
  gauge("phasor_shared_memory_capacity_bytes", "Bytes that regions of shared memory may hold; 0: none is shared.",
        capacity_bytes);
  gauge("phasor_shared_memory_regions", "Regions of shared memory that have a name.", stats.regions);
  counter("phasor_shared_memory_regions_created_total", "Regions of shared memory made.", stats.created);
  counter("phasor_shared_memory_regions_expired_total", "Regions released because nobody used them for their lease.",
          stats.expired);
  counter("phasor_shared_memory_regions_refused_total", "Regions that a quota or the system had no room for.",
          stats.refused);
  counter("phasor_shared_memory_tables_found_total", "Results that were shared already when they were asked for.",
          stats.shared_hits);
}

void AddProcess(std::vector<MetricFamily>* out) {
  const ProcessStats stats = ReadProcessStats();
  AddSample(out, "process_cpu_seconds_total", "User and system CPU time.", MetricType::Counter, stats.cpu_seconds);
  const auto gauge = [&](const char* name, const char* help, double value) {
    AddSample(out, name, help, MetricType::Gauge, value);
  };
  const MallocStats heap = ReadMallocStats();
  AddSample(out, "phasor_malloc_bytes", "Bytes of malloc: handed out, and held free.", MetricType::Gauge,
            static_cast<double>(heap.used_bytes), {{"state", "used"}});
  AddSample(out, "phasor_malloc_bytes", "", MetricType::Gauge, static_cast<double>(heap.free_bytes), {{"state", "free"}});
  gauge("process_resident_memory_bytes", "Resident memory.", static_cast<double>(stats.resident_bytes));
  gauge("process_virtual_memory_bytes", "Address space.", static_cast<double>(stats.virtual_bytes));
  gauge("process_open_fds", "Open file descriptors.", static_cast<double>(stats.open_fds));
  gauge("process_max_fds", "File descriptors that may be open.", static_cast<double>(stats.max_fds));
  gauge("process_start_time_seconds", "Start, seconds since the epoch.", stats.start_time_seconds);
}

std::string Text(std::string_view text) { return std::string(text); }

}  // namespace

std::string_view StatusCodeName(grpc::StatusCode code) {
  const int number = static_cast<int>(code);
  return number >= 0 && number < 17 ? kCodes[static_cast<size_t>(number)] : kCodes[2];
}

void MethodMetrics::Finished(grpc::StatusCode code, double seconds, int64_t request_bytes, int64_t response_bytes) {
  const int number = static_cast<int>(code);
  by_code_[static_cast<size_t>(number >= 0 && number < 17 ? number : 2)]->Increment();
  duration_->Observe(seconds);
  request_bytes_->Increment(static_cast<double>(request_bytes));
  response_bytes_->Increment(static_cast<double>(response_bytes));
}

void MethodMetrics::ObserveStage(Stage stage, double seconds) {
  if (Histogram* histogram = stages_[static_cast<size_t>(stage)]) histogram->Observe(seconds);
}

Metrics::Metrics(const Build& build)
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_(&prometheus::BuildCounter()
                     .Name("phasor_requests_total")
                     .Help("Calls that ended, by method and status code.")
                     .Register(*registry_)),
      durations_(&prometheus::BuildHistogram()
                      .Name("phasor_request_duration_seconds")
                      .Help("From a call's arrival until its answer was handed to the network.")
                      .Register(*registry_)),
      stages_(&prometheus::BuildHistogram()
                   .Name("phasor_request_stage_duration_seconds")
                   .Help("Parts of the duration of calls that were answered with data.")
                   .Register(*registry_)),
      request_bytes_(&prometheus::BuildCounter()
                          .Name("phasor_request_bytes_total")
                          .Help("Bytes of request messages.")
                          .Register(*registry_)),
      inflight_requests_(std::make_shared<std::atomic<int64_t>>(0)) {
  auto& responses =
      prometheus::BuildCounter()
          .Name("phasor_response_bytes_total")
          .Help(
              "Bytes of response messages (zerocopy ones refer to tables and pooled buffers), and of results in shared "
              "memory.")
          .Register(*registry_);
  response_bytes_ = {&responses.Add({{"path", "proto"}}), &responses.Add({{"path", "zerocopy"}}),
                     &responses.Add({{"path", "shm"}})};
  auto& rejected = prometheus::BuildCounter()
                       .Name("phasor_rejected_requests_total")
                       .Help("Calls turned away before any work was done for them.")
                       .Register(*registry_);
  for (size_t i = 1; i < kReasonNames.size(); ++i) rejected_[i] = &rejected.Add({{"reason", Text(kReasonNames[i])}});
  table_build_ = &prometheus::BuildHistogram()
                      .Name("phasor_table_build_duration_seconds")
                      .Help("Time to build one tile of the table cache.")
                      .Register(*registry_)
                      .Add({{"backend", build.backend}}, LatencyBuckets());
  prometheus::BuildGauge()
      .Name("phasor_build_info")
      .Help("Always 1.")
      .Register(*registry_)
      .Add({{"version", build.version}, {"numerics_version", Cat(build.numerics_version)}})
      .Set(1);
  prometheus::BuildGauge()
      .Name("phasor_backend_info")
      .Help("Always 1.")
      .Register(*registry_)
      .Add({{"backend", build.backend}, {"device", build.backend_description}})
      .Set(1);
  auto& usable = prometheus::BuildGauge()
                     .Name("phasor_backend_usable")
                     .Help("1 where the backend can run on this machine.")
                     .Register(*registry_);
  for (const BackendInfo& backend : build.backends)
    usable.Add({{"backend", Text(backend.name)}}).Set(backend.usable ? 1 : 0);
  live_.push_back(std::make_shared<LiveFamilies>([inflight = inflight_requests_](std::vector<MetricFamily>* out) {
    AddSample(out, "phasor_inflight_requests", "Calls being served.", MetricType::Gauge,
              static_cast<double>(inflight->load(std::memory_order_relaxed)));
    AddProcess(out);
  }));
}

MethodMetrics* Metrics::AddMethod(const std::string& name, ResponsePath path) {
  auto method = std::make_unique<MethodMetrics>();
  for (size_t code = 0; code < kCodes.size(); ++code) {
    method->by_code_[code] = &requests_->Add({{"method", name}, {"code", Text(kCodes[code])}});
  }
  method->duration_ = &durations_->Add({{"method", name}}, LatencyBuckets());
  method->request_bytes_ = &request_bytes_->Add({{"method", name}});
  method->response_bytes_ = response_bytes_[static_cast<size_t>(path)];
  if (path == ResponsePath::kZeroCopy) {
    for (size_t stage = 0; stage < kStages; ++stage) {
      method->stages_[stage] = &stages_->Add({{"method", name}, {"stage", Text(kStageNames[stage])}}, LatencyBuckets());
    }
  }
  methods_.push_back(std::move(method));
  return methods_.back().get();
}

void Metrics::Rejected(RejectReason reason) {
  if (reason != RejectReason::kNone) rejected_[static_cast<size_t>(reason)]->Increment();
}

void Metrics::Shared(int64_t bytes) {
  if (bytes > 0) response_bytes_[static_cast<size_t>(ResponsePath::kShared)]->Increment(static_cast<double>(bytes));
}

void Metrics::TableBuilt(double seconds) { table_build_->Observe(seconds); }

void Metrics::WatchEngine(std::function<EngineStats()> stats) {
  live_.push_back(std::make_shared<LiveFamilies>(
      [stats = std::move(stats)](std::vector<MetricFamily>* out) { AddEngine(stats(), out); }));
}

void Metrics::WatchBackend(std::function<BackendStats()> stats, int64_t min_device_bytes) {
  live_.push_back(
      std::make_shared<LiveFamilies>([stats = std::move(stats), min_device_bytes](std::vector<MetricFamily>* out) {
        AddDevices(stats(), min_device_bytes, out);
      }));
}

void Metrics::WatchRegions(std::function<RegionStore::Stats()> stats, int64_t capacity_bytes) {
  live_.push_back(std::make_shared<LiveFamilies>([stats = std::move(stats), capacity_bytes](std::vector<MetricFamily>* out) {
    AddRegions(stats(), capacity_bytes, out);
  }));
}

void Metrics::WatchDeviceMemory(std::function<DeviceStore::Stats()> stats, const DeviceStoreOptions& options) {
  live_.push_back(std::make_shared<LiveFamilies>(
      [stats = std::move(stats), options](std::vector<MetricFamily>* out) { AddDeviceMemory(stats(), options, out); }));
}

void Metrics::WatchConnections(std::function<int64_t()> refused) {
  live_.push_back(std::make_shared<LiveFamilies>([refused = std::move(refused)](std::vector<MetricFamily>* out) {
    AddSample(out, "phasor_refused_connections_total",
              "Connections that were closed as they came, because the process had no file descriptor left.",
              MetricType::Counter, refused ? static_cast<double>(refused()) : 0);
  }));
}

void Metrics::WatchAnswers(std::function<AnswerMemo::Stats()> stats) {
  live_.push_back(std::make_shared<LiveFamilies>(
      [stats = std::move(stats)](std::vector<MetricFamily>* out) { AddAnswers(stats(), out); }));
}

void Metrics::WatchUploads(std::function<UploadStore::Stats()> stats, int64_t capacity_bytes) {
  live_.push_back(std::make_shared<LiveFamilies>([stats = std::move(stats), capacity_bytes](std::vector<MetricFamily>* out) {
    AddUploads(stats(), capacity_bytes, out);
  }));
}

std::vector<std::weak_ptr<prometheus::Collectable>> Metrics::collectables() const {
  std::vector<std::weak_ptr<prometheus::Collectable>> all = {registry_};
  all.insert(all.end(), live_.begin(), live_.end());
  return all;
}

std::string Metrics::Scrape() const {
  std::vector<MetricFamily> families = registry_->Collect();
  for (const auto& live : live_) {
    for (MetricFamily& family : live->Collect()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace phasor::server
