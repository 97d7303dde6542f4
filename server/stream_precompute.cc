#include "server/stream_precompute.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "server/response_writer.h"
#include "server/stream_pieces.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kCacheLine = 64;

// A piece on its way: asked for, made, sent. Of data: bytes [next, end) of each array are still to be sent, and the result's
// arrays begin at `begin`. Of a header: `next` is the first row to come. Of a preparation nothing is sent.
struct Slot {
  enum class Kind : uint8_t { kHeader, kPreparation, kFrequencies, kData, kEnd };
  Kind kind = Kind::kEnd;
  size_t item = 0;
  int64_t begin = 0, next = 0, end = 0;
  int64_t bytes = 0;  // of memory that it takes
  bool ready = false;
  bool abandoned = false;  // nobody waits for it any more; its memory counts until it is answered
  PrecomputeResult result;
};

CacheOutcome Both(CacheOutcome a, CacheOutcome b) {
  if (a == CacheOutcome::kNone) return b;
  return a == b || b == CacheOutcome::kNone ? a : CacheOutcome::kPartial;
}

void Add(const StageTimes& more, StageTimes* sum) {
  sum->queue_ns += more.queue_ns;
  sum->build_ns += more.build_ns;
  sum->copy_ns += more.copy_ns;
}

// Bytes [from, from + size) of every array of a piece.
PrecomputeResult PartOf(const PrecomputeResult& piece, int64_t from, int64_t size) {
  PrecomputeResult part;
  const auto cut = [&](const std::optional<Array>& array, std::optional<Array>* out) {
    if (array) *out = Array{array->dtype, {}, {}, SubChunks(array->data, from, size)};
  };
  cut(piece.cos, &part.cos);
  cut(piece.sin, &part.sin);
  cut(piece.table, &part.table);
  cut(piece.bias, &part.bias);
  return part;
}

// Makes a few pieces ahead of the one that is being sent. Messages leave in the order of the slots.
class PrecomputeStream final : public MessageSource, public std::enable_shared_from_this<PrecomputeStream> {
 public:
  // `window_bytes`: of pieces that are made and not sent.
  PrecomputeStream(ServiceContext* context, const StreamRequest& request, StreamPieces pieces, int64_t window_bytes,
                   int64_t decode_ns, std::shared_ptr<const void> charge, Outlet outlet)
      : context_(context),
        chunk_bytes_(request.chunk_bytes),
        window_bytes_(window_bytes),
        checksums_(request.checksums),
        charge_(std::move(charge)),
        call_(outlet.context()),
        pieces_(std::move(pieces)),
        outlet_(std::move(outlet)),
        item_(static_cast<size_t>(request.first_item)),
        first_row_(request.first_row) {
    totals_.decode_ns = decode_ns;
  }

  void Start() override { Pump(); }

  void OnWritten(bool ok) override {
    {
      const std::lock_guard lock(mutex_);
      writing_ = false;
      if (!ok) failure_ = absl::CancelledError("the client is gone");
    }
    Pump();
  }

 private:
  // What is asked for next of item_.
  enum class Phase : uint8_t { kHeader, kAwaitHeader, kPreparation, kAwaitPreparation, kFrequencies, kData };

  // Does all that can be done now. One thread at a time; the others leave it a sign.
  void Pump() {
    std::unique_lock lock(mutex_);
    again_ = true;
    if (pumping_) return;
    pumping_ = true;
    while (again_ && outlet_) {
      again_ = false;
      while (outlet_ && (SendOne(lock) || LaunchOne(lock))) {
      }
    }
    pumping_ = false;
  }

  // These two come with the lock held and let it go while they call out. False: there is nothing to do.
  bool SendOne(std::unique_lock<std::mutex>& lock) {
    if (writing_) return false;
    if (!failure_.ok()) return End(lock, RefuseFromEngine(failure_));
    if (slots_.empty() && item_ == pieces_.items()) return End(lock, Outcome());
    if (slots_.empty() || !slots_.front()->ready) return false;
    const std::shared_ptr<Slot> slot = slots_.front();
    if (slot->kind == Slot::Kind::kPreparation && slot->result.status.ok()) {
      Add(slot->result.stages, &item_sum_.stages);
      Add(slot->result.stages, &totals_);
      Pop();
      return true;
    }
    absl::StatusOr<grpc::ByteBuffer> message = Message(*slot);
    if (!message.ok()) {
      failure_ = message.status();
      return true;
    }
    writing_ = true;
    lock.unlock();
    outlet_->Write(*std::move(message));
    lock.lock();
    return true;
  }

