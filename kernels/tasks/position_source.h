// Where the rows of a table stand. Part of backend.h.
#ifndef PHASOR_KERNELS_TASKS_POSITION_SOURCE_H_
#define PHASOR_KERNELS_TASKS_POSITION_SOURCE_H_

#include <cstdint>
#include <span>

namespace phasor {

// Positions of consecutive table rows along one axis: `ids` or `fractional_ids` when not empty (one per row; at most one of
// them), else start + row·stride. |position| < 2^31; a fractional one is 0 or of magnitude 2^-64 at least, and gives the
// bits of the whole number where it is one.
struct PositionSource {
  int64_t start = 0;
  int64_t stride = 1;
  std::span<const int64_t> ids;
  std::span<const double> fractional_ids = {};
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_POSITION_SOURCE_H_
