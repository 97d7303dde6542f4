// The rows of a window, wherever they are: in tiles, or computed on the way.
#ifndef PHASOR_SERVER_TABLE_ROWS_H_
#define PHASOR_SERVER_TABLE_ROWS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "server/engine_core.h"
#include "server/request.h"
#include "server/tile_set.h"

namespace phasor::server {

// Consecutive rows of the window whose cos and sin lie in one place.
struct TableRun {
  int64_t first = 0;  // row of the window
  int64_t rows = 0;
  const std::byte* cos = nullptr;  // row r at cos + (table_rows[r] or r) · pairs elements
  const std::byte* sin = nullptr;
  std::span<const int32_t> table_rows;  // empty: row r
  const SharedTable* shared = nullptr;  // what cos and sin are parts of, when that is a tile
};

// A window of an angle plan's table. Copies are cheap; whatever it points at must outlive it.
struct TableRows {
  EngineCore* core = nullptr;
  const PlanEntry* plan = nullptr;
  DType dtype = DType::kF32;
  bool inverse = false;
  const PositionSet* positions = nullptr;
  int64_t offset = 0;  // added to every position
  const TileSet* tiles = nullptr;

  // Where rows that no tile holds are computed: straight into the caller's arrays of [rows, pairs].
  struct Direct {
    std::byte* cos;
    std::byte* sin;
  };

  // Calls `visit` for runs that together cover [rows.begin, rows.end), in order; with `direct`, only for those in tiles.
  // Scratch memory of the size of the runs without tiles comes from the pool. Thread-safe. Errors: of `visit`, of the
  // backend, RESOURCE_EXHAUSTED.
  absl::Status Visit(RowRange rows, const CancelFlag* cancel, const Direct* direct,
                     absl::FunctionRef<absl::Status(const TableRun&)> visit) const;

  int64_t at(int64_t row) const { return positions->at(row) + offset; }
  int64_t row_bytes() const { return plan->angle()->pairs() * SizeOf(dtype); }
  // Rows to compute directly in about a millisecond.
  int64_t rows_per_slice() const;

 private:
  int64_t EndOfTileRun(int64_t row, int64_t end) const;
  int64_t EndOfDirectRun(int64_t row, int64_t end) const;
  absl::Status Compute(int64_t row, int64_t count, std::byte* cos, std::byte* sin, const CancelFlag* cancel) const;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_TABLE_ROWS_H_
