// The softmax of rows of scores, in vectors.
#ifndef PHASOR_KERNELS_CPU_SOFTMAX_H_
#define PHASOR_KERNELS_CPU_SOFTMAX_H_

#include <cstdint>

#include "kernels/core/dtype.h"

namespace phasor {

// Row r: y[r·y_stride + k] from x[r·x_stride + k], k = 0 … count − 1: the bits of SoftmaxRow (kernels/core/softmax.h).
// Strides are in elements. x_dtype is y_dtype (then y may be x with the same stride; any other overlap is not allowed) or
// kF64; both are floats. Allocates nothing; thread-safe.
void SoftmaxRows(DType x_dtype, const void* x, int64_t x_stride, DType y_dtype, void* y, int64_t y_stride, int64_t rows,
                 int64_t count);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_SOFTMAX_H_
