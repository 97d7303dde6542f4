#include "kernels/cpu/store_policy.h"

#include <unistd.h>

namespace phasor {
namespace {

int64_t HalfL2Bytes() {
  constexpr int64_t kUsualL2Bytes = 1 << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return (bytes > 0 ? bytes : kUsualL2Bytes) / 2;
#else
  return kUsualL2Bytes / 2;
#endif
}

}  // namespace

bool PrefersStreaming(StoreHint hint, int64_t total_bytes) {
  static const int64_t half_l2_bytes = HalfL2Bytes();
  switch (hint) {
    case StoreHint::kReadNext:
      return false;
    case StoreHint::kKeep:
      return true;
    case StoreHint::kAuto:
      break;
  }
  return total_bytes > half_l2_bytes;
}

}  // namespace phasor
