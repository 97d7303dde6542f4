#include "client/phasor_client.h"

#include <openssl/evp.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "client/call_status.h"
#include "proto/raw/message_writer.h"
#include "proto/raw/payload_cutter.h"
#include "proto/raw/schema.h"

namespace phasor::client {
namespace {

using Clock = std::chrono::system_clock;

// Requests below this fit every sensible server; only larger ones are worth a question about limits.
constexpr int64_t kAskLimitsAbove = 3 << 20;
constexpr int64_t kAskLimitsAboveItems = 64;
constexpr size_t kUploadPiece = size_t{1} << 20;

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  if (!status.error_details().empty()) result.SetPayload(kDetailsPayload, absl::Cord(status.error_details()));
  return result;
}

std::chrono::milliseconds PauseBefore(const grpc::ClientContext& context, int attempt) {
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find("grpc-retry-pushback-ms"); found != trailers.end()) {
    int64_t asked = 0;
    if (absl::SimpleAtoi(absl::string_view(found->second.data(), found->second.size()), &asked))
      return std::chrono::milliseconds(asked);
  }
  return std::chrono::milliseconds(100 << std::min(attempt, 6));
}

std::unique_ptr<Client> Client::Connect(const std::string& target, const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // Call retries, with requests of any size
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return Over(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments), options);
}

std::unique_ptr<Client> Client::Over(std::shared_ptr<grpc::Channel> channel, const ClientOptions& options) {
  return std::unique_ptr<Client>(new Client(std::move(channel), options));
}

bool Client::MayTryAgain(const grpc::Status& status, std::chrono::milliseconds pause, int attempt,
                         std::chrono::system_clock::time_point deadline) const {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && attempt + 1 < options_.max_attempts && pause.count() >= 0 &&
         Clock::now() + pause < deadline;
}

absl::StatusOr<grpc::ByteBuffer> Client::Call(const std::string& method, const grpc::ByteBuffer& request) {
  grpc::GenericStub stub(channel_);
  const Clock::time_point deadline = Clock::now() + options_.deadline;
  for (int attempt = 0;; ++attempt) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    grpc::CompletionQueue queue;
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, &response);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    if (status.ok()) return response;
    const std::chrono::milliseconds pause = PauseBefore(context, attempt);
    if (!MayTryAgain(status, pause, attempt, deadline)) return FromGrpc(status);
    std::this_thread::sleep_for(pause);
  }
}

template <typename Response, typename Request>
absl::StatusOr<Response> Client::CallMessage(const std::string& method, const Request& request) {
  const std::string bytes = request.SerializeAsString();
  const grpc::Slice slice(bytes);
  absl::StatusOr<grpc::ByteBuffer> answer = Call(method, grpc::ByteBuffer(&slice, 1));
  if (!answer.ok()) return answer.status();
  std::vector<grpc::Slice> slices;
  Response response;
  std::string flat;
  if (!answer->Dump(&slices).ok()) return absl::InternalError(absl::StrCat(method, ": the answer cannot be read"));
  for (const grpc::Slice& piece : slices) flat.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
  if (!response.ParseFromString(flat)) return absl::InternalError(absl::StrCat(method, ": the answer is malformed"));
  return response;
}

absl::Status Client::CheckLimits(int64_t items, int64_t payload_bytes) {
  if (payload_bytes <= kAskLimitsAbove && items <= kAskLimitsAboveItems) return absl::OkStatus();
  std::unique_lock lock(mutex_);
  if (!info_) {
    lock.unlock();
    absl::StatusOr<v1::GetServerInfoResponse> info = GetServerInfo();
    if (!info.ok()) return info.status();
    lock.lock();
    info_ = *std::move(info);
  }
  for (const v1::Limit& limit : info_->limits()) {
    const bool of_items = limit.name() == "max_batch_items", of_bytes = limit.name() == "max_request_bytes";
    const int64_t given = of_items ? items : payload_bytes;
    if ((of_items || of_bytes) && given > limit.value()) {
      return absl::InvalidArgumentError(absl::StrCat(of_items ? "items" : "request", ": given ", given, " ", limit.unit(),
                                                     "; allowed: up to ", limit.value(), " (the server's ", limit.name(),
                                                     ")"));
    }
  }
  return absl::OkStatus();
}

