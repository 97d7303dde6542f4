#include "kernels/cpu/score_product.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
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

// Queries of one head that are worked on together.
constexpr int64_t kBlockQueries = 64;

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
  const auto block = [&](int64_t row, const ScorePlace& place, int64_t count) HWY_ATTR {
    count < kFewest ? FewProducts(task, row, place, count) : ManyProducts(task, row, place, count);
  };
  return ForBlocks(task.shape, kBlockQueries, begin, end, cancel, block);
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
HWY_EXPORT(ProductsPerSlice);

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

int64_t ProductRowsPerSlice(const ScoreShape& shape, int64_t block) {
  const int64_t cost = std::max<int64_t>(1, shape.keys * (shape.dim + 16));
  const int64_t rows = std::max<int64_t>(1, HWY_DYNAMIC_DISPATCH(ProductsPerSlice)() / cost);
  return 2 * rows < block ? rows : std::max(block, rows / block * block);
}
int64_t ScoreProductRowsPerSlice(const ScoreProductTask& task) { return ProductRowsPerSlice(task.shape, 64); }

}  // namespace phasor
#endif  // HWY_ONCE
