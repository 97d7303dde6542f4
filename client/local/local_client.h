// The answers of a server without one: requests are parsed, checked, computed and cached in this process by the server's own
// engine and kernels, so that their bits, fingerprints and errors are those of the wire. For C++ callers that would rather
// link the kernels than send bytes.
#ifndef PHASOR_CLIENT_LOCAL_LOCAL_CLIENT_H_
#define PHASOR_CLIENT_LOCAL_LOCAL_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "client/phasor_client.h"
#include "proto/raw/payloads.h"

namespace phasor::client {

struct LocalOptions {
  std::string backend = "auto";            // as phasord's --backend
  int threads = 0;                         // that compute, beside the caller's; 0: from the cgroup quota
  int64_t cache_bytes = int64_t{1} << 28;  // of tables kept for the next request
  std::chrono::milliseconds deadline{0};   // of one call; 0: none
};

// Thread-safe; make one per process and share it. Every method blocks until the answer is there. Errors are those that
// Client gives, with the same details in kDetailsPayload. Limits are a server's defaults, but for how much may be in flight.
// Tensors carry their data: there is nothing to upload to.
class LocalClient {
 public:
  // Errors: INVALID_ARGUMENT for values out of range, FAILED_PRECONDITION for a backend that is not usable here.
  static absl::StatusOr<std::unique_ptr<LocalClient>> Create(const LocalOptions& options = {});
  ~LocalClient();

  // Payloads of replies may be pieces of cached tables: they stay as they are for as long as somebody holds them.
  absl::StatusOr<Reply<v1::PrecomputeResponse>> Precompute(const v1::PrecomputeRequest& request,
                                                           const raw::Payloads& payloads = {});
  absl::StatusOr<Reply<v1::ApplyResponse>> Apply(const v1::ApplyRequest& request, const raw::Payloads& payloads);
  absl::StatusOr<Reply<v1::ScoresResponse>> Scores(const v1::ScoresRequest& request, const raw::Payloads& payloads);

 private:
  struct Impl;
  explicit LocalClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace phasor::client

#endif  // PHASOR_CLIENT_LOCAL_LOCAL_CLIENT_H_
