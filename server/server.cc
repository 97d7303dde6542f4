#include "server/server.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/backend_choice.h"
#include "kernels/encodings/plan.h"
#include "server/addresses.h"
#include "server/cgroup.h"
#include "server/memory_keeper.h"
#include "server/metrics.h"
#include "server/metrics_listener.h"
#include "server/process_stats.h"
#include "server/self_test.h"
#include "server/services.h"
#include "server/text.h"
#include "server/transport.h"
#include "server/warm.h"

namespace phasor::server {
namespace {

constexpr int kMostRpcThreads = 4;
constexpr size_t kControlQueue = 64;
constexpr size_t kReadingQueue = 1024;
constexpr size_t kTrainingQueue = 4;  // each may take a minute
// Pooled buffers that an idle server keeps, so that the next call need not wait for pages.
constexpr int64_t kIdlePoolBytes = int64_t{64} << 20;
// gRPC's message limit is the payload's limit and this.
constexpr int64_t kMessageOverhead = 1 << 20;

absl::Status CheckAddresses(const ServerOptions& options) {
  if (absl::Status status = CheckListenAddresses("--listen", options.listen, false); !status.ok()) return status;
  if (absl::Status status = CheckListenAddresses("--admin-listen", options.admin_listen, true); !status.ok()) return status;
  if (!options.metrics_listen.empty() && !IsHostPort(options.metrics_listen)) {
    return absl::InvalidArgumentError(Cat("--metrics-listen: given \"", options.metrics_listen,
                                          "\"; allowed: HOST:PORT (port 0 picks a free one), or off to expose no metrics"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<WarmTable>> ReadWarmList(const ServerOptions& options) {
  std::vector<WarmTable> tables;
  for (const std::string& value : options.warm) {
    auto some = ReadWarmValue(value, options.limits.max_positions);
    if (!some.ok()) return some.status();
    std::move(some->begin(), some->end(), std::back_inserter(tables));
  }
  return tables;
}

absl::Status WarmError(const WarmTable& table, const absl::Status& status) {
  return absl::Status(status.code(), Cat("--warm: ", table.label, ": ", status.message()));
}

std::vector<ServiceMethods> MakeServices(ServiceContext* context) {
  std::vector<ServiceMethods> services;
  services.push_back(MakePositionService(context));
  services.push_back(MakeCatalogService(context));
  services.push_back(MakeAdminService(context));
  services.push_back(MakeSharedMemoryService(context));
  for (ServiceMethods& service : services) {
    for (Method& method : service.methods) method.metrics = context->metrics->AddMethod(method.name, method.path);
  }
  return services;
}

// A backend that was made elsewhere, beside what there is.
absl::StatusOr<BackendChoice> Given(absl::StatusOr<std::unique_ptr<Backend>> backend) {
  if (!backend.ok()) return backend.status();
  return BackendChoice{*std::move(backend), ListBackends()};
}

std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return Cat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace

absl::Status CheckOptions(const ServerOptions& options) {
  if (absl::Status status = CheckAddresses(options); !status.ok()) return status;
  if (auto backend = CreateBackend(options.backend, options.devices); !backend.ok()) {
    return absl::InvalidArgumentError(Cat("--backend: ", backend.status().message()));
  }
  for (const auto& [flag, addresses] : {std::pair("--listen", &options.listen), {"--admin-listen", &options.admin_listen}}) {
    for (const std::string& address : *addresses) {
      if (!IsUnixAddress(address)) continue;
      if (absl::Status status = CheckUnixPlace(flag, address); !status.ok()) return status;
    }
  }
  const auto tables = ReadWarmList(options);
  if (!tables.ok()) return tables.status();
  for (const WarmTable& table : *tables) {
    const absl::Status status = Engine::CheckWarm(table.source, table.dtype, table.rows, options.cache_bytes);
    if (!status.ok()) return WarmError(table, status);
  }
  return absl::OkStatus();
}

// Members in the order of their dependence: what is above outlives what is below.
struct Server::Impl {
  Impl(ServerOptions given, std::shared_ptr<Logger> to)
      : options(std::move(given)),
        logger(std::move(to)),
        access_log(logger, options.log_access_every),
        uploads(std::make_unique<UploadStore>(options.uploads)),
        regions(std::make_unique<RegionStore>(options.regions)),
        context(options.limits, options.streams, uploads.get(), regions.get()),
        training(std::make_unique<ControlThread>(kTrainingQueue)),
        control(std::make_unique<ControlThread>(kControlQueue)),
        knowledge(std::make_unique<ControlThread>(kControlQueue)),
        reading(std::make_unique<ControlThread>(kReadingQueue)) {}

  absl::Status StartEngine();
  // The device cannot be used again by this process: callers and balancers are told, and whoever runs the server ends it.
  void DeviceLost(const absl::Status& status);
  absl::Status StartMetrics();
  absl::Status Warm();
  absl::Status StartTransports();
  void KeepMemory();

  const ServerOptions options;
  const std::shared_ptr<Logger> logger;
  AccessLog access_log;
  // Contents may outlive it, in requests and plans.
  std::unique_ptr<UploadStore> uploads;
  // So may regions, in requests and answers.
  std::unique_ptr<RegionStore> regions;
  // And what is mapped of devices' memory.
  std::unique_ptr<DeviceStore> devices;
  ServiceContext context;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<MetricsListener> metrics_listener;
  std::unique_ptr<CallAdmission> admission;
  std::unique_ptr<CallGroup> public_calls, admin_calls;
  std::unique_ptr<ControlThread> training;  // knowledge hands work to it
  std::unique_ptr<ControlThread> control, knowledge, reading;
  std::unique_ptr<Transport> public_transport, admin_transport;
  std::unique_ptr<MemoryKeeper> memory_keeper;
  bool shut_down = false;
  std::atomic<bool> device_lost{false};
};

absl::Status Server::Impl::StartEngine() {
  BackendOptions device_options = options.devices;
  device_options.on_device_lost = [this](const absl::Status& status) { DeviceLost(status); };
  auto choice =
      options.make_backend ? Given(options.make_backend(device_options)) : ChooseBackend(options.backend, device_options);
  if (!choice.ok()) return choice.status();
  for (const BackendInfo& info : choice->list) {
    if (info.usable || (options.backend != "auto" && options.backend != info.name)) continue;
    logger->Event(LogLevel::kInfo, "backend cannot run here",
                  {{"name", info.name}, {"reason", std::string_view(info.reason)}});
  }
  std::unique_ptr<Backend> backend = std::move(choice->backend);
  if (absl::Status status = SelfTest(*backend); !status.ok()) return status;

  Metrics::Build build;
  build.version = context.version = PHASOR_VERSION;
  build.numerics_version = kNumericsVersion;
  build.backend = std::string(backend->name());
  build.backend_description = backend->description();
  build.backends = context.backends = std::move(choice->list);
  logger->Event(LogLevel::kInfo, "backend",
                {{"name", std::string_view(build.backend)},
                 {"runs_on", std::string_view(build.backend_description)},
                 {"self_test", std::string_view("passed")}});
  metrics = std::make_unique<Metrics>(build);
  devices = std::make_unique<DeviceStore>(options.device_memory, SharingOf(*backend));
  if (options.device_memory.max_handles > 0 && !devices->on()) {
    logger->Event(LogLevel::kWarning, "no device memory is served", {{"reason", devices->why_off()}});
  }

  EngineOptions engine_options;
  engine_options.worker_threads = options.worker_threads;
  engine_options.cache_bytes = options.cache_bytes;
  engine_options.max_queue = options.limits.max_queue;
  engine_options.max_inflight_bytes = options.limits.max_inflight_bytes;
  engine_options.pool_keep_bytes = options.pool_keep_bytes;
  engine = std::make_unique<Engine>(engine_options, std::move(backend),
                                    [m = metrics.get()](double seconds) { m->TableBuilt(seconds); });
  metrics->WatchEngine([e = engine.get(), r = regions.get()] {
    EngineStats stats = e->stats();
    stats.shared_bytes = r->stats().bytes;
    return stats;
  });
  metrics->WatchBackend([e = engine.get()] { return e->backend().stats(); }, options.devices.min_device_bytes);
  metrics->WatchRegions([r = regions.get()] { return r->stats(); }, options.regions.total_bytes);
  metrics->WatchDeviceMemory([d = devices.get()] { return d->stats(); }, options.device_memory);
  metrics->WatchConnections(options.refused_connections);
  metrics->WatchAnswers([c = &context] { return c->answers.stats(); });
  metrics->WatchUploads([u = uploads.get()] { return u->stats(); }, options.uploads.total_bytes);

  admission = std::make_unique<CallAdmission>(options.limits.max_inflight_requests, &metrics->inflight_requests());
  public_calls = std::make_unique<CallGroup>(admission.get(), metrics.get(), &access_log, false);
  admin_calls = std::make_unique<CallGroup>(admission.get(), metrics.get(), &access_log, true);
  context.engine = engine.get();
  context.devices = devices.get();
  context.metrics = metrics.get();
  context.admission = admission.get();
  context.control = control.get();
  context.knowledge = knowledge.get();
  context.training = training.get();
  context.reading = reading.get();
  return absl::OkStatus();
}

void Server::Impl::DeviceLost(const absl::Status& status) {
  logger->Event(LogLevel::kError, "device lost", {{"error", ToStd(status.message())}});
  device_lost.store(true);
  context.draining.store(true, std::memory_order_relaxed);
  if (options.on_device_lost) options.on_device_lost();
}

absl::Status Server::Impl::StartMetrics() {
  const std::string& address = options.metrics_listen;
  if (address.empty()) return absl::OkStatus();
  auto listener = MetricsListener::Start(address, *metrics);
  if (!listener.ok() && options.metrics_fallback) {
    logger->Event(LogLevel::kWarning, "metrics port taken, picking another", {{"address", std::string_view(address)}});
    listener = MetricsListener::Start(WithPort(address, 0), *metrics);
  }
  if (!listener.ok()) return listener.status();
  metrics_listener = *std::move(listener);
  const std::string effective = WithPort(address, metrics_listener->port());
  logger->Event(LogLevel::kInfo, "metrics", {{"address", std::string_view(effective)}});
  return absl::OkStatus();
}

absl::Status Server::Impl::Warm() {
  const auto tables = ReadWarmList(options);
  if (!tables.ok()) return tables.status();
  for (const WarmTable& table : *tables) {
    const auto start = std::chrono::steady_clock::now();
    if (absl::Status status = engine->Warm(table.source, table.dtype, table.rows); !status.ok()) {
      return WarmError(table, status);
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    logger->Event(LogLevel::kInfo, "warmed",
                  {{"table", std::string_view(table.label)},
                   {"dtype", Name(table.dtype)},
                   {"rows", table.rows},
                   {"ms", took.count()}});
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::StartTransports() {
  TransportOptions transport;
  transport.flag = "--listen";
  transport.addresses = options.listen;
  transport.threads = options.rpc_threads > 0 ? options.rpc_threads : std::min(DefaultWorkerThreads(), kMostRpcThreads);
  transport.max_receive_bytes = options.limits.max_request_bytes + kMessageOverhead;
  // What gRPC holds for calls that nobody has looked at yet; twice what admission lets in leaves room for both directions.
  transport.quota_bytes = 2 * (options.limits.max_inflight_bytes + transport.max_receive_bytes);
  transport.max_concurrent_streams = options.max_concurrent_streams;
  transport.max_connection_age = options.max_connection_age;
  transport.channelz = options.channelz;
  auto started = Transport::Start(transport, MakeServices(&context), public_calls.get());
  if (!started.ok()) return started.status();
  public_transport = *std::move(started);
  if (options.admin_listen.empty()) return absl::OkStatus();

  transport.flag = "--admin-listen";
  transport.addresses = options.admin_listen;
  transport.threads = 1;
  transport.admin = true;
  started = Transport::Start(transport, MakeServices(&context), admin_calls.get());
  if (!started.ok()) return started.status();
  admin_transport = *std::move(started);
  return absl::OkStatus();
}

void Server::Impl::KeepMemory() {
  if (!options.release_idle_memory) return;
  MemoryKeeper::Actions actions;
  actions.traffic = [this] { return admission->traffic(); };
  actions.inflight = [this] { return engine->inflight_bytes(); };
  actions.resident = ReadResidentBytes;
  actions.give_back = [this] {
    engine->TrimPool(kIdlePoolBytes);
    TrimMalloc();
  };
  memory_keeper = std::make_unique<MemoryKeeper>(std::move(actions));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { Shutdown(std::chrono::milliseconds(0)); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerOptions options, std::shared_ptr<Logger> logger) {
  if (absl::Status status = CheckAddresses(options); !status.ok()) return status;
  auto impl = std::make_unique<Impl>(std::move(options), std::move(logger));
  if (absl::Status status = impl->StartEngine(); !status.ok()) return status;
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  Impl& it = *server->impl_;
  if (absl::Status status = it.StartMetrics(); !status.ok()) return status;
  // Listening comes before warming, so that probes are answered (liveness: yes, readiness: not yet) meanwhile.
  if (absl::Status status = it.StartTransports(); !status.ok()) return status;
  if (absl::Status status = it.Warm(); !status.ok()) return status;
  it.KeepMemory();
  it.public_transport->SetServing(true);
  if (it.admin_transport) it.admin_transport->SetServing(true);
  for (const std::string& address : server->addresses()) {
    it.logger->Event(LogLevel::kInfo, "serving", {{"address", std::string_view(address)}});
  }
  for (size_t i = 0; i < it.options.admin_listen.size(); ++i) {
    const std::string address = WithPort(it.options.admin_listen[i], server->admin_ports()[i]);
    it.logger->Event(LogLevel::kInfo, "serving admin", {{"address", std::string_view(address)}});
  }
  return server;
}

std::vector<int> Server::ports() const { return impl_->public_transport->ports(); }

std::vector<int> Server::admin_ports() const {
  return impl_->admin_transport ? impl_->admin_transport->ports() : std::vector<int>();
}

int Server::metrics_port() const { return impl_->metrics_listener ? impl_->metrics_listener->port() : 0; }

std::vector<std::string> Server::addresses() const {
  std::vector<std::string> all;
  for (size_t i = 0; i < impl_->options.listen.size(); ++i) all.push_back(WithPort(impl_->options.listen[i], ports()[i]));
  return all;
}

std::shared_ptr<grpc::Channel> Server::InProcessChannel() { return impl_->public_transport->InProcessChannel(); }

void Server::BeginDrain() {
  impl_->context.draining.store(true, std::memory_order_relaxed);
  impl_->public_transport->SetServing(false);
  if (impl_->admin_transport) impl_->admin_transport->SetServing(false);
}

void Server::Shutdown(std::chrono::milliseconds grace) {
  if (impl_->shut_down) return;
  impl_->shut_down = true;
  impl_->context.draining.store(true, std::memory_order_relaxed);
  const auto end = std::chrono::steady_clock::now() + grace;
  if (impl_->public_transport) impl_->public_transport->Shutdown(grace);
  if (impl_->admin_transport) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    impl_->admin_transport->Shutdown(std::max(left, std::chrono::milliseconds(0)));
  }
}

Engine& Server::engine() { return *impl_->engine; }

std::string Server::ScrapeMetrics() const { return impl_->metrics->Scrape(); }

bool Server::device_lost() const { return impl_->device_lost.load(); }

int64_t Server::inflight_requests() const { return impl_->admission->inflight(); }

}  // namespace phasor::server
