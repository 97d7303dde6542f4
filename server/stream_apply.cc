#include "server/stream_apply.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "proto/raw/payload_cutter.h"
#include "proto/raw/schema.h"
#include "server/apply_intake.h"
#include "server/response_writer.h"
#include "server/stream_pieces.h"
#include "server/text.h"

namespace phasor::server {
namespace {

// Everything in a message but payloads: positions of an item as ids travel as a payload.
constexpr size_t kMaxSkeleton = size_t{4} << 20;
constexpr size_t kMaxParts = 256;
// Messages ahead of the client, however small.
constexpr size_t kMaxSlots = 256;

// A step of work on its way; messages leave in the order of the slots.
struct Slot {
  enum class Kind : uint8_t { kHeader, kPiece, kWhole, kEnd };
  Kind kind = Kind::kEnd;
  size_t item = 0;
  bool checksums = true;
  size_t tensor = 0;   // whose bytes are sent next
  int64_t offset = 0;  // of them
  int64_t sent = 0;    // of a piece: bytes sent; of a whole: whether its header was
  int64_t bytes = 0;   // of memory that it takes
  bool ready = false;
  absl::Status status;  // of an end, or of work that failed
  std::vector<ApplyResult> results;
};

class ApplyStream final : public MessageExchange, public std::enable_shared_from_this<ApplyStream> {
 public:
  ApplyStream(ServiceContext* context, Line line)
      : context_(context),
        window_bytes_(context->streams.window * context->streams.chunk_bytes),
        intake_(&context->parser),
        call_(line.context()),
        line_(std::move(line)) {}

  void Start() override {
    // A window of chunks, and one more, as they came and as they go.
    auto charge = context_->engine->Charge(2 * (window_bytes_ + kMostChunkBytes));
    {
      const std::lock_guard lock(mutex_);
      if (charge.ok()) {
        charge_ = *std::move(charge);
      } else {
        failure_ = charge.status();
      }
    }
    Pump();
  }

  void OnMessage(grpc::ByteBuffer message) override {
    {
      const std::lock_guard lock(mutex_);
      reading_ = false;
    }
    v1::StreamApplyRequest request;
    raw::Payloads payloads;
    const raw::CutLimits limits{.max_skeleton_bytes = kMaxSkeleton, .max_parts = kMaxParts};
    if (!raw::Cut(message, raw::kStreamApplyRequest, limits, &request, &payloads).ok()) {
      return Fail(MalformedMessage("phasor.v1.StreamApplyRequest"));
    }
    const auto message_bytes = static_cast<int64_t>(message.Length());
    message.Clear();
    auto steps = [&] {
      const std::lock_guard lock(mutex_);
      return intake_.Take(request, payloads, message_bytes);
    }();
    if (!steps.ok()) return Fail(steps.status());
    for (ApplyStep& step : *steps) Begin(std::move(step));
    Pump();
  }

  void OnReadEnd() override {
    std::optional<ApplyStep> cut;
    {
      const std::lock_guard lock(mutex_);
      reading_ = false;
      closed_ = true;
      cut = intake_.Close();
    }
    if (cut) Begin(*std::move(cut));
    Pump();
  }

  void OnWritten(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok && failure_.ok()) failure_ = absl::CancelledError("the client is gone");
    }
    Pump();
  }

  void OnPause() override {
    Fail(MakeError(absl::StatusCode::kDeadlineExceeded, "STREAM_PAUSED",
                   Cat("no message came for ", context_->streams.pause.count(), " ms")));
  }

