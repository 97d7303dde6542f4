// AssembleTask on a device: one array of a table's columns, 16 bytes a thread and store.
#ifndef PHASOR_KERNELS_CUDA_ASSEMBLE_H_
#define PHASOR_KERNELS_CUDA_ASSEMBLE_H_

#include <cstdint>

#include "kernels/cuda/pieces.h"

namespace phasor::cuda {

// `rows` rows of `columns` columns, to `out` without gaps. Column c is first[c], then second[c − first_columns];
// interleaved: first[c/2] where c is even, else second[c/2]. Columns from first_columns + second_columns on are zero. Row r
// is of row r of both halves, or table_rows[r] − first_table_row. Addresses are the device's, `out` is aligned to 16 bytes.
// A work is 16 bytes of the output.
struct AssembleParams {
  int32_t element_size = 4;  // 2, 4, 8
  bool interleaved = false;
  int64_t rows = 0, columns = 0;
  int64_t first_columns = 0, second_columns = 0;
  const void* first = nullptr;
  const void* second = nullptr;
  int64_t width = 0;  // elements between rows of a half
  const int32_t* table_rows = nullptr;
  int64_t first_table_row = 0;
  void* out = nullptr;

  int64_t works() const { return PiecesOf(0, rows * columns, element_size); }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ASSEMBLE_H_
