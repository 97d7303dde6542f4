#include "server/rpc_call.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "server/peer.h"
#include "server/streaming_call.h"
#include "server/text.h"

namespace phasor::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kRequestIdKey[] = "x-request-id";
constexpr size_t kMaxRequestId = 128;
constexpr std::chrono::milliseconds kRetryAfterOverload{50};
constexpr std::chrono::milliseconds kRetryElsewhere{100};
// Copying so much to or from a socket takes a thread about as long as waking another.
constexpr int64_t kLargeMessage = 128 << 10;

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestId &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

// 64 random bits in hex: only to find lines of one call, nothing relies on it being unique.
std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return absl::StrFormat("%016x", random());
}

// Warnings are what the operator should look at; a caller's mistake is none.
LogLevel AccessLevel(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DATA_LOSS:
      return LogLevel::kWarning;
    default:
      return LogLevel::kInfo;
  }
}

}  // namespace

Reply::~Reply() {
  if (call_ != nullptr) std::move(*this).Send(Refuse(absl::InternalError("a handler gave no answer")));
}
const std::shared_ptr<CallContext>& Reply::context() const { return call_->context(); }
const std::string& Reply::peer() const { return call_->peer(); }
bool Reply::on_admin_listener() const { return call_->on_admin_listener(); }
void Reply::Hold(std::shared_ptr<const void> charge) { call_->Hold(std::move(charge)); }
void Reply::Send(Outcome outcome) && { std::exchange(call_, nullptr)->Answer(std::move(outcome)); }

Turn::~Turn() {
  if (call_ != nullptr) std::move(*this).Stop(Refuse(absl::InternalError("a handler did not say how to go on")));
}
const std::shared_ptr<CallContext>& Turn::context() const { return call_->context(); }
void Turn::More() && { std::exchange(call_, nullptr)->More(); }
void Turn::Stop(Outcome outcome) && { std::exchange(call_, nullptr)->Stop(std::move(outcome)); }

Outlet::~Outlet() {
  if (call_ != nullptr) std::move(*this).End(Refuse(absl::InternalError("a stream was left without an end")));
}
const std::shared_ptr<CallContext>& Outlet::context() const { return call_->context(); }
void Outlet::Write(grpc::ByteBuffer message) { call_->Write(std::move(message)); }
void Outlet::End(Outcome outcome) && { std::exchange(call_, nullptr)->Answer(std::move(outcome)); }

Line::~Line() {
  if (call_ != nullptr) std::move(*this).End(Refuse(absl::InternalError("a stream was left without an end")));
}
const std::shared_ptr<CallContext>& Line::context() const { return call_->context(); }
void Line::Read() { call_->Read(); }
void Line::Write(grpc::ByteBuffer message) { call_->Write(std::move(message)); }
void Line::End(Outcome outcome) && { std::exchange(call_, nullptr)->Answer(std::move(outcome)); }

bool CallAdmission::TryEnter() { return inflight_->fetch_add(1, std::memory_order_relaxed) < limit_; }

bool AccessLog::Wants(grpc::StatusCode code) {
  if (!logger_->enabled(AccessLevel(code))) return false;
  if (code != grpc::StatusCode::OK) return true;
  return every_ > 0 && seen_.fetch_add(1, std::memory_order_relaxed) % every_ == 0;
}

void CallGroup::AddObject() {
  const std::lock_guard lock(mutex_);
  ++objects_;
}

void CallGroup::RemoveObject() {
  // Under the lock, so that whoever AwaitNone lets go cannot destroy this object before the notification is through.
  const std::lock_guard lock(mutex_);
  if (--objects_ == 0) none_.notify_all();
}

bool CallGroup::AwaitNone(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return none_.wait_for(lock, limit, [this] { return objects_ == 0; });
}

void RpcCall::Post(CallGroup* group, const Method* method, grpc::ServerCompletionQueue* queue) {
  RpcCall* call = nullptr;
  if (method->open) {
    call = new StreamCall(group, method, queue);
  } else if (method->produce) {
    call = new WriteCall(group, method, queue);
  } else if (method->exchange) {
    call = new DuplexCall(group, method, queue);
  } else {
    call = new UnaryCall(group, method, queue);
  }
  call->RequestNext();
}

RpcCall::RpcCall(CallGroup* group, const Method* method, grpc::ServerCompletionQueue* queue)
    : group_(group), method_(method), queue_(queue) {
  group_->AddObject();
  server_context_.AsyncNotifyWhenDone(&done_event_);
}

RpcCall::~RpcCall() = default;

