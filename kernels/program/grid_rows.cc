#include "kernels/program/grid_rows.h"

#include <algorithm>
#include <cstring>

namespace phasor {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kCheapRows = 8192;

// Rows of a slice that copies so many bytes for each: 1 MiB.
int64_t CopiedRows(int64_t row_bytes) {
  return std::clamp<int64_t>((int64_t{1} << 20) / std::max<int64_t>(row_bytes, 1), 1, kCheapRows);
}

int64_t AlignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Of an axis: the rows of its table in scratch. All its points, or one row per row of the answer where those are fewer.
int64_t PointsOf(int64_t axis_points, int64_t rows) { return std::min(axis_points, rows); }

TableForm FormOf(bool interleaved) { return interleaved ? TableForm::kSinCosInterleaved : TableForm::kSinCosConcatenated; }

// Coordinates, the table, and what its form takes.
int64_t PartBytes(int64_t points, int64_t width, bool interleaved, DType dtype) {
  return AlignUp(points * 8) + AlignUp(points * width * SizeOf(dtype)) +
         AngleScratchBytes(width / 2, FormOf(interleaved), width, points, dtype);
}

int64_t PositionAt(const PositionSource& source, int64_t row) {
  return source.ids.empty() ? source.start + row * source.stride : source.ids[static_cast<size_t>(row)];
}

// Where the table of one axis is, and which of its rows a point of the grid reads.
struct PartTable {
  const GridPart* part = nullptr;
  int64_t inner = 1;   // points of the axes inside this one
  int64_t points = 0;  // of the axis
  bool whole = false;  // row = point of the axis, else row = row of the answer
  double* coordinates = nullptr;
  std::byte* values = nullptr;  // [rows of the table, width]
  std::byte* scratch = nullptr;

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

// The table of an axis whose rows stand at `at`.
void AddTableSteps(const PartTable& table, const PositionSource& at, int64_t count, DType dtype,
                   std::vector<ProgramStep>& steps) {
  AngleRows rows;
  rows.plan = &table.part->angles;
  rows.positions.axes[0] = at;
  rows.positions.rows = count;
  rows.form = FormOf(table.part->interleaved);
  rows.columns = 2 * rows.plan->pairs();
  rows.dtype = dtype;
  rows.out = table.values;
  rows.scratch = table.scratch;
  for (ProgramStep& step : AngleSteps(rows)) steps.push_back(std::move(step));
}

// Each axis by the coordinates that are given, and its columns copied into the rows.
std::vector<ProgramStep> CoordinateSteps(const GridPlan& plan, const RowPositions& positions, DType dtype, void* out,
                                         std::byte* scratch) {
  std::vector<ProgramStep> steps;
  const int64_t row_bytes = plan.columns * SizeOf(dtype), rows = positions.rows;
  for (const GridPart& part : plan.parts) {
    const int64_t width = 2 * part.angles.pairs();
    PartTable table;
    table.part = &part;
    table.values = scratch;
    scratch += AlignUp(rows * width * SizeOf(dtype));
    table.scratch = scratch;
    scratch += AngleScratchBytes(width / 2, FormOf(part.interleaved), width, rows, dtype);
    AddTableSteps(table, positions.axes[static_cast<size_t>(part.axis)], rows, dtype, steps);
    const auto copy = [from = table.values, bytes = width * SizeOf(dtype), row_bytes,
                       to = static_cast<std::byte*>(out) + part.first_column * SizeOf(dtype)](RowRange range,
                                                                                              const CancelFlag*) {
      for (int64_t r = range.begin; r < range.end; ++r) {
        std::memcpy(to + r * row_bytes, from + r * bytes, static_cast<size_t>(bytes));
      }
      return absl::OkStatus();
    };
    steps.push_back(ProgramStep::Of(copy, rows, CopiedRows(width * SizeOf(dtype))));
  }
  return steps;
}

}  // namespace

int64_t GridScratchBytes(const GridSinusoidalSpec& spec, int64_t rows, DType dtype) {
  const bool interleaved = *spec.layout == GridLayout::kInterleaved;
  int64_t bytes = 0;
  for (size_t a = 0; a < spec.columns.size(); ++a) {
    bytes += PartBytes(spec.grid.empty() ? rows : PointsOf(spec.grid[a], rows), spec.columns[a], interleaved, dtype);
  }
  return bytes;
}

std::vector<ProgramStep> GridSteps(const GridPlan& plan, const RowPositions& at, DType dtype, void* out,
                                   std::byte* scratch) {
  if (plan.grid.empty()) return CoordinateSteps(plan, at, dtype, out, scratch);
  const PositionSource& positions = at.axes[0];
  const int64_t rows = at.rows;
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
    table.scratch = table.values + AlignUp(count * 2 * part.angles.pairs() * SizeOf(dtype));
    scratch += PartBytes(count, 2 * part.angles.pairs(), part.interleaved, dtype);
    PositionSource points;
    if (!table.whole || part.is_scaled()) {
      steps.push_back(CoordinateStep(table, plan, positions, count));
      points.fractional_ids = std::span<const double>(table.coordinates, static_cast<size_t>(count));
    }
    AddTableSteps(table, points, count, dtype, steps);
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
  steps.push_back(ProgramStep::Of(assemble, rows, CopiedRows(row_bytes)));
  return steps;
}

}  // namespace phasor
