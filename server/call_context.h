// What a call carries through every stage.
#ifndef PHASOR_SERVER_CALL_CONTEXT_H_
#define PHASOR_SERVER_CALL_CONTEXT_H_

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor::server {

// Shared by the transport (which sets `cancelled`) and the engine (which looks at it between pieces of work). `deadline` is
// set before the context is shared.
struct CallContext {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  CancelFlag cancelled{false};
  // Whom the call is for, as far as turns go (PeerKey); set before the context is shared. 0: nobody in particular.
  uint64_t peer = 0;

  // OK, CANCELLED or DEADLINE_EXCEEDED. Thread-safe.
  absl::Status Check() const;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_CALL_CONTEXT_H_
