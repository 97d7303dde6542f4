#ifndef PHASOR_KERNELS_CUDA_TOEPLITZ_CUH_
#define PHASOR_KERNELS_CUDA_TOEPLITZ_CUH_

#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/toeplitz.h"
#include "kernels/cuda/vector16.cuh"
#include "kernels/cuda/vector_size.h"

namespace phasor::cuda {

// T: an unsigned integer of the element's size.
template <typename T>
struct ToeplitzBody {
  ToeplitzParams p;

  // Where row `row` of these begins in the vectors.
  PHASOR_HOST_DEVICE const T* RowOf(int64_t row) const {
    const int64_t task_row = p.first_row + row, head = Quotient(task_row, p.queries), query = task_row - head * p.queries;
    return static_cast<const T*>(p.vector) + head * p.vector_stride + (p.queries - 1 - query);
  }

  // Divisions take longer than all the rest: two a work, where a row does not end in it.
  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    const int64_t elements = p.rows * p.keys;
    T* const out = static_cast<T*>(p.out);
    for (int64_t first = thread.index * kCount; first < elements; first += thread.count * kCount) {
      int64_t row = Quotient(first, p.keys), key = first - row * p.keys;
      const T* from = RowOf(row);
      if (first + kCount <= elements && key + kCount <= p.keys) {  // neighbours in the vector, too
        const auto all = LoadNeighbours<kCount>(from + key);
        Vector16<T> value;
        for (int i = 0; i < kCount; ++i) value.at[i] = all.at[i];
        Store16<T>(out + first, value);
        continue;
      }
      const int64_t end = first + kCount < elements ? first + kCount : elements;
      PHASOR_ROLLED for (int64_t i = first; i < end; ++i, ++key) {
        if (key == p.keys) from = RowOf(++row), key = 0;
        out[i] = from[key];
      }
    }
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_TOEPLITZ_CUH_
