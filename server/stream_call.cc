// Client streams.
#include <algorithm>
#include <utility>

#include "server/rpc_call.h"
#include "server/text.h"

namespace phasor::server {
namespace {

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

void StreamCall::RequestNext() { method().request_next_stream(server_context(), &stream_, queue(), request_event()); }

void StreamCall::Begin() {
  reader_ = method().open(peer(), context());
  ExpectOne();  // the reads, one after the other
  SetAlarm(method().longest_pause);
  ReadNext();
}

void StreamCall::Finish(const grpc::ByteBuffer* response, const grpc::Status& status) {
  if (response != nullptr) {
    stream_.Finish(*response, status, finish_event());
  } else {
    stream_.FinishWithError(status, finish_event());
  }
}

void StreamCall::Over() {
  over_ = true;
  alarm_.Cancel();
}

void StreamCall::ReadNext() {
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

void StreamCall::More() { ReadNext(); }

void StreamCall::Stop(Outcome outcome) {
  Answer(std::move(outcome));
  ReleaseOne();
}

void StreamCall::SetAlarm(Clock::duration pause) {
  ExpectOne();
  alarm_.Set(queue(), std::chrono::system_clock::now() + pause, &alarm_event_);
}

void StreamCall::OnAlarm(bool ok) {
  if (ok && !over_ && !answered()) {
    const int64_t since = waiting_since_.load(std::memory_order_relaxed);
    const Clock::duration pause = since == 0 ? Clock::duration(0) : Clock::duration(NowNs() - since);
    if (pause >= method().longest_pause) {
      Answer(Refuse(MakeError(absl::StatusCode::kDeadlineExceeded, "STREAM_PAUSED",
                              Cat("no message came for ", method().longest_pause.count(), " ms"))));
    } else {
      SetAlarm(method().longest_pause - pause);
    }
  }
  ReleaseOne();
}

}  // namespace phasor::server
