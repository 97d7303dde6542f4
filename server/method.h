// A method as the transport sees it: how to ask gRPC for its next call, and what answers it. Services fill these in; the one
// wrapper (rpc_call.h) does the rest for all of them.
#ifndef PHASOR_SERVER_METHOD_H_
#define PHASOR_SERVER_METHOD_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/async_stream.h"
#include "grpcpp/support/async_unary_call.h"
#include "grpcpp/support/byte_buffer.h"

#include "server/engine.h"
#include "server/grpc_status.h"
#include "server/metrics.h"

namespace phasor::server {

class RpcCall;
class StreamCall;
class WriteCall;
class DuplexCall;

// What a handler answers with.
struct Outcome {
  absl::Status status;        // becomes the call's status, with details (grpc_status.h)
  grpc::ByteBuffer response;  // sent when the status is OK
  StageTimes stages;
  RejectReason rejected = RejectReason::kNone;  // counted when the status is not OK
};

// The right to answer one call, once. May be moved to any thread. Destroyed without an answer, it answers INTERNAL.
class Reply {
 public:
  explicit Reply(RpcCall* call) : call_(call) {}
  Reply(Reply&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Reply& operator=(Reply&&) = delete;
  ~Reply();

  // Deadline, and whether the client has gone.
  const std::shared_ptr<CallContext>& context() const;
  // As gRPC spells it; for methods that need it.
  const std::string& peer() const;
  // Whether the call came in where calls that change something are allowed.
  bool on_admin_listener() const;
  // Kept until the answer has been handed to the network (an admission charge).
  void Hold(std::shared_ptr<const void> charge);

  void Send(Outcome outcome) &&;

 private:
  RpcCall* call_;
};

// The right to say, once, how a client stream goes on after a message. May be moved to any thread. Destroyed without a
// word, it ends the call with INTERNAL.
class Turn {
 public:
  explicit Turn(StreamCall* call) : call_(call) {}
  Turn(Turn&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn();

  const std::shared_ptr<CallContext>& context() const;

  // Reads the next message.
  void More() &&;
  // Reads no more and answers.
  void Stop(Outcome outcome) &&;

 private:
  StreamCall* call_;
};

// What takes the messages of one call of a client stream. Calls of its functions never overlap. Lives until the call is
// gone, which it may learn by no more than its destruction.
class MessageReader {
 public:
  virtual ~MessageReader() = default;
  // The next message; on a thread of the completion queue: must not build or wait. No other comes before turn.More().
  virtual void OnMessage(grpc::ByteBuffer message, Turn turn) = 0;
  // The client has sent its last message (or is gone: then the answer reaches nobody). On a thread of the completion queue.
  virtual void OnEnd(Reply reply) = 0;
};

// The right to send the messages of a server stream, one at a time, and to end it, once. May be moved to any thread.
// Destroyed without an end, it ends the call with INTERNAL; not while a message is under way.
class Outlet {
 public:
  explicit Outlet(WriteCall* call) : call_(call) {}
  Outlet(Outlet&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Outlet& operator=(Outlet&&) = delete;
  ~Outlet();

  const std::shared_ptr<CallContext>& context() const;

  // Sends a message; MessageSource::OnWritten says when the next may follow. On any thread.
  void Write(grpc::ByteBuffer message);
  // Ends the stream; no message may be under way. The outcome's response does not count.
  void End(Outcome outcome) &&;

 private:
  WriteCall* call_;
};

// What makes the messages of one call of a server stream.
class MessageSource {
 public:
  virtual ~MessageSource() = default;
  // Begins. On a thread of the completion queue: must not build or wait.
  virtual void Start() = 0;
  // The last message is on its way (by HTTP/2's flow control: the client takes them), or, not ok, the client is gone. On a
  // thread of the completion queue.
  virtual void OnWritten(bool ok) = 0;
  // The call is over: the client is gone, or has the end. On a thread of the completion queue; of a message that is still
  // under way, OnWritten follows.
  virtual void OnOver() {}
};

// The right to read and write the messages of a stream both ways, and to end it, once. At most one read and one write are
// under way; the end may come with a read under way, and not with a write. Otherwise as Outlet.
class Line {
 public:
  explicit Line(DuplexCall* call) : call_(call) {}
  Line(Line&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Line& operator=(Line&&) = delete;
  ~Line();

  const std::shared_ptr<CallContext>& context() const;

  // Asks for the next message: OnMessage or OnReadEnd.
  void Read();
  void Write(grpc::ByteBuffer message);
  void End(Outcome outcome) &&;

 private:
  DuplexCall* call_;
};

// What takes and makes the messages of one call of a stream both ways. Its functions run on a thread of the completion
// queue, must not build or wait, and do not overlap.
class MessageExchange {
 public:
  virtual ~MessageExchange() = default;
  virtual void Start() = 0;
  virtual void OnMessage(grpc::ByteBuffer message) = 0;
  // The client has sent its last message, or is gone.
  virtual void OnReadEnd() = 0;
  virtual void OnWritten(bool ok) = 0;
  // A read has been under way for Method::longest_pause, with no write: the call should end.
  virtual void OnPause() = 0;
};

using ResponseWriter = grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>;
// One response, many requests.
using StreamReader = grpc::ServerAsyncReader<grpc::ByteBuffer, grpc::ByteBuffer>;
// Many responses, one request.
using StreamWriter = grpc::ServerAsyncWriter<grpc::ByteBuffer>;
using StreamDuplex = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

struct Method {
  std::string name;                          // "phasor.v1.PositionService/Precompute"
  ResponsePath path = ResponsePath::kProto;  // kZeroCopy: the data plane
  int posted = 16;                           // calls asked for in advance
  MethodMetrics* metrics = nullptr;
  // Served however many calls are being served and while a shutdown refuses others, which does not wait for these; not in
  // the count of calls being served.
  bool exempt = false;
  // Asks for the next call: Service::RequestX.
  std::function<void(grpc::ServerContext*, grpc::ByteBuffer*, ResponseWriter*, grpc::ServerCompletionQueue*, void* tag)>
      request_next;
  // Runs on a thread of the completion queue: must not build or wait.
  std::function<void(grpc::ByteBuffer request, Reply reply)> handle;