void RpcCall::Deliver(Event* event) {
  {
    const std::lock_guard lock(events_mutex_);
    if (event == &request_event_) {
      event->next = first_event_;
      first_event_ = event;
      if (last_event_ == nullptr) last_event_ = event;
      requested_ = true;
    } else {
      (last_event_ == nullptr ? first_event_ : last_event_->next) = event;
      last_event_ = event;
    }
    if (delivering_ || !requested_) return;
    delivering_ = true;
  }
  ExpectOne();  // this thread needs the object until it is through
  while (Event* next = NextEvent()) next->Run();
  ReleaseOne();
}

RpcCall::Event* RpcCall::NextEvent() {
  const std::lock_guard lock(events_mutex_);
  Event* event = first_event_;
  if (event == nullptr) {
    delivering_ = false;
    return nullptr;
  }
  first_event_ = std::exchange(event->next, nullptr);
  if (first_event_ == nullptr) last_event_ = nullptr;
  return event;
}

void RpcCall::OnRequest(bool ok) {
  // The done event never comes for a call that never started.
  if (ok) Serve();
  ReleaseOne();
}

void RpcCall::Serve() {
  Post(group_, method_, queue_);  // first: somebody should be waiting for the next call whatever this one does
  started_ = true;
  arrived_ = Clock::now();
  ExpectOne();  // OnDone
  ExpectOne();  // OnFinish
  const bool refused = !method_->exempt && group_->refusing();
  taken_ = !method_->exempt && !refused;
  if (taken_) group_->AddCall();
  context_ = std::make_shared<CallContext>();
  peer_ = server_context_.peer();
  context_->peer = PeerKey(peer_);
  ReadDeadline();
  ReadRequestId();
  Arrived();

  const bool admitted = method_->exempt || group_->admission().TryEnter();
  if (group_->busy()) group_->Wake();
  if (refused) {
    Answer(Refuse(Unavailable("DRAINING", "the server is shutting down", kRetryElsewhere), RejectReason::kDraining));
  } else if (!admitted) {
    Answer(Refuse(
        Unavailable("OVERLOADED",
                    Cat("the server is serving ", group_->admission().limit(), " calls already (max_inflight_requests)"),
                    kRetryAfterOverload),
        RejectReason::kInflightRequests));
  } else if (context_->deadline <= arrived_) {
    Answer(Refuse(
        MakeError(absl::StatusCode::kDeadlineExceeded, "DEADLINE_PASSED", "the call's deadline had passed when it arrived"),
        RejectReason::kDeadline));
  } else {
    Begin();
  }
}

int64_t RpcCall::CountMessage(const grpc::ByteBuffer& message) {
  const auto bytes = static_cast<int64_t>(message.Length());
  group_->admission().CountTraffic(bytes);
  if (bytes >= kLargeMessage && !large_.exchange(true, std::memory_order_relaxed)) group_->AddLarge();
  return bytes;
}

void RpcCall::CountRequest(const grpc::ByteBuffer& request) { request_bytes_ += CountMessage(request); }

void RpcCall::CountResponse(const grpc::ByteBuffer& response) { response_bytes_ += CountMessage(response); }

void RpcCall::ReadDeadline() {
  const auto deadline = server_context_.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return;
  const auto left = deadline - std::chrono::system_clock::now();
  // A deadline centuries away would overflow the steady clock.
  if (left < std::chrono::hours(24 * 365)) context_->deadline = arrived_ + left;
}

void RpcCall::ReadRequestId() {
  const auto& metadata = server_context_.client_metadata();
  const auto found = metadata.find(kRequestIdKey);
  if (found != metadata.end()) {
    const std::string_view given(found->second.data(), found->second.size());
    if (IsRequestId(given)) {
      request_id_ = given;
      server_context_.AddTrailingMetadata(kRequestIdKey, request_id_);
    }
  }
}

void RpcCall::Answer(Outcome outcome) {
  outcome_.status = std::move(outcome.status);
  outcome_.stages = outcome.stages;
  outcome_.rejected = outcome.rejected;
  finish_began_ = Clock::now();
  if (outcome_.status.ok()) {
    CountResponse(outcome.response);
    answered_.store(true, std::memory_order_release);
    Finish(&outcome.response, grpc::Status::OK);
    return;
  }
  const grpc::Status status = ToGrpcStatus(outcome_.status);
  sent_code_ = status.error_code();
  reason_ = ErrorReason(outcome_.status);
  if (request_id_.empty()) {
    request_id_ = NewRequestId();
    server_context_.AddTrailingMetadata(kRequestIdKey, request_id_);
  }
  if (const auto pushback = RetryPushbackMs(outcome_.status)) {
    server_context_.AddTrailingMetadata(kPushbackTrailer, Cat(*pushback));
  }
  answered_.store(true, std::memory_order_release);
  Finish(nullptr, status);
}

