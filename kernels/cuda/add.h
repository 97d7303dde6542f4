// AddTask on a device: 16 bytes a thread, load and store.
#ifndef PHASOR_KERNELS_CUDA_ADD_H_
#define PHASOR_KERNELS_CUDA_ADD_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/pieces.h"
#include "kernels/tasks/add_tasks.h"

namespace phasor::cuda {

// A table of rows of `width` numbers without gaps: row b·per_batch + t·per_token − first_row is that of (batch b, token t).
struct AddTable {
  const void* data = nullptr;  // null: none
  int64_t width = 0;
  int64_t first_row = 0, per_batch = 0, per_token = 0;
};

// `rows` vectors of `dim` channels without gaps: vector j is row first_row + j·row_step of the task. y may be x. Addresses
// are the device's; x and y are aligned to 16 bytes. A work is 16 bytes of y.
struct AddParams {
  DType dtype = DType::kF32;
  int64_t batch = 1, dim = 0;
  int64_t first_row = 0, row_step = 1, rows = 0;
  const void* x = nullptr;
  void* y = nullptr;
  double scale = 1;
  AddTable pe, other, gate;
  int64_t gate_channel_stride = 0;
  AddEnds first, last;
  const uint8_t* hidden = nullptr;
  int64_t hidden_batch_stride = 0;
  DropoutRule dropout;
  int64_t first_element = 0, element_batch_stride = 0, element_token_stride = 0;

  int64_t works() const { return PiecesOf(0, rows * dim, SizeOf(dtype)); }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ADD_H_
