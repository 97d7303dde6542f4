#include "kernels/cpu/score_product.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/score_product.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/product-inl.h"
#include "kernels/cpu/score_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries of one head that are worked on together, and keys beside them.
constexpr int64_t kBlockQueries = 64;
constexpr int64_t kBlockKeys = 512;
// Fewer vectors than this are multiplied one by one: packing the other side would cost more.
constexpr int64_t kFewest = 3;

inline bool Stopped(const CancelFlag* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Calls body(first row, place of it, queries) for blocks of at most kBlockQueries rows of one head. False when cancelled.
template <typename Body>
bool ForBlocks(const ScoreShape& shape, int64_t begin, int64_t end, const CancelFlag* cancel, Body body) {
  for (int64_t row = begin; row < end;) {
    if (Stopped(cancel)) return false;
    const ScorePlace place(shape, row);
    const int64_t count = std::min({kBlockQueries, end - row, shape.queries - place.query});
    body(row, place, count);
    row += count;
  }
  return true;
}

// ---- Queries by keys.

void FewProducts(const ScoreProductTask& task, int64_t row, const ScorePlace& place, int64_t count) {
  const ScoreShape& shape = task.shape;
  std::vector<double> x(static_cast<size_t>(shape.dim));
  const HeadVectors& k = task.k.k;
  for (int64_t i = 0; i < count; ++i) {
    ReadQuery(task.q, ScorePlace(shape, row + i), shape.dim, x.data());
    VisitFloat(k.dtype, [&](auto tag) HWY_ATTR {
      using T = typename decltype(tag)::type;
      const T* keys =
          static_cast<const T*>(k.data) + place.batch * k.batch_stride + place.head / task.k.group * k.head_stride;
      double* out = task.scores + (row + i) * shape.keys;
      for (int64_t j = 0; j < shape.keys; ++j) out[j] = Dot<double>(x.data(), keys + j * k.token_stride, shape.dim);
    });
  }
}

void ManyProducts(const ScoreProductTask& task, int64_t row, const ScorePlace& place, int64_t count) {
  const ScoreShape& shape = task.shape;
  const int64_t dim = shape.dim;
  std::vector<double> wide(static_cast<size_t>(dim));
  PackedRows x(count, dim);
  for (int64_t i = 0; i < count; ++i) {
    ReadQuery(task.q, ScorePlace(shape, row + i), dim, wide.data());
    x.Set(i, wide.data());
  }
  AlignedDoubles columns(kTileColumns * dim);
  double* y = columns.get();
  HWY_ALIGN double tile[kTileRows * kTileColumns];
  for (int64_t key = 0; key < shape.keys; key += kTileColumns) {
    const int64_t width = std::min(kTileColumns, shape.keys - key);
    for (int64_t c = 0; c < width; ++c) {
      ReadVector(task.k.k, place.batch, key + c, place.head / task.k.group, dim, wide.data());
      PackVector(wide.data(), dim, kTileColumns, y + c);
    }
    for (int64_t t = 0; t < x.tiles(); ++t) {
      double* out = task.scores + (row + t * kTileRows) * shape.keys + key;
      const int64_t height = std::min(kTileRows, count - t * kTileRows);
      if (width == kTileColumns && height == kTileRows) {
        ProductTile(x.tile(t), y, dim, out, shape.keys);
        continue;
      }
      ProductTile(x.tile(t), y, dim, tile, kTileColumns);
      for (int64_t r = 0; r < height; ++r) std::copy_n(tile + r * kTileColumns, width, out + r * shape.keys);
    }
  }
}

bool ProductRange(const ScoreProductTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  return ForBlocks(task.shape, begin, end, cancel, [&](int64_t row, const ScorePlace& place, int64_t count) HWY_ATTR {
    count < kFewest ? FewProducts(task, row, place, count) : ManyProducts(task, row, place, count);
  });
}

// ---- Queries or keys by rows of a table.

// Table rows [low, high]; none when high < low.
struct Band {
  int64_t low = 0, high = -1;
  int64_t size() const { return high - low + 1; }
  void Join(const Band& other) {
    if (other.high < other.low) return;
    low = high < low ? other.low : std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

// Rows that distances smallest … largest may have.
Band BandOf(const DistanceRows& rows, int64_t smallest, int64_t largest) {
  if (rows.last < rows.first) return {};
  if (!rows.clamp_below) smallest = std::max(smallest, rows.first);
  if (!rows.clamp_above) largest = std::min(largest, rows.last);
  if (largest < smallest) return {};
  if ((largest < rows.first && !rows.clamp_below) || (smallest > rows.last && !rows.clamp_above)) return {};
  const int64_t a = rows(smallest), b = rows(largest);
  return {std::min(a, b), std::max(a, b)};
}

struct Extremes {
  explicit Extremes(const int64_t* positions, int64_t count) {
    const auto [low, high] = std::minmax_element(positions, positions + count);
    smallest = *low, largest = *high;
  }
  int64_t smallest, largest;
};

// Queries [0, queries) from `row` on by keys [key, key + keys) of one head.
struct RelativeBlock {
  const RelativeProductTask* task;
  int64_t row;
  ScorePlace place;
  int64_t queries, key, keys;

  const int64_t* query_positions() const {
    return task->positions.query + place.batch * task->positions.query_batch_stride + place.query;
  }
  const int64_t* key_positions() const { return task->positions.key + place.batch * task->positions.key_batch_stride + key; }
  double* scores(int64_t i) const { return task->scores + (row + i) * task->shape.keys + key; }
  const double* table() const { return task->table + place.head * task->table_head_stride; }

  // The side that is multiplied, and the other one.
  int64_t vectors() const { return task->of_keys ? keys : queries; }
  HWY_INLINE void Read(int64_t i, double* out) const {
    if (task->of_keys) {
      ReadVector(task->k.k, place.batch, key + i, place.head / task->k.group, task->shape.dim, out);
    } else {
      ReadQuery(task->q, ScorePlace(task->shape, row + i), task->shape.dim, out);
    }
  }
  // Table rows that vectors [begin, end) need.
  Band BandOfVectors(int64_t begin, int64_t end) const {
    const Extremes q =
        task->of_keys ? Extremes(query_positions(), queries) : Extremes(query_positions() + begin, end - begin);
    const Extremes k = task->of_keys ? Extremes(key_positions() + begin, end - begin) : Extremes(key_positions(), keys);
    return BandOf(task->rows, q.smallest - k.largest, q.largest - k.smallest);
  }
  // Adds product(vector, table row) to every score.
  template <typename Product>
  HWY_INLINE void Add(Product product) const {
    for (int64_t i = 0; i < queries; ++i) {
      double* out = scores(i);
      const int64_t position = query_positions()[i];
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t table_row = task->rows(position - key_positions()[j]);
        if (table_row == DistanceRows::kNone) {
          out[j] = -std::numeric_limits<double>::infinity();
        } else {
          out[j] += product(task->of_keys ? j : i, table_row);
        }
      }
    }
  }
};

void FewRelativeProducts(const RelativeBlock& block) {
  const int64_t dim = block.task->shape.dim;
  std::vector<double> x(static_cast<size_t>(block.vectors() * dim));
  for (int64_t i = 0; i < block.vectors(); ++i) block.Read(i, x.data() + i * dim);
  const double* table = block.table();
  block.Add([&](int64_t vector, int64_t table_row)
                HWY_ATTR { return Dot<double>(x.data() + vector * dim, table + table_row * dim, dim); });
}

void ManyRelativeProducts(const RelativeBlock& block, const Band& band) {
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
  const int64_t width = (band.size() + kTileColumns - 1) / kTileColumns * kTileColumns;
  AlignedDoubles products(x.tiles() * kTileRows * width), columns(kTileColumns * dim);
  double* y = columns.get();
  for (int64_t first = band.low; first <= band.high; first += kTileColumns) {
    const int64_t count = std::min(kTileColumns, band.high + 1 - first);
    for (int64_t c = 0; c < count; ++c) PackVector(block.table() + (first + c) * dim, dim, kTileColumns, y + c);
    for (int64_t t = 0; t < x.tiles(); ++t) {
      if (bands[t].high < first || bands[t].low >= first + count) continue;
      ProductTile(x.tile(t), y, dim, products.get() + t * kTileRows * width + first - band.low, width);
    }
  }
  const double* all = products.get();
  block.Add([&](int64_t vector, int64_t table_row) { return all[vector * width + table_row - band.low]; });
}

bool RelativeRange(const RelativeProductTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const int64_t step = task.of_keys ? kBlockQueries : kBlockKeys;
  return ForBlocks(task.shape, begin, end, cancel, [&](int64_t row, const ScorePlace& place, int64_t count) HWY_ATTR {
    for (int64_t key = 0; key < task.shape.keys; key += step) {
      const RelativeBlock block{&task, row, place, count, key, std::min(step, task.shape.keys - key)};
      const Band band = block.BandOfVectors(0, block.vectors());
      const int64_t others = task.of_keys ? block.queries : block.keys;
      // Scattered positions ask for few of many rows.
      if (block.vectors() < kFewest || others < kTileColumns || band.size() > 4 * (others + block.vectors())) {
        FewRelativeProducts(block);
      } else {
        ManyRelativeProducts(block, band);
      }
    }
  });
}

// Products of one core in well under a millisecond.
int64_t ProductsPerSlice() { return HWY_TARGET == HWY_SCALAR ? 400000 : 3000000; }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(ProductRange);
HWY_EXPORT(RelativeRange);
HWY_EXPORT(ProductsPerSlice);

int64_t RowsFor(const ScoreShape& shape) {
  return std::max<int64_t>(1,
                           HWY_DYNAMIC_DISPATCH(ProductsPerSlice)() / std::max<int64_t>(1, shape.keys * (shape.dim + 16)));
}

}  // namespace

absl::Status CheckScores(const ScoreShape& shape, RowRange rows, const void* scores) {
  if (shape.batch < 0 || shape.heads < 0 || shape.queries < 0 || shape.keys < 0 || shape.dim < 0) {
    return absl::InvalidArgumentError("scores: extents must be at least 0");
  }
  if (rows.begin < 0 || rows.end > shape.rows()) return absl::InvalidArgumentError("scores: rows outside the shape");
  if (rows.begin < rows.end && shape.keys > 0 && scores == nullptr) {
    return absl::InvalidArgumentError("scores: memory must not be null");
  }
  return absl::OkStatus();
}

absl::Status RunScoreProduct(const ScoreProductTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (rows.begin >= rows.end || task.shape.keys == 0) return absl::OkStatus();
  if (task.shape.dim > 0 && (task.q.q.data == nullptr || task.k.k.data == nullptr)) {
    return absl::InvalidArgumentError("scores: q and k must not be null");
  }
  const bool done = HWY_DYNAMIC_DISPATCH(ProductRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("scores: cancelled");
}

absl::Status RunScoreProduct(const RelativeProductTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (rows.begin >= rows.end || task.shape.keys == 0) return absl::OkStatus();
  const void* vectors = task.of_keys ? task.k.k.data : task.q.q.data;
  if ((task.shape.dim > 0 && vectors == nullptr) || task.positions.query == nullptr || task.positions.key == nullptr) {
    return absl::InvalidArgumentError("scores: vectors and positions must not be null");
  }
  const bool done = HWY_DYNAMIC_DISPATCH(RelativeRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("scores: cancelled");
}

int64_t ScoreProductRowsPerSlice(const ScoreProductTask& task) { return RowsFor(task.shape); }
int64_t ScoreProductRowsPerSlice(const RelativeProductTask& task) { return RowsFor(task.shape); }

}  // namespace phasor
#endif  // HWY_ONCE
