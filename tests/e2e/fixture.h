// A server in this process, reached through a real socket.
#ifndef PHASOR_TESTS_E2E_FIXTURE_H_
#define PHASOR_TESTS_E2E_FIXTURE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "phasor/v1/admin_service.grpc.pb.h"
#include "phasor/v1/catalog_service.grpc.pb.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "server/server.h"

namespace phasor::server {

// Options with a listener on a free loopback port.
ServerOptions LoopbackOptions();

// A channel to 127.0.0.1:`port` with its own connection and no limits of its own.
std::shared_ptr<grpc::Channel> Connect(int port);

// An address of this machine that is no loopback one, or nothing.
std::string OwnAddress();

class TestServer {
 public:
  explicit TestServer(ServerOptions options = LoopbackOptions());

  Server& operator*() { return *server_; }
  Server* operator->() { return server_.get(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  v1::PositionService::Stub& position() { return *position_; }
  v1::CatalogService::Stub& catalog() { return *catalog_; }
  v1::AdminService::Stub& admin() { return *admin_; }
  // Destroys the server.
  void Stop() { server_.reset(); }
  const std::vector<std::string>& log() const { return *log_; }

  // Value of a series as a scrape shows it, such as "phasor_inflight_requests"; NaN when it is not there.
  double Metric(const std::string& series) const;
  // Waits until a series has a value that `holds` accepts; false after 10 s.
  bool AwaitMetric(const std::string& series, const std::function<bool(double)>& holds) const;

 private:
  std::shared_ptr<std::vector<std::string>> log_ = std::make_shared<std::vector<std::string>>();
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PositionService::Stub> position_;
  std::unique_ptr<v1::CatalogService::Stub> catalog_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
};

// One item: rows [0, rows) of Llama 3.1's table, f32.
v1::PrecomputeRequest LlamaTable(int64_t rows);

// The same as f64, which takes about a hundred times longer to build. With one worker: about ROWS · 10 µs.
v1::PrecomputeRequest SlowTable(int64_t rows = 500000);

// The first detail of type `M` in a status.
template <typename M>
M DetailOf(const grpc::Status& status) {
  google::rpc::Status message;
  message.ParseFromString(status.error_details());
  M detail;
  for (const auto& any : message.details()) {
    if (any.UnpackTo(&detail)) return detail;
  }
  return M();
}

// grpc.health.v1.Health/Check: the serving status, or SERVICE_UNKNOWN when the service is not known.
grpc::health::v1::HealthCheckResponse::ServingStatus CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                                                 const std::string& service);

}  // namespace phasor::server

#endif  // PHASOR_TESTS_E2E_FIXTURE_H_
