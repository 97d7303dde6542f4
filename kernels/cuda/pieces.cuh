// Arrays of rows, written 16 bytes at a time: the loop of most bodies.
#ifndef PHASOR_KERNELS_CUDA_PIECES_CUH_
#define PHASOR_KERNELS_CUDA_PIECES_CUH_

#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.h"
#include "kernels/cuda/vector16.cuh"

// Before a loop that a device's compiler is not to unroll.
#if defined(__CUDACC__)
#define PHASOR_ROLLED _Pragma("unroll 1")
#else
#define PHASOR_ROLLED
#endif

namespace phasor::cuda {

// Elements [begin, end) of an array of rows of `width` elements: of every piece the thread has
//   whole(first, row, column)  where all of the piece's elements are in the range and in one row, else
//   each(i, row, column)       for every element of it that is in the range.
template <typename T, typename Whole, typename Each>
PHASOR_HOST_DEVICE inline void ForPieces(GridThread thread, int64_t begin, int64_t end, int64_t width, const Whole& whole,
                                         const Each& each) {
  constexpr int kCount = Vector16<T>::kCount;
  for (int64_t first = (begin / kCount + thread.index) * kCount; first < end; first += thread.count * kCount) {
    int64_t row = first / width, column = first % width;
    if (first >= begin && first + kCount <= end && column + kCount <= width) {
      whole(first, row, column);
      continue;
    }
    const int64_t stop = first + kCount < end ? first + kCount : end;
    PHASOR_ROLLED for (int64_t i = first; i < stop; ++i) {
      if (i >= begin) each(i, row, column);
      if (++column == width) ++row, column = 0;
    }
  }
}

// N neighbours from any element's address, 16 bytes (or all, where that is less) at a time where the address allows.
template <typename T, int N>
struct Neighbours {
  T at[N];
};
template <int N, typename T>
PHASOR_HOST_DEVICE inline Neighbours<T, N> LoadNeighbours(const T* from) {
  constexpr int kBytes = N * sizeof(T) < 16 ? N * static_cast<int>(sizeof(T)) : 16;
  constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  struct alignas(kBytes) Chunk {
    T at[kCount];
  };
  Neighbours<T, N> all;
  if (reinterpret_cast<uintptr_t>(from) % kBytes == 0) {
    for (int i = 0; i < N; i += kCount) {
      const Chunk chunk = *reinterpret_cast<const Chunk*>(from + i);
      for (int j = 0; j < kCount; ++j) all.at[i + j] = chunk.at[j];
    }
  } else {
    for (int i = 0; i < N; ++i) all.at[i] = from[i];
  }
  return all;
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_PIECES_CUH_