  bool LaunchOne(std::unique_lock<std::mutex>& lock) {
    if (!failure_.ok() || item_ == pieces_.items()) return false;
    switch (phase_) {
      case Phase::kHeader:
        phase_ = Phase::kAwaitHeader;
        return Launch(lock, NewSlot(Slot::Kind::kHeader), pieces_.Header(item_));
      case Phase::kAwaitHeader:
      case Phase::kAwaitPreparation:
        return false;
      case Phase::kPreparation:
        phase_ = Phase::kAwaitPreparation;
        return Launch(lock, NewSlot(Slot::Kind::kPreparation), *pieces_.Preparation(item_));
      case Phase::kFrequencies:
        phase_ = Phase::kData;
        return Launch(lock, NewSlot(Slot::Kind::kFrequencies), pieces_.Frequencies(item_));
      case Phase::kData:
        break;
    }
    if (next_ == extent_.array_bytes()) {
      slots_.push_back(NewSlot(Slot::Kind::kEnd));
      slots_.back()->ready = true;
      NextItem();
      return true;
    }
    if (!piece_) piece_ = pieces_.At(item_, extent_, next_);
    if (held_bytes_ > 0 && held_bytes_ + std::max(piece_->bytes, chunk_bytes_) > window_bytes_) return false;
    StreamPieces::Piece piece = *std::exchange(piece_, std::nullopt);
    const std::shared_ptr<Slot> slot = NewSlot(Slot::Kind::kData);
    slot->begin = piece.begin;
    slot->next = next_;
    slot->end = piece.end;
    slot->bytes = piece.bytes;
    held_bytes_ += slot->bytes;
    next_ = piece.end;
    return Launch(lock, slot, std::move(piece.request));
  }

  std::shared_ptr<Slot> NewSlot(Slot::Kind kind) const {
    const auto slot = std::make_shared<Slot>();
    slot->kind = kind;
    slot->item = item_;
    return slot;
  }

  bool Launch(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Slot>& slot, ValidatedPrecompute request) {
    slots_.push_back(slot);
    lock.unlock();
    context_->engine->Precompute(
        call_, std::move(request),
        [self = shared_from_this(), slot](Answer<PrecomputeResult> answer) { self->OnAnswer(*slot, std::move(answer)); });
    lock.lock();
    return true;
  }

  void OnAnswer(Slot& slot, Answer<PrecomputeResult> answer) {
    {
      const std::lock_guard lock(mutex_);
      if (slot.abandoned) {
        answer.results.clear();
        held_bytes_ -= slot.bytes;
      }
      if (!answer.status.ok()) {
        failure_ = std::move(answer.status);
      } else if (!slot.abandoned) {
        slot.result = std::move(answer.results[0]);
        slot.ready = true;
        if (slot.kind == Slot::Kind::kHeader) Described(slot);
        if (slot.kind == Slot::Kind::kPreparation) Prepared(slot);
      }
    }
    Pump();
  }

  // The header of item_ is known.
  void Described(Slot& header) {
    const PrecomputeResult& result = header.result;
    const int64_t first_row = std::exchange(first_row_, 0);
    extent_ = ExtentOf(result);
    if (!result.status.ok() || result.not_modified) return NextItem();
    if (first_row > extent_.rows) {
      failure_ = InvalidField("first_row", Cat(first_row), Cat("0 … ", extent_.rows, ", the rows of items[", item_, "]"));
      return;
    }
    header.next = first_row;
    next_ = first_row * extent_.row_bytes;
    const bool prepares = next_ < extent_.array_bytes() && pieces_.Preparation(item_);
    phase_ = prepares ? Phase::kPreparation : pieces_.HasFrequencies(item_) ? Phase::kFrequencies : Phase::kData;
  }

  void Prepared(Slot& slot) {
    if (!slot.result.status.ok()) return;  // the item ends with it
    pieces_.Keep(item_, slot.result);
    phase_ = Phase::kData;
  }

  void NextItem() {
    pieces_.Forget(item_++);
    piece_.reset();
    phase_ = Phase::kHeader;
  }

  // The next message of the first slot, which is ready.
  absl::StatusOr<grpc::ByteBuffer> Message(Slot& slot) {
    if (slot.kind != Slot::Kind::kHeader && !slot.result.status.ok()) return Broken(slot);
    switch (slot.kind) {
      case Slot::Kind::kHeader: {
        const StreamExtent extent = ExtentOf(slot.result);
        item_sum_ = PrecomputeResult();
        sent_extent_ = extent;
        Pop();
        return WriteStreamHeader(slot.item, std::move(slot.result), extent, slot.next,
                                 PlaceOfWork(context_->engine->backend(), call_->cancelled));
      }
      case Slot::Kind::kFrequencies: {
        PrecomputeResult frequencies;
        frequencies.inv_freq = std::move(slot.result.inv_freq);
        Pop();
        return WriteStreamChunk(slot.item, std::move(frequencies), 0, checksums_);
      }
      case Slot::Kind::kData:
        return DataMessage(slot);
      case Slot::Kind::kPreparation:
      case Slot::Kind::kEnd:
        break;
    }
    Pop();
    return WriteStreamEnd<v1::StreamPrecomputeResponse>(slot.item, absl::OkStatus(), sent_bytes_, item_sum_.cache,
                                                        item_sum_.stages);
  }

