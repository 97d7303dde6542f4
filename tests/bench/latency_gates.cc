// R6 (processor time of small calls), R8 (calls after idle gaps), R9 (small calls beside a large one). Servers are processes
// of their own; they share the machine's cores with this one.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "phasor/v1/position_service.pb.h"

#include "proto/raw/message_writer.h"
#include "proto/raw/schema.h"
#include "tests/bench/gates.h"
#include "tests/bench/rpc_servers.h"
#include "tests/bench/server_process.h"

namespace phasor::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Channel = std::shared_ptr<grpc::Channel>;

constexpr char kPrecompute[] = "/phasor.v1.PositionService/Precompute";
constexpr char kApply[] = "/phasor.v1.PositionService/Apply";
constexpr char kStreamApply[] = "/phasor.v1.PositionService/StreamApply";
constexpr int64_t kMiB = 1 << 20;

std::vector<Measurement> Failed(size_t rows) { return std::vector<Measurement>(rows, {std::nan(""), std::nan("")}); }

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The smallest value that at least `share` of all are at or below.
double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::ceil(share * static_cast<double>(values.size()))) - 1];
}

void Say(const char* what, const std::vector<double>& seconds) {
  std::fprintf(stderr, "%-28s p50 %.3f ms, p90 %.3f, p99 %.3f, max %.3f, of %zu\n", what, Quantile(seconds, 0.5) * 1e3,
               Quantile(seconds, 0.9) * 1e3, Quantile(seconds, 0.99) * 1e3, Quantile(seconds, 1) * 1e3, seconds.size());
}

// A row of a table that is in the cache after the first call for one of its neighbours.
grpc::ByteBuffer RowRequest(int64_t row = 0) {
  v1::PrecomputeRequest request;
  request.add_items()->mutable_spec()->mutable_rope()->set_head_dim(128);
  request.mutable_items(0)->mutable_table()->mutable_positions()->mutable_range()->set_count(1);
  request.mutable_items(0)->mutable_table()->mutable_positions()->mutable_range()->set_start(row);
  return *raw::Join(request, raw::kPrecomputeRequest, {});
}

// Rows one after the other, as decoding asks for them: no request comes twice.
std::vector<grpc::ByteBuffer> EachRow() {
  std::vector<grpc::ByteBuffer> requests;
  for (int64_t row = 0; row < 4096; ++row) requests.push_back(RowRequest(row));
  return requests;
}

v1::ApplyItem ItemOf(int64_t tokens, int64_t heads, int64_t dim) {
  v1::ApplyItem item;
  item.mutable_spec()->mutable_rope()->set_head_dim(static_cast<int32_t>(dim));
  v1::Tensor* tensor = item.add_tensors();
  tensor->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : {int64_t{1}, tokens, heads, dim}) tensor->add_shape(extent);
  return item;
}

// A tensor of 64 bytes.
grpc::ByteBuffer SmallApply() {
  static const std::vector<float>* numbers = new std::vector<float>(16, 0.5f);
  v1::ApplyRequest request;
  raw::Payloads payloads;
  *request.add_items() = ItemOf(1, 1, 16);
  const raw::Piece piece{nullptr, reinterpret_cast<const std::byte*>(numbers->data()), 64};
  request.mutable_items(0)->mutable_tensors(0)->set_data(payloads.Add({&piece, 1}));
  return *raw::Join(request, raw::kApplyRequest, payloads);
}

// 1 GiB of cos and sin.
grpc::ByteBuffer LargeTable() {
  v1::PrecomputeRequest request;
  request.add_items()->mutable_spec()->mutable_rope()->set_head_dim(128);
  request.mutable_items(0)->mutable_table()->mutable_positions()->mutable_range()->set_count(int64_t{1} << 21);
  return *raw::Join(request, raw::kPrecomputeRequest, {});
}

