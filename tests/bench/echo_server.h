// The least that a gRPC server can do with a message: gather it and send it back.
#ifndef PHASOR_TESTS_BENCH_ECHO_SERVER_H_
#define PHASOR_TESTS_BENCH_ECHO_SERVER_H_

#include <memory>
#include <string>
#include <thread>

#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace phasor::bench {

// Any unary method on a free loopback port, on one thread. Gathers what it gets into memory that it keeps, up to 68 MiB, and
// sends that back.
class BareEchoServer {
 public:
  BareEchoServer();
  ~BareEchoServer();
  int port() const { return port_; }

 private:
  struct Call;
  void Post();
  void Serve();

  std::string memory_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_ECHO_SERVER_H_
