// The data plane: bytes → parser → engine → writer → bytes.
#include <optional>
#include <utility>

#include "phasor/v1/position_service.grpc.pb.h"

#include "server/placement.h"
#include "server/refusal.h"
#include "server/region_access.h"
#include "server/response_writer.h"
#include "server/services.h"
#include "server/stream_apply.h"
#include "server/stream_precompute.h"
#include "server/text.h"
#include "server/upload_call.h"

namespace phasor::server {
namespace {

using Clock = std::chrono::steady_clock;
using Base = v1::PositionService;
using RawService = Base::WithRawMethod_Precompute<Base::WithRawMethod_StreamPrecompute<Base::WithRawMethod_Apply<
    Base::WithRawMethod_StreamApply<Base::WithRawMethod_Scores<Base::WithRawMethod_UploadTensor<Base::Service>>>>>>;

constexpr int kPosted = 128;
constexpr std::chrono::milliseconds kRetryAfter{50};

int64_t Since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

// The bytes of a request that the memo of answers may know; empty: it is none of those.
std::string_view MemoKey(const grpc::ByteBuffer& bytes, grpc::Slice* slice) {
  if (bytes.Length() > AnswerMemo::kMaxRequestBytes || !bytes.TrySingleSlice(slice).ok()) return {};
  return {reinterpret_cast<const char*>(slice->begin()), slice->size()};
}

// A request whose answer may be worth keeping.
class Memorable {
 public:
  Memorable(AnswerMemo* memo, const grpc::ByteBuffer& request) : memo_(memo), generation_(memo->generation()) {
    may_ = !MemoKey(request, &request_).empty();
  }
  // Whether every item came out of the table cache, or the caller has it. To be asked before the answer is written.
  bool Suits(const Answer<PrecomputeResult>& answer) const {
    int64_t bytes = 0;
    for (const PrecomputeResult& result : answer.results) {
      if (!result.status.ok() || result.shared_region != nullptr) return false;
      if (result.cache != CacheOutcome::kHit && !result.not_modified) return false;
      bytes += result.not_modified ? 0 : result.payload_bytes;
    }
    return may_ && bytes <= static_cast<int64_t>(AnswerMemo::kMaxAnswerBytes);
  }
  void Keep(const grpc::ByteBuffer& answer) const {
    const std::string_view key(reinterpret_cast<const char*>(request_.begin()), request_.size());
    memo_->Offer(key, generation_, [&] {
      v1::PrecomputeRequest message;
      const bool says_all = message.ParseFromArray(key.data(), static_cast<int>(key.size())) && SaysAll(message);
      return says_all ? WithoutTimes(answer) : std::string();
    });
  }

 private:
  AnswerMemo* memo_;
  grpc::Slice request_;
  uint64_t generation_;
  bool may_ = false;
};

// One whose answer nobody keeps.
struct Forgettable {
  bool Suits(const auto&) const { return false; }
  void Keep(const grpc::ByteBuffer&) const {}
};

// `Parse`, `Run` and `Write` of one of the methods; `remember` makes a Memorable or Forgettable of a request. A request that
// is quickly parsed is parsed where it comes, another one by the thread that is there for it.
template <typename Result, typename Parse, typename Run, typename Write, typename Remember>
class Handler {
 public:
  Handler(ServiceContext* context, Parse parse, Run run, Write write, Remember remember)
      : context_(context), parse_(parse), run_(run), write_(write), remember_(remember) {}

  void operator()(grpc::ByteBuffer bytes, Reply reply) const {
    ParseBudget budget;
    Serve(std::move(bytes), std::move(reply), &budget);
  }

 private:
  // Without a budget there is time.
  void Serve(grpc::ByteBuffer bytes, Reply reply, ParseBudget* budget) const {
    const Clock::time_point start = Clock::now();
    const auto memory = remember_(bytes);
    const RegionAccess regions = RegionAccessOf(context_->regions, reply.peer(), context_->devices);
    auto request = parse_(context_->parser, bytes, regions, budget);
    if (budget != nullptr && budget->exceeded) return ServeLater(std::move(bytes), std::move(reply));
    bytes.Clear();  // the payloads keep what they need
    const int64_t decode_ns = Since(start);
    if (!request.ok()) return std::move(reply).Send(Refuse(request.status()));
    const std::shared_ptr<CallContext> call = reply.context();
    (context_->engine->*run_)(
        call, *std::move(request),
        [self = *this, call, decode_ns, memory, reply = std::move(reply)](Answer<Result> answer) mutable {
          if (!answer.status.ok()) return std::move(reply).Send(RefuseFromEngine(answer.status));
          answer.stages.decode_ns = decode_ns;
          self.Send(std::move(answer), *call, memory, std::move(reply));
        });
  }

