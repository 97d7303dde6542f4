#include "client/cli/embedded.h"

#include <utility>
#include <vector>

#include "server/logging.h"
#include "server/server.h"

namespace phasor::cli {

struct EmbeddedServer::Impl {
  std::unique_ptr<server::Server> server;
};

EmbeddedServer::EmbeddedServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EmbeddedServer::~EmbeddedServer() = default;

absl::StatusOr<std::unique_ptr<EmbeddedServer>> EmbeddedServer::Start(const std::string& backend, bool on_loopback) {
  server::ServerOptions options;
  options.backend = backend;
  if (on_loopback) options.listen = {"127.0.0.1:0"};
  options.log_access_every = 0;
  server::LogOptions log;
  log.level = server::LogLevel::kOff;
  auto started = server::Server::Start(std::move(options), std::make_shared<server::Logger>(log));
  if (!started.ok()) return started.status();
  auto impl = std::make_unique<Impl>();
  impl->server = *std::move(started);
  return std::unique_ptr<EmbeddedServer>(new EmbeddedServer(std::move(impl)));
}

std::shared_ptr<grpc::Channel> EmbeddedServer::Channel() { return impl_->server->InProcessChannel(); }

std::string EmbeddedServer::Address() const {
  const std::vector<std::string> addresses = impl_->server->addresses();
  return addresses.empty() ? "" : addresses.front();
}

}  // namespace phasor::cli
