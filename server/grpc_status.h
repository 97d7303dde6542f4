// Errors as callers see them: google.rpc.Status with details.
//
// Inside, an error is an absl::Status. What a caller should be told beyond code and message rides on it as payloads, made by
// the functions below. Outside, every error carries exactly one ErrorInfo (domain "phasor.v1", a reason, and in its metadata
// every variable of the message) and at most one detail of each other kind.
#ifndef PHASOR_SERVER_GRPC_STATUS_H_
#define PHASOR_SERVER_GRPC_STATUS_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace phasor::server {

// ErrorInfo.domain of every error.
inline constexpr std::string_view kErrorDomain = "phasor.v1";
// Longest message, bytes; longer ones are cut.
inline constexpr size_t kMaxErrorMessage = 1024;
// Trailer that tells clients when to come back, milliseconds (gRFC A6).
inline constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";

// Any error with its ErrorInfo. `reason`: UPPER_SNAKE, up to 63 characters. `metadata`: camelCase keys.
absl::Status MakeError(absl::StatusCode code, std::string_view reason, std::string_view message,
                       std::initializer_list<std::pair<std::string_view, std::string_view>> metadata = {});

// INVALID_ARGUMENT "FIELD: given G; allowed: A", reason INVALID_FIELD, BadRequest. `field`: path such as
// "spec.rope.rotary_dim", relative to what the caller of this function parses.
absl::Status InvalidField(std::string_view field, std::string_view given, std::string_view allowed);

// INVALID_ARGUMENT, reason LIMIT_EXCEEDED: `given` `unit` at `field`, where the limit named `limit_name` (as GetServerInfo
// lists it) allows `limit`.
absl::Status OverLimit(std::string_view field, int64_t given, std::string_view limit_name, int64_t limit,
                       std::string_view unit);

// INVALID_ARGUMENT, reason MALFORMED_MESSAGE: the bytes are no message of the type that the method takes.
absl::Status MalformedMessage(std::string_view type);

// UNIMPLEMENTED, reason NOT_SERVED: the contract has it, this version does not serve it.
absl::Status NotServed(std::string_view field, std::string_view what);

// FAILED_PRECONDITION, reason UPLOAD_NOT_FOUND: no content with this SHA-256 (32 bytes) is stored, or no more.
absl::Status UploadNotFound(std::string_view field, std::string_view sha256);

// Of shared memory. UNIMPLEMENTED, reason NOT_SERVED: this server shares none.
absl::Status SharedMemoryOff(std::string_view field);
// The same of device memory; `why` for people.
absl::Status DeviceMemoryOff(std::string_view field, std::string_view why);
// PERMISSION_DENIED, reason NOT_LOCAL: the caller is not on this host, as it must be for `what`.
absl::Status NotLocal(std::string_view field, std::string_view what);
// FAILED_PRECONDITION, reason REGION_NOT_FOUND: the caller has no such region, or no more. Says nothing of any other.
absl::Status RegionNotFound(std::string_view field);

// UNAVAILABLE with RetryInfo. `reason`: "OVERLOADED", "DRAINING", … A negative `retry_after`: do not retry here (no
// RetryInfo, pushback −1).
absl::Status Unavailable(std::string_view reason, std::string_view message, std::chrono::milliseconds retry_after);

// NOT_FOUND with ResourceInfo, reason NOT_FOUND. `allowed`: what there is, for the message; may be empty.
absl::Status ResourceNotFound(std::string_view field, std::string_view type, std::string_view name,
                              std::string_view allowed);

// RESOURCE_EXHAUSTED with QuotaFailure, reason QUOTA_EXCEEDED.
absl::Status QuotaExceeded(std::string_view subject, std::string_view description);

// The same error with `prefix` before the path of the field it is about ("items[3]." → "items[3].spec.rope.base"). An error
// of Canonicalize or Resolve (SpecErrorOf) becomes InvalidField below `prefix` + "spec.", or below the path of its source
// (AtSource). Other errors pass unchanged.
absl::Status AtPath(std::string_view prefix, const absl::Status& status);

// For the item's own status in an answer. OK gives an empty message. INTERNAL, UNKNOWN and DATA_LOSS say nothing but that
// they are (nothing internal leaks: log the original). UNAVAILABLE without RetryInfo gets one of 100 ms.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// For the call: the same, serialised into grpc-status-details-bin.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Value for kPushbackTrailer: set for UNAVAILABLE only.
std::optional<int64_t> RetryPushbackMs(const absl::Status& status);

// ErrorInfo.reason of the error as callers see it; empty for OK. For logs and for the rejection metric.
std::string ErrorReason(const absl::Status& status);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_GRPC_STATUS_H_
