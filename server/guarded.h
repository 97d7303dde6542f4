// What an allocation that fails comes to: an error of the item, not the end of a thread.
#ifndef PHASOR_SERVER_GUARDED_H_
#define PHASOR_SERVER_GUARDED_H_

#include <new>

#include "absl/status/status.h"

namespace phasor::server {

// The status of run(), or RESOURCE_EXHAUSTED.
template <typename Run>
absl::Status Guarded(Run&& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  }
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_GUARDED_H_
