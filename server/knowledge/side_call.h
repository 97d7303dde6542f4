// A ComparedSide of a request as a side of the knowledge room.
#ifndef PHASOR_SERVER_KNOWLEDGE_SIDE_CALL_H_
#define PHASOR_SERVER_KNOWLEDGE_SIDE_CALL_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/compare.pb.h"

#include "server/knowledge/side.h"
#include "server/limits.h"

namespace phasor::server {

// The error of the kernels library or of the knowledge room at `path` ("a", "subject"): fields of a spec below its source.
// Errors about "sequence_length", "first_position" and "count" are at the request's root. Other errors pass.
absl::Status AtSide(const v1::ComparedSide& message, std::string_view path, const absl::Status& status);

// A spec or configuration, resolved; a table, read in the light of `other` (which may be null). INVALID_ARGUMENT with a path
// below `path`.
absl::StatusOr<Side> ReadSide(const v1::ComparedSide& message, std::string_view path, std::optional<int64_t> sequence_length,
                              const Limits& limits, const Side* other);

// Both sides, read in the light of each other, and comparable.
struct SidePair {
  Side a, b;
};
absl::StatusOr<SidePair> ReadSides(const v1::ComparedSide& a, std::string_view path_a, const v1::ComparedSide& b,
                                   std::string_view path_b, std::optional<int64_t> sequence_length, const Limits& limits);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SIDE_CALL_H_
