#ifndef PHASOR_KERNELS_CUDA_WINDOW_CUH_
#define PHASOR_KERNELS_CUDA_WINDOW_CUH_

#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/vector16.cuh"
#include "kernels/cuda/window.h"

namespace phasor::cuda {

// T: an unsigned integer of the element's size.
template <typename T>
struct WindowBody {
  WindowParams p;

  PHASOR_HOST_DEVICE const T* TableOf(int64_t head) const { return static_cast<const T*>(p.table) + head * p.table_stride; }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    T* const out = static_cast<T*>(p.out);
    const int64_t tokens = p.window.tokens(), width = p.window.width;
    const auto each = [&](int64_t i, int64_t row, int64_t key) {
      const int64_t task_row = p.first_row + row;
      out[i] = TableOf(task_row / tokens)[p.window.row_of(task_row % tokens, key)];
    };
    const auto whole = [&](int64_t first, int64_t row, int64_t key) {
      const int64_t task_row = p.first_row + row, query = task_row % tokens;
      const T* const table = TableOf(task_row / tokens);
      // The next key's entry is the one before, but for the first of a row of the window, and around the class token.
      const bool class_query = p.window.class_token && query == 0;
      int64_t from = p.window.row_of(query, key);
      int64_t left = width - (key - (p.window.class_token ? 1 : 0)) % width;  // keys of the window's row from this one on
      Vector16<T> value;
      value.at[0] = table[from];
      if (class_query) {
        if (key == 0) from = p.window.row_of(0, 1);
        for (int i = 1; i < kCount; ++i) value.at[i] = table[from];
      } else {
        if (p.window.class_token && key == 0) from = p.window.row_of(query, 1) + 1, left = width + 1;
        for (int i = 1; i < kCount; ++i) {
          --from;
          if (--left == 0) from -= width - 1, left = width;
          value.at[i] = table[from];
        }
      }
      Store16<T>(out + first, value);
    };
    ForPieces<T>(thread, 0, p.rows * tokens, tokens, whole, each);
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_WINDOW_CUH_
