// Small dense systems, in an order of operations that is fixed.
#ifndef PHASOR_SERVER_KNOWLEDGE_LEAST_SQUARES_H_
#define PHASOR_SERVER_KNOWLEDGE_LEAST_SQUARES_H_

#include <cstdint>
#include <vector>

namespace phasor::server {

// Factors a symmetric positive definite matrix, of which the lower triangle is read, into L·Lᵀ in place. False: it is not
// (numerically) positive definite, and what is left is worth nothing.
bool Cholesky(int64_t size, int64_t stride, double* matrix);

// Solves L·Lᵀ·x = b for every column of b [size, columns], in place.
void SolveCholesky(int64_t size, int64_t stride, const double* factor, int64_t columns, int64_t b_stride, double* b);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_LEAST_SQUARES_H_
