// Dense products for fitting small functions to tables (server/knowledge), in vectors and in f64. The order of every sum is
// part of the contract, so a fit gives the same bits on every machine.
#ifndef PHASOR_KERNELS_CPU_TRAINING_H_
#define PHASOR_KERNELS_CPU_TRAINING_H_

#include <cstdint>

namespace phasor {

// Rows of matrices that are read or written by vectors are this many numbers long, or a multiple.
inline constexpr int64_t kTrainingLanes = 8;
constexpr int64_t PaddedToLanes(int64_t count) { return (count + kTrainingLanes - 1) / kTrainingLanes * kTrainingLanes; }

// A matrix, or its transpose, that is read element by element.
struct MatrixView {
  const double* at = nullptr;
  int64_t row_stride = 0, column_stride = 0;  // elements
};

// c[i, j] ← fma(a[i, k], b[k, j], c[i, j]) for k = 0 … inner − 1, one after the other; i < rows, j < columns. b and c are
// row-major, `columns` is a multiple of kTrainingLanes; c overlaps nothing. Allocates nothing; thread-safe.
void AddProduct(int64_t rows, int64_t columns, int64_t inner, MatrixView a, const double* b, int64_t b_stride, double* c,
                int64_t c_stride);

// With s = Sigmoid(z[i]) (kernels/core/math.h): value[i] = z[i]·s and slope[i] = fma(value[i], 1 − s, s), the derivative of
// SiLU. `count` is a multiple of kTrainingLanes; value may be z.
void SiluWithSlope(const double* z, int64_t count, double* value, double* slope);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_TRAINING_H_
