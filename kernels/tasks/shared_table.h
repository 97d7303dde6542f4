// Tables that more than one task reads.
#ifndef PHASOR_KERNELS_TASKS_SHARED_TABLE_H_
#define PHASOR_KERNELS_TASKS_SHARED_TABLE_H_

#include <cstdint>

namespace phasor {

// Bytes that never change and that `id` names for the life of the backend that is given them, so that a device may keep its
// copy of them between calls. id > 0; a task that names such a table has its cos and sin within the bytes.
struct SharedTable {
  uint64_t id = 0;
  const void* data = nullptr;
  int64_t bytes = 0;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_SHARED_TABLE_H_
