// R3, R4, R6: Apply over loopback TCP, unary and streamed, against what carries the same bytes without computing: a bare
// gRPC handler that gathers and sends back, and a plain socket that does. Servers and client share the process and its
// cores.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/message_writer.h"
#include "proto/raw/schema.h"
#include "tests/bench/bare_server.h"
#include "tests/bench/gates.h"
#include "tests/bench/rpc_servers.h"

namespace phasor::bench {
namespace {

constexpr char kUnary[] = "/phasor.v1.PositionService/Apply";
constexpr char kStream[] = "/phasor.v1.PositionService/StreamApply";
constexpr int64_t kHeads = 8, kDim = 128, kTokenBytes = kHeads * kDim * 4;
constexpr int64_t kMiB = 1 << 20;

// Numbers that every request sends.
const std::byte* Numbers() {
  static const std::vector<float>* numbers = new std::vector<float>(size_t{64 * kMiB} / 4, 0.5f);
  return reinterpret_cast<const std::byte*>(numbers->data());
}

v1::ApplyItem ItemOf(int64_t bytes) {
  v1::ApplyItem item;
  item.mutable_spec()->mutable_rope()->set_head_dim(kDim);
  v1::Tensor* tensor = item.add_tensors();
  tensor->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : {int64_t{1}, bytes / kTokenBytes, kHeads, kDim}) tensor->add_shape(extent);
  return item;
}

grpc::ByteBuffer UnaryRequest(int64_t bytes) {
  v1::ApplyRequest request;
  raw::Payloads payloads;
  *request.add_items() = ItemOf(bytes);
  const raw::Piece piece{nullptr, Numbers(), static_cast<size_t>(bytes)};
  request.mutable_items(0)->mutable_tensors(0)->set_data(payloads.Add({&piece, 1}));
  return *raw::Join(request, raw::kApplyRequest, payloads);
}

std::vector<grpc::ByteBuffer> StreamRequests(int64_t bytes, int64_t chunk) {
  std::vector<grpc::ByteBuffer> messages;
  v1::StreamApplyRequest open;
  *open.mutable_open() = ItemOf(bytes);
  messages.push_back(*raw::Join(open, raw::kStreamApplyRequest, {}));
  for (int64_t at = 0; at < bytes; at += chunk) {
    v1::StreamApplyRequest message;
    raw::Payloads payloads;
    const raw::Piece piece{nullptr, Numbers() + at, static_cast<size_t>(chunk)};
    message.mutable_chunk()->set_offset_bytes(at);
    message.mutable_chunk()->set_data(payloads.Add({&piece, 1}));
    messages.push_back(*raw::Join(message, raw::kStreamApplyRequest, payloads));
  }
  return messages;
}

// A plain connection. Its other end answers a message (its length, then so many bytes) with the same bytes when it has them
// all and has passed over them once; or, asked to forward, sends up to 1 MiB at a time back as they come.
class SocketEcho {
 public:
  explicit SocketEcho(bool forwards) : forwards_(forwards) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(listener, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener, 1);
    getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    client_ = socket(AF_INET, SOCK_STREAM, 0);
    connect(client_, reinterpret_cast<sockaddr*>(&address), size);
    server_ = accept(listener, nullptr, nullptr);
    close(listener);
    const int one = 1;
    for (const int fd : {client_, server_}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    thread_ = std::thread([this] { forwards_ ? Forward() : Answer(); });
  }
  ~SocketEcho() {
    shutdown(client_, SHUT_RDWR);
    thread_.join();
    close(client_);
    close(server_);
  }

  bool Echo(int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    const char* const from = reinterpret_cast<const char*>(Numbers());
    if (!forwards_) {
      received_.resize(std::max(received_.size(), size));
      return SendAll(client_, reinterpret_cast<const char*>(&bytes), sizeof bytes) && SendAll(client_, from, size) &&
             ReceiveAll(client_, received_.data(), size);
    }
    std::thread writer([&] { SendAll(client_, from, size); });
    received_.resize(size_t{kMiB});
    size_t left = size;
    while (left > 0) {
      const ssize_t got = read(client_, received_.data(), received_.size());
      if (got <= 0) break;
      left -= static_cast<size_t>(got);
    }
    writer.join();
    return left == 0;
  }

 private:
  void Answer() {
    std::vector<char> in, out;
    for (int64_t bytes = 0; ReceiveAll(server_, reinterpret_cast<char*>(&bytes), sizeof bytes);) {
      const auto size = static_cast<size_t>(bytes);
      in.resize(std::max(in.size(), size));
      out.resize(std::max(out.size(), size));
      if (!ReceiveAll(server_, in.data(), size)) return;
      std::memcpy(out.data(), in.data(), size);
      if (!SendAll(server_, out.data(), size)) return;
    }
  }

  void Forward() {
    std::vector<char> memory(size_t{kMiB});
    for (ssize_t got = 0; (got = read(server_, memory.data(), memory.size())) > 0;) {
      if (!SendAll(server_, memory.data(), static_cast<size_t>(got))) return;
    }
  }

