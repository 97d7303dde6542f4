// The wrapper round every call, of every method: admit, hand to the method's handler, answer, and account for it.
//
// Life of an object: posted (waits for a call) → handled (its Reply is out) → answered (Finish is under way) → gone. gRPC
// reports through events of the completion queue. Several threads serve it, but the events of one call are run one after the
// other (Deliver), so the steps below never overlap; Answer may come from any thread:
//   OnRequest(ok)  a call came; not ok: the server shuts down, and nothing else will happen
//   OnDone         the call is over for gRPC: completed, or cancelled (client gone, deadline passed, shutdown)
//   OnFinish(ok)   the answer was handed to the network, or could not be
// After a good OnRequest both OnDone and OnFinish come, in either order; when the last event is through, the object is
// deleted. Streams have more of them (streaming_call.h).
#ifndef PHASOR_SERVER_RPC_CALL_H_
#define PHASOR_SERVER_RPC_CALL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "grpcpp/completion_queue.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"

#include "server/logging.h"
#include "server/method.h"
#include "server/metrics.h"
#include "server/queue_threads.h"

namespace phasor::server {

// How many calls may be served at once, over all listeners. Thread-safe.
class CallAdmission {
 public:
  CallAdmission(int64_t limit, std::atomic<int64_t>* inflight) : limit_(limit), inflight_(inflight) {}
  bool TryEnter();  // counts the call in any case; false: it is one too many and must be refused
  void Leave() { inflight_->fetch_sub(1, std::memory_order_relaxed); }
  int64_t limit() const { return limit_; }
  int64_t inflight() const { return inflight_->load(std::memory_order_relaxed); }

