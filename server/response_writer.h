// From answers to bytes: small fields through generated code, arrays as references to the memory they are in.
#ifndef PHASOR_SERVER_RESPONSE_WRITER_H_
#define PHASOR_SERVER_RESPONSE_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "phasor/v1/position_service.pb.h"

#include "server/engine.h"
#include "server/stream_pieces.h"

namespace phasor::server {

// Ordinary protobuf bytes of the response. Pieces of arrays become slices that hold their owners until gRPC has sent them.
// `answer.status` must be OK (a failed call has no response). `backend`: name for every result that worked. Item errors get
// their path below "items[i].". Deterministic.
// Errors: RESOURCE_EXHAUSTED when the message would exceed 2 GiB (cannot happen within the limits), INTERNAL.
absl::StatusOr<grpc::ByteBuffer> WritePrecompute(Answer<PrecomputeResult>&& answer, std::string_view backend);
absl::StatusOr<grpc::ByteBuffer> WriteScores(Answer<ScoresResult>&& answer, std::string_view backend);
absl::StatusOr<grpc::ByteBuffer> WriteApply(Answer<ApplyResult>&& answer, std::string_view backend);

// Messages of a stream of Precompute, of item `item`. Errors as above.
// Bytes that begin at `offset` of each array: those of `part` (any of inv_freq, cos, sin, table, bias), with their
// checksums.
absl::StatusOr<grpc::ByteBuffer> WriteStreamHeader(size_t item, PrecomputeResult&& described, const StreamExtent& extent,
                                                   int64_t first_row, std::string_view backend);
absl::StatusOr<grpc::ByteBuffer> WriteStreamChunk(size_t item, PrecomputeResult&& part, int64_t offset, bool checksums);
// Of a stream of Apply: the same of an item's tensors.
absl::StatusOr<grpc::ByteBuffer> WriteApplyHeader(size_t item, ApplyResult&& described, std::string_view backend);
absl::StatusOr<grpc::ByteBuffer> WriteTensorChunk(size_t item, size_t tensor, int64_t offset, Chunks&& data, bool checksums);
// `M`: v1::StreamPrecomputeResponse or v1::StreamApplyResponse.
template <typename M>
absl::StatusOr<grpc::ByteBuffer> WriteStreamEnd(size_t item, const absl::Status& status, int64_t sent_bytes,
                                                CacheOutcome cache, const StageTimes& stages);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESPONSE_WRITER_H_
