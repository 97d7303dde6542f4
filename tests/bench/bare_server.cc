#include "tests/bench/bare_server.h"

#include <cstring>
#include <utility>
#include <vector>

#include "tests/bench/rpc_servers.h"

namespace phasor::bench {

struct BareServer::Call {
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream{&context};
  grpc::ByteBuffer request, response;
  enum { kNew, kRead, kWritten } state = kNew;
};

BareServer::BareServer(Answer answer) : answer_(std::move(answer)) {
  grpc::ServerBuilder builder;
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = Listen(builder, &port_);
  thread_ = std::thread([this] { Serve(); });
}

BareServer::~BareServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
  thread_.join();
}

void BareServer::Post() {
  Call* call = new Call;
  service_.RequestCall(&call->context, &call->stream, queue_.get(), queue_.get(), call);
}

void BareServer::Serve() {
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
      call->response = answer_(&call->request);
      call->state = Call::kWritten;
      call->stream.WriteAndFinish(call->response, {}, grpc::Status::OK, call);
    }
  }
}

grpc::ByteBuffer BareEchoServer::Echo(grpc::ByteBuffer* request) {
  std::vector<grpc::Slice> slices;
  static_cast<void>(request->Dump(&slices));
  size_t at = 0;
  for (const grpc::Slice& slice : slices) {
    std::memcpy(memory_.data() + at, slice.begin(), slice.size());
    at += slice.size();
  }
  slices.clear();
  request->Clear();
  const grpc::Slice all(memory_.data(), at, grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&all, 1);
}

}  // namespace phasor::bench
