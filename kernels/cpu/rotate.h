// The rotation of RoPE on the CPU, in vectors of whatever the machine has.
#ifndef PHASOR_KERNELS_CPU_ROTATE_H_
#define PHASOR_KERNELS_CPU_ROTATE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rotates tokens [rows.begin, rows.end) of `task` (contract and arithmetic: RotateTask). Every instruction set gives the
// same bits. Addresses may be unaligned to any degree; streaming stores need y, its strides and the rotated halves to be
// multiples of 64 bytes, and are never used in place. Moves each byte of x and y once, the table's 1/heads times; allocates
// nothing (kInterleavedToHalf: up to 64 KiB, or one head if that is more); thread-safe. Denormal inputs are computed with,
// not flushed, which costs some CPUs a factor of 20. Errors: INVALID_ARGUMENT for a null pointer, a type that is not a
// float, extents below 0, head_dim < 2·pairs or fewer table_rows than tokens; CANCELLED.
absl::Status RunRotate(const RotateTask& task, RowRange rows, const CancelFlag* cancel);

// Tokens that take about a millisecond or less on one core; ≥ 1.
int64_t RotateRowsPerSlice(const RotateTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ROTATE_H_
