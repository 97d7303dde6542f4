// Whether rows have positions that tables are made for.
#ifndef PHASOR_KERNELS_TASKS_POSITION_CHECK_H_
#define PHASOR_KERNELS_TASKS_POSITION_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/tasks/position_source.h"

namespace phasor {

// INVALID_ARGUMENT where a row in [begin, end) has no position, or one beyond what PositionSource allows. begin < end.
absl::Status CheckPositions(const PositionSource& positions, int64_t begin, int64_t end);

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_POSITION_CHECK_H_
