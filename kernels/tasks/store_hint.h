// How the bytes that a task writes will be used next.
#ifndef PHASOR_KERNELS_TASKS_STORE_HINT_H_
#define PHASOR_KERNELS_TASKS_STORE_HINT_H_

#include <cstdint>

namespace phasor {

enum class StoreHint : uint8_t {
  kAuto,      // decided by size: streaming stores where the L2 cache is too small
  kReadNext,  // the same core reads them at once: normal stores
  kKeep,      // kept for later: streaming stores
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_STORE_HINT_H_