namespace {

// A request with payloads out, a response with payloads in.
template <typename Response>
absl::StatusOr<Reply<Response>> Read(const grpc::ByteBuffer& buffer, const raw::Node& schema) {
  Reply<Response> reply;
  if (absl::Status status = raw::Cut(buffer, schema, {}, &reply.message, &reply.payloads); !status.ok()) {
    return absl::InternalError(absl::StrCat("the answer is malformed: ", status.message()));
  }
  return reply;
}

}  // namespace

absl::StatusOr<Reply<v1::PrecomputeResponse>> Client::Precompute(const v1::PrecomputeRequest& request,
                                                                 const raw::Payloads& payloads) {
  if (absl::Status status = CheckLimits(request.items_size(), payloads.total_bytes()); !status.ok()) return status;
  absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(request, raw::kPrecomputeRequest, payloads);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<grpc::ByteBuffer> answer = Call("/phasor.v1.PositionService/Precompute", *bytes);
  if (!answer.ok()) return answer.status();
  return Read<v1::PrecomputeResponse>(*answer, raw::kPrecomputeResponse);
}

absl::StatusOr<Reply<v1::ApplyResponse>> Client::Apply(const v1::ApplyRequest& request, const raw::Payloads& payloads) {
  if (absl::Status status = CheckLimits(request.items_size(), payloads.total_bytes()); !status.ok()) return status;
  absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(request, raw::kApplyRequest, payloads);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<grpc::ByteBuffer> answer = Call("/phasor.v1.PositionService/Apply", *bytes);
  if (!answer.ok()) return answer.status();
  return Read<v1::ApplyResponse>(*answer, raw::kApplyResponse);
}

absl::StatusOr<Reply<v1::ScoresResponse>> Client::Scores(const v1::ScoresRequest& request, const raw::Payloads& payloads) {
  if (absl::Status status = CheckLimits(request.items_size(), payloads.total_bytes()); !status.ok()) return status;
  absl::StatusOr<grpc::ByteBuffer> bytes = raw::Join(request, raw::kScoresRequest, payloads);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<grpc::ByteBuffer> answer = Call("/phasor.v1.PositionService/Scores", *bytes);
  if (!answer.ok()) return answer.status();
  return Read<v1::ScoresResponse>(*answer, raw::kScoresResponse);
}

absl::StatusOr<v1::UploadTensorResponse> Client::UploadTensor(std::span<const std::byte> content) {
  const auto stub = v1::PositionService::NewStub(channel_);
  std::string hash(32, '\0');
  if (EVP_Digest(content.data(), content.size(), reinterpret_cast<unsigned char*>(hash.data()), nullptr, EVP_sha256(),
                 nullptr) != 1) {
    return absl::InternalError("no SHA-256 in OpenSSL");
  }
  const Clock::time_point deadline = Clock::now() + options_.deadline;
  for (int attempt = 0;; ++attempt) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    v1::UploadTensorResponse response;
    const auto writer = stub->UploadTensor(&context, &response);
    v1::UploadTensorRequest request;
    request.set_size_bytes(static_cast<int64_t>(content.size()));
    request.set_sha256(hash);
    // The first message goes alone: it may be all that the server needs. A write fails when the server has answered.
    bool open = writer->Write(request);
    request.Clear();
    for (size_t at = 0; open && at < content.size(); at += kUploadPiece) {
      const auto piece = content.subspan(at, std::min(kUploadPiece, content.size() - at));
      request.set_data(piece.data(), piece.size());
      open = writer->Write(request);
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (status.ok()) return response;
    const std::chrono::milliseconds pause = PauseBefore(context, attempt);
    if (!MayTryAgain(status, pause, attempt, deadline)) return FromGrpc(status);
    std::this_thread::sleep_for(pause);
  }
}

