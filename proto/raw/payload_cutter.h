// Reads a message without copying its payloads.
#ifndef PHASOR_PROTO_RAW_PAYLOAD_CUTTER_H_
#define PHASOR_PROTO_RAW_PAYLOAD_CUTTER_H_

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

#include "proto/raw/payloads.h"
#include "proto/raw/schema.h"

namespace phasor::raw {

// Bounds on what parsing may allocate beside the received slices: a message of two-byte sub-messages would otherwise grow a
// hundredfold in memory.
struct CutLimits {
  size_t max_skeleton_bytes = std::numeric_limits<int>::max();  // everything but payloads
  size_t max_parts = std::numeric_limits<size_t>::max();        // sub-messages and payloads that the schema names
};

// Parses `buffer` into `message`, with every payload that the schema names replaced by its token in `payloads`, whose pieces
// point into the buffer's slices and keep them alive.
//
// The result is what the generated parser makes of the same bytes, in all that protobuf allows: any field order, unknown
// fields and groups, overlong varints, repeated and split sub-messages (merged), a later member of a oneof clearing an
// earlier one. A payload that such a rule has replaced stays in `payloads`, unreferenced. Errors: INVALID_ARGUMENT where the
// generated parser refuses; RESOURCE_EXHAUSTED beyond `limits`. Then `message` and `payloads` are in no particular state.
absl::Status Cut(const grpc::ByteBuffer& buffer, const Node& schema, const CutLimits& limits,
                 google::protobuf::MessageLite* message, Payloads* payloads);

}  // namespace phasor::raw

#endif  // PHASOR_PROTO_RAW_PAYLOAD_CUTTER_H_