  void ServeLater(grpc::ByteBuffer bytes, Reply reply) const {
    auto pending = std::make_shared<Reply>(std::move(reply));
    absl::AnyInvocable<void() &&> work = [self = *this, bytes = std::move(bytes), pending]() mutable {
      if (absl::Status gone = pending->context()->Check(); !gone.ok()) {
        return std::move(*pending).Send(Refuse(std::move(gone)));
      }
      self.Serve(std::move(bytes), std::move(*pending), nullptr);
    };
    if (!context_->reading->Submit(work)) {
      std::move(*pending).Send(Refuse(Unavailable("OVERLOADED", "too many long requests wait to be parsed", kRetryAfter),
                                      RejectReason::kQueueFull));
    }
  }

  template <typename Memory>
  void Send(Answer<Result> answer, const CallContext& call, const Memory& memory, Reply reply) const {
    const Clock::time_point write_start = Clock::now();
    Outcome outcome;
    outcome.stages = answer.stages;
    int64_t shared = 0;
    for (const Result& result : answer.results) shared += SharedBytes(result);
    context_->metrics->Shared(shared);
    const bool keep = memory.Suits(answer);
    auto response = write_(std::move(answer), PlaceOfWork(context_->engine->backend(), call.cancelled));
    if (!response.ok()) return std::move(reply).Send(Refuse(response.status()));
    outcome.response = *std::move(response);
    if (keep) memory.Keep(outcome.response);
    answer.results.clear();  // what they hold is free when the caller hears of it
    outcome.stages.copy_ns += Since(write_start);
    std::move(reply).Send(std::move(outcome));
  }

  ServiceContext* const context_;
  const Parse parse_;
  const Run run_;
  const Write write_;
  const Remember remember_;
};

template <typename Result, typename Parse, typename Run, typename Write, typename Remember>
std::function<void(grpc::ByteBuffer, Reply)> HandlerOf(ServiceContext* context, Parse parse, Run run, Write write,
                                                       Remember remember) {
  return Handler<Result, Parse, Run, Write, Remember>(context, parse, run, write, remember);
}

// `handle` for requests that the memo does not know.
std::function<void(grpc::ByteBuffer, Reply)> FromMemo(ServiceContext* context,
                                                      std::function<void(grpc::ByteBuffer, Reply)> handle) {
  return [context, handle = std::move(handle)](grpc::ByteBuffer bytes, Reply reply) {
    const Clock::time_point start = Clock::now();
    grpc::Slice slice;
    const std::string_view key = MemoKey(bytes, &slice);
    const AnswerMemo::Bytes answer = key.empty() ? nullptr : context->answers.Find(key);
    if (answer == nullptr) return handle(std::move(bytes), std::move(reply));
    if (absl::Status status = reply.context()->Check(); !status.ok())
      return std::move(reply).Send(Refuse(std::move(status)));
    Outcome outcome;
    outcome.stages.decode_ns = Since(start);
    outcome.response = WithTimes(*answer, outcome.stages);
    outcome.stages.copy_ns = Since(start) - outcome.stages.decode_ns;
    std::move(reply).Send(std::move(outcome));
  };
}

}  // namespace

Outcome RefuseFromEngine(const absl::Status& status) {
  const std::optional<Refusal> refusal = RefusalOf(status);
  if (!refusal) return Refuse(status);
  switch (*refusal) {
    case Refusal::kDraining:
      return Refuse(Unavailable("DRAINING", ToStd(status.message()), kRetryAfter), RejectReason::kDraining);
    case Refusal::kQueueFull:
      return Refuse(Unavailable("OVERLOADED", ToStd(status.message()), kRetryAfter), RejectReason::kQueueFull);
    case Refusal::kInflightBytes:
      break;
  }
  return Refuse(Unavailable("OVERLOADED", ToStd(status.message()), kRetryAfter), RejectReason::kInflightBytes);
}

ServiceMethods MakePositionService(ServiceContext* context) {
  ServiceMethods made;
  made.name = Base::service_full_name();
  auto service = std::make_unique<RawService>();

  Method precompute;
  precompute.name = made.name + "/Precompute";
  precompute.path = ResponsePath::kZeroCopy;
  precompute.posted = kPosted;
  precompute.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestPrecompute(call, request, writer, queue, queue, tag);
  };
  const auto parse_precompute = [](const RequestParser& parser, const grpc::ByteBuffer& bytes, const RegionAccess& regions,
                                   ParseBudget* budget) { return parser.ParsePrecompute(bytes, &regions, budget); };
  const auto remember = [context](const grpc::ByteBuffer& bytes) { return Memorable(&context->answers, bytes); };
  const auto forget = [](const grpc::ByteBuffer&) { return Forgettable(); };
  precompute.handle = FromMemo(
      context, HandlerOf<PrecomputeResult>(context, parse_precompute, &Engine::Precompute, &WritePrecompute, remember));
  made.methods.push_back(std::move(precompute));

