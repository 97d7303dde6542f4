#ifndef PHASOR_KERNELS_CUDA_BIAS_MATRIX_CUH_
#define PHASOR_KERNELS_CUDA_BIAS_MATRIX_CUH_

#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/cuda/bias_matrix.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// T: an unsigned integer of the element's size.
template <typename T>
struct BiasMatrixBody {
  BiasMatrixParams p;

  // What a row reads: vector[first + position of the key].
  struct Row {
    int64_t first;
    const int32_t* positions;
  };
  PHASOR_HOST_DEVICE Row RowAt(int64_t row) const {
    const int64_t task_row = p.first_row + row, of_heads = task_row / p.queries;
    const int64_t q = task_row % p.queries, h = of_heads % p.heads, b = of_heads / p.heads;
    const int64_t query =
        p.query_positions != nullptr ? p.query_positions[b * p.query_batch_stride + q] : p.query_offset + q;
    return {b * p.vector_batch_stride + h * p.vector_head_stride - query - p.first_distance,
            p.key_positions == nullptr ? nullptr : p.key_positions + b * p.key_batch_stride};
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    T* const out = static_cast<T*>(p.out);
    const T* const vector = static_cast<const T*>(p.vector);
    const auto each = [&](int64_t i, int64_t row, int64_t key) {
      const Row from = RowAt(row);
      out[i] = vector[from.first + (from.positions != nullptr ? from.positions[key] : key)];
    };
    const auto whole = [&](int64_t first, int64_t row, int64_t key) {
      const Row from = RowAt(row);
      Vector16<T> value;
      if (from.positions == nullptr) {
        const auto entries = LoadNeighbours<kCount>(vector + from.first + key);
        for (int i = 0; i < kCount; ++i) value.at[i] = entries.at[i];
      } else {
        const auto positions = LoadNeighbours<kCount>(from.positions + key);
        for (int i = 0; i < kCount; ++i) value.at[i] = vector[from.first + positions.at[i]];
      }
      Store16<T>(out + first, value);
    };
    ForPieces<T>(thread, 0, p.rows * p.keys, p.keys, whole, each);
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_BIAS_MATRIX_CUH_
