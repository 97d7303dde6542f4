// GET /metrics on a listener of its own, so that scraping neither waits for calls nor shows on the port that serves them.
#ifndef PHASOR_SERVER_METRICS_LISTENER_H_
#define PHASOR_SERVER_METRICS_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "server/metrics.h"

namespace prometheus {
class Exposer;
}

namespace phasor::server {

class MetricsListener {
 public:
  // `address`: HOST:PORT, port 0 picks one. `metrics` must outlive the listener. Errors: FAILED_PRECONDITION when the
  // address cannot be bound.
  static absl::StatusOr<std::unique_ptr<MetricsListener>> Start(const std::string& address, const Metrics& metrics);
  ~MetricsListener();

  int port() const { return port_; }

 private:
  MetricsListener(std::unique_ptr<prometheus::Exposer> exposer, std::string host, int port);
  std::unique_ptr<prometheus::Exposer> exposer_;
  const std::string host_;
  const int port_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_METRICS_LISTENER_H_
