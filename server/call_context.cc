#include "server/call_context.h"

namespace phasor::server {

absl::Status CallContext::Check() const {
  if (cancelled.load(std::memory_order_relaxed)) return absl::CancelledError("the caller cancelled the call");
  if (deadline == std::chrono::steady_clock::time_point::max()) return absl::OkStatus();
  if (std::chrono::steady_clock::now() >= deadline) return absl::DeadlineExceededError("the call's deadline has passed");
  return absl::OkStatus();
}

}  // namespace phasor::server
