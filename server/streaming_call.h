// The wrapper's part for streams: messages one at a time each way, and an eye on clients that stop.
#ifndef PHASOR_SERVER_STREAMING_CALL_H_
#define PHASOR_SERVER_STREAMING_CALL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "grpcpp/alarm.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/byte_buffer.h"

#include "server/method.h"
#include "server/rpc_call.h"

namespace phasor::server {

// What streams share: an alarm that looks whether the client has let itself be waited for as long as Method::longest_pause.
// One more event:
//   OnAlarm(ok)  the longest pause may be over
class StreamingCall : public RpcCall {
 protected:
  using RpcCall::RpcCall;

  // Sets the first alarm; once, in Begin.
  void WatchPauses();
  void Over() override;

  // The clock's nanoseconds since when the client is waited for; 0: it is not. On the queue's thread.
  virtual int64_t WaitingSince() const = 0;
  // It has been for the longest pause. Returns whether to go on watching.
  virtual bool OnPause() = 0;

  static int64_t NowNs();

 private:
  using Clock = std::chrono::steady_clock;

  void OnAlarm(bool ok);
  void SetAlarm(Clock::duration pause);

  EventOf<StreamingCall> alarm_event_{this, &StreamingCall::OnAlarm};
  grpc::Alarm alarm_;
  bool over_ = false;  // of events alone
};

// Many requests, one response. Messages are read when the reader asks for them: a slow server slows its client down by
// HTTP/2's flow control. One more event:
//   OnRead(ok)   a message; not ok: there are no more, or the call was cancelled
// Between OnRead and what the reader says about the message the object expects one event still.
class StreamCall final : public StreamingCall {
 public:
  using StreamingCall::StreamingCall;

  // Through Turn only; on any thread.
  void More();
  void Stop(Outcome outcome);

 private:
  void RequestNext() override;
  void Begin() override;
  void Finish(const grpc::ByteBuffer* response, const grpc::Status& status) override;
  int64_t WaitingSince() const override { return waiting_since_.load(std::memory_order_relaxed); }
  bool OnPause() override;

  void OnRead(bool ok);

  EventOf<StreamCall> read_event_{this, &StreamCall::OnRead};
  StreamReader stream_{server_context()};
  grpc::ByteBuffer message_;
  std::unique_ptr<MessageReader> reader_;
  std::atomic<int64_t> waiting_since_{0};
};

// One request, many responses. How fast the client takes messages decides when the next one is asked for. One more event:
//   OnWrite(ok)  the message went; not ok: the call is over
class WriteCall final : public StreamingCall {
 public:
  using StreamingCall::StreamingCall;

  // Through Outlet only; on any thread.
  void Write(grpc::ByteBuffer message);

 private:
  void RequestNext() override;
  void Arrived() override { CountRequest(request_); }
  void Begin() override;
  void Finish(const grpc::ByteBuffer* response, const grpc::Status& status) override;
  void Over() override;
  int64_t WaitingSince() const override { return writing_since_.load(std::memory_order_relaxed); }
  bool OnPause() override;

  void OnWrite(bool ok);

  EventOf<WriteCall> write_event_{this, &WriteCall::OnWrite};
  StreamWriter writer_{server_context()};
  grpc::ByteBuffer request_;
  std::shared_ptr<MessageSource> source_;
  std::atomic<int64_t> writing_since_{0};  // when the message under way was handed over; 0: none is
};

// Many requests, many responses; as the other two.
class DuplexCall final : public StreamingCall {
 public:
  using StreamingCall::StreamingCall;

  // Through Line only; on any thread.
  void Read();
  void Write(grpc::ByteBuffer message);

 private:
  void RequestNext() override;
  void Begin() override;
  void Finish(const grpc::ByteBuffer* response, const grpc::Status& status) override;
  int64_t WaitingSince() const override;
  bool OnPause() override;

  void OnRead(bool ok);
  void OnWrite(bool ok);

  EventOf<DuplexCall> read_event_{this, &DuplexCall::OnRead};
  EventOf<DuplexCall> write_event_{this, &DuplexCall::OnWrite};
  StreamDuplex stream_{server_context()};
  grpc::ByteBuffer message_;
  std::shared_ptr<MessageExchange> exchange_;
  // When what is under way began; 0: nothing is.
  std::atomic<int64_t> reading_since_{0}, writing_since_{0};
  std::atomic<int64_t> wrote_at_{0};  // when the last write ended
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_STREAMING_CALL_H_
