#include "kernels/cpu/store_policy.h"

#include <unistd.h>

namespace phasor {
namespace {

int64_t L2Bytes() {
  constexpr int64_t kUsualL2Bytes = 1 << 20;
#ifdef _SC_LEVEL2_CACHE_SIZE
  const int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : kUsualL2Bytes;
#else
  return kUsualL2Bytes;
#endif
}

}  // namespace

bool PrefersStreaming(StoreHint hint, int64_t total_bytes) {
  static const int64_t l2_bytes = L2Bytes();
  switch (hint) {
    case StoreHint::kReadNext:
      return false;
    case StoreHint::kKeep:
      return true;
    case StoreHint::kAuto:
      break;
  }
  return total_bytes > l2_bytes;
}

}  // namespace phasor
