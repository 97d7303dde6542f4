// Streams both ways.
#include <algorithm>
#include <utility>

#include "server/rpc_call.h"

namespace phasor::server {
namespace {

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void DuplexCall::RequestNext() { method().request_next_duplex(server_context(), &stream_, queue(), request_event()); }

void DuplexCall::Begin() {
  SetAlarm(method().longest_pause);
  exchange_ = method().exchange(Line(this));
  exchange_->Start();
}

void DuplexCall::Finish(const grpc::ByteBuffer*, const grpc::Status& status) { stream_.Finish(status, finish_event()); }

void DuplexCall::Over() {
  over_ = true;
  alarm_.Cancel();
}

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
  CountSending(Clock::duration(now - writing_since_.exchange(0, std::memory_order_relaxed)));
  wrote_at_.store(now, std::memory_order_relaxed);
  exchange_->OnWritten(ok);
  ReleaseOne();
}

void DuplexCall::SetAlarm(Clock::duration pause) {
  ExpectOne();
  alarm_.Set(queue(), std::chrono::system_clock::now() + pause, &alarm_event_);
}

void DuplexCall::OnAlarm(bool ok) {
  if (ok && !over_ && !answered()) {
    const int64_t reading = reading_since_.load(std::memory_order_relaxed);
    const int64_t writing = writing_since_.load(std::memory_order_relaxed);
    // A client that takes nothing is not asked for more; so a read alone is what it does not send, since it last took
    // something.
    const int64_t idle = reading == 0 ? 0 : std::max(reading, wrote_at_.load(std::memory_order_relaxed));
    const int64_t since = writing != 0 ? writing : idle;
    const Clock::duration pause = since == 0 ? Clock::duration(0) : Clock::duration(NowNs() - since);
    if (pause < method().longest_pause) {
      SetAlarm(method().longest_pause - pause);
    } else if (writing != 0) {
      server_context()->TryCancel();  // no status would reach it
    } else {
      exchange_->OnPause();
      SetAlarm(method().longest_pause);
    }
  }
  ReleaseOne();
}

}  // namespace phasor::server