// A tensor of 1 GiB in chunks of 1 MiB, all of the same memory.
std::vector<grpc::ByteBuffer> LargeStream() {
  constexpr int64_t kChunks = 1024;
  static const std::vector<float>* numbers = new std::vector<float>(size_t{kMiB} / 4, 0.5f);
  std::vector<grpc::ByteBuffer> messages;
  v1::StreamApplyRequest open;
  *open.mutable_open() = ItemOf(kChunks * 256, 8, 128);
  messages.push_back(*raw::Join(open, raw::kStreamApplyRequest, {}));
  for (int64_t i = 0; i < kChunks; ++i) {
    v1::StreamApplyRequest message;
    raw::Payloads payloads;
    const raw::Piece piece{nullptr, reinterpret_cast<const std::byte*>(numbers->data()), size_t{kMiB}};
    message.mutable_chunk()->set_offset_bytes(i * kMiB);
    message.mutable_chunk()->set_data(payloads.Add({&piece, 1}));
    messages.push_back(*raw::Join(message, raw::kStreamApplyRequest, payloads));
  }
  return messages;
}

// ---- R6

// Server CPU per call of `method`, over that of an echo of the same bytes: the median of blocks in turn. The requests come
// one after the other, and again from the first.
Measurement CpuRatio(const char* method, const std::vector<grpc::ByteBuffer>& requests) {
  constexpr int kBlocks = 9, kCalls = 1000;
  const ServerProcess phasor("phasor"), echo("echo");
  const Channel channels[] = {ChannelTo(phasor.port()), ChannelTo(echo.port())};
  const ServerProcess* servers[] = {&phasor, &echo};
  std::vector<double> ratios, microseconds;
  size_t next[2] = {};
  for (int block = -1; block < kBlocks; ++block) {  // the first one warms up
    double cpu[2] = {};
    for (const int side : {0, 1}) {
      const int64_t before = servers[side]->cpu_ns();
      for (int i = 0; i < kCalls; ++i) {
        if (RawCall(channels[side], method, requests[next[side]++ % requests.size()]) == 0) return Failed(1)[0];
      }
      cpu[side] = static_cast<double>(servers[side]->cpu_ns() - before) / kCalls;
    }
    if (block < 0) continue;
    ratios.push_back(cpu[0] / cpu[1]);
    microseconds.push_back(cpu[0] / 1e3);
    std::fprintf(stderr, "%s: server CPU %.1f us a call, echo %.1f\n", method, cpu[0] / 1e3, cpu[1] / 1e3);
  }
  return {Quantile(ratios, 0.5), Quantile(microseconds, 0.5) * 1e-6};
}

// ---- R8

// A connection to the echo over plain TCP.
class Socket {
 public:
  explicit Socket(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Socket() { close(fd_); }

  bool Echo() const {
    char bytes[64] = {};
    if (!connected_ || write(fd_, bytes, sizeof(bytes)) != sizeof(bytes)) return false;
    return recv(fd_, bytes, sizeof(bytes), MSG_WAITALL) == sizeof(bytes);
  }

 private:
  const int fd_;
  bool connected_ = false;
};

// Seconds of `call`, made at `start` and every gap after; less than `count` when one failed.
std::vector<double> AfterGaps(Clock::time_point start, Clock::duration gap, int count, const std::function<bool()>& call) {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_until(start + i * gap);
    const Clock::time_point begun = Clock::now();
    if (!call()) break;
    seconds.push_back(SecondsSince(begun));
  }
  return seconds;
}

// All every 1.05 s, in turn: each connection and each server is idle for that long, the machine for a third of it. What a
// bare gRPC server takes is printed beside it.
std::vector<Measurement> IdleGaps() {
  constexpr int kGaps = 100;
  constexpr std::chrono::milliseconds kGap{1050};
  const ServerProcess phasor("phasor"), bare("echo"), echo("socket");
  const Channel channel = ChannelTo(phasor.port()), bare_channel = ChannelTo(bare.port());
  const Socket socket(echo.port());
  const grpc::ByteBuffer request = RowRequest();
  const auto call = [&] { return RawCall(channel, kPrecompute, request) > 0; };
  const auto bare_call = [&] { return RawCall(bare_channel, kPrecompute, request) > 0; };
  if (!call() || !call() || !bare_call() || !socket.Echo()) return Failed(2);
  const Clock::time_point start = Clock::now() + kGap;
  std::vector<double> echoes, bare_calls;
  std::thread second([&] { echoes = AfterGaps(start + kGap / 3, kGap, kGaps, [&] { return socket.Echo(); }); });
  std::thread third([&] { bare_calls = AfterGaps(start + 2 * kGap / 3, kGap, kGaps, bare_call); });
  const std::vector<double> calls = AfterGaps(start, kGap, kGaps, call);
  second.join();
  third.join();
  if (calls.size() < kGaps || echoes.size() < kGaps || bare_calls.size() < kGaps) return Failed(2);
  Say("call after 1.05 s", calls);
  Say("bare gRPC echo after 1.05 s", bare_calls);
  Say("socket echo after 1.05 s", echoes);
  const double p99 = Quantile(calls, 0.99), worst = Quantile(calls, 1);
  return {{p99 / Quantile(echoes, 0.99), p99}, {worst * 1e3, worst}};
}