  absl::StatusOr<grpc::ByteBuffer> DataMessage(Slot& slot) {
    int64_t most = chunk_bytes_ / sent_extent_.arrays;
    most -= most % (sent_extent_.row_bytes <= most ? sent_extent_.row_bytes : kCacheLine);
    const int64_t begin = slot.next, size = std::min(slot.end - begin, most);
    PrecomputeResult part = PartOf(slot.result, begin - slot.begin, size);
    slot.next += size;
    sent_bytes_ += size;
    const size_t item = slot.item;
    if (slot.next == slot.end) {
      item_sum_.cache = Both(item_sum_.cache, slot.result.cache);
      Add(slot.result.stages, &item_sum_.stages);
      Add(slot.result.stages, &totals_);
      Pop();
    }
    return WriteStreamChunk(item, std::move(part), begin, checksums_);
  }

  // A piece could not be made: its item ends with that.
  absl::StatusOr<grpc::ByteBuffer> Broken(const Slot& slot) {
    const size_t item = slot.item;
    const absl::Status status = slot.result.status;
    while (!slots_.empty() && slots_.front()->item == item) {
      if (slots_.front()->ready) {
        Pop();
      } else {
        slots_.front()->abandoned = true;  // the engine goes on with it
        slots_.pop_front();
      }
    }
    if (item_ == item) NextItem();
    return WriteStreamEnd<v1::StreamPrecomputeResponse>(item, status, sent_bytes_, item_sum_.cache, item_sum_.stages);
  }

  void Pop() {
    held_bytes_ -= slots_.front()->bytes;
    if (slots_.front()->kind == Slot::Kind::kHeader) sent_bytes_ = 0;
    slots_.pop_front();
  }

  bool End(std::unique_lock<std::mutex>& lock, Outcome outcome) {
    Outlet outlet = *std::move(outlet_);
    outlet_.reset();
    slots_.clear();
    outcome.stages = totals_;
    lock.unlock();
    std::move(outlet).End(std::move(outcome));
    lock.lock();
    return true;
  }

  ServiceContext* const context_;
  const int64_t chunk_bytes_;
  const int64_t window_bytes_;
  const bool checksums_;
  const std::shared_ptr<const void> charge_;
  const std::shared_ptr<CallContext> call_;

  std::mutex mutex_;  // of all below
  StreamPieces pieces_;
  std::optional<Outlet> outlet_;
  bool pumping_ = false, again_ = false, writing_ = false;
  absl::Status failure_;  // of the call
  // Asking: what comes next of item_, whose arrays are extent_.
  size_t item_;
  Phase phase_ = Phase::kHeader;
  StreamExtent extent_;
  int64_t next_ = 0;                          // byte of each array
  std::optional<StreamPieces::Piece> piece_;  // the next one, as long as there is no room for it
  int64_t first_row_;
  // Sending: slots in order, and sums over the item that is being sent.
  std::deque<std::shared_ptr<Slot>> slots_;
  int64_t held_bytes_ = 0;
  StreamExtent sent_extent_;
  int64_t sent_bytes_ = 0;
  PrecomputeResult item_sum_;
  StageTimes totals_;
};

}  // namespace

std::shared_ptr<MessageSource> OpenPrecomputeStream(ServiceContext* context, const grpc::ByteBuffer& request,
                                                    Outlet outlet) {
  const auto start = std::chrono::steady_clock::now();
  auto stream = context->parser.ParseStreamPrecompute(request);
  const auto decode = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  if (!stream.ok()) {
    std::move(outlet).End(Refuse(stream.status()));
    return nullptr;
  }
  if (stream->chunk_bytes == 0) stream->chunk_bytes = context->streams.chunk_bytes;
  const int64_t window = context->streams.window * stream->chunk_bytes, held = stream->batch.charged_bytes();
  StreamPieces pieces(std::move(stream->batch), stream->chunk_bytes, context->engine->stats().cache_capacity_bytes);
  auto charge = context->engine->Charge(held + pieces.MemoryOf(window));
  if (!charge.ok()) {
    std::move(outlet).End(RefuseFromEngine(charge.status()));
    return nullptr;
  }
  return std::make_shared<PrecomputeStream>(context, *stream, std::move(pieces), window, decode.count(), *std::move(charge),
                                            std::move(outlet));
}

}  // namespace phasor::server
