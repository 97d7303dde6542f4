#include "server/knowledge/least_squares.h"

#include <cmath>

namespace phasor::server {
namespace {

// to[j] −= factor·from[j]
void Subtract(double factor, const double* from, int64_t count, double* to) {
  for (int64_t j = 0; j < count; ++j) to[j] -= factor * from[j];
}

}  // namespace

// Rows of Lᵀ are made one after the other, in the upper triangle, so that every inner loop runs along a row; they are the
// columns of L, and are copied there at the end.
bool Cholesky(int64_t size, int64_t stride, double* matrix) {
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = i + 1; j < size; ++j) matrix[i * stride + j] = matrix[j * stride + i];
  }
  for (int64_t k = 0; k < size; ++k) {
    double* const row = matrix + k * stride;
    if (!(row[k] > 0) || !std::isfinite(row[k])) return false;
    const double pivot = std::sqrt(row[k]);
    row[k] = pivot;
    for (int64_t j = k + 1; j < size; ++j) row[j] /= pivot;
    for (int64_t i = k + 1; i < size; ++i) Subtract(row[i], row + i, size - i, matrix + i * stride + i);
  }
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = i + 1; j < size; ++j) matrix[j * stride + i] = matrix[i * stride + j];
  }
  return true;
}

void SolveCholesky(int64_t size, int64_t stride, const double* factor, int64_t columns, int64_t b_stride, double* b) {
  for (int64_t i = 0; i < size; ++i) {
    double* const row = b + i * b_stride;
    for (int64_t k = 0; k < i; ++k) Subtract(factor[i * stride + k], b + k * b_stride, columns, row);
    for (int64_t j = 0; j < columns; ++j) row[j] /= factor[i * stride + i];
  }
  for (int64_t i = size - 1; i >= 0; --i) {
    double* const row = b + i * b_stride;
    for (int64_t k = i + 1; k < size; ++k) Subtract(factor[k * stride + i], b + k * b_stride, columns, row);
    for (int64_t j = 0; j < columns; ++j) row[j] /= factor[i * stride + i];
  }
}

}  // namespace phasor::server
