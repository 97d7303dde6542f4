#include "server/distill_stream.h"

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "phasor/v1/distill.pb.h"

#include "server/knowledge/calls.h"

namespace phasor::server {
namespace {

// Reads the request on the knowledge thread, so that a wrong one is refused while others are fitted, and fits on the
// training thread. Results leave in order; of progress a client that is slow gets the newest.
class DistillStream final : public MessageSource, public std::enable_shared_from_this<DistillStream> {
 public:
  DistillStream(ServiceContext* context, std::shared_ptr<const Backend> backend, v1::DistillRequest request, Outlet outlet)
      : context_(context),
        backend_(std::move(backend)),
        request_(std::move(request)),
        call_(outlet.context()),
        outlet_(std::move(outlet)) {}

  void Start() override {
    absl::AnyInvocable<void() &&> work = [self = shared_from_this()] { self->Prepare(); };
    if (context_->knowledge->Submit(work)) return;
    Finish(Refuse(Unavailable("OVERLOADED", "too many control calls are waiting", std::chrono::milliseconds(100)),
                  RejectReason::kQueueFull));
  }

  void OnWritten(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok) gone_ = true;
    }
    Pump();
  }

 private:
  KnowledgeContext Knowledge() const { return {*backend_, &call_->cancelled, context_->limits}; }

  void Prepare() {
    if (absl::Status gone = call_->Check(); !gone.ok()) return Finish(Refuse(std::move(gone)));
    auto job = PrepareDistill(Knowledge(), request_);
    if (!job.ok()) return Finish(Refuse(job.status()));
    auto charge = context_->engine->Charge(job->bytes);
    if (!charge.ok()) return Finish(RefuseFromEngine(charge.status()));
    request_.Clear();
    absl::AnyInvocable<void() &&> work = [self = shared_from_this(), held = *std::move(charge),
                                          job = *std::move(job)]() mutable {
      Outcome end = self->Fit(job);
      job = DistillJob();  // whoever sees the stream end may count on the memory
      held.reset();
      self->Finish(std::move(end));
    };
    if (context_->training->Submit(work)) return;
    work = nullptr;
    Finish(Refuse(QuotaExceeded("training",
                                "the server fits functions for others already, one at a time, and as many wait "
                                "as may; try again in a minute"),
                  RejectReason::kQueueFull));
  }

  // How the stream ends; results are on their way.
  Outcome Fit(const DistillJob& job) {
    for (const DistillForm form : job.forms) {
      if (absl::Status gone = call_->Check(); !gone.ok()) return Refuse(std::move(gone));
      auto fitted = FitForm(Knowledge(), job, form, [this](const DistillProgress& progress) { Tell(progress); });
      if (!fitted.ok()) {
        const absl::Status gone = call_->Check();
        return Refuse(gone.ok() ? fitted.status() : gone);
      }
      v1::DistillResponse response;
      *response.mutable_result() = *std::move(fitted);
      Outcome message = AnswerWith(response);
      if (!message.status.ok()) return message;
      {
        const std::lock_guard lock(mutex_);
        progress_.reset();
        results_.push_back(std::move(message.response));
      }
      Pump();
    }
    return Outcome();
  }

  void Tell(const DistillProgress& progress) {
    v1::DistillResponse response;
    v1::DistillProgress* to = response.mutable_progress();
    to->set_form(static_cast<v1::DistillForm>(progress.form));
    to->set_step(progress.step);
    to->set_steps(progress.steps);
    to->set_rms_error(progress.rms_error);
    to->set_max_error(progress.max_error);
    Outcome message = AnswerWith(response);
    if (!message.status.ok()) return;
    {
      const std::lock_guard lock(mutex_);
      progress_ = std::move(message.response);
    }
    Pump();
  }

  // No more messages come than there are; after an error none of them counts.
  void Finish(Outcome outcome) {
    {
      const std::lock_guard lock(mutex_);
      if (!outcome.status.ok()) results_.clear();
      progress_.reset();
      end_ = std::move(outcome);
    }
    Pump();
  }

  // Sends what comes next, unless a message is under way.
  void Pump() {
    std::unique_lock lock(mutex_);
    if (writing_ || !outlet_) return;
    if (gone_) {
      results_.clear();
      progress_.reset();
    }
    if (results_.empty() && !progress_) {
      if (!end_) return;
      Outlet outlet = *std::move(outlet_);
      outlet_.reset();
      Outcome outcome = *std::move(end_);
      lock.unlock();
      return std::move(outlet).End(std::move(outcome));
    }
    grpc::ByteBuffer message;
    if (results_.empty()) {
      message = *std::move(progress_);
      progress_.reset();
    } else {
      message = std::move(results_.front());
      results_.pop_front();
    }
    writing_ = true;
    Outlet& outlet = *outlet_;  // nobody ends it while a message is under way
    lock.unlock();
    outlet.Write(std::move(message));
  }

  ServiceContext* const context_;
  const std::shared_ptr<const Backend> backend_;
  v1::DistillRequest request_;
  const std::shared_ptr<CallContext> call_;

  std::mutex mutex_;  // of all below
  std::optional<Outlet> outlet_;
  bool writing_ = false;
  bool gone_ = false;  // the client
  std::deque<grpc::ByteBuffer> results_;
  std::optional<grpc::ByteBuffer> progress_;
  std::optional<Outcome> end_;
};

}  // namespace

std::shared_ptr<MessageSource> OpenDistillStream(ServiceContext* context, std::shared_ptr<const Backend> backend,
                                                 grpc::ByteBuffer bytes, Outlet outlet) {
  v1::DistillRequest request;
  if (absl::Status status = ParseMessage(&bytes, &request); !status.ok()) {
    std::move(outlet).End(Refuse(std::move(status)));
    return nullptr;
  }
  return std::make_shared<DistillStream>(context, std::move(backend), std::move(request), std::move(outlet));
}

}  // namespace phasor::server
