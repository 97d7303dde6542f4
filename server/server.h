// The whole server as an object: engine, services, listeners, metrics, health. phasord runs one; the phasor tool embeds one
// without listeners; tests start as many as they like.
#ifndef PHASOR_SERVER_SERVER_H_
#define PHASOR_SERVER_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"

#include "server/device_store.h"
#include "server/engine.h"
#include "server/limits.h"
#include "server/logging.h"
#include "server/region_store.h"
#include "server/stream_options.h"
#include "server/upload_store.h"

namespace phasor::server {

using BackendMaker = std::function<absl::StatusOr<std::unique_ptr<Backend>>(const BackendOptions&)>;

// Defaults suit an embedded server: no listener, no metrics port.
struct ServerOptions {
  std::vector<std::string> listen;        // HOST:PORT, port 0 picks one
  std::vector<std::string> admin_listen;  // unix:PATH or a loopback HOST:PORT
  std::string metrics_listen;             // HOST:PORT; empty: none
  bool metrics_fallback = false;          // when that port is taken, pick a free one and say so
  int rpc_threads = 0;                    // that serve the completion queue; 0: one per usable processor, at most 4
  int worker_threads = 0;                 // 0: one per usable processor
  Limits limits;
  int64_t cache_bytes = int64_t{1} << 30;
  UploadOptions uploads;
  RegionOptions regions;
  DeviceStoreOptions device_memory;
  StreamOptions streams;
  int64_t pool_keep_bytes = int64_t{512} << 20;
  std::string backend = "auto";
  BackendMaker make_backend;  // a test's, instead of the backend of that name
  BackendOptions devices;     // of the cuda backend; on_device_lost is the server's own
  // Called once when a device's state is lost: health says NOT_SERVING, and the process is to end soon. Any thread.
  std::function<void()> on_device_lost;
  // Connections that the program closed as they came, for want of descriptors (lasting_accepts.h); empty: it does not count.
  std::function<int64_t()> refused_connections;
  std::vector<std::string> warm;  // values as ReadWarmValue takes them
  int max_concurrent_streams = 256;
  std::chrono::seconds max_connection_age{0};
  bool channelz = false;
  // When large traffic is over, give memory back to the system: pooled buffers but for 64 MiB, and what malloc holds free,
  // which is the whole process's matter.
  bool release_idle_memory = false;
  int64_t log_access_every = 100;  // log one in so many successful calls; 0: none
};

// Checks what can be checked without starting: addresses (not whether they are taken: the server that this configuration is
// for may be running), the backend's name, the warm list and whether the cache can hold it. Errors say which flag, what was
// given and what is allowed.
absl::Status CheckOptions(const ServerOptions& options);

class Server {
 public:
  // Builds the warm list, runs the self-test, then listens and turns health on. Errors: FAILED_PRECONDITION (an address that
  // is taken, a backend that cannot run here), INVALID_ARGUMENT (options), INTERNAL (self-test).
  // `logger` must not be null; one at level kOff is silent.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerOptions options, std::shared_ptr<Logger> logger);
  ~Server();  // Shutdown(0), if that has not happened

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Effective ports, one per address of the options in order (0 for Unix sockets).
  std::vector<int> ports() const;
  std::vector<int> admin_ports() const;
  int metrics_port() const;  // 0: no metrics listener
  // Addresses as "HOST:PORT" or "unix:PATH" with effective ports.
  std::vector<std::string> addresses() const;

  // A channel that does not leave the process, to the services as the public listeners have them.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Whether a device's state was lost: the process cannot use it again, so it should end with a code of its own.
  bool device_lost() const;

  // Health says NOT_SERVING from now on, while calls are served as before: load balancers look elsewhere.
  void BeginDrain();
  // Refuses new calls, lets those that run end until `grace` has passed, then cancels them. Returns when all are gone.
  void Shutdown(std::chrono::milliseconds grace);

  Engine& engine();
  // Text of a scrape.
  std::string ScrapeMetrics() const;
  int64_t inflight_requests() const;

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SERVER_H_
