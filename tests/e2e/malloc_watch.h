// What malloc_watch.cc counts, in a file that both sides map.
#ifndef PHASOR_TESTS_E2E_MALLOC_WATCH_H_
#define PHASOR_TESTS_E2E_MALLOC_WATCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace phasor {

inline constexpr size_t kLargeAllocation = 128 << 10;  // bytes; more than this counts

struct MallocCounts {
  std::atomic<int64_t> large;      // allocations
  std::atomic<int64_t> last_size;  // bytes of the last of them
};

}  // namespace phasor

#endif  // PHASOR_TESTS_E2E_MALLOC_WATCH_H_