 private:
  void Fail(absl::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (failure_.ok()) failure_ = std::move(status);
    }
    Pump();
  }

  // Without the lock: messages come one at a time, so slots are added in their order.
  void Begin(ApplyStep step) {
    if (step.kind == ApplyStep::Kind::kNothing && !ChargeWhole(step)) return;
    if (step.kind == ApplyStep::Kind::kFailed) whole_charge_.reset();  // of this item, if any
    const auto slot = std::make_shared<Slot>();
    slot->item = step.item;
    slot->checksums = step.checksums;
    slot->tensor = step.tensor;
    slot->offset = step.offset;
    slot->bytes = step.bytes;
    switch (step.kind) {
      case ApplyStep::Kind::kHeader:
        slot->kind = Slot::Kind::kHeader;
        break;
      case ApplyStep::Kind::kPiece:
        slot->kind = Slot::Kind::kPiece;
        break;
      case ApplyStep::Kind::kWhole:
        slot->kind = Slot::Kind::kWhole;
        slot->tensor = 0;
        slot->offset = 0;
        break;
      default:
        slot->ready = true;
        slot->status = AtPath(Cat("items[", step.item, "]."), step.error);
        break;
    }
    {
      const std::lock_guard lock(mutex_);
      if (dropped_ == step.item) return;  // it failed in the meantime
      slots_.push_back(slot);
      held_bytes_ += slot->bytes;
      if (step.is_last) {
        slots_.push_back(std::make_shared<Slot>());
        slots_.back()->item = step.item;
        slots_.back()->ready = true;
      }
    }
    if (!step.request) return;
    if (slot->kind == Slot::Kind::kWhole) whole_charge_.reset();  // the request charges it
    context_->engine->Apply(call_, *std::move(step.request), [self = shared_from_this(), slot](Answer<ApplyResult> answer) {
      self->OnAnswer(*slot, std::move(answer));
    });
  }

  // The tensors of an item that is worked on as a whole are held until they have all come. True: they cannot be, and `step`
  // is the item's failure.
  bool ChargeWhole(ApplyStep& step) {
    if (step.bytes == 0) return false;
    auto charge = context_->engine->Charge(step.bytes);
    if (charge.ok()) {
      whole_charge_ = *std::move(charge);
      return false;
    }
    const std::lock_guard lock(mutex_);
    intake_.Drop(step.item);
    step.kind = ApplyStep::Kind::kFailed;
    step.bytes = 0;
    step.error = RefuseFromEngine(charge.status()).status;
    return true;
  }

  void OnAnswer(Slot& slot, Answer<ApplyResult> answer) {
    {
      const std::lock_guard lock(mutex_);
      slot.ready = true;
      if (!answer.status.ok()) {
        // What was admitted with the stream fails only with it; a whole item is admitted by itself.
        if (slot.kind == Slot::Kind::kWhole && absl::IsUnavailable(answer.status)) {
          slot.status = RefuseFromEngine(answer.status).status;
        } else if (failure_.ok()) {
          failure_ = std::move(answer.status);
        }
      } else {
        slot.results = std::move(answer.results);
        for (const ApplyResult& result : slot.results) {
          if (slot.status.ok()) slot.status = result.status;
        }
      }
    }
    Pump();
  }

  // Does all that can be done now. One thread at a time; the others leave it a sign.
  void Pump() {
    std::unique_lock lock(mutex_);
    again_ = true;
    if (pumping_) return;
    pumping_ = true;
    while (again_ && line_) {
      again_ = false;
      while (line_ && (SendOne(lock) || ReadOne(lock))) {
      }
    }
    pumping_ = false;
  }

  // These two come with the lock held and let it go while they call out. False: there is nothing to do.
  bool ReadOne(std::unique_lock<std::mutex>& lock) {
    if (reading_ || closed_ || !failure_.ok() || held_bytes_ >= window_bytes_ || slots_.size() >= kMaxSlots) {
      return false;
    }
    reading_ = true;
    lock.unlock();
    line_->Read();
    lock.lock();
    return true;
  }

  bool SendOne(std::unique_lock<std::mutex>& lock) {
    if (writing_) return false;
    if (!failure_.ok()) return End(lock, RefuseFromEngine(failure_));
    if (slots_.empty() && closed_) return End(lock, Outcome());
    if (slots_.empty() || !slots_.front()->ready) return false;
    const std::shared_ptr<Slot> slot = slots_.front();
    absl::StatusOr<grpc::ByteBuffer> message = Message(*slot);
    if (!message.ok()) {
      failure_ = message.status();
      return true;
    }
    writing_ = true;
    lock.unlock();
    line_->Write(*std::move(message));
    lock.lock();
    return true;
  }

  // The next message of the first slot, which is ready.
  absl::StatusOr<grpc::ByteBuffer> Message(Slot& slot) {
    if (!slot.status.ok()) return Broken(slot);
    switch (slot.kind) {
      case Slot::Kind::kHeader:
        Pop();
        return Header(slot);
      case Slot::Kind::kPiece:
        return Piece(slot);
      case Slot::Kind::kWhole:
        if (slot.sent++ == 0) return Header(slot);
        return WholePart(slot);
      case Slot::Kind::kEnd:
        break;
    }
    Pop();
    has_header_ = false;
    return WriteStreamEnd<v1::StreamApplyResponse>(slot.item, absl::OkStatus(), sent_bytes_, cache_, stages_);
  }

  absl::StatusOr<grpc::ByteBuffer> Header(Slot& slot) {
    ApplyResult header = slot.results[0];
    for (Array& tensor : header.tensors) tensor.data.clear();
    header.cache = CacheOutcome::kNone;
    has_header_ = true;
    sent_bytes_ = 0;
    cache_ = CacheOutcome::kNone;
    stages_ = {};
    if (slot.kind == Slot::Kind::kWhole) {
      Count(slot.results[0]);
      SkipSent(slot);
    }
    return WriteApplyHeader(slot.item, std::move(header), PlaceOfWork(context_->engine->backend(), call_->cancelled));
  }

  absl::StatusOr<grpc::ByteBuffer> Piece(Slot& slot) {
    Chunks data;
    for (ApplyResult& result : slot.results) {
      Count(result);
      for (Bytes& piece : result.tensors[0].data) data.push_back(std::move(piece));
    }
    sent_bytes_ += slot.bytes;
    Pop();
    return WriteTensorChunk(slot.item, slot.tensor, slot.offset, std::move(data), slot.checksums);
  }

  absl::StatusOr<grpc::ByteBuffer> WholePart(Slot& slot) {
    const Chunks& all = slot.results[0].tensors[slot.tensor].data;
    const size_t tensor = slot.tensor;
    const int64_t offset = slot.offset, size = std::min(context_->streams.chunk_bytes, TotalSize(all) - offset);
    Chunks data = SubChunks(all, offset, size);
    slot.offset += size;
    sent_bytes_ += size;
    SkipSent(slot);
    return WriteTensorChunk(slot.item, tensor, offset, std::move(data), slot.checksums);
  }

  // Beyond tensors of which all is sent; the last one ends the slot.
  void SkipSent(Slot& slot) {
    const std::vector<Array>& tensors = slot.results[0].tensors;
    while (slot.tensor < tensors.size() && slot.offset == TotalSize(tensors[slot.tensor].data)) {
      ++slot.tensor;
      slot.offset = 0;
    }
    if (slot.tensor == tensors.size()) Pop();
  }

  void Count(const ApplyResult& result) {
    cache_ = cache_ == CacheOutcome::kNone || cache_ == result.cache ? result.cache : CacheOutcome::kPartial;
    for (StageTimes* sum : {&stages_, &totals_}) {
      sum->queue_ns += result.stages.queue_ns;
      sum->build_ns += result.stages.build_ns;
      sum->copy_ns += result.stages.copy_ns;
    }
  }

  // The item of the first slot ends with its error: in the header when that is not out yet.
  absl::StatusOr<grpc::ByteBuffer> Broken(const Slot& slot) {
    const size_t item = slot.item;
    const absl::Status status = slot.status;
    while (!slots_.empty() && slots_.front()->item == item) Pop();
    intake_.Drop(item);
    dropped_ = item;
    if (std::exchange(has_header_, false)) {
      return WriteStreamEnd<v1::StreamApplyResponse>(item, status, sent_bytes_, cache_, stages_);
    }
    ApplyResult failed;
    failed.status = status;
    return WriteApplyHeader(item, std::move(failed), PlaceOfWork(context_->engine->backend(), call_->cancelled));
  }

  void Pop() {
    held_bytes_ -= slots_.front()->bytes;
    slots_.pop_front();
  }

  bool End(std::unique_lock<std::mutex>& lock, Outcome outcome) {
    Line line = *std::move(line_);
    line_.reset();
    slots_.clear();
    outcome.stages = totals_;
    lock.unlock();
    std::move(line).End(std::move(outcome));
    lock.lock();
    return true;
  }

  ServiceContext* const context_;
  const int64_t window_bytes_;
  std::shared_ptr<const void> whole_charge_;  // of messages alone

  std::mutex mutex_;  // of all below
  ApplyIntake intake_;
  const std::shared_ptr<CallContext> call_;
  std::optional<Line> line_;
  std::shared_ptr<const void> charge_;
  std::optional<size_t> dropped_;  // the last item that failed
  bool pumping_ = false, again_ = false, reading_ = false, writing_ = false, closed_ = false;
  absl::Status failure_;  // of the call
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t held_bytes_ = 0;
  // Of the item that is being sent.
  bool has_header_ = false;
  int64_t sent_bytes_ = 0;
  CacheOutcome cache_ = CacheOutcome::kNone;
  StageTimes stages_, totals_;
};

}  // namespace

std::shared_ptr<MessageExchange> OpenApplyStream(ServiceContext* context, Line line) {
  return std::make_shared<ApplyStream>(context, std::move(line));
}

}  // namespace phasor::server
