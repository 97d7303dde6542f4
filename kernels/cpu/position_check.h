// Whether rows have positions that tables are made for.
#ifndef PHASOR_KERNELS_CPU_POSITION_CHECK_H_
#define PHASOR_KERNELS_CPU_POSITION_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// INVALID_ARGUMENT where a row in [rows.begin, rows.end) has no position, or one beyond what PositionSource allows. `rows`
// is not empty.
absl::Status CheckPositions(const PositionSource& positions, RowRange rows);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_POSITION_CHECK_H_
