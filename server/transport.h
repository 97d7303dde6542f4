// One gRPC server: its listeners, its completion queues with one thread each, and the calls posted on them.
#ifndef PHASOR_SERVER_TRANSPORT_H_
#define PHASOR_SERVER_TRANSPORT_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/server.h"

#include "server/method.h"
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
  int queues = 1;                              // completion queues, each with a thread
  int64_t max_receive_bytes = 4 << 20;         // of a message
  int64_t quota_bytes = 0;                     // what gRPC may hold in its own buffers; 0: unbounded
  int max_concurrent_streams = 256;            // per connection
  std::chrono::seconds max_connection_age{0};  // 0: unbounded
  bool channelz = false;
  bool admin = false;  // calls that change something are allowed
};

class Health;

// Name of the health service that tells whether the process lives (and not whether it should get traffic).
inline constexpr char kLivenessService[] = "liveness";

class Transport {
 public:
  // Listens and serves, health too. Health: "liveness" is SERVING, everything else NOT_SERVING. `group` must outlive the
  // transport.
  // A Unix socket that nobody listens on is replaced. Errors: FAILED_PRECONDITION naming the address that cannot be bound or
  // is taken.
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
  Transport(std::vector<ServiceMethods> services, CallGroup* group);
  absl::Status Listen(const TransportOptions& options);
  void ServeQueues();

  const std::unique_ptr<Health> health_;
  std::vector<ServiceMethods> services_;
  std::vector<std::string> names_;  // whose health SetServing sets
  CallGroup* const group_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<int> ports_;
  std::vector<std::thread> threads_;
  bool shut_down_ = false;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TRANSPORT_H_
