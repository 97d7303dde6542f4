// Whether a result goes through the cache or past it.
#ifndef PHASOR_KERNELS_CPU_STORE_POLICY_H_
#define PHASOR_KERNELS_CPU_STORE_POLICY_H_

#include <cstdint>

#include "kernels/backend.h"

namespace phasor {

// Streaming stores write whole lines of this many bytes at addresses that are multiples of it.
inline constexpr int64_t kLineBytes = 64;

// True when a task that touches `total_bytes` (the whole task, not one slice of it: its output, and its input where that is
// as large) should write with streaming stores: when the hint says that the output is kept, or when it says nothing and the
// bytes do not fit in the L2 cache. Thread-safe.
bool PrefersStreaming(StoreHint hint, int64_t total_bytes);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_STORE_POLICY_H_
