// R1: a cached table over loopback TCP, against a bare handler that sends static slices, and against a generated-protobuf
// server. All servers and the client share one process, its allocator settings and the machine's cores; one call is in
// flight. R2: a table that is made while it is streamed, against a cached one.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "tests/bench/bare_server.h"
#include "tests/bench/gates.h"
#include "tests/bench/rpc_servers.h"

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

// Answers every call with slices over static memory: what any raw server must do at least.
class StaticSliceServer {
 public:
  int port() const { return server_.port(); }

 private:
  std::string memory_ = std::string(2 * kHalfBytes, '\x3f');
  BareServer server_{[this](grpc::ByteBuffer*) {
    const grpc::Slice slices[] = {grpc::Slice("header"), grpc::Slice(memory_.data(), kHalfBytes, grpc::Slice::STATIC_SLICE),
                                  grpc::Slice("header"),
                                  grpc::Slice(memory_.data() + kHalfBytes, kHalfBytes, grpc::Slice::STATIC_SLICE)};
    return grpc::ByteBuffer(slices, 4);
  }};
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

// Rows of a table of 64 MiB.
constexpr int64_t kStreamRows = 131072;

struct Fixture {
  std::unique_ptr<server::Server> without_cache = StartPhasor(0);
  StaticSliceServer bare;
  GeneratedServer generated;
};

Fixture& Shared() {
  static Fixture* fixture = new Fixture;  // servers outlive the benchmarks, and the process ends with them
  return *fixture;
}

// The raw client for all: it receives the bytes and looks at none.
void RawCalls(benchmark::State& state, int port) {
  const auto channel = ChannelTo(port);
  const std::string text = Request().SerializeAsString();
  const grpc::Slice slice(text);
  const grpc::ByteBuffer request(&slice, 1);
  const auto call = [&] { return RawCall(channel, kMethod, request) > 2 * kHalfBytes; };
  if (!call()) state.SkipWithError("the call failed");
  for (auto _ : state) {
    if (!call()) state.SkipWithError("a call failed");
  }
}

// A table of 64 MiB as a stream, by a client that looks at no byte.
void RawStreams(benchmark::State& state, int port) {
  const auto channel = ChannelTo(port);
  v1::StreamPrecomputeRequest message;
  *message.mutable_items() = Request().items();
  message.mutable_items(0)->mutable_table()->mutable_positions()->mutable_range()->set_count(kStreamRows);
  const std::string text = message.SerializeAsString();
  const grpc::Slice slice(text);
  const std::vector<grpc::ByteBuffer> request = {grpc::ByteBuffer(&slice, 1)};
  const auto call = [&] {
    return RawStream(channel, "/phasor.v1.PositionService/StreamPrecompute", request, 1) >
           2 * kStreamRows * kPairs * sizeof(float);
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
  Register("rpc_phasor_raw", [](benchmark::State& state) { RawCalls(state, SharedPhasor().ports()[0]); });
  Register("rpc_bare_raw", [](benchmark::State& state) { RawCalls(state, Shared().bare.port()); });
  Register("rpc_generated_raw", [](benchmark::State& state) { RawCalls(state, Shared().generated.port()); });
  Register("rpc_phasor_generated", [](benchmark::State& state) { GeneratedCalls(state, SharedPhasor().ports()[0]); });
  Register("rpc_generated_generated", [](benchmark::State& state) { GeneratedCalls(state, Shared().generated.port()); });
  gates.Add({"R1", "cached table 16 MiB, raw client", "rpc_phasor_raw", "rpc_bare_raw", 1.1});
  gates.Add(
      {"R1", "as raw client and server, against generated both", "rpc_phasor_raw", "rpc_generated_generated", 2, true});
  Register("stream_cached", [](benchmark::State& state) { RawStreams(state, SharedPhasor().ports()[0]); });
  Register("stream_made", [](benchmark::State& state) { RawStreams(state, Shared().without_cache->ports()[0]); });
  gates.Add({"R2", "table of 64 MiB made while sending, against a cached one", "stream_made", "stream_cached", 1.2});
  gates.Note(
      "R1 compares one process with itself: client and servers share its cores; figures of a generated client on our server "
      "and of a raw "
      "client on the generated one are benchmarks too (rpc_phasor_generated, rpc_generated_raw).");
}

}  // namespace phasor::bench
