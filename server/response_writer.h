// From answers to bytes: small fields through generated code, arrays as references to the memory they are in.
#ifndef PHASOR_SERVER_RESPONSE_WRITER_H_
#define PHASOR_SERVER_RESPONSE_WRITER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "phasor/v1/position_service.pb.h"

#include "server/engine.h"

namespace phasor::server {

// Ordinary protobuf bytes of the response. Pieces of arrays become slices that hold their owners until gRPC has sent them.
// `answer.status` must be OK (a failed call has no response). `backend`: name for every result that worked. Item errors get
// their path below "items[i].". Deterministic.
// Errors: RESOURCE_EXHAUSTED when the message would exceed 2 GiB (cannot happen within the limits), INTERNAL.
absl::StatusOr<grpc::ByteBuffer> WritePrecompute(Answer<PrecomputeResult>&& answer, std::string_view backend);
absl::StatusOr<grpc::ByteBuffer> WriteScores(Answer<ScoresResult>&& answer, std::string_view backend);
absl::StatusOr<grpc::ByteBuffer> WriteApply(Answer<ApplyResult>&& answer, std::string_view backend);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESPONSE_WRITER_H_