void RpcCall::OnDone(bool ok) {
  if (server_context_.IsCancelled()) {
    was_cancelled_ = true;
    context_->cancelled.store(true, std::memory_order_relaxed);
  }
  Over();
  ReleaseOne();
}

void RpcCall::OnFinish(bool ok) {
  static_cast<void>(answered_.load(std::memory_order_acquire));  // true by now: Finish was called after the store
  finished_ = Clock::now();
  ReleaseOne();
}

void RpcCall::ReleaseOne() {
  if (events_left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  if (started_) {
    Account();
    held_.reset();
    if (large_.load(std::memory_order_relaxed)) group_->RemoveLarge();
    if (!method_->exempt) group_->admission().Leave();
  }
  CallGroup* group = group_;
  const bool taken = taken_;
  delete this;
  if (taken) group->RemoveCall();
  group->RemoveObject();
}

grpc::StatusCode RpcCall::FinalCode() const {
  if (!was_cancelled_ || (sent_code_ != grpc::StatusCode::OK && !ended_early_)) return sent_code_;
  return finished_ >= context_->deadline ? grpc::StatusCode::DEADLINE_EXCEEDED : grpc::StatusCode::CANCELLED;
}

void UnaryCall::RequestNext() { method().request_next(server_context(), &request_, &writer_, queue(), request_event()); }

void UnaryCall::Begin() { method().handle(std::move(request_), Reply(this)); }

void UnaryCall::Finish(const grpc::ByteBuffer* response, const grpc::Status& status) {
  if (response != nullptr) {
    writer_.Finish(*response, status, finish_event());
  } else {
    writer_.FinishWithError(status, finish_event());
  }
}

void RpcCall::Account() {
  const grpc::StatusCode code = FinalCode();
  const double seconds = Seconds(finished_ - arrived_);
  method_->metrics->Finished(code, seconds, request_bytes_, response_bytes_);
  if (sent_code_ == grpc::StatusCode::OK) {
    method_->metrics->ObserveStage(Stage::kDecode, 1e-9 * static_cast<double>(outcome_.stages.decode_ns));
    method_->metrics->ObserveStage(Stage::kQueue, 1e-9 * static_cast<double>(outcome_.stages.queue_ns));
    method_->metrics->ObserveStage(Stage::kBuild, 1e-9 * static_cast<double>(outcome_.stages.build_ns));
    method_->metrics->ObserveStage(Stage::kCopy, 1e-9 * static_cast<double>(outcome_.stages.copy_ns));
    method_->metrics->ObserveStage(Stage::kSend, Seconds(sending_ + (finished_ - finish_began_)));
  } else {
    group_->metrics().Rejected(outcome_.rejected);
  }
  if (group_->log().Wants(code)) LogAccess(code, seconds);
}

void RpcCall::LogAccess(grpc::StatusCode code, double seconds) const {
  const std::string id = request_id_.empty() ? NewRequestId() : request_id_;
  std::vector<LogField> fields = {{"request_id", std::string_view(id)},
                                  {"method", std::string_view(method_->name)},
                                  {"code", StatusCodeName(code)},
                                  {"peer", std::string_view(peer_)},
                                  {"request_bytes", request_bytes_},
                                  {"response_bytes", response_bytes_},
                                  {"total_us", static_cast<int64_t>(seconds * 1e6)}};
  if (!outcome_.status.ok()) {
    fields.push_back({"reason", std::string_view(reason_)});
    // What callers are not told about an internal error is told here.
    fields.push_back({"detail", ToStd(outcome_.status.message())});
  }
  if (method_->path == ResponsePath::kZeroCopy) {
    fields.push_back({"decode_us", outcome_.stages.decode_ns / 1000});
    fields.push_back({"queue_us", outcome_.stages.queue_ns / 1000});
    fields.push_back({"build_us", outcome_.stages.build_ns / 1000});
    fields.push_back({"copy_us", outcome_.stages.copy_ns / 1000});
    fields.push_back({"send_us", static_cast<int64_t>(Seconds(sending_ + (finished_ - finish_began_)) * 1e6)});
  }
  group_->log().logger().Event(AccessLevel(code), "request", fields);
}

}  // namespace phasor::server
