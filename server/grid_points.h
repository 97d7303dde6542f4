// Points of a grid by their coordinates.
#ifndef PHASOR_SERVER_GRID_POINTS_H_
#define PHASOR_SERVER_GRID_POINTS_H_

#include <string_view>

#include "absl/status/statusor.h"

#include "kernels/encodings/spec.h"
#include "server/positions.h"

namespace phasor::server {

// Positions of several axes as the numbers of the grid's rows, which its encoding takes: the point with these coordinates,
// the last axis fastest, after the extra rows. Errors: InvalidField at `field` where there are other axes, fractions, or no
// such point.
absl::StatusOr<PositionSet> RowsOfGrid(const GridSinusoidalSpec& spec, const PositionSet& points, std::string_view field);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_GRID_POINTS_H_
