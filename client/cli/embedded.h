// The server inside the tool: the same code as phasord, reached through an in-process channel instead of a socket.
#ifndef PHASOR_CLIENT_CLI_EMBEDDED_H_
#define PHASOR_CLIENT_CLI_EMBEDDED_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/channel.h"

namespace phasor::cli {

class EmbeddedServer {
 public:
  // No metrics port, quiet logs, and no listener unless `on_loopback`: then a free TCP port of 127.0.0.1. Errors:
  // FAILED_PRECONDITION for a backend that is not usable.
  static absl::StatusOr<std::unique_ptr<EmbeddedServer>> Start(const std::string& backend, bool on_loopback = false);
  ~EmbeddedServer();

  std::shared_ptr<grpc::Channel> Channel();
  // Of the listener, HOST:PORT; empty without one.
  std::string Address() const;

 private:
  struct Impl;
  explicit EmbeddedServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_EMBEDDED_H_
