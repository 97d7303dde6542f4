// WindowTask on a device: a table gathered by the rule of a window, 16 bytes a thread and store.
#ifndef PHASOR_KERNELS_CUDA_WINDOW_H_
#define PHASOR_KERNELS_CUDA_WINDOW_H_

#include <cstdint>

#include "kernels/cuda/pieces.h"
#include "kernels/encodings/plan_window.h"

namespace phasor::cuda {

// Rows [first_row, first_row + rows) of the task, to `out` without gaps. Addresses are the device's, `out` is aligned to 16
// bytes. A work is 16 bytes of the output.
struct WindowParams {
  int32_t element_size = 4;  // 2, 4, 8
  int64_t first_row = 0, rows = 0;
  TokenWindow window;
  const void* table = nullptr;  // of the task
  int64_t table_stride = 0;
  void* out = nullptr;

  int64_t works() const { return PiecesOf(0, rows * window.tokens(), element_size); }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_WINDOW_H_
