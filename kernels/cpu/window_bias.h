// Tables gathered by the rule of a window.
#ifndef PHASOR_KERNELS_CPU_WINDOW_BIAS_H_
#define PHASOR_KERNELS_CPU_WINDOW_BIAS_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Writes rows [rows.begin, rows.end) of `task`, a row being one (head, query) pair (contract: WindowTask). Bits are copied,
// and nothing is gathered one by one: in a table that is turned around, the keys of one row of the window are neighbours,
// and in strips of such pieces all keys of a query are. Large results are streamed in whole aligned lines. Allocates a
// turned table of one head, and strips of about 2·tokens·width elements where the window is narrow; thread-safe. Errors:
// INVALID_ARGUMENT for a null pointer, an element size other than 2, 4 or 8, or rows outside the task; CANCELLED.
absl::Status RunWindow(const WindowTask& task, RowRange rows, const CancelFlag* cancel);

// Rows that take about a millisecond or less on one core; ≥ 1.
int64_t WindowRowsPerSlice(const WindowTask& task);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_WINDOW_BIAS_H_
