#include "kernels/cpu/relative_product.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/score_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/relative_product.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/product-inl.h"
#include "kernels/cpu/relative_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries of one head that are worked on together, and keys beside them.
constexpr int64_t kBlockQueries = 64;
constexpr int64_t kBlockKeys = 512;
// Where keys are multiplied by a table: each of them needs as many table rows as there are queries, and some more because
// of tiles.
constexpr int64_t kBlockQueriesOfKeys = 128;
constexpr int64_t kBlockKeysOfKeys = 64;
// Table rows that are packed at once for a block of queries and all keys.
constexpr int64_t kMostPackedRows = 2048;

void FewRelativeProducts(const RelativeBlock& block) {
  const int64_t dim = block.task->shape.dim;
  std::vector<double> x(static_cast<size_t>(block.vectors() * dim));
  for (int64_t i = 0; i < block.vectors(); ++i) block.Read(i, x.data() + i * dim);
  const double* table = block.table();
  block.Add([&](int64_t vector, int64_t table_row)
                HWY_ATTR { return Dot<double>(x.data() + vector * dim, table + table_row * dim, dim); });
}

// Rows of a table, packed into tiles of kTileColumns; what is missing in the last tile is zeros. All at once where several
// blocks read them, else a tile when it is asked for.
class PackedTable {
 public:
  PackedTable(const double* table, const Band& band, int64_t dim, bool at_once)
      : table_(table), band_(band), dim_(dim), at_once_(at_once), packed_((at_once ? tiles() : 1) * kTileColumns * dim) {
    for (int64_t t = 0; at_once && t < tiles(); ++t) Pack(t, packed_.get() + t * kTileColumns * dim_);
  }
  const Band& band() const { return band_; }
  const double* tile(int64_t t) {
    if (at_once_) return packed_.get() + t * kTileColumns * dim_;
    Pack(t, packed_.get());
    return packed_.get();
  }

 private:
  int64_t tiles() const { return (band_.size() + kTileColumns - 1) / kTileColumns; }
  void Pack(int64_t t, double* to) const {
    const int64_t first = band_.low + t * kTileColumns, count = std::min(kTileColumns, band_.high + 1 - first);
    for (int64_t c = 0; c < count; ++c) PackVector(table_ + (first + c) * dim_, dim_, kTileColumns, to + c);
  }

  const double* table_;
  Band band_;
  int64_t dim_;
  bool at_once_;
  AlignedDoubles packed_;
};

void ManyRelativeProducts(const RelativeBlock& block, const Band& band, PackedTable& table) {
  const int64_t dim = block.task->shape.dim;
  std::vector<double> wide(static_cast<size_t>(dim));
  PackedRows x(block.vectors(), dim);
  std::vector<Band> bands(static_cast<size_t>(x.tiles()));
  for (int64_t i = 0; i < block.vectors(); ++i) {
    block.Read(i, wide.data());
    x.Set(i, wide.data());
  }
  for (int64_t t = 0; t < x.tiles(); ++t) {
    bands[t] = block.BandOfVectors(t * kTileRows, std::min(block.vectors(), (t + 1) * kTileRows));
  }
  const int64_t first_tile = (band.low - table.band().low) / kTileColumns;
  const int64_t last_tile = (band.high - table.band().low) / kTileColumns;
  const int64_t low = table.band().low + first_tile * kTileColumns;
  // A stride that is no power of two: sums of keys walk over the rows.
  const int64_t stride = (last_tile + 1 - first_tile) * kTileColumns + 8;
  AlignedDoubles products(x.tiles() * kTileRows * stride);
  for (int64_t tile = first_tile; tile <= last_tile; ++tile) {
    const int64_t first = table.band().low + tile * kTileColumns;
    const double* y = table.tile(tile);
    for (int64_t t = 0; t < x.tiles(); ++t) {
      if (bands[t].high < first || bands[t].low >= first + kTileColumns) continue;
      ProductTile(x.tile(t), y, dim, products.get() + t * kTileRows * stride + first - low, stride);
    }
  }
  const double* all = products.get();
  if (block.KeysFollow()) return AddConsecutive(block, {all, stride, low});
  block.Add([&](int64_t vector, int64_t table_row) { return all[vector * stride + table_row - low]; });
}

// Queries from `row` on by all keys, in blocks of them.
void RelativeRows(const RelativeProductTask& task, int64_t row, const ScorePlace& place, int64_t count) {
  const RelativeBlock whole{&task, row, place, count, 0, task.shape.keys};
  const Band all = whole.BandOfVectors(0, whole.vectors());
  std::optional<PackedTable> packed;
  const int64_t step = task.of_keys ? kBlockKeysOfKeys : kBlockKeys;
  for (int64_t key = 0; key < task.shape.keys; key += step) {
    const RelativeBlock block{&task, row, place, count, key, std::min(step, task.shape.keys - key)};
    const Band band = block.BandOfVectors(0, block.vectors());
    const int64_t others = task.of_keys ? block.queries : block.keys;
    // Scattered positions ask for few of many rows.
    if (band.size() == 0 || block.vectors() < kFewest || others < kTileColumns ||
        band.size() > 4 * (others + block.vectors())) {
      FewRelativeProducts(block);
      continue;
    }
    const bool at_once = task.of_keys && all.size() <= kMostPackedRows;
    if (!packed || !at_once) packed.emplace(block.table(), at_once ? all : band, task.shape.dim, at_once);
    ManyRelativeProducts(block, band, *packed);
  }
}

// The same without the first query and the first key, whose scores are put back.
void RelativeRowsAfterFirst(const RelativeProductTask& task, int64_t row, int64_t count) {
  if (ScorePlace(task.shape, row).query == 0) ++row, --count;
  if (count <= 0) return;
  std::vector<double> first(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) first[i] = task.scores[(row + i) * task.shape.keys];
  RelativeRows(task, row, ScorePlace(task.shape, row), count);
  for (int64_t i = 0; i < count; ++i) task.scores[(row + i) * task.shape.keys] = first[i];
}

bool RelativeRange(const RelativeProductTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const auto block = [&](int64_t row, const ScorePlace& place, int64_t count) HWY_ATTR {
    if (task.skip_first) return RelativeRowsAfterFirst(task, row, count);
    RelativeRows(task, row, place, count);
  };
  return ForBlocks(task.shape, task.of_keys ? kBlockQueriesOfKeys : kBlockQueries, begin, end, cancel, block);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(RelativeRange);

}  // namespace

absl::Status RunRelativeProduct(const RelativeProductTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (rows.begin >= rows.end || task.shape.keys == 0) return absl::OkStatus();
  const void* vectors = task.of_keys ? task.k.k.data : task.q.q.data;
  if ((task.shape.dim > 0 && vectors == nullptr) || task.positions.query == nullptr || task.positions.key == nullptr) {
    return absl::InvalidArgumentError("scores: vectors and positions must not be null");
  }
  const bool done = HWY_DYNAMIC_DISPATCH(RelativeRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("scores: cancelled");
}

int64_t RelativeProductRowsPerSlice(const RelativeProductTask& task) {
  return ProductRowsPerSlice(task.shape, task.of_keys ? 128 : 64);
}

}  // namespace phasor
#endif  // HWY_ONCE