absl::StatusOr<v1::CreateRegionResponse> Client::CreateRegion(const v1::CreateRegionRequest& request) {
  return CallMessage<v1::CreateRegionResponse>("/phasor.v1.SharedMemoryService/CreateRegion", request);
}

absl::StatusOr<v1::RenewRegionResponse> Client::RenewRegion(const v1::RenewRegionRequest& request) {
  return CallMessage<v1::RenewRegionResponse>("/phasor.v1.SharedMemoryService/RenewRegion", request);
}

absl::Status Client::ReleaseRegion(const v1::ReleaseRegionRequest& request) {
  return CallMessage<v1::ReleaseRegionResponse>("/phasor.v1.SharedMemoryService/ReleaseRegion", request).status();
}

absl::StatusOr<v1::ListSchemesResponse> Client::ListSchemes(const v1::ListSchemesRequest& request) {
  return CallMessage<v1::ListSchemesResponse>("/phasor.v1.CatalogService/ListSchemes", request);
}

absl::StatusOr<v1::GetSchemeResponse> Client::GetScheme(const v1::GetSchemeRequest& request) {
  return CallMessage<v1::GetSchemeResponse>("/phasor.v1.CatalogService/GetScheme", request);
}

absl::StatusOr<v1::ResolveModelResponse> Client::ResolveModel(const v1::ResolveModelRequest& request) {
  return CallMessage<v1::ResolveModelResponse>("/phasor.v1.CatalogService/ResolveModel", request);
}

absl::StatusOr<v1::CompareSpecsResponse> Client::CompareSpecs(const v1::CompareSpecsRequest& request) {
  return CallMessage<v1::CompareSpecsResponse>("/phasor.v1.CatalogService/CompareSpecs", request);
}

absl::StatusOr<v1::DiagnoseResponse> Client::Diagnose(const v1::DiagnoseRequest& request) {
  return CallMessage<v1::DiagnoseResponse>("/phasor.v1.CatalogService/Diagnose", request);
}

absl::StatusOr<v1::RecommendResponse> Client::Recommend(const v1::RecommendRequest& request) {
  return CallMessage<v1::RecommendResponse>("/phasor.v1.CatalogService/Recommend", request);
}

absl::StatusOr<v1::PlanMemoryResponse> Client::PlanMemory(const v1::PlanMemoryRequest& request) {
  return CallMessage<v1::PlanMemoryResponse>("/phasor.v1.CatalogService/PlanMemory", request);
}

absl::StatusOr<v1::PlotResponse> Client::Plot(const v1::PlotRequest& request) {
  return CallMessage<v1::PlotResponse>("/phasor.v1.CatalogService/Plot", request);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const v1::GetServerInfoRequest& request) {
  return CallMessage<v1::GetServerInfoResponse>("/phasor.v1.AdminService/GetServerInfo", request);
}

absl::StatusOr<v1::ListTablesResponse> Client::ListTables(const v1::ListTablesRequest& request) {
  return CallMessage<v1::ListTablesResponse>("/phasor.v1.AdminService/ListTables", request);
}

absl::StatusOr<v1::EvictTablesResponse> Client::EvictTables(const v1::EvictTablesRequest& request) {
  return CallMessage<v1::EvictTablesResponse>("/phasor.v1.AdminService/EvictTables", request);
}

absl::Status Client::CheckHealth(const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  const auto answer = CallMessage<grpc::health::v1::HealthCheckResponse>("/grpc.health.v1.Health/Check", request);
  if (!answer.ok()) return answer.status();
  if (answer->status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server is ", grpc::health::v1::HealthCheckResponse::ServingStatus_Name(answer->status())));
}

}  // namespace phasor::client
