// ToeplitzTask on a device: a matrix copied from its vector, 16 bytes a thread and store.
#ifndef PHASOR_KERNELS_CUDA_TOEPLITZ_H_
#define PHASOR_KERNELS_CUDA_TOEPLITZ_H_

#include <cstdint>

namespace phasor::cuda {

// Rows [first_row, first_row + rows) of the matrix, to `out` without gaps. Addresses are the device's; `vector` and `out`
// are aligned to 16 bytes. A work is 16 bytes of the output.
struct ToeplitzParams {
  int32_t element_size = 4;  // 2, 4, 8
  int64_t first_row = 0, rows = 0;
  int64_t queries = 0, keys = 0;
  const void* vector = nullptr;  // [heads, vector_stride] of the task
  int64_t vector_stride = 0;
  void* out = nullptr;

  int64_t works() const { return (rows * keys * element_size + 15) / 16; }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_TOEPLITZ_H_