  // Bytes of messages since start, either way, of refused calls too.
  void CountTraffic(int64_t bytes) { traffic_.fetch_add(bytes, std::memory_order_relaxed); }
  int64_t traffic() const { return traffic_.load(std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t>* const inflight_;
  std::atomic<int64_t> traffic_{0};
};

// Which calls are logged: every failed one, and of the others one in `every` (0: none).
class AccessLog {
 public:
  AccessLog(std::shared_ptr<Logger> logger, int64_t every) : logger_(std::move(logger)), every_(every) {}
  bool Wants(grpc::StatusCode code);
  Logger& logger() const { return *logger_; }

 private:
  std::shared_ptr<Logger> logger_;
  const int64_t every_;
  std::atomic<int64_t> seen_{0};
};

// Shared by all calls of one gRPC server. Outlives them: AwaitNone.
class CallGroup {
 public:
  CallGroup(CallAdmission* admission, Metrics* metrics, AccessLog* log, bool admin)
      : admission_(admission), metrics_(metrics), log_(log), admin_(admin) {}

  CallAdmission& admission() const { return *admission_; }
  Metrics& metrics() const { return *metrics_; }
  AccessLog& log() const { return *log_; }
  bool admin() const { return admin_; }  // calls that change something are allowed

  // From now on calls are answered UNAVAILABLE as they come.
  void RefuseNewCalls() { refusing_.store(true, std::memory_order_relaxed); }
  bool refusing() const { return refusing_.load(std::memory_order_relaxed); }

  // Calls that were taken and are not gone.
  void AddCall() { calls_.fetch_add(1, std::memory_order_relaxed); }
  void RemoveCall() { calls_.fetch_sub(1, std::memory_order_relaxed); }
  int64_t calls() const { return calls_.load(std::memory_order_relaxed); }

  // Calls that have a message so large that reading or writing it keeps a thread for long.
  void AddLarge() {
    large_.fetch_add(1, std::memory_order_relaxed);
    Wake();
  }
  void RemoveLarge() { large_.fetch_sub(1, std::memory_order_relaxed); }
  // Whether one thread of the completion queue is not enough.
  bool busy() const { return large_.load(std::memory_order_relaxed) > 0 || admission_->inflight() > 1; }
  // Who rests until it is busy; null: nobody. Stays until another is set while no call runs.
  void WakeWhenBusy(QueueThreads* threads) { threads_.store(threads, std::memory_order_release); }
  void Wake() {
    if (QueueThreads* const threads = threads_.load(std::memory_order_acquire)) threads->Wake();
  }

  // Objects that exist, posted or serving.
  void AddObject();
  void RemoveObject();
  // Until no object is left, or for `limit`; whether none is left.
  bool AwaitNone(std::chrono::milliseconds limit);

 private:
  CallAdmission* const admission_;
  Metrics* const metrics_;
  AccessLog* const log_;
  const bool admin_;
  std::atomic<bool> refusing_{false};
  std::atomic<int64_t> calls_{0};
  std::atomic<int64_t> large_{0};
  std::atomic<QueueThreads*> threads_{nullptr};
  std::mutex mutex_;
  std::condition_variable none_;
  int64_t objects_ = 0;
};

// What calls of every kind share.
class RpcCall {
 public:
  // Waits for the next call of `method` on `queue`. The object owns itself.
  static void Post(CallGroup* group, const Method* method, grpc::ServerCompletionQueue* queue);

  // Through Reply only.
  const std::shared_ptr<CallContext>& context() const { return context_; }
  bool on_admin_listener() const { return group_->admin(); }
  const std::string& peer() const { return peer_; }
  void Hold(std::shared_ptr<const void> charge) { held_ = std::move(charge); }
  void Answer(Outcome outcome);

 protected:
  // At most one of each kind is under way.
  class Event : public CompletionEvent {
   public:
    virtual void Run() = 0;
    Event* next = nullptr;

   protected:
    ~Event() = default;
  };
  template <typename T>
  struct EventOf final : Event {
    EventOf(T* owner, void (T::*then)(bool)) : call(owner), step(then) {}
    void Complete(bool is_ok) override {
      ok = is_ok;
      call->Deliver(this);
    }
    void Run() override { (call->*step)(ok); }
    T* const call;
    void (T::* const step)(bool);
    bool ok = false;
  };
  // Runs the event after those that came before it: on this thread, or on the one that is running them. Whatever comes
  // before the request waits for it: two threads may take events out of the queue in one order and get here in the other.
  void Deliver(Event* event);

  RpcCall(CallGroup* group, const Method* method, grpc::ServerCompletionQueue* queue);
  virtual ~RpcCall();

  // Asks gRPC for the next call, with request_event().
  virtual void RequestNext() = 0;
  // A call came, whether or not it will be admitted.
  virtual void Arrived() {}
  // The call was admitted: works on it.
  virtual void Begin() = 0;
  // Hands the answer to gRPC, with finish_event(): `response` when it is not null, else the error.
  virtual void Finish(const grpc::ByteBuffer* response, const grpc::Status& status) = 0;
  // The call is over for gRPC; on the queue's thread.
  virtual void Over() {}

  // Another event is expected; each ends with ReleaseOne. Outside of events the object may be gone after that.
  void ExpectOne() { events_left_.fetch_add(1, std::memory_order_relaxed); }
  void ReleaseOne();
  void CountRequest(const grpc::ByteBuffer& request);
  // A message of a stream was handed to gRPC, and took so long to go.
  void CountResponse(const grpc::ByteBuffer& response);
  void CountSending(std::chrono::steady_clock::duration time) { sending_ += time; }

  const Method& method() const { return *method_; }
  grpc::ServerCompletionQueue* queue() const { return queue_; }
  grpc::ServerContext* server_context() { return &server_context_; }
  CompletionEvent* request_event() { return &request_event_; }
  CompletionEvent* finish_event() { return &finish_event_; }
  // An answer is on its way.
  bool answered() const { return answered_.load(std::memory_order_acquire); }
  // What was sent does not count when the call turns out to have been cancelled.
  void ForgetAnswerIfCancelled() { ended_early_ = true; }

 private:
  Event* NextEvent();  // null: there is none, and nobody runs them any more
  void OnRequest(bool ok);
  void Serve();
  void OnDone(bool ok);
  void OnFinish(bool ok);

  void ReadDeadline();
  void ReadRequestId();
  int64_t CountMessage(const grpc::ByteBuffer& message);
  grpc::StatusCode FinalCode() const;
  void Account();
  void LogAccess(grpc::StatusCode code, double seconds) const;

  CallGroup* const group_;
  const Method* const method_;
  grpc::ServerCompletionQueue* const queue_;
  EventOf<RpcCall> request_event_{this, &RpcCall::OnRequest};
  EventOf<RpcCall> done_event_{this, &RpcCall::OnDone};
  EventOf<RpcCall> finish_event_{this, &RpcCall::OnFinish};

  grpc::ServerContext server_context_;

  std::shared_ptr<CallContext> context_;
  std::shared_ptr<const void> held_;
  std::string request_id_;
  std::string peer_;  // taken on arrival: gRPC forgets it once the client is gone
  std::chrono::steady_clock::time_point arrived_, finish_began_, finished_;
  int64_t request_bytes_ = 0, response_bytes_ = 0;
  std::chrono::steady_clock::duration sending_{0};  // of a stream's messages
  Outcome outcome_;                                 // without the response
  grpc::StatusCode sent_code_ = grpc::StatusCode::OK;
  std::string reason_;
  std::atomic<int> events_left_{1};  // the request
  std::mutex events_mutex_;          // of the four below
  Event* first_event_ = nullptr;     // of those that have come and not been run
  Event* last_event_ = nullptr;
  bool requested_ = false;  // the request has come
  bool delivering_ = false;
  bool started_ = false;
  bool taken_ = false;  // counts as a call of the group
  std::atomic<bool> large_{false};
  bool was_cancelled_ = false;
  bool ended_early_ = false;
  // Orders what Answer wrote, on whatever thread, before what OnFinish reads.
  std::atomic<bool> answered_{false};
};

// One request, one response.
class UnaryCall final : public RpcCall {
 public:
  UnaryCall(CallGroup* group, const Method* method, grpc::ServerCompletionQueue* queue) : RpcCall(group, method, queue) {}

 private:
  void RequestNext() override;
  void Arrived() override { CountRequest(request_); }
  void Begin() override;
  void Finish(const grpc::ByteBuffer* response, const grpc::Status& status) override;

  ResponseWriter writer_{server_context()};
  grpc::ByteBuffer request_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RPC_CALL_H_
