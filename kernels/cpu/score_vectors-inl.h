// Queries and keys of score tasks as doubles.
#if defined(PHASOR_KERNELS_CPU_SCORE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_SCORE_VECTORS_INL_H_
#undef PHASOR_KERNELS_CPU_SCORE_VECTORS_INL_H_
#else
#define PHASOR_KERNELS_CPU_SCORE_VECTORS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hwy/highway.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Doubles on a cache line of their own.
class AlignedDoubles {
 public:
  explicit AlignedDoubles(int64_t count) : memory_(static_cast<size_t>(count) + 8) {}
  double* get() {
    const uintptr_t at = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + ((64 - at % 64) % 64) / sizeof(double);
  }

 private:
  std::vector<double> memory_;
};

// Batch row, head and query of a row.
struct ScorePlace {
  ScorePlace(const ScoreShape& shape, int64_t row)
      : query(row % shape.queries), head(row / shape.queries % shape.heads), batch(row / shape.queries / shape.heads) {}
  int64_t query, head, batch;
};

HWY_INLINE void ReadVector(const HeadVectors& v, int64_t batch, int64_t token, int64_t head, int64_t dim, double* out) {
  const int64_t at = batch * v.batch_stride + token * v.token_stride + head * v.head_stride;
  VisitFloat(v.dtype, [&](auto tag) HWY_ATTR {
    using T = typename decltype(tag)::type;
    WidenVector(static_cast<const T*>(v.data) + at, dim, out);
  });
}

HWY_INLINE void ReadQuery(const QueryVectors& q, const ScorePlace& place, int64_t dim, double* out) {
  ReadVector(q.q, place.batch, place.query, place.head, dim, out);
  if (q.factor != nullptr) {
    const double factor = q.factor[place.batch * q.factor_batch_stride + place.query];
    for (int64_t d = 0; d < dim; ++d) out[d] *= factor;
  }
  if (q.add != nullptr) {
    const double* add = q.add + place.head * dim;
    for (int64_t d = 0; d < dim; ++d) out[d] += add[d];
  }
}

// Vectors packed into tiles of kTileRows; what is missing in the last tile is zeros.
class PackedRows {
 public:
  PackedRows(int64_t count, int64_t dim)
      : dim_(dim), tiles_((count + kTileRows - 1) / kTileRows), packed_(tiles_ * kTileRows * dim) {}
  HWY_INLINE void Set(int64_t i, const double* x) {
    PackVector(x, dim_, kTileRows, packed_.get() + i / kTileRows * kTileRows * dim_ + i % kTileRows);
  }
  int64_t tiles() const { return tiles_; }
  const double* tile(int64_t t) { return packed_.get() + t * kTileRows * dim_; }

 private:
  int64_t dim_, tiles_;
  AlignedDoubles packed_;
};

// Fewer vectors than this are multiplied one by one: packing the other side would cost more.
inline constexpr int64_t kFewest = 3;

HWY_INLINE bool Stopped(const CancelFlag* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Calls body(first row, place of it, queries) for blocks of at most `most` rows of one head. False when cancelled.
template <typename Body>
bool ForBlocks(const ScoreShape& shape, int64_t most, int64_t begin, int64_t end, const CancelFlag* cancel, Body body) {
  for (int64_t row = begin; row < end;) {
    if (Stopped(cancel)) return false;
    const ScorePlace place(shape, row);
    const int64_t count = std::min({most, end - row, shape.queries - place.query});
    body(row, place, count);
    row += count;
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_SCORE_VECTORS_INL_H_
