#include "server/metrics_listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "prometheus/exposer.h"

#include "server/text.h"

namespace phasor::server {

namespace {

// Opens a connection and closes it.
void Knock(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), Cat(port).c_str(), &hints, &found) != 0) return;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    static_cast<void>(connect(fd, found->ai_addr, found->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

MetricsListener::MetricsListener(std::unique_ptr<prometheus::Exposer> exposer, std::string host, int port)
    : exposer_(std::move(exposer)), host_(std::move(host)), port_(port) {}

MetricsListener::~MetricsListener() {
  // The HTTP server looks whether it should stop every two seconds, and whenever somebody connects.
  std::atomic<bool> stopped{false};
  std::thread knocking([this, &stopped] {
    while (!stopped.load(std::memory_order_relaxed)) {
      Knock(host_, port_);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  exposer_.reset();
  stopped.store(true, std::memory_order_relaxed);
  knocking.join();
}

absl::StatusOr<std::unique_ptr<MetricsListener>> MetricsListener::Start(const std::string& address, const Metrics& metrics) {
  // The HTTP server underneath reports by exceptions alone.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, 1);
    for (const auto& collectable : metrics.collectables()) exposer->RegisterCollectable(collectable);
    const std::vector<int> ports = exposer->GetListeningPorts();
    const int port = ports.empty() ? 0 : ports.front();
    std::string host = address.substr(0, address.rfind(':'));
    if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
    return std::unique_ptr<MetricsListener>(new MetricsListener(std::move(exposer), std::move(host), port));
  } catch (const std::exception& failure) {
    return absl::FailedPreconditionError(Cat("--metrics-listen: cannot listen on ", address, " (", failure.what(),
                                             "): is the port taken? Allowed: HOST:PORT with a free port, port 0 "
                                             "to pick one, or off to expose no metrics"));
  }
}

}  // namespace phasor::server
