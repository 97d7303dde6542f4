#ifndef PHASOR_KERNELS_CUDA_ASSEMBLE_CUH_
#define PHASOR_KERNELS_CUDA_ASSEMBLE_CUH_

#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/cuda/assemble.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// T: an unsigned integer of the element's size.
template <typename T>
struct AssembleBody {
  AssembleParams p;

  // Where a row of either half begins.
  PHASOR_HOST_DEVICE int64_t FromOf(int64_t row) const {
    return (p.table_rows == nullptr ? row : p.table_rows[row] - p.first_table_row) * p.width;
  }
  PHASOR_HOST_DEVICE T Column(int64_t from, int64_t c) const {
    if (c >= p.first_columns + p.second_columns) return 0;
    const T* const first = static_cast<const T*>(p.first) + from;
    const T* const second = static_cast<const T*>(p.second) + from;
    if (p.interleaved) return c % 2 == 0 ? first[c / 2] : second[c / 2];
    return c < p.first_columns ? first[c] : second[c - p.first_columns];
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    T* const out = static_cast<T*>(p.out);
    const int64_t filled = p.first_columns + p.second_columns;
    const auto each = [&](int64_t i, int64_t row, int64_t c) { out[i] = Column(FromOf(row), c); };
    const auto whole = [&](int64_t at, int64_t row, int64_t c) {
      const int64_t from = FromOf(row), end = c + kCount;
      const T* const first = static_cast<const T*>(p.first) + from;
      const T* const second = static_cast<const T*>(p.second) + from;
      Vector16<T> value;
      if (p.interleaved && c % 2 == 0 && end <= filled) {
        const auto a = LoadNeighbours<kCount / 2>(first + c / 2);
        const auto b = LoadNeighbours<kCount / 2>(second + c / 2);
        for (int i = 0; i < kCount / 2; ++i) value.at[2 * i] = a.at[i], value.at[2 * i + 1] = b.at[i];
      } else if (!p.interleaved && (end <= p.first_columns || (c >= p.first_columns && end <= filled))) {
        const auto a = LoadNeighbours<kCount>(end <= p.first_columns ? first + c : second + (c - p.first_columns));
        for (int i = 0; i < kCount; ++i) value.at[i] = a.at[i];
      } else {
        for (int i = 0; i < kCount; ++i) value.at[i] = Column(from, c + i);
      }
      Store16<T>(out + at, value);
    };
    ForPieces<T>(thread, 0, p.rows * p.columns, p.columns, whole, each);
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ASSEMBLE_CUH_
