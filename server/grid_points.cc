#include "server/grid_points.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/program/rotation.h"
#include "server/grpc_status.h"

namespace phasor::server {

absl::StatusOr<PositionSet> RowsOfGrid(const GridSinusoidalSpec& spec, const PositionSet& points, std::string_view field) {
  const auto axes = static_cast<int64_t>(spec.grid.size());
  if (points.axes() != axes) {
    return InvalidField(field, absl::StrCat(points.axes(), " axes"),
                        absl::StrCat("one axis, or ", axes, " as the grid has"));
  }
  PositionSet rows;
  rows.count = points.count;
  rows.hidden = points.hidden;
  rows.ids.assign(static_cast<size_t>(points.count), 0);
  for (int64_t axis = 0; axis < axes; ++axis) {
    const PositionSource source = points.Source(axis);
    const int64_t extent = spec.grid[static_cast<size_t>(axis)];
    for (int64_t row = 0; row < points.count; ++row) {
      const Coordinate at = CoordinateOf(source, row);
      if (!at.is_whole || at.whole < 0 || at.whole >= extent) {
        return InvalidField(field, absl::StrCat("coordinate ", at.value, " of row ", row, " along axis ", axis),
                            absl::StrCat("whole coordinates 0 … ", extent - 1, ": the grid has ", extent, " points there"));
      }
      int64_t& id = rows.ids[static_cast<size_t>(row)];
      id = id * extent + at.whole;
    }
  }
  rows.largest = -1;
  for (int64_t& id : rows.ids) rows.largest = std::max(rows.largest, id += spec.extra_rows);
  return rows;
}

}  // namespace phasor::server
