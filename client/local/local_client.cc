#include "client/local/local_client.h"

#include <future>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/call_status.h"
#include "kernels/backend.h"
#include "proto/raw/message_writer.h"
#include "proto/raw/payload_cutter.h"
#include "proto/raw/schema.h"
#include "server/engine.h"
#include "server/grpc_status.h"
#include "server/request_parser.h"
#include "server/response_writer.h"

namespace phasor::client {
namespace {

constexpr int kMaxThreads = 1024;

// The error that a caller of the wire would see.
absl::Status AsOnTheWire(const absl::Status& status) { return FromGrpc(server::ToGrpcStatus(status)); }

}  // namespace

struct LocalClient::Impl {
  Impl(const LocalOptions& given, std::unique_ptr<Backend> backend)
      : deadline(given.deadline), parser(server::Limits()), engine(EngineOptionsOf(given), std::move(backend), nullptr) {}

  static server::EngineOptions EngineOptionsOf(const LocalOptions& given) {
    server::EngineOptions options;
    options.worker_threads = given.threads;
    options.cache_bytes = given.cache_bytes;
    // One process holds what it asks for: nobody is kept waiting for it.
    options.max_queue = options.max_inflight_bytes = std::numeric_limits<int64_t>::max() / 4;
    return options;
  }

  std::shared_ptr<server::CallContext> Context() const {
    auto context = std::make_shared<server::CallContext>();
    if (deadline.count() > 0) context->deadline = std::chrono::steady_clock::now() + deadline;
    return context;
  }

  // parse → engine → write, and the bytes as a client reads them. `request` names no payload twice.
  template <typename Result, typename Response, typename Request, typename Parse, typename Run, typename Write>
  absl::StatusOr<Reply<Response>> Answer(const Request& request, const raw::Payloads& payloads, const raw::Node& asked,
                                         const raw::Node& answered, Parse parse, Run run, Write write) {
    absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(request, asked, payloads);
    if (!bytes.ok()) return bytes.status();
    auto validated = parse(*bytes);
    bytes->Clear();
    if (!validated.ok()) return AsOnTheWire(validated.status());
    auto promise = std::make_shared<std::promise<server::Answer<Result>>>();
    auto future = promise->get_future();
    const std::shared_ptr<server::CallContext> call = Context();
    (engine.*run)(call, *std::move(validated),
                  [promise](server::Answer<Result> answer) { promise->set_value(std::move(answer)); });
    server::Answer<Result> answer = future.get();
    if (!answer.status.ok()) return AsOnTheWire(answer.status);
    absl::StatusOr<grpc::ByteBuffer> response = write(std::move(answer), PlaceOfWork(engine.backend(), call->cancelled));
    if (!response.ok()) return AsOnTheWire(response.status());
    Reply<Response> reply;
    if (absl::Status status = raw::Cut(*response, answered, {}, &reply.message, &reply.payloads); !status.ok())
      return status;
    return reply;
  }

  const std::chrono::milliseconds deadline;
  const server::RequestParser parser;
  server::Engine engine;
};

LocalClient::LocalClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalClient::~LocalClient() = default;

absl::StatusOr<std::unique_ptr<LocalClient>> LocalClient::Create(const LocalOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat("threads: given ", options.threads, "; allowed: 0 … ", kMaxThreads));
  }
  if (options.cache_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cache_bytes: given ", options.cache_bytes, "; allowed: at least 0"));
  }
  if (options.deadline.count() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("deadline: given ", options.deadline.count(), " ms; allowed: at least 0"));
  }
  absl::StatusOr<std::unique_ptr<Backend>> backend = CreateBackend(options.backend);
  if (!backend.ok()) return backend.status();
  return std::unique_ptr<LocalClient>(new LocalClient(std::make_unique<Impl>(options, *std::move(backend))));
}

absl::StatusOr<Reply<v1::PrecomputeResponse>> LocalClient::Precompute(const v1::PrecomputeRequest& request,
                                                                      const raw::Payloads& payloads) {
  return impl_->Answer<server::PrecomputeResult, v1::PrecomputeResponse>(
      request, payloads, raw::kPrecomputeRequest, raw::kPrecomputeResponse,
      [this](const grpc::ByteBuffer& bytes) { return impl_->parser.ParsePrecompute(bytes); }, &server::Engine::Precompute,
      &server::WritePrecompute);
}

absl::StatusOr<Reply<v1::ApplyResponse>> LocalClient::Apply(const v1::ApplyRequest& request, const raw::Payloads& payloads) {
  return impl_->Answer<server::ApplyResult, v1::ApplyResponse>(
      request, payloads, raw::kApplyRequest, raw::kApplyResponse,
      [this](const grpc::ByteBuffer& bytes) { return impl_->parser.ParseApply(bytes); }, &server::Engine::Apply,
      &server::WriteApply);
}

absl::StatusOr<Reply<v1::ScoresResponse>> LocalClient::Scores(const v1::ScoresRequest& request,
                                                              const raw::Payloads& payloads) {
  return impl_->Answer<server::ScoresResult, v1::ScoresResponse>(
      request, payloads, raw::kScoresRequest, raw::kScoresResponse,
      [this](const grpc::ByteBuffer& bytes) { return impl_->parser.ParseScores(bytes); }, &server::Engine::Scores,
      &server::WriteScores);
}

}  // namespace phasor::client