  static bool SendAll(int fd, const char* data, size_t size) {
    while (size > 0) {
      const ssize_t sent = write(fd, data, size);
      if (sent <= 0) return false;
      data += sent;
      size -= static_cast<size_t>(sent);
    }
    return true;
  }
  static bool ReceiveAll(int fd, char* data, size_t size) {
    while (size > 0) {
      const ssize_t got = read(fd, data, size);
      if (got <= 0) return false;
      data += got;
      size -= static_cast<size_t>(got);
    }
    return true;
  }

  const bool forwards_;
  int client_ = -1, server_ = -1;
  std::vector<char> received_;
  std::thread thread_;
};

void Register(const std::string& name, std::function<bool()> once) {
  benchmark::RegisterBenchmark(name.c_str(), [once = std::move(once)](benchmark::State& state) {
    if (!once()) state.SkipWithError("the call failed");
    for (auto _ : state) {
      if (!once()) state.SkipWithError("a call failed");
    }
  })->UseRealTime();
}

void RegisterSize(int64_t bytes) {
  const std::string size = absl::StrCat(bytes / kMiB, "MiB");
  // Made when they run: a filtered run starts no servers.
  Register("apply_unary_" + size, [bytes] {
    static const auto channel = ChannelTo(SharedPhasor().ports()[0]);
    static std::map<int64_t, grpc::ByteBuffer> requests;
    if (requests.count(bytes) == 0) requests[bytes] = UnaryRequest(bytes);
    return RawCall(channel, kUnary, requests[bytes]) > static_cast<size_t>(bytes);
  });
  Register("apply_bare_" + size, [bytes] {
    static const BareEchoServer* bare = new BareEchoServer;
    static const auto channel = ChannelTo(bare->port());
    static std::map<int64_t, grpc::ByteBuffer> requests;
    if (requests.count(bytes) == 0) requests[bytes] = UnaryRequest(bytes);
    return RawCall(channel, kUnary, requests[bytes]) > static_cast<size_t>(bytes);
  });
  Register("apply_stream_" + size, [bytes] {
    static const auto channel = ChannelTo(SharedPhasor().ports()[0]);
    static std::map<int64_t, std::vector<grpc::ByteBuffer>> requests;
    if (requests.count(bytes) == 0) requests[bytes] = StreamRequests(bytes, kMiB);
    return RawStream(channel, kStream, requests[bytes], 8) > static_cast<size_t>(bytes);
  });
  Register("socket_echo_" + size, [bytes] {
    static SocketEcho* echo = new SocketEcho(/*forwards=*/false);
    return echo->Echo(bytes);
  });
  Register("socket_forward_" + size, [bytes] {
    static SocketEcho* echo = new SocketEcho(/*forwards=*/true);
    return echo->Echo(bytes);
  });
}

}  // namespace

void AddApplyRpcGates(GateList& gates) {
  for (const int64_t bytes : {kMiB, 16 * kMiB, 64 * kMiB}) RegisterSize(bytes);
  gates.Add({"R3", "unary Apply 1 MiB, against a bare echo", "apply_unary_1MiB", "apply_bare_1MiB", 1.15});
  gates.Add({"R3", "unary Apply 16 MiB, against a bare echo", "apply_unary_16MiB", "apply_bare_16MiB", 1.15});
  for (const char* size : {"16", "64"}) {
    const std::string stream = absl::StrCat("apply_stream_", size, "MiB");
    gates.Add({"R4", absl::StrCat("streamed Apply ", size, " MiB, against a socket echo in one pass"), stream,
               absl::StrCat("socket_echo_", size, "MiB"), 1.3});
    // Nothing is computed, and nothing held: the way of the bytes alone.
    gates.Add({"R4", absl::StrCat("(for comparison: ", size, " MiB, times faster than a socket that forwards at once)"),
               stream, absl::StrCat("socket_forward_", size, "MiB"), 0, true});
  }
  gates.Add({"R4", "streamed Apply 64 MiB, times faster than unary", "apply_stream_64MiB", "apply_unary_64MiB", 1.5, true});
  // 256 messages of a token each, in a stream and as calls one after the other.
  constexpr int64_t kMessages = 256;
  Register("small_stream", [] {
    static const auto channel = ChannelTo(SharedPhasor().ports()[0]);
    static const std::vector<grpc::ByteBuffer> requests = StreamRequests(kMessages * kTokenBytes, kTokenBytes);
    return RawStream(channel, kStream, requests, 64) > size_t{kMessages * kTokenBytes};
  });
  Register("small_unary", [] {
    static const auto channel = ChannelTo(SharedPhasor().ports()[0]);
    static const grpc::ByteBuffer request = UnaryRequest(kTokenBytes);
    for (int64_t i = 0; i < kMessages; ++i) {
      if (RawCall(channel, kUnary, request) == 0) return false;
    }
    return true;
  });
  gates.Add(
      {"R6", "256 messages of 4 KiB, window 64, times faster than unary calls", "small_stream", "small_unary", 4, true});
}

}  // namespace phasor::bench