// ---- R9

// Small calls, one each 4 ms, over a connection of their own.
std::vector<double> SmallCalls(const Channel& channel, const grpc::ByteBuffer& request, int count) {
  return AfterGaps(Clock::now(), std::chrono::milliseconds(4), count, [&] { return RawCall(channel, kApply, request) > 0; });
}

// How many milliseconds the p99 of small calls rises while another process makes large ones, again and again.
Measurement Beside(const char* what) {
  constexpr int kCalls = 1000;
  const ServerProcess phasor("phasor-no-cache");
  const Channel channel = ChannelTo(phasor.port());
  const grpc::ByteBuffer request = SmallApply();
  if (RawCall(channel, kApply, request) == 0) return Failed(1)[0];
  const std::vector<double> idle = SmallCalls(channel, request, kCalls);
  const auto other = ServerProcess::Caller(what, phasor.port());
  const std::vector<double> beside = SmallCalls(channel, request, kCalls);
  if (idle.size() < kCalls || beside.size() < kCalls) return Failed(1)[0];
  Say("64 B call, idle", idle);
  Say(what, beside);
  const double p99 = Quantile(beside, 0.99);
  return {(p99 - Quantile(idle, 0.99)) * 1e3, p99};
}

}  // namespace

int CallAgainAndAgain(const std::string& what) {
  const size_t colon = what.find(':');
  const Channel channel = ChannelTo(std::atoi(what.c_str() + colon + 1));
  const bool is_table = what.substr(0, colon) == "table";
  const grpc::ByteBuffer request = LargeTable();
  const std::vector<grpc::ByteBuffer> messages = is_table ? std::vector<grpc::ByteBuffer>() : LargeStream();
  std::thread([] {
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);  // the owner is through, or gone
  }).detach();
  for (int calls = 0;; ++calls) {
    const size_t got = is_table ? RawCall(channel, kPrecompute, request) : RawStream(channel, kStreamApply, messages, 8);
    if (got <= size_t{1024 * kMiB}) {
      std::fprintf(stderr, "a large call failed\n");
      return 1;
    }
    if (calls > 0) continue;
    std::printf("1\n");
    std::fflush(stdout);
  }
}

void AddLatencyGates(GateList& gates) {
  gates.AddMeasured({{"R6", "server CPU, the same cached row", "gRPC echo", 1.2}},
                    [] { return std::vector<Measurement>{CpuRatio(kPrecompute, {RowRequest()})}; });
  gates.AddMeasured({{"R6", "server CPU, cached rows, each another one", "gRPC echo", 1.2}},
                    [] { return std::vector<Measurement>{CpuRatio(kPrecompute, EachRow())}; });
  gates.AddMeasured({{"R6", "server CPU, Apply of 64 B", "gRPC echo", 1.2}},
                    [] { return std::vector<Measurement>{CpuRatio(kApply, {SmallApply()})}; });
  gates.AddMeasured(
      {{"R8", "p99 of a call after 1.05 s idle", "p99 of a socket echo", 3}, {"R8", "its maximum, in ms", "", 10}},
      IdleGaps);
  gates.AddMeasured({{"R9", "p99 of 64 B while a table of 1 GiB is made, in ms", "idle p99, difference", 5}},
                    [] { return std::vector<Measurement>{Beside("table")}; });
  gates.AddMeasured({{"R9", "the same while 1 GiB is streamed to Apply, in ms", "idle p99, difference", 5}},
                    [] { return std::vector<Measurement>{Beside("stream")}; });
}

}  // namespace phasor::bench