  Method stream_precompute;
  stream_precompute.name = made.name + "/StreamPrecompute";
  stream_precompute.path = ResponsePath::kZeroCopy;
  stream_precompute.longest_pause = context->streams.pause;
  stream_precompute.request_next_writer = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue,
                                                                void* tag) {
    raw->RequestStreamPrecompute(call, request, writer, queue, queue, tag);
  };
  stream_precompute.produce = [context](grpc::ByteBuffer request, Outlet outlet) {
    return OpenPrecomputeStream(context, request, std::move(outlet));
  };
  made.methods.push_back(std::move(stream_precompute));

  Method apply;
  apply.name = made.name + "/Apply";
  apply.path = ResponsePath::kZeroCopy;
  apply.posted = kPosted;
  apply.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestApply(call, request, writer, queue, queue, tag);
  };
  const auto parse_apply = [](const RequestParser& parser, const grpc::ByteBuffer& bytes, const RegionAccess& regions,
                              ParseBudget* budget) { return parser.ParseApply(bytes, &regions, budget); };
  apply.handle = HandlerOf<ApplyResult>(context, parse_apply, &Engine::Apply, &WriteApply, forget);
  made.methods.push_back(std::move(apply));

  Method stream_apply;
  stream_apply.name = made.name + "/StreamApply";
  stream_apply.path = ResponsePath::kZeroCopy;
  stream_apply.longest_pause = context->streams.pause;
  stream_apply.request_next_duplex = [raw = service.get()](auto* call, auto* stream, auto* queue, void* tag) {
    raw->RequestStreamApply(call, stream, queue, queue, tag);
  };
  stream_apply.exchange = [context](Line line) { return OpenApplyStream(context, std::move(line)); };
  made.methods.push_back(std::move(stream_apply));

  Method scores;
  scores.name = made.name + "/Scores";
  scores.path = ResponsePath::kZeroCopy;
  scores.request_next = [raw = service.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
    raw->RequestScores(call, request, writer, queue, queue, tag);
  };
  const auto parse_scores = [](const RequestParser& parser, const grpc::ByteBuffer& bytes, const RegionAccess&,
                               ParseBudget* budget) { return parser.ParseScores(bytes, budget); };
  scores.handle = HandlerOf<ScoresResult>(context, parse_scores, &Engine::Scores, &WriteScores, forget);
  made.methods.push_back(std::move(scores));

  Method upload;
  upload.name = made.name + "/UploadTensor";
  upload.longest_pause = context->streams.pause;
  upload.request_next_stream = [raw = service.get()](auto* call, auto* reader, auto* queue, void* tag) {
    raw->RequestUploadTensor(call, reader, queue, queue, tag);
  };
  upload.open = [context](const std::string& peer, std::shared_ptr<CallContext> call) {
    return OpenUpload(context, peer, std::move(call));
  };
  made.methods.push_back(std::move(upload));

  made.service = std::move(service);
  return made;
}

}  // namespace phasor::server
