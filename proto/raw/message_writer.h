// Writes a message without copying its payloads.
#ifndef PHASOR_PROTO_RAW_MESSAGE_WRITER_H_
#define PHASOR_PROTO_RAW_MESSAGE_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

#include "proto/raw/payloads.h"
#include "proto/raw/schema.h"

namespace phasor::raw {

// A message must stay below this, payloads included: protobuf's own limit.
inline constexpr int64_t kMaxMessageBytes = (int64_t{1} << 31) - 64;

// Pieces shorter than this are copied: a slice of their own costs more than that.
inline constexpr size_t kCopyBelow = 1024;

// The inverse of Cut: ordinary protobuf bytes of `message`, with the token in every field that the schema names as a payload
// replaced by the payload. Pieces become slices of the result, each holding its owner until gRPC drops it.
// Deterministic. Errors: INTERNAL when such a field holds no token of `payloads`; RESOURCE_EXHAUSTED when the result would
// not fit in kMaxMessageBytes.
absl::StatusOr<grpc::ByteBuffer> Join(const google::protobuf::MessageLite& message, const Node& schema,
                                      const Payloads& payloads);

}  // namespace phasor::raw

#endif  // PHASOR_PROTO_RAW_MESSAGE_WRITER_H_
