#include "server/transport.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <utility>

#include "absl/strings/str_join.h"
#include "grpc/grpc.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "grpcpp/ext/health_check_service_server_builder_option.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

#include "server/addresses.h"
#include "server/health_service.h"
#include "server/reflection_service.h"
#include "server/text.h"

namespace phasor::server {
namespace {

// gRPC keeps this switch per process, for all servers created afterwards.
void EnableChannelz() {
  static std::once_flag once;
  std::call_once(once, [] { grpc::channelz::experimental::InitChannelzService(); });
}

void Configure(const TransportOptions& options, grpc::ServerBuilder* builder) {
  constexpr int64_t kIntMax = std::numeric_limits<int>::max();
  // gRPC's own, which a program that embeds this server may have switched on, has the same name.
  builder->SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
  builder->SetMaxReceiveMessageSize(static_cast<int>(std::min(options.max_receive_bytes, kIntMax)));
  builder->SetMaxSendMessageSize(-1);
  // Two servers would otherwise share a port and split its calls, without an error.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A megabyte of gzip can hold a gigabyte: nothing is inflated, and compressed requests are refused.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  // Clients with a keepalive of 10 s or more are welcome, also between calls.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  if (options.max_connection_age.count() > 0) {
    const int64_t age_ms = std::min<int64_t>(options.max_connection_age.count() * 1000, kIntMax);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, static_cast<int>(age_ms));
    builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 300'000);
  }
  if (options.quota_bytes > 0) {
    builder->SetResourceQuota(grpc::ResourceQuota("phasor").Resize(static_cast<size_t>(options.quota_bytes)));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> Transport::Start(const TransportOptions& options,
                                                            std::vector<ServiceMethods> services, CallGroup* group) {
  if (options.channelz) EnableChannelz();
  std::unique_ptr<Transport> transport(new Transport(options, std::move(services), group));
  if (absl::Status status = transport->Listen(options); !status.ok()) return status;
  transport->Serve(options.threads);
  return transport;
}

Transport::Transport(const TransportOptions& options, std::vector<ServiceMethods> services, CallGroup* group)
    : health_(std::make_unique<Health>()),
      reflection_(std::make_unique<Reflection>()),
      services_(std::move(services)),
      names_{""},
      group_(group) {
  for (const ServiceMethods& service : services_) names_.push_back(service.name);
  health_->Set({kLivenessService}, true);
  SetServing(false);
  AddService(health_->MakeService());
  std::vector<std::string> served;
  for (const ServiceMethods& service : services_) served.push_back(service.name);
  if (options.channelz) served.emplace_back("grpc.channelz.v1.Channelz");
  reflection_->SetServices(std::move(served));
  for (ServiceMethods& service : reflection_->MakeServices()) AddService(std::move(service));
}

void Transport::AddService(ServiceMethods service) {
  for (Method& method : service.methods) method.metrics = group_->metrics().AddMethod(method.name, method.path);
  services_.push_back(std::move(service));
}

Transport::~Transport() { Shutdown(std::chrono::milliseconds(0)); }

absl::Status Transport::Listen(const TransportOptions& options) {
  for (const std::string& address : options.addresses) {
    // gRPC unlinks whatever socket stands at the path, also one that another server is serving.
    if (!IsUnixAddress(address)) continue;
    if (absl::Status status = ClearUnixPath(options.flag, address); !status.ok()) return status;
  }
  grpc::ServerBuilder builder;
  Configure(options, &builder);
  ports_.assign(options.addresses.size(), 0);
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    builder.AddListeningPort(options.addresses[i], grpc::InsecureServerCredentials(), &ports_[i]);
  }
  for (const ServiceMethods& service : services_) builder.RegisterService(service.service.get());
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::FailedPreconditionError(
        Cat(options.flag, ": cannot listen on ", absl::StrJoin(options.addresses, ", "),
            ": the port is taken, or the address is not one of this host. Allowed: HOST:PORT with a free port "
            "(port 0 picks one) or unix:PATH"));
  }
  for (size_t i = 0; i < ports_.size(); ++i) {
    if (IsUnixAddress(options.addresses[i])) ports_[i] = 0;
  }
  return absl::OkStatus();
}

void Transport::Serve(int threads) {
  for (const ServiceMethods& service : services_) {
    for (const Method& method : service.methods) {
      for (int i = 0; i < method.posted; ++i) RpcCall::Post(group_, &method, queue_.get());
    }
  }
  threads_ = std::make_unique<QueueThreads>(queue_.get(), threads, [group = group_] { return group->busy(); });
  group_->WakeWhenBusy(threads_.get());
}

std::shared_ptr<grpc::Channel> Transport::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void Transport::SetServing(bool serving) { health_->Set(names_, serving); }

void Transport::Shutdown(std::chrono::milliseconds grace) {
  if (shut_down_) return;
  shut_down_ = true;
  if (server_ == nullptr) {
    if (queue_ == nullptr) return;  // it did not come so far
    // The builder failed. Its queue still wants to be shut down and emptied.
    queue_->Shutdown();
    EmptyQueue(queue_.get());
    return;
  }
  // gRPC's Shutdown drops calls that come while clients have not seen it yet, and they read CANCELLED. So new ones are
  // refused in words first, for a moment and for as long as others run.
  constexpr std::chrono::milliseconds kTick{10};
  constexpr std::chrono::milliseconds kRefuseAtLeast{100};
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + grace;
  const auto first_look = std::min(end, start + kRefuseAtLeast);
  SetServing(false);
  group_->RefuseNewCalls();
  for (auto now = start; now < first_look || (group_->calls() > 0 && now < end); now = std::chrono::steady_clock::now()) {
    std::this_thread::sleep_for(kTick);
  }
  health_->EndWatches();
  // It also waits for every stream, those of health and of reflection too, whose clients may take no end. So they are
  // cancelled as soon as no other call runs any more; an answer counts as running until it was handed to the network.
  std::atomic<bool> finished{false};
  std::thread canceller([this, &finished, kTick] {
    constexpr int kQuietTicks = 5;
    for (int quiet = 0; !finished.load(std::memory_order_relaxed); std::this_thread::sleep_for(kTick)) {
      quiet = group_->calls() == 0 ? quiet + 1 : 0;
      if (quiet > 0 && quiet % kQuietTicks == 0) grpc_server_cancel_all_calls(server_->c_server());
    }
  });
  server_->Shutdown(std::chrono::system_clock::now() + (end - std::chrono::steady_clock::now()));
  finished.store(true, std::memory_order_relaxed);
  canceller.join();
  // Every posted call comes back now, and those that run were cancelled. Only when none is left may the queue close: an
  // answer on a closed queue would abort the process.
  while (!group_->AwaitNone(std::chrono::seconds(1))) {
  }
  queue_->Shutdown();
  threads_.reset();
  group_->WakeWhenBusy(nullptr);
}

}  // namespace phasor::server
