// One gRPC server: its listeners, its completion queue and who serves it, and the calls posted on it.
#ifndef PHASOR_SERVER_TRANSPORT_H_
#define PHASOR_SERVER_TRANSPORT_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server.h"

#include "server/method.h"
#include "server/queue_threads.h"
#include "server/rpc_call.h"

namespace phasor::server {

// A gRPC service object and its methods.
struct ServiceMethods {
  std::string name;  // "phasor.v1.PositionService"
  std::unique_ptr<grpc::Service> service;
  std::vector<Method> methods;
};

struct TransportOptions {
  std::string flag;                            // that the addresses come from, for error texts
  std::vector<std::string> addresses;          // HOST:PORT or unix:PATH; empty: in-process channels only
  int threads = 1;                             // of the completion queue
  int64_t max_receive_bytes = 4 << 20;         // of a message
  int64_t quota_bytes = 0;                     // what gRPC may hold in its own buffers; 0: unbounded
  int max_concurrent_streams = 256;            // per connection
  std::chrono::seconds max_connection_age{0};  // 0: unbounded
  bool channelz = false;
  bool admin = false;  // calls that change something are allowed
};

class Health;
class Reflection;

// Name of the health service that tells whether the process lives (and not whether it should get traffic).
inline constexpr char kLivenessService[] = "liveness";

class Transport {
 public:
  // Listens and serves, health and reflection too. Health: "liveness" is SERVING, everything else NOT_SERVING. `group` must
  // outlive the transport. A Unix socket that nobody listens on is replaced. Errors: FAILED_PRECONDITION naming the address
  // that cannot be bound or is taken.
  static absl::StatusOr<std::unique_ptr<Transport>> Start(const TransportOptions& options,
                                                          std::vector<ServiceMethods> services, CallGroup* group);
  // Shutdown with no grace, if that has not happened.
  ~Transport();

  // One per address, 0 for Unix sockets.
  const std::vector<int>& ports() const { return ports_; }
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Of "" and of every service, not of liveness.
  void SetServing(bool serving);

  // SetServing(false), then refuses new calls with UNAVAILABLE while those that run may end until `grace` has passed, and
  // health is still told; then ends health's streams, closes the connections, cancels what is left, and returns when every
  // call is gone. Once.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  Transport(const TransportOptions& options, std::vector<ServiceMethods> services, CallGroup* group);
  // One of the transport's own.
  void AddService(ServiceMethods service);
  absl::Status Listen(const TransportOptions& options);
  void Serve(int threads);

  const std::unique_ptr<Health> health_;
  const std::unique_ptr<Reflection> reflection_;
  std::vector<ServiceMethods> services_;
  std::vector<std::string> names_;  // whose health SetServing sets
  CallGroup* const group_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<int> ports_;
  std::unique_ptr<QueueThreads> threads_;
  bool shut_down_ = false;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TRANSPORT_H_
