// BiasMatrixTask on a device: a matrix gathered from its vectors of distances, 16 bytes a thread and store. Masks are hidden
// in it afterwards, see mask.h.
#ifndef PHASOR_KERNELS_CUDA_BIAS_MATRIX_H_
#define PHASOR_KERNELS_CUDA_BIAS_MATRIX_H_

#include <cstdint>

#include "kernels/cuda/pieces.h"

namespace phasor::cuda {

// Rows [first_row, first_row + rows) of the task, to `out` without gaps. Addresses are the device's, `out` is aligned to 16
// bytes. Entry (b, h, q, k) is vector[b·vector_batch_stride + h·vector_head_stride + (key − query) − first_distance]. A work
// is 16 bytes of the output.
struct BiasMatrixParams {
  int32_t element_size = 4;  // 2, 4, 8
  int64_t first_row = 0, rows = 0;
  int64_t heads = 1, queries = 1, keys = 0;
  const void* vector = nullptr;
  int64_t vector_batch_stride = 0, vector_head_stride = 0;
  int64_t first_distance = 0;
  int64_t query_offset = 0;
  const int32_t* query_positions = nullptr;  // null: query_offset + q
  const int32_t* key_positions = nullptr;    // null: k
  int64_t query_batch_stride = 0, key_batch_stride = 0;
  void* out = nullptr;

  int64_t works() const { return PiecesOf(0, rows * keys, element_size); }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_BIAS_MATRIX_H_
