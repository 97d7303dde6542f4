#include "tests/e2e/fixture.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace phasor::server {

ServerOptions LoopbackOptions() {
  ServerOptions options;
  options.listen = {"127.0.0.1:0"};
  options.worker_threads = 2;
  options.rpc_threads = 2;
  options.cache_bytes = int64_t{256} << 20;
  options.log_access_every = 1;
  return options;
}

std::shared_ptr<grpc::Channel> Connect(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments);
}

TestServer::TestServer(ServerOptions options) {
  auto mutex = std::make_shared<std::mutex>();
  auto logger = std::make_shared<Logger>(LogOptions{}, [log = log_, mutex](std::string_view line) {
    const std::lock_guard lock(*mutex);
    log->emplace_back(line);
  });
  auto server = Server::Start(std::move(options), std::move(logger));
  if (!server.ok()) {
    ADD_FAILURE() << server.status();
    std::abort();  // nothing that follows could run
  }
  server_ = *std::move(server);
  channel_ = server_->ports().empty() ? server_->InProcessChannel() : Connect(server_->ports().front());
  position_ = v1::PositionService::NewStub(channel_);
  catalog_ = v1::CatalogService::NewStub(channel_);
  admin_ = v1::AdminService::NewStub(channel_);
}

double TestServer::Metric(const std::string& series) const {
  std::istringstream text(server_->ScrapeMetrics());
  std::string line;
  while (std::getline(text, line)) {
    if (line.size() > series.size() && line.starts_with(series) && line[series.size()] == ' ') {
      return std::strtod(line.c_str() + series.size(), nullptr);
    }
  }
  return std::nan("");
}

bool TestServer::AwaitMetric(const std::string& series, const std::function<bool(double)>& holds) const {
  for (int i = 0; i < 1000; ++i) {
    if (holds(Metric(series))) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

v1::PrecomputeRequest LlamaTable(int64_t rows) {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem* item = request.add_items();
  v1::RopeSpec* rope = item->mutable_spec()->mutable_rope();
  rope->set_head_dim(128);
  rope->set_base(500000);
  v1::Llama3Schedule* llama3 = rope->mutable_llama3();
  llama3->set_factor(8);
  llama3->set_low_freq_factor(1);
  llama3->set_high_freq_factor(4);
  llama3->set_original_max_position(8192);
  item->mutable_table()->mutable_positions()->mutable_range()->set_count(rows);
  return request;
}

v1::PrecomputeRequest SlowTable(int64_t rows) {
  v1::PrecomputeRequest request = LlamaTable(rows);
  request.mutable_items(0)->set_dtype(v1::DTYPE_F64);
  return request;
}

grpc::health::v1::HealthCheckResponse::ServingStatus CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                                                 const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  request.set_service(service);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const grpc::Status status = grpc::health::v1::Health::NewStub(channel)->Check(&context, request, &response);
  if (!status.ok()) return grpc::health::v1::HealthCheckResponse::SERVICE_UNKNOWN;
  return response.status();
}

std::string OwnAddress() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  std::string found;
  for (const ifaddrs* each = all; each != nullptr && found.empty(); each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const uint32_t host = ntohl(reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr.s_addr);
    if (host >> 24 == 127) continue;
    found = absl::StrCat(host >> 24, ".", (host >> 16) & 255, ".", (host >> 8) & 255, ".", host & 255);
  }
  freeifaddrs(all);
  return found;
}

}  // namespace phasor::server
