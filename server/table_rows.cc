#include "server/table_rows.h"

#include <algorithm>
#include <vector>

namespace phasor::server {

int64_t TableRows::EndOfTileRun(int64_t row, int64_t end) const {
  const int64_t tile = TileOf(at(row));
  if (positions->ids.empty() && positions->stride == 1) return std::min(end, row + (tile + 1) * kTileRows - at(row));
  int64_t stop = row + 1;
  while (stop < end && TileOf(at(stop)) == tile) ++stop;
  return stop;
}

int64_t TableRows::EndOfDirectRun(int64_t row, int64_t end) const {
  int64_t stop = row;
  do {
    stop = EndOfTileRun(stop, end);
  } while (stop < end && tiles->Find(TileOf(at(stop))) == nullptr);
  return stop;
}

absl::Status TableRows::Compute(int64_t row, int64_t count, std::byte* cos, std::byte* sin, const CancelFlag* cancel) const {
  AngleTask task;
  task.plan = plan->angle();
  task.dtype = dtype;
  task.inverse = inverse;
  task.cos = cos;
  task.sin = sin;
  task.row_stride = task.plan->pairs();
  std::vector<int64_t> moved;
  if (positions->ids.empty()) {
    task.positions.start = at(row);
    task.positions.stride = positions->stride;
  } else if (offset == 0) {
    task.positions.ids = std::span(positions->ids).subspan(static_cast<size_t>(row), static_cast<size_t>(count));
  } else {
    moved.resize(static_cast<size_t>(count));
    for (int64_t r = 0; r < count; ++r) moved[static_cast<size_t>(r)] = at(row + r);
    task.positions.ids = moved;
  }
  return core->backend->Run(task, {0, count}, cancel);
}

absl::Status TableRows::Visit(RowRange rows, const CancelFlag* cancel, const Direct* direct,
                              absl::FunctionRef<absl::Status(const TableRun&)> visit) const {
  std::vector<int32_t> table_rows;
  const bool consecutive = positions->ids.empty() && positions->stride == 1;
  for (int64_t row = rows.begin; row < rows.end;) {
    TableRun run;
    run.first = row;
    std::shared_ptr<Buffer> scratch;
    bool in_place = false;
    if (const Tile* tile = tiles->Find(TileOf(at(row)))) {
      run.rows = EndOfTileRun(row, rows.end) - row;
      const int64_t base = TileOf(at(row)) * kTileRows;
      run.cos = tile->data();
      run.sin = tile->data() + tile->bytes() / 2;
      run.shared = &tile->shared();
      if (consecutive) {
        run.cos += (at(row) - base) * row_bytes();
        run.sin += (at(row) - base) * row_bytes();
      } else {
        table_rows.resize(static_cast<size_t>(run.rows));
        for (int64_t r = 0; r < run.rows; ++r) table_rows[static_cast<size_t>(r)] = static_cast<int32_t>(at(row + r) - base);
        run.table_rows = table_rows;
      }
    } else {
      run.rows = EndOfDirectRun(row, rows.end) - row;
      std::byte* cos = nullptr;
      std::byte* sin = nullptr;
      in_place = direct != nullptr;
      if (in_place) {
        cos = direct->cos + row * row_bytes();
        sin = direct->sin + row * row_bytes();
      } else {
        const int64_t half = AlignUp(run.rows * row_bytes(), 64);
        auto buffer = core->pool.Allocate(2 * half);
        if (!buffer.ok()) return buffer.status();
        scratch = *std::move(buffer);
        cos = scratch->data();
        sin = scratch->data() + half;
      }
      run.cos = cos;
      run.sin = sin;
      const absl::Status status = Compute(row, run.rows, cos, sin, cancel);
      if (!status.ok()) return status;
    }
    if (!in_place) {
      const absl::Status status = visit(run);
      if (!status.ok()) return status;
    }
    row += run.rows;
  }
  return absl::OkStatus();
}

int64_t TableRows::rows_per_slice() const {
  AngleTask task;
  task.plan = plan->angle();
  task.dtype = dtype;
  task.inverse = inverse;
  task.row_stride = task.plan->pairs();
  static constexpr int64_t kNoId = 0;
  task.positions.ids = std::span(&kNoId, positions->ids.empty() ? 0 : 1);
  return core->backend->RowsPerSlice(task);
}

}  // namespace phasor::server
