// Biases laid out in one pass: from a vector of values by distance to a matrix, by any positions, with masks.
#ifndef PHASOR_KERNELS_TASKS_BIAS_TASKS_H_
#define PHASOR_KERNELS_TASKS_BIAS_TASKS_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/tasks/mask_tasks.h"

namespace phasor {

// Rows are (batch, head, query): row r is query q = r % queries of head h = (r / queries) % heads of batch row b, and
//   out[r·keys + k] = vector[b·vector_batch_stride + h·vector_head_stride + (key position − query position) −
//   first_distance]
// masked by `mask` where that is not null. Positions are query_positions[b·query_batch_stride + q], or query_offset + q
// where that is null; key_positions likewise, or k. Every distance must have its entry in the vector. Without an additive
// mask element bits are copied.
struct BiasMatrixTask {
  DType dtype = DType::kF32;  // IsFloat; I32 and I64 without a mask
  int64_t batch = 1;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  const void* vector = nullptr;
  int64_t vector_batch_stride = 0;  // elements; 0: one for all
  int64_t vector_head_stride = 0;
  int64_t first_distance = 0;
  int64_t query_offset = 0;
  const int32_t* query_positions = nullptr;  // [queries] or [batch, queries]
  const int32_t* key_positions = nullptr;    // [keys] or [batch, keys]
  int64_t query_batch_stride = 0;            // queries, or 0: one row for all
  int64_t key_batch_stride = 0;
  const MaskRule* mask = nullptr;
  void* out = nullptr;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_BIAS_TASKS_H_
