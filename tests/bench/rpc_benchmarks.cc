// R1: a cached table over loopback TCP, against a bare handler that sends static slices, and against a generated-protobuf
// server. All servers and the client share one process, its allocator settings and the machine's cores; one call is in
// flight.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "server/logging.h"
#include "server/server.h"
#include "tests/bench/gates.h"

namespace phasor::bench {
namespace {

constexpr char kMethod[] = "/phasor.v1.PositionService/Precompute";
constexpr int64_t kRows = 32768, kPairs = 64;
constexpr size_t kHalfBytes = kRows * kPairs * sizeof(float);  // 8 MiB each of cos and sin

v1::PrecomputeRequest Request() {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem* item = request.add_items();
  item->mutable_spec()->mutable_rope()->set_head_dim(2 * kPairs);
  item->mutable_table()->mutable_positions()->mutable_range()->set_count(kRows);
  return request;
}

std::shared_ptr<grpc::Channel> ChannelTo(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
}

std::unique_ptr<grpc::Server> Listen(grpc::ServerBuilder& builder, int* port) {
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxSendMessageSize(-1);
  return builder.BuildAndStart();
}

// Answers every call with slices over static memory: what any raw server must do at least.
class StaticSliceServer {
 public:
  StaticSliceServer() : memory_(2 * kHalfBytes, '\x3f') {
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = Listen(builder, &port_);
    thread_ = std::thread([this] { Serve(); });
  }
  ~StaticSliceServer() {
    server_->Shutdown(std::chrono::system_clock::now());
    queue_->Shutdown();
    thread_.join();
  }
  int port() const { return port_; }

 private:
  struct Call {
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter stream{&context};
    grpc::ByteBuffer request, response;
    enum { kNew, kRead, kWritten } state = kNew;
  };

  void Post() {
    Call* call = new Call;
    service_.RequestCall(&call->context, &call->stream, queue_.get(), queue_.get(), call);
  }

  void Serve() {
    Post();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      Call* call = static_cast<Call*>(tag);
      if (!ok || call->state == Call::kWritten) {
        delete call;
      } else if (call->state == Call::kNew) {
        Post();
        call->state = Call::kRead;
        call->stream.Read(&call->request, call);
      } else {
        const grpc::Slice slices[] = {
            grpc::Slice("header"), grpc::Slice(memory_.data(), kHalfBytes, grpc::Slice::STATIC_SLICE), grpc::Slice("header"),
            grpc::Slice(memory_.data() + kHalfBytes, kHalfBytes, grpc::Slice::STATIC_SLICE)};
        call->response = grpc::ByteBuffer(slices, 4);
        call->state = Call::kWritten;
        call->stream.WriteAndFinish(call->response, {}, grpc::Status::OK, call);
      }
    }
  }

  std::string memory_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
  int port_ = 0;
};

// What one gets by filling generated messages from a table in memory.
class GeneratedServer {
 public:
  GeneratedServer() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = Listen(builder, &port_);
  }
  ~GeneratedServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  int port() const { return port_; }

 private:
  struct Service : v1::PositionService::Service {
    std::string table = std::string(kHalfBytes, '\x3f');
    grpc::Status Precompute(grpc::ServerContext*, const v1::PrecomputeRequest*, v1::PrecomputeResponse* response) override {
      v1::PrecomputeResult* result = response->add_results();
      for (v1::Tensor* tensor : {result->mutable_cos(), result->mutable_sin()}) {
        tensor->set_dtype(v1::DTYPE_F32);
        tensor->add_shape(kRows);
        tensor->add_shape(kPairs);
        tensor->set_data(table);
      }
      return grpc::Status::OK;
    }
  };
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

struct Fixture {
  std::unique_ptr<server::Server> phasor;
  StaticSliceServer bare;
  GeneratedServer generated;

  Fixture() {
    // What phasord sets: without it every large block is fresh pages, for all three servers.
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
    server::ServerOptions options;
    options.listen = {"127.0.0.1:0"};
    options.log_access_every = 0;
    server::LogOptions log;
    log.level = server::LogLevel::kOff;
    phasor = *server::Server::Start(options, std::make_shared<server::Logger>(log));
  }
};

Fixture& Shared() {
  static Fixture* fixture = new Fixture;  // servers outlive the benchmarks, and the process ends with them
  return *fixture;
}

// The raw client for all: it receives the bytes and looks at none.
void RawCalls(benchmark::State& state, int port) {
  const auto channel = ChannelTo(port);
  grpc::GenericStub stub(channel);
  const std::string text = Request().SerializeAsString();
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  const auto call = [&] {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto rpc = stub.PrepareUnaryCall(&context, kMethod, request, &queue);
    rpc->StartCall();
    rpc->Finish(&response, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status.ok() && response.Length() > 2 * kHalfBytes;
  };
  if (!call()) state.SkipWithError("the call failed");
  for (auto _ : state) {
    if (!call()) state.SkipWithError("a call failed");
  }
}

void GeneratedCalls(benchmark::State& state, int port) {
  const auto stub = v1::PositionService::NewStub(ChannelTo(port));
  const v1::PrecomputeRequest request = Request();
  for (auto _ : state) {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    if (!stub->Precompute(&context, request, &response).ok()) state.SkipWithError("a call failed");
  }
}

void Register(const char* name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name, [body = std::move(body)](benchmark::State& state) { body(state); })->UseRealTime();
}

}  // namespace

void AddRpcGates(GateList& gates) {
  Register("rpc_phasor_raw", [](benchmark::State& state) { RawCalls(state, Shared().phasor->ports()[0]); });
  Register("rpc_bare_raw", [](benchmark::State& state) { RawCalls(state, Shared().bare.port()); });
  Register("rpc_generated_raw", [](benchmark::State& state) { RawCalls(state, Shared().generated.port()); });
  Register("rpc_phasor_generated", [](benchmark::State& state) { GeneratedCalls(state, Shared().phasor->ports()[0]); });
  Register("rpc_generated_generated", [](benchmark::State& state) { GeneratedCalls(state, Shared().generated.port()); });
  gates.Add({"R1", "cached table 16 MiB, raw client", "rpc_phasor_raw", "rpc_bare_raw", 1.1});
  gates.Add(
      {"R1", "as raw client and server, against generated both", "rpc_phasor_raw", "rpc_generated_generated", 2, true});
  gates.Note(
      "R1 compares one process with itself: client and servers share its cores; figures of a generated client on our server "
      "and of a raw "
      "client on the generated one are benchmarks too (rpc_phasor_generated, rpc_generated_raw).");
}

}  // namespace phasor::bench
