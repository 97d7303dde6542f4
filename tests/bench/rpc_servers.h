// What the benchmarks of calls share: servers of this process, channels, and calls by clients that look at no byte.
#ifndef PHASOR_TESTS_BENCH_RPC_SERVERS_H_
#define PHASOR_TESTS_BENCH_RPC_SERVERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"

#include "server/server.h"

namespace phasor::bench {

// phasord as it starts by default, with what its main sets for malloc, on a free loopback port, sharing 64 MiB
// of memory.
std::unique_ptr<server::Server> StartPhasor(int64_t cache_bytes);
// One for all benchmarks, with 1 GiB of cache.
server::Server& SharedPhasor();

// A channel of its own without limits.
std::shared_ptr<grpc::Channel> ChannelTo(int port);
// Listens on a free loopback port.
std::unique_ptr<grpc::Server> Listen(grpc::ServerBuilder& builder, int* port);

// A unary call; the length of the answer, 0 when it failed.
size_t RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const grpc::ByteBuffer& request);
// A stream both ways: writes `messages`, at most `window` of them ahead of the answers, and reads to the end. The bytes that
// came, 0 when it failed.
size_t RawStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::vector<grpc::ByteBuffer>& messages, size_t window);

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_RPC_SERVERS_H_
