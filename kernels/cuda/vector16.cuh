// 16 bytes at a time: the widest load and store of a thread.
#ifndef PHASOR_KERNELS_CUDA_VECTOR16_CUH_
#define PHASOR_KERNELS_CUDA_VECTOR16_CUH_

#include <bit>
#include <cstdint>

#include "kernels/core/host_device.h"

namespace phasor::cuda {

// 16 / sizeof(T) elements. Loaded and stored whole where the address is aligned to 16 bytes.
template <typename T>
struct alignas(16) Vector16 {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(T));
  T at[kCount];
};

template <typename T>
PHASOR_HOST_DEVICE inline Vector16<T> Load16(const void* from) {
  return *static_cast<const Vector16<T>*>(from);
}
// As one number: element by element, a compiler may merge the store with a scalar one of another branch, and take it apart.
typedef unsigned __int128 __attribute__((may_alias)) Number16;
template <typename T>
PHASOR_HOST_DEVICE inline void Store16(void* to, const Vector16<T>& value) {
  *static_cast<Number16*>(to) = std::bit_cast<unsigned __int128>(value);
}

// Keeps stores behind those that stand before them: to a compiler, a vector and one of its elements are apart.
PHASOR_HOST_DEVICE inline void OrderStores() { asm volatile("" ::: "memory"); }

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_VECTOR16_CUH_
