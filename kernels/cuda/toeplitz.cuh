#ifndef PHASOR_KERNELS_CUDA_TOEPLITZ_CUH_
#define PHASOR_KERNELS_CUDA_TOEPLITZ_CUH_

#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/toeplitz.h"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// T: an unsigned integer of the element's size.
template <typename T>
struct ToeplitzBody {
  ToeplitzParams p;

  PHASOR_HOST_DEVICE T Element(int64_t i) const {
    const int64_t row = p.first_row + i / p.keys, key = i % p.keys;
    const int64_t head = row / p.queries, query = row % p.queries;
    return static_cast<const T*>(p.vector)[head * p.vector_stride + (p.queries - 1 - query) + key];
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    const int64_t elements = p.rows * p.keys;
    T* const out = static_cast<T*>(p.out);
    for (int64_t first = thread.index * kCount; first < elements; first += thread.count * kCount) {
      const int64_t key = first % p.keys;
      if (first + kCount > elements) {  // the tail
        for (int64_t i = first; i < elements; ++i) out[i] = Element(i);
        continue;
      }
      Vector16<T> value;
      if (key + kCount <= p.keys) {  // one row: neighbours in the vector
        const int64_t row = p.first_row + first / p.keys;
        const int64_t head = row / p.queries, query = row % p.queries;
        const T* from = static_cast<const T*>(p.vector) + head * p.vector_stride + (p.queries - 1 - query) + key;
        for (int i = 0; i < kCount; ++i) value.at[i] = from[i];
      } else {
        for (int i = 0; i < kCount; ++i) value.at[i] = Element(first + i);
      }
      Store16<T>(out + first, value);
    }
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_TOEPLITZ_CUH_
