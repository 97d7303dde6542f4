// What the client's calls share about how they end.
#ifndef PHASOR_CLIENT_CALL_STATUS_H_
#define PHASOR_CLIENT_CALL_STATUS_H_

#include <chrono>

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace phasor::client {

// Code and message, with the details as the payload kDetailsPayload.
absl::Status FromGrpc(const grpc::Status& status);

// What the server asks for in the trailer grpc-retry-pushback-ms; negative: do not come back. Absent: 100 ms · 2^attempt.
std::chrono::milliseconds PauseBefore(const grpc::ClientContext& context, int attempt);

}  // namespace phasor::client

#endif  // PHASOR_CLIENT_CALL_STATUS_H_
