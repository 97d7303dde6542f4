// GatherRowsTask on a device: rows of a learned table in any order, 16 bytes a thread and store; where rows are normalized,
// their norms before.
#ifndef PHASOR_KERNELS_CUDA_GATHER_H_
#define PHASOR_KERNELS_CUDA_GATHER_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/sum.h"
#include "kernels/cuda/pieces.h"

namespace phasor::cuda {

// What each of `rows` rows reads of a table's rows of `dim` without gaps: row hidden_row where hidden[r] is 1, else ids[r] +
// offset (start + r·stride + offset without ids); the table's address is that of row first_table_row. Addresses are the
// device's.
struct GatherSource {
  int64_t rows = 0, dim = 0;
  const void* table = nullptr;
  int64_t first_table_row = 0;
  const int64_t* ids = nullptr;
  int64_t start = 0, stride = 1, offset = 0;
  const uint8_t* hidden = nullptr;
  int64_t hidden_row = 0;
};

// out[r·dim + c] = RN(scale·entry), or RN(scale·(entry / norms[r])) where there are norms. `out` is aligned to 16 bytes. A
// work is 16 bytes of it.
struct GatherParams {
  GatherSource source;
  DType from = DType::kF32, to = DType::kF32;
  double scale = 1;
  const double* norms = nullptr;
  void* out = nullptr;

  bool copies_bits() const { return from == to && scale == 1 && norms == nullptr; }
  int64_t works() const { return PiecesOf(0, source.rows * source.dim, SizeOf(to)); }
};

// partials[r·16 + i]: partial sum i of the squares of what row r reads (kernels/core/sum.h). A work is a partial sum.
struct SquarePartialsParams {
  GatherSource source;
  DType from = DType::kF32;
  double* partials = nullptr;

  int64_t works() const { return source.rows * kPartialSums; }
};

// norms[r]: the root of the total of a row's partial sums, at least 1e-12. A work is a row.
struct NormsParams {
  int64_t rows = 0;
  const double* partials = nullptr;
  double* norms = nullptr;

  int64_t works() const { return rows; }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_GATHER_H_
