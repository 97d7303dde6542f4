// Tables in the form that a model wants, from cos and sin halves.
#ifndef PHASOR_KERNELS_CPU_ASSEMBLE_H_
#define PHASOR_KERNELS_CPU_ASSEMBLE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Writes rows [rows.begin, rows.end) of `task` (contract: AssembleTask). Bits are copied. A row is the form's columns, cut
// or filled with zeros to `columns`; kSinCosConcatenated takes min(pairs, ceil(columns/2)) sines, then min(pairs,
// floor(columns/2)) cosines. kHalf, kDuplicated and kInterleavedDuplicated have two arrays: out (cos) and out_sin, of which
// one may be null. Addresses may be unaligned. Allocates nothing; thread-safe.
// Errors: INVALID_ARGUMENT for a null pointer, an element size other than 2, 4 or 8, or extents below 0; CANCELLED.
absl::Status RunAssemble(const AssembleTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t AssembleRowsPerSlice(const AssembleTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ASSEMBLE_H_
