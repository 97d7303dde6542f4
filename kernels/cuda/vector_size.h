// How many elements a vector of 16 bytes has.
#ifndef PHASOR_KERNELS_CUDA_VECTOR_SIZE_H_
#define PHASOR_KERNELS_CUDA_VECTOR_SIZE_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"

namespace phasor::cuda {

// Its logarithm, so that the type of a task costs no division. IsFloat(dtype).
PHASOR_HOST_DEVICE constexpr int VectorShift(DType dtype) { return dtype == DType::kF64 ? 1 : dtype == DType::kF32 ? 2 : 3; }
// Vectors for `elements` of them, the last one not always full.
PHASOR_HOST_DEVICE constexpr int64_t VectorsFor(int64_t elements, DType dtype) {
  const int shift = VectorShift(dtype);
  return (elements + (int64_t{1} << shift) - 1) >> shift;
}

// a / b for a ≥ 0, b > 0: without a sign it is shorter.
PHASOR_HOST_DEVICE constexpr int64_t Quotient(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) / static_cast<uint64_t>(b));
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_VECTOR_SIZE_H_
