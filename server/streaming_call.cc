#include "server/streaming_call.h"

#include <algorithm>
#include <utility>

#include "server/text.h"

namespace phasor::server {

int64_t StreamingCall::NowNs() { return Clock::now().time_since_epoch().count(); }

void StreamingCall::WatchPauses() { SetAlarm(method().longest_pause); }

void StreamingCall::Over() {
  over_ = true;
  alarm_.Cancel();
}

void StreamingCall::SetAlarm(Clock::duration pause) {
  ExpectOne();
  alarm_.Set(queue(), std::chrono::system_clock::now() + pause, &alarm_event_);
}

void StreamingCall::OnAlarm(bool ok) {
  if (ok && !over_ && !answered()) {
    const int64_t since = WaitingSince();
    const Clock::duration pause = since == 0 ? Clock::duration(0) : Clock::duration(NowNs() - since);
    if (pause < method().longest_pause) {
      SetAlarm(method().longest_pause - pause);
    } else if (OnPause()) {
      SetAlarm(method().longest_pause);
    }
  }
  ReleaseOne();
}

// Client streams.

void StreamCall::RequestNext() { method().request_next_stream(server_context(), &stream_, queue(), request_event()); }

void StreamCall::Begin() {
  reader_ = method().open(peer(), context());
  ExpectOne();  // the reads, one after the other
  WatchPauses();
  More();
}

void StreamCall::Finish(const grpc::ByteBuffer* response, const grpc::Status& status) {
  if (response != nullptr) {
    stream_.Finish(*response, status, finish_event());
  } else {
    stream_.FinishWithError(status, finish_event());
  }
}

void StreamCall::More() {
  waiting_since_.store(NowNs(), std::memory_order_relaxed);
  stream_.Read(&message_, &read_event_);
}

void StreamCall::OnRead(bool ok) {
  waiting_since_.store(0, std::memory_order_relaxed);
  if (ok) CountRequest(message_);
  if (answered()) return ReleaseOne();  // the pause was too long
  if (!ok) {
    ForgetAnswerIfCancelled();
    reader_->OnEnd(Reply(this));
    return ReleaseOne();
  }
  grpc::ByteBuffer message;
  message.Swap(&message_);
  reader_->OnMessage(std::move(message), Turn(this));
}

void StreamCall::Stop(Outcome outcome) {
  Answer(std::move(outcome));
  ReleaseOne();
}

bool StreamCall::OnPause() {
  Answer(Refuse(MakeError(absl::StatusCode::kDeadlineExceeded, "STREAM_PAUSED",
                          Cat("no message came for ", method().longest_pause.count(), " ms"))));
  return false;
}

// Server streams.

void WriteCall::RequestNext() {
  method().request_next_writer(server_context(), &request_, &writer_, queue(), request_event());
}

void WriteCall::Begin() {
  WatchPauses();
  grpc::ByteBuffer request;
  request.Swap(&request_);
  source_ = method().produce(std::move(request), Outlet(this));
  // A request that is refused has been answered by now, and has no source.
  if (source_ != nullptr) source_->Start();
}

void WriteCall::Over() {
  StreamingCall::Over();
  if (source_ != nullptr) source_->OnOver();
}

void WriteCall::Finish(const grpc::ByteBuffer*, const grpc::Status& status) { writer_.Finish(status, finish_event()); }

void WriteCall::Write(grpc::ByteBuffer message) {
  ExpectOne();
  CountResponse(message);
  writing_since_.store(NowNs(), std::memory_order_relaxed);
  writer_.Write(message, &write_event_);
}

void WriteCall::OnWrite(bool ok) {
  CountSending(std::chrono::nanoseconds(NowNs() - writing_since_.exchange(0, std::memory_order_relaxed)));
  source_->OnWritten(ok);
  ReleaseOne();
}

bool WriteCall::OnPause() {
  // No status would reach a client that takes nothing; this ends the write, and with it the stream.
  server_context()->TryCancel();
  return false;
}

// Streams both ways.

void DuplexCall::RequestNext() { method().request_next_duplex(server_context(), &stream_, queue(), request_event()); }

void DuplexCall::Begin() {
  WatchPauses();
  exchange_ = method().exchange(Line(this));
  exchange_->Start();
}

void DuplexCall::Finish(const grpc::ByteBuffer*, const grpc::Status& status) { stream_.Finish(status, finish_event()); }

void DuplexCall::Read() {
  ExpectOne();
  reading_since_.store(NowNs(), std::memory_order_relaxed);
  stream_.Read(&message_, &read_event_);
}

void DuplexCall::OnRead(bool ok) {
  reading_since_.store(0, std::memory_order_relaxed);
  if (ok) CountRequest(message_);
  if (!answered()) {
    if (ok) {
      grpc::ByteBuffer message;
      message.Swap(&message_);
      exchange_->OnMessage(std::move(message));
    } else {
      exchange_->OnReadEnd();
    }
  }
  ReleaseOne();
}

void DuplexCall::Write(grpc::ByteBuffer message) {
  ExpectOne();
  CountResponse(message);
  writing_since_.store(NowNs(), std::memory_order_relaxed);
  stream_.Write(message, &write_event_);
}

void DuplexCall::OnWrite(bool ok) {
  const int64_t now = NowNs();
  CountSending(std::chrono::nanoseconds(now - writing_since_.exchange(0, std::memory_order_relaxed)));
  wrote_at_.store(now, std::memory_order_relaxed);
  exchange_->OnWritten(ok);
  ReleaseOne();
}

int64_t DuplexCall::WaitingSince() const {
  const int64_t writing = writing_since_.load(std::memory_order_relaxed);
  if (writing != 0) return writing;
  // A client that takes nothing is not asked for more; so a read alone is what it does not send, since it last took
  // something.
  const int64_t reading = reading_since_.load(std::memory_order_relaxed);
  return reading == 0 ? 0 : std::max(reading, wrote_at_.load(std::memory_order_relaxed));
}

bool DuplexCall::OnPause() {
  if (writing_since_.load(std::memory_order_relaxed) != 0) {
    server_context()->TryCancel();  // no status would reach it
    return false;
  }
  exchange_->OnPause();
  return true;
}

}  // namespace phasor::server
