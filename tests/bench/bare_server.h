// The least that a gRPC server can do with a message.
#ifndef PHASOR_TESTS_BENCH_BARE_SERVER_H_
#define PHASOR_TESTS_BENCH_BARE_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace phasor::bench {

// Any unary method on a free loopback port, on one thread: `answer` makes the response of a request, which it may clear.
class BareServer {
 public:
  using Answer = std::function<grpc::ByteBuffer(grpc::ByteBuffer* request)>;
  explicit BareServer(Answer answer);
  ~BareServer();
  int port() const { return port_; }

 private:
  struct Call;
  void Post();
  void Serve();

  const Answer answer_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
  int port_ = 0;
};

// Gathers what it gets into memory that it keeps, up to 68 MiB, and sends that back.
class BareEchoServer {
 public:
  int port() const { return server_.port(); }

 private:
  grpc::ByteBuffer Echo(grpc::ByteBuffer* request);

  std::string memory_ = std::string(size_t{68} << 20, '\0');
  BareServer server_{[this](grpc::ByteBuffer* request) { return Echo(request); }};
};

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_BARE_SERVER_H_
