// Server streams.
#include <utility>

#include "server/rpc_call.h"

namespace phasor::server {
namespace {

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void WriteCall::RequestNext() {
  method().request_next_writer(server_context(), &request_, &writer_, queue(), request_event());
}

void WriteCall::Begin() {
  SetAlarm(method().longest_pause);
  grpc::ByteBuffer request;
  request.Swap(&request_);
  source_ = method().produce(std::move(request), Outlet(this));
  // A request that is refused has been answered by now, and has no source.
  if (source_ != nullptr) source_->Start();
}

void WriteCall::Finish(const grpc::ByteBuffer*, const grpc::Status& status) { writer_.Finish(status, finish_event()); }

void WriteCall::Over() {
  over_ = true;
  alarm_.Cancel();
}

void WriteCall::Write(grpc::ByteBuffer message) {
  ExpectOne();
  CountResponse(message);
  writing_since_.store(NowNs(), std::memory_order_relaxed);
  writer_.Write(message, &write_event_);
}

void WriteCall::OnWrite(bool ok) {
  CountSending(Clock::duration(NowNs() - writing_since_.exchange(0, std::memory_order_relaxed)));
  source_->OnWritten(ok);
  ReleaseOne();
}

void WriteCall::SetAlarm(Clock::duration pause) {
  ExpectOne();
  alarm_.Set(queue(), std::chrono::system_clock::now() + pause, &alarm_event_);
}

void WriteCall::OnAlarm(bool ok) {
  if (ok && !over_ && !answered()) {
    const int64_t since = writing_since_.load(std::memory_order_relaxed);
    const Clock::duration pause = since == 0 ? Clock::duration(0) : Clock::duration(NowNs() - since);
    if (pause >= method().longest_pause) {
      // No status would reach a client that takes nothing; this ends the write, and with it the stream.
      server_context()->TryCancel();
    } else {
      SetAlarm(method().longest_pause - pause);
    }
  }
  ReleaseOne();
}

}  // namespace phasor::server