  // Of client streams, in place of the two above.
  std::function<void(grpc::ServerContext*, StreamReader*, grpc::ServerCompletionQueue*, void* tag)> request_next_stream;
  // Begins a call. `peer` as gRPC spells it: "ipv4:127.0.0.1:50000".
  std::function<std::unique_ptr<MessageReader>(const std::string& peer, std::shared_ptr<CallContext> context)> open;
  // Of server streams, in place of all the above.
  std::function<void(grpc::ServerContext*, grpc::ByteBuffer*, StreamWriter*, grpc::ServerCompletionQueue*, void* tag)>
      request_next_writer;
  // Begins a call; the source is kept until the call is gone.
  std::function<std::shared_ptr<MessageSource>(grpc::ByteBuffer request, Outlet outlet)> produce;

  // Of streams both ways, likewise.
  std::function<void(grpc::ServerContext*, StreamDuplex*, grpc::ServerCompletionQueue*, void* tag)> request_next_duplex;
  std::function<std::shared_ptr<MessageExchange>(Line line)> exchange;

  // A stream whose next message lets itself be waited for so long ends with DEADLINE_EXCEEDED; a client that takes none for
  // so long is cut off.
  std::chrono::milliseconds longest_pause{30'000};
};

// Parses a control-plane request. The bytes are left empty. Errors: INVALID_ARGUMENT, reason MALFORMED_MESSAGE.
template <typename Message>
absl::Status ParseMessage(grpc::ByteBuffer* bytes, Message* message) {
  // An empty message arrives as a buffer without slices, which the deserialiser takes for a missing one.
  if (bytes->Length() == 0) return absl::OkStatus();
  if (!grpc::GenericDeserialize<grpc::ProtoBufferReader, Message>(bytes, message).ok()) {
    return MalformedMessage(Message::descriptor()->full_name());
  }
  return absl::OkStatus();
}

template <typename Message>
Outcome AnswerWith(const Message& message) {
  Outcome outcome;
  bool own_buffer = false;
  if (!grpc::GenericSerialize<grpc::ProtoBufferWriter, Message>(message, &outcome.response, &own_buffer).ok()) {
    outcome.status = absl::InternalError("cannot serialise a response");
  }
  return outcome;
}

inline Outcome Refuse(absl::Status status, RejectReason reason = RejectReason::kNone) {
  Outcome outcome;
  outcome.status = std::move(status);
  outcome.rejected = reason;
  return outcome;
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_METHOD_H_
