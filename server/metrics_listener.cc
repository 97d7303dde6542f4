#include "server/metrics_listener.h"

#include <exception>
#include <utility>

#include "prometheus/exposer.h"

#include "server/text.h"

namespace phasor::server {

MetricsListener::MetricsListener(std::unique_ptr<prometheus::Exposer> exposer, int port)
    : exposer_(std::move(exposer)), port_(port) {}

MetricsListener::~MetricsListener() = default;

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(const std::string& address, const Metrics& metrics) {
  // The HTTP server underneath reports by exceptions alone.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, 1);
    for (const auto& collectable : metrics.collectables()) exposer->RegisterCollectable(collectable);
    const std::vector<int> ports = exposer->GetListeningPorts();
    const int port = ports.empty() ? 0 : ports.front();
    return std::unique_ptr<MetricsListener>(new MetricsListener(std::move(exposer), port));
  } catch (const std::exception& failure) {
    return absl::FailedPreconditionError(Cat("--metrics-listen: cannot listen on ", address, " (", failure.what(),
                                             "): is the port taken? Allowed: HOST:PORT with a free port, port 0 "
                                             "to pick one, or off to expose no metrics"));
  }
}

}  // namespace phasor::server
