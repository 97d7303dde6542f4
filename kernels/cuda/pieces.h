// How many pieces of 16 bytes an array has.
#ifndef PHASOR_KERNELS_CUDA_PIECES_H_
#define PHASOR_KERNELS_CUDA_PIECES_H_

#include <cstdint>

namespace phasor::cuda {

// The pieces that hold elements [begin, end) of an array that is aligned to 16 bytes.
constexpr int64_t PiecesOf(int64_t begin, int64_t end, int64_t element_size) {
  const int64_t count = 16 / element_size;
  return begin >= end ? 0 : (end - 1) / count - begin / count + 1;
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_PIECES_H_
