// The C++ client of a Phasor server. Payloads are neither copied into nor out of protobuf strings: a message holds a short
// token where the wire has the bytes, and raw::Payloads holds the bytes by reference (proto/raw/payloads.h).
#ifndef PHASOR_CLIENT_PHASOR_CLIENT_H_
#define PHASOR_CLIENT_PHASOR_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "phasor/v1/admin_service.pb.h"
#include "phasor/v1/catalog_service.pb.h"
#include "phasor/v1/position_service.pb.h"
#include "phasor/v1/shared_memory_service.pb.h"

#include "proto/raw/payloads.h"

namespace phasor::client {

struct ClientOptions {
  // Of one call, retries included.
  std::chrono::milliseconds deadline{60000};
  // Of a stream, retries included. 0: none.
  std::chrono::milliseconds stream_deadline{0};
  // A call that the server answers with UNAVAILABLE is tried so many times in all, waiting as long as the server asks or 100
  // ms · 2^n.
  int max_attempts = 4;
  // Largest message either way; gRPC's own default of 4 MiB is too small for tensors.
  int max_message_bytes = 2147483647;
  // A connection of its own; clients of one process and one target otherwise share one.
  bool own_connection = false;
};

// A response and its payloads: `data` of every Tensor in `message` is a token of `payloads`.
template <typename Message>
struct Reply {
  Message message;
  raw::Payloads payloads;
};

// One channel to one server; make one per process and share it. Thread-safe. Every method blocks until the answer is there.
// Errors are the server's, code and message; details in grpc-status-details-bin are kept as the payload kDetailsPayload
// (serialized google.rpc.Status). A request over the server's limits is refused here with INVALID_ARGUMENT before it is
// sent: a message beyond gRPC's own limit would end the stream with less to go by.
class Client {
 public:
  // Connects lazily. `target`: "HOST:PORT", "unix:PATH" or any gRPC name, without transport security.
  static std::unique_ptr<Client> Connect(const std::string& target, const ClientOptions& options = {});
  // Over a channel that exists (in-process, or with credentials).
  static std::unique_ptr<Client> Over(std::shared_ptr<grpc::Channel> channel, const ClientOptions& options = {});

  // Tensor.data fields of the request hold tokens of `payloads`.
  absl::StatusOr<Reply<v1::PrecomputeResponse>> Precompute(const v1::PrecomputeRequest& request,
                                                           const raw::Payloads& payloads = {});
  // Takes the messages of a stream in order; their payloads hold the bytes. An error ends the stream and is its result.
  using StreamSink =
      absl::FunctionRef<absl::Status(const v1::StreamPrecomputeResponse& message, const raw::Payloads& payloads)>;
  // Streams to `sink` on this thread: it takes the next message when it has taken the last one. Checksums are compared
  // (DATA_LOSS). A stream that breaks off with UNAVAILABLE goes on where it was, max_attempts times at one place, without a
  // second header; ABORTED when the server that it goes on with would make other bits.
  absl::Status StreamPrecompute(const v1::StreamPrecomputeRequest& request, const raw::Payloads& payloads, StreamSink sink);
  absl::StatusOr<Reply<v1::ApplyResponse>> Apply(const v1::ApplyRequest& request, const raw::Payloads& payloads);
  // As StreamSink.
  using ApplySink = absl::FunctionRef<absl::Status(const v1::StreamApplyResponse& message, const raw::Payloads& payloads)>;
  // Streams one item both ways: `item` has its tensors' types and shapes and none of their data, `tensors` the bytes of
  // each, dense, in order. Chunks go out while answers come in; `sink` takes those on this thread. Checksums go with the
  // chunks and are compared in the answers (DATA_LOSS). An item that fails says so in its header or end, and the stream is
  // OK. UNAVAILABLE is tried again as long as nothing has come. Errors beside the server's: INVALID_ARGUMENT when `tensors`
  // do not fit the shapes.
  absl::Status StreamApply(const v1::ApplyItem& item, const raw::Payloads& payloads, std::span<const raw::Piece> tensors,
                           ApplySink sink);
  absl::StatusOr<Reply<v1::ScoresResponse>> Scores(const v1::ScoresRequest& request, const raw::Payloads& payloads);

