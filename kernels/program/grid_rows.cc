#include "kernels/program/grid_rows.h"

#include <algorithm>
#include <cstring>

namespace phasor {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kCheapRows = 8192;

int64_t AlignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Of an axis: the rows of its table in scratch. All its points, or one row per row of the answer where those are fewer.
int64_t PointsOf(int64_t axis_points, int64_t rows) { return std::min(axis_points, rows); }

int64_t PartBytes(int64_t points, int64_t width, DType dtype) {
  return AlignUp(points * 8) + AlignUp(points * width * SizeOf(dtype));
}

int64_t PositionAt(const PositionSource& source, int64_t row) {
  return source.ids.empty() ? source.start + row * source.stride : source.ids[static_cast<size_t>(row)];
}

// Where the table of one axis is, and which of its rows a point of the grid reads.
struct PartTable {
  const GridPart* part = nullptr;
  int64_t inner = 1;   // points of the axes inside this one
  int64_t points = 0;  // of the axis
  bool whole = false;  // row = coordinate, else row = row of the answer
  double* coordinates = nullptr;
  std::byte* values = nullptr;  // [rows of the table, width]

  int64_t index(int64_t point) const { return point / inner % points; }
};

// The coordinates that an axis's table has its rows at.
ProgramStep CoordinateStep(const PartTable& table, const GridPlan& plan, const PositionSource& positions, int64_t count) {
  const auto run = [table, extra = plan.extra_rows, positions](RowRange rows, const CancelFlag*) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t point = PositionAt(positions, r) - extra;  // before the grid: any coordinate will do
      const int64_t index = table.whole ? r : point < 0 ? 0 : table.index(point);
      table.coordinates[r] = table.part->coordinate(index);
    }
    return absl::OkStatus();
  };
  return ProgramStep::Of(run, count, kCheapRows);
}

ProgramStep TableStep(const PartTable& table, int64_t count, DType dtype) {
  AngleTask task;
  task.plan = &table.part->angles;
  if (!table.whole || table.part->is_scaled()) {
    task.positions.fractional_ids = std::span<const double>(table.coordinates, static_cast<size_t>(count));
  }
  task.dtype = dtype;
  task.row_stride = 2 * task.plan->pairs();
  task.sin = table.values;
  task.cos = table.values + task.plan->pairs() * SizeOf(dtype);
  task.hint = StoreHint::kReadNext;
  return ProgramStep::Of(task, count);
}

}  // namespace

int64_t GridScratchBytes(const GridSinusoidalSpec& spec, int64_t rows, DType dtype) {
  int64_t bytes = 0;
  for (size_t a = 0; a < spec.grid.size(); ++a) bytes += PartBytes(PointsOf(spec.grid[a], rows), spec.columns[a], dtype);
  return bytes;
}

std::vector<ProgramStep> GridSteps(const GridPlan& plan, const PositionSource& positions, int64_t rows, DType dtype,
                                   void* out, std::byte* scratch) {
  std::vector<ProgramStep> steps;
  std::vector<PartTable> tables;
  for (const GridPart& part : plan.parts) {
    PartTable table;
    table.part = &part;
    table.points = plan.grid[static_cast<size_t>(part.axis)];
    for (size_t a = static_cast<size_t>(part.axis) + 1; a < plan.grid.size(); ++a) table.inner *= plan.grid[a];
    const int64_t count = PointsOf(table.points, rows);
    table.whole = count == table.points;
    table.coordinates = reinterpret_cast<double*>(scratch);
    table.values = scratch + AlignUp(count * 8);
    scratch += PartBytes(count, 2 * part.angles.pairs(), dtype);
    if (!table.whole || part.is_scaled()) steps.push_back(CoordinateStep(table, plan, positions, count));
    steps.push_back(TableStep(table, count, dtype));
    tables.push_back(table);
  }
  const int64_t row_bytes = plan.columns * SizeOf(dtype);
  const auto assemble = [tables, positions, row_bytes, size = SizeOf(dtype), extra = plan.extra_rows,
                         to = static_cast<std::byte*>(out)](RowRange range, const CancelFlag*) {
    for (int64_t r = range.begin; r < range.end; ++r) {
      std::byte* const row = to + r * row_bytes;
      const int64_t point = PositionAt(positions, r) - extra;
      if (point < 0) {
        std::memset(row, 0, static_cast<size_t>(row_bytes));
        continue;
      }
      for (const PartTable& table : tables) {
        const int64_t width = 2 * table.part->angles.pairs() * size;
        const int64_t from = table.whole ? table.index(point) : r;
        std::memcpy(row + table.part->first_column * size, table.values + from * width, static_cast<size_t>(width));
      }
    }
    return absl::OkStatus();
  };
  steps.push_back(
      ProgramStep::Of(assemble, rows, std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(row_bytes, 1))));
  return steps;
}

}  // namespace phasor
