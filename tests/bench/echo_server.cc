#include "tests/bench/echo_server.h"

#include <cstring>
#include <vector>

#include "tests/bench/rpc_servers.h"

namespace phasor::bench {

struct BareEchoServer::Call {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer request, response;
  enum { kNew, kRead, kWritten } state = kNew;
};

BareEchoServer::BareEchoServer() : memory_(size_t{68} << 20, '\0') {
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = Listen(builder, &port_);
  thread_ = std::thread([this] { Serve(); });
}

BareEchoServer::~BareEchoServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

void BareEchoServer::Post() {
  Call* call = new Call;
  service_.RequestCall(&call->context, &call->stream, queue_.get(), queue_.get(), call);
}

void BareEchoServer::Serve() {
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
      std::vector<grpc::Slice> slices;
      static_cast<void>(call->request.Dump(&slices));
      size_t at = 0;
      for (const grpc::Slice& slice : slices) {
        std::memcpy(memory_.data() + at, slice.begin(), slice.size());
        at += slice.size();
      }
      slices.clear();
      call->request.Clear();
      const grpc::Slice all(memory_.data(), at, grpc::Slice::STATIC_SLICE);
      call->response = grpc::ByteBuffer(&all, 1);
      call->state = Call::kWritten;
      call->stream.WriteAndFinish(call->response, {}, grpc::Status::OK, call);
    }
  }
}

}  // namespace phasor::bench