  // Stores `content` (at least 1 byte) on the server; the answer's hash goes into Tensor.upload. The server is told the
  // SHA-256 first, so that content which it has already is not sent again.
  absl::StatusOr<v1::UploadTensorResponse> UploadTensor(std::span<const std::byte> content);

  // Regions of shared memory; shared_memory.h maps them too.
  absl::StatusOr<v1::CreateRegionResponse> CreateRegion(const v1::CreateRegionRequest& request);
  absl::StatusOr<v1::RenewRegionResponse> RenewRegion(const v1::RenewRegionRequest& request);
  absl::Status ReleaseRegion(const v1::ReleaseRegionRequest& request);

  absl::StatusOr<v1::ListSchemesResponse> ListSchemes(const v1::ListSchemesRequest& request = {});
  absl::StatusOr<v1::GetSchemeResponse> GetScheme(const v1::GetSchemeRequest& request);
  absl::StatusOr<v1::ResolveModelResponse> ResolveModel(const v1::ResolveModelRequest& request);
  absl::StatusOr<v1::CompareSpecsResponse> CompareSpecs(const v1::CompareSpecsRequest& request);
  absl::StatusOr<v1::DiagnoseResponse> Diagnose(const v1::DiagnoseRequest& request);
  absl::StatusOr<v1::RecommendResponse> Recommend(const v1::RecommendRequest& request);
  absl::StatusOr<v1::PlanMemoryResponse> PlanMemory(const v1::PlanMemoryRequest& request);
  absl::StatusOr<v1::PlotResponse> Plot(const v1::PlotRequest& request);
  // Takes progress and results on this thread as they come. An error ends the call, which stops the fit, and is its result.
  // UNAVAILABLE is tried again as long as nothing has come.
  using DistillSink = absl::FunctionRef<absl::Status(const v1::DistillResponse& message)>;
  absl::Status Distill(const v1::DistillRequest& request, DistillSink sink);

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const v1::GetServerInfoRequest& request = {});
  absl::StatusOr<v1::ListTablesResponse> ListTables(const v1::ListTablesRequest& request = {});
  absl::StatusOr<v1::EvictTablesResponse> EvictTables(const v1::EvictTablesRequest& request);

  // OK when the service ("" is the server as a whole) is SERVING, UNAVAILABLE when it is not, NOT_FOUND when it is unknown.
  absl::Status CheckHealth(const std::string& service = "");

 private:
  Client(std::shared_ptr<grpc::Channel> channel, const ClientOptions& options)
      : channel_(std::move(channel)), options_(options) {}
  absl::StatusOr<grpc::ByteBuffer> Call(const std::string& method, const grpc::ByteBuffer& request);
  bool MayTryAgain(const grpc::Status& status, std::chrono::milliseconds pause, int attempt,
                   std::chrono::system_clock::time_point deadline) const;
  absl::Status CheckLimits(int64_t items, int64_t payload_bytes);
  template <typename Response, typename Request>
  absl::StatusOr<Response> CallMessage(const std::string& method, const Request& request);

  std::shared_ptr<grpc::Channel> channel_;
  ClientOptions options_;
  std::mutex mutex_;
  // The server's limits, asked for once, before the first request that might exceed them.
  std::optional<v1::GetServerInfoResponse> info_;
};

// Payload of error statuses: the serialized google.rpc.Status that the server sent.
inline constexpr char kDetailsPayload[] = "phasor.v1/google.rpc.Status";

}  // namespace phasor::client

#endif  // PHASOR_CLIENT_PHASOR_CLIENT_H_
