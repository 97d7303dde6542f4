#include "tests/bench/rpc_servers.h"

#include <malloc.h>

#include <mutex>

#include "absl/strings/str_cat.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

#include "server/logging.h"

namespace phasor::bench {

std::unique_ptr<server::Server> StartPhasor(int64_t cache_bytes) {
  // What phasord sets: without it every large block is fresh pages, for all servers of the process.
  static const bool is_set = [] {
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    return mallopt(M_TOP_PAD, 64 << 20) == 1;
  }();
  static_cast<void>(is_set);
  server::ServerOptions options;
  options.listen = {"127.0.0.1:0"};
  options.log_access_every = 0;
  options.cache_bytes = cache_bytes;
  options.regions.total_bytes = int64_t{64} << 20;
  server::LogOptions log;
  log.level = server::LogLevel::kOff;
  return *server::Server::Start(options, std::make_shared<server::Logger>(log));
}

server::Server& SharedPhasor() {
  static server::Server* server = StartPhasor(int64_t{1} << 30).release();  // ends with the process
  return *server;
}

std::shared_ptr<grpc::Channel> ChannelTo(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
}

std::unique_ptr<grpc::Server> Listen(grpc::ServerBuilder& builder, int* port) {
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  return builder.BuildAndStart();
}

size_t RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const grpc::ByteBuffer& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto rpc = stub.PrepareUnaryCall(&context, method, request, &queue);
  rpc->StartCall();
  rpc->Finish(&response, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.ok() ? response.Length() : 0;
}

size_t RawStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::vector<grpc::ByteBuffer>& messages, size_t window) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto rpc = stub.PrepareCall(&context, method, &queue);
  // The tags of events, by their addresses.
  char started = 0, written = 0, read = 0, done = 0;
  rpc->StartCall(&started);
  grpc::ByteBuffer incoming;
  size_t next = 0, answers = 0, bytes = 0;
  bool writing = false, closed = false;
  const auto write = [&] {
    if (writing || closed) return;
    if (next == messages.size()) {
      closed = true;
      writing = true;
      rpc->WritesDone(&written);
    } else if (next < answers + window) {
      writing = true;
      rpc->Write(messages[next++], &written);
    }
  };
  void* tag = nullptr;
  bool ok = false;
  bool reading = true;
  while ((reading || writing) && queue.Next(&tag, &ok)) {
    if (tag == &started) {
      rpc->Read(&incoming, &read);
      write();
    } else if (tag == &written) {
      writing = false;
      if (ok) write();
    } else {
      reading = ok;
      if (!ok) continue;
      ++answers;
      bytes += incoming.Length();
      incoming.Clear();
      rpc->Read(&incoming, &read);
      write();
    }
  }
  grpc::Status status;
  rpc->Finish(&status, &done);
  queue.Next(&tag, &ok);
  return status.ok() ? bytes : 0;
}

}  // namespace phasor::bench
