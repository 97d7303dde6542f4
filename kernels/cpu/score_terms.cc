#include "kernels/cpu/score_terms.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sum.h"
#include "kernels/cpu/score_product.h"
#include "kernels/cpu/softmax.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/score_terms.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/linear-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/score_vectors-inl.h"
#include "kernels/cpu/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls body(row, place) row by row. False when cancelled.
template <typename Body>
bool ForRows(const ScoreShape& shape, int64_t begin, int64_t end, const CancelFlag* cancel, Body body) {
  for (int64_t row = begin; row < end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    body(row, ScorePlace(shape, row));
  }
  return true;
}

bool GridRange(const GridProductTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const ScoreShape& shape = task.shape;
  const int64_t extent = std::min(task.key_extent, std::max<int64_t>(1, shape.keys));
  std::vector<double> x(static_cast<size_t>(shape.dim)), by_key(static_cast<size_t>(extent)), by_row;
  // A few rows for many keys: each product once.
  if (task.table_rows < extent) by_row.resize(static_cast<size_t>(task.table_rows));
  const auto add_row = [&](int64_t row, const ScorePlace& place) HWY_ATTR {
    ReadQuery(task.q, place, shape.dim, x.data());
    const double* table = task.table + place.head * task.table_head_stride;
    const int32_t* index = task.index + place.query / task.query_divisor % task.query_extent * task.key_extent;
    for (size_t n = 0; n < by_row.size(); ++n) {
      by_row[n] = Dot<double>(x.data(), table + static_cast<int64_t>(n) * shape.dim, shape.dim);
    }
    for (int64_t c = 0; c < extent; ++c) {
      by_key[c] = by_row.empty() ? Dot<double>(x.data(), table + index[c] * shape.dim, shape.dim) : by_row[index[c]];
    }
    double* scores = task.scores + row * shape.keys;
    if (task.key_divisor == 1) {
      for (int64_t j = 0; j < shape.keys; j += extent) {
        const int64_t run = std::min(extent, shape.keys - j);
        for (int64_t i = 0; i < run; ++i) scores[j + i] += by_key[i];
      }
      return;
    }
    for (int64_t j = 0, c = 0; j < shape.keys; c = c + 1 == extent ? 0 : c + 1) {
      for (const int64_t stop = std::min(shape.keys, j + task.key_divisor); j < stop; ++j) scores[j] += by_key[c];
    }
  };
  return ForRows(shape, begin, end, cancel, [&](int64_t row, const ScorePlace& place) HWY_ATTR {
    if (!task.skip_first) return add_row(row, place);
    if (place.query == 0) return;
    double& first = task.scores[row * shape.keys];
    const double kept = first;
    add_row(row, place);
    first = kept;
  });
}

// σ of the scores whose key is not after the query, +0 for the others.
HWY_INLINE void Gates(const double* scores, const int64_t* keys, int64_t query, int64_t count, double* gates) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; j + lanes <= count; j += lanes) hn::StoreU(Sigmoid(d, hn::LoadU(d, scores + j)), d, gates + j);
#endif
  for (; j < count; ++j) gates[j] = math::Sigmoid(scores[j]);
  for (j = 0; j < count; ++j) gates[j] = keys[j] > query ? 0.0 : gates[j];
}

bool ContextualRange(const ContextualPositionTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const ScoreShape& shape = task.shape;
  const size_t dim = static_cast<size_t>(shape.dim), keys = static_cast<size_t>(shape.keys);
  std::vector<double> x(dim), gates(keys), values(static_cast<size_t>(task.table_rows));
  const double greatest = static_cast<double>(task.table_rows - 1);
  return ForRows(shape, begin, end, cancel, [&](int64_t row, const ScorePlace& place) HWY_ATTR {
    ReadQuery(task.q, place, shape.dim, x.data());
    double* scores = task.scores + row * shape.keys;
    const int64_t query = task.positions.query[place.batch * task.positions.query_batch_stride + place.query];
    const int64_t* key = task.positions.key + place.batch * task.positions.key_batch_stride;
    Gates(scores, key, query, shape.keys, gates.data());
    if (task.key_padding != nullptr) {
      const uint8_t* padding = task.key_padding + place.batch * task.key_padding_batch_stride;
      for (int64_t j = 0; j < shape.keys; ++j) gates[j] = padding[j] == 0 ? 0.0 : gates[j];
    }
    SuffixSum(gates.data(), shape.keys, 0.0, gates.data());
    const double* table = task.table + place.head * task.table_head_stride;
    // Positions go up to the number of keys at most, but NaN counts as the last row there is; the first sum has it if any
    // has.
    const bool bounded = gates[0] <= static_cast<double>(shape.keys);
    const int64_t reached = bounded ? std::min(task.table_rows, shape.keys + 2) : task.table_rows;
    for (int64_t n = 0; n < reached; ++n) values[n] = Dot<double>(x.data(), table + n * shape.dim, shape.dim);
    for (int64_t j = 0; j < shape.keys; ++j) {
      if (key[j] > query) {
        scores[j] = -std::numeric_limits<double>::infinity();
        continue;
      }
      const double p = gates[j] < greatest ? gates[j] : greatest;
      const int64_t floor = static_cast<int64_t>(p);
      const double w = p - static_cast<double>(floor);
      double value = values[floor];
      if (w > 0) value = std::fma(values[floor + 1], w, value * (1 - w));
      scores[j] = task.keep_content ? scores[j] + value : value;
    }
  });
}

bool SumRange(const ScoreSumTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const int64_t keys = task.shape.keys;
  return ForRows(task.shape, begin, end, cancel, [&](int64_t row, const ScorePlace& place) HWY_ATTR {
    double* HWY_RESTRICT scores = task.scores + row * keys;
    const double scale = task.scale;
    if (task.addend == nullptr) {
      for (int64_t j = 0; j < keys; ++j) scores[j] *= scale;
      return;
    }
    const double* HWY_RESTRICT addend =
        task.addend + place.batch * task.batch_stride + place.head * task.head_stride + place.query * task.query_stride;
    if (task.key_stride == 0) {
      const double value = *addend;
      for (int64_t j = 0; j < keys; ++j) scores[j] = scores[j] * scale + value;
    } else {
      for (int64_t j = 0; j < keys; ++j) scores[j] = scores[j] * scale + addend[j];
    }
  });
}

template <typename T>
void RoundRow(const double* scores, int64_t keys, T* out) {
  RoundTo(scores, out, keys);
  constexpr T kLowest = FromBits<T>((kInfinityBits<T> - 1u) | kSignBit<T>);
  if (std::is_same_v<T, double>) return;
  for (int64_t j = 0; j < keys; ++j) {
    if (HWY_UNLIKELY(scores[j] == std::numeric_limits<double>::lowest())) out[j] = kLowest;
  }
}

bool RoundRange(const ScoreOutputTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const int64_t keys = task.shape.keys;
  return VisitFloat(task.dtype, [&](auto tag) HWY_ATTR {
    using T = typename decltype(tag)::type;
    return ForRows(task.shape, begin, end, cancel, [&](int64_t row, const ScorePlace&) HWY_ATTR {
      RoundRow(task.scores + row * keys, keys, static_cast<T*>(task.out) + row * keys);
    });
  });
}

bool ValueRange(const RelativeValueTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const int64_t dim = task.shape.dim;
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  std::vector<double> sums(static_cast<size_t>(kPartialSums * dim)), totals(static_cast<size_t>(dim));
  return ForRows(task.shape, begin, end, cancel, [&](int64_t row, const ScorePlace& place) HWY_ATTR {
    std::fill(sums.begin(), sums.end(), 0.0);
    const double* scores = task.scores + row * task.shape.keys;
    const int64_t query = task.positions.query[place.batch * task.positions.query_batch_stride + place.query];
    const int64_t* key = task.positions.key + place.batch * task.positions.key_batch_stride;
    for (int64_t j = 0; j < task.shape.keys; ++j) {
      const int64_t table_row = task.rows(query - key[j]);
      if (table_row == DistanceRows::kNone) continue;
      double* HWY_RESTRICT sum = sums.data() + j % kPartialSums * dim;
      const double* HWY_RESTRICT value = task.table + table_row * dim;
      const auto p = hn::Set(d, scores[j]);
      int64_t c = 0;
      for (; c + lanes <= dim; c += lanes) {
        hn::StoreU(FusedMulAdd(d, p, hn::LoadU(d, value + c), hn::LoadU(d, sum + c)), d, sum + c);
      }
      for (; c < dim; ++c) sum[c] = std::fma(scores[j], value[c], sum[c]);
    }
    for (int64_t c = 0; c < dim; ++c) {
      double partial[kPartialSums];
      for (int p = 0; p < kPartialSums; ++p) partial[p] = sums[p * dim + c];
      totals[c] = FixedSum::Fold(partial);
    }
    VisitFloat(task.dtype, [&](auto tag) HWY_ATTR {
      using T = typename decltype(tag)::type;
      RoundTo(totals.data(), static_cast<T*>(task.out) + row * dim, dim);
    });
  });
}

// Elements of scores that one core passes over in well under a millisecond, or as many products.
int64_t TermElementsPerSlice() { return HWY_TARGET == HWY_SCALAR ? 50000 : 200000; }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(GridRange);
HWY_EXPORT(ContextualRange);
HWY_EXPORT(SumRange);
HWY_EXPORT(RoundRange);
HWY_EXPORT(ValueRange);
HWY_EXPORT(TermElementsPerSlice);

int64_t RowsOf(int64_t cost) {
  return std::max<int64_t>(1, HWY_DYNAMIC_DISPATCH(TermElementsPerSlice)() / std::max<int64_t>(1, cost));
}

absl::Status Ended(bool done) { return done ? absl::OkStatus() : absl::CancelledError("scores: cancelled"); }

bool IsEmpty(const ScoreShape& shape, RowRange rows) { return rows.begin >= rows.end || shape.keys == 0; }

}  // namespace

absl::Status RunScoreTerm(const GridProductTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (IsEmpty(task.shape, rows)) return absl::OkStatus();
  if (task.index == nullptr || task.query_divisor < 1 || task.query_extent < 1 || task.key_divisor < 1 ||
      task.key_extent < 1) {
    return absl::InvalidArgumentError("scores: a grid needs an index, and divisors and extents of at least 1");
  }
  return Ended(HWY_DYNAMIC_DISPATCH(GridRange)(task, rows.begin, rows.end, cancel));
}

absl::Status RunScoreTerm(const ContextualPositionTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (IsEmpty(task.shape, rows)) return absl::OkStatus();
  if (task.table_rows < 2 || task.positions.query == nullptr || task.positions.key == nullptr) {
    return absl::InvalidArgumentError("scores: contextual positions need positions and at least 2 rows");
  }
  return Ended(HWY_DYNAMIC_DISPATCH(ContextualRange)(task, rows.begin, rows.end, cancel));
}

absl::Status RunScoreTerm(const ScoreSumTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (IsEmpty(task.shape, rows)) return absl::OkStatus();
  return Ended(HWY_DYNAMIC_DISPATCH(SumRange)(task, rows.begin, rows.end, cancel));
}

absl::Status RunScoreTerm(const ScoreOutputTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (IsEmpty(task.shape, rows)) return absl::OkStatus();
  if (task.out == nullptr) return absl::InvalidArgumentError("scores: out must not be null");
  if (!task.softmax) return Ended(HWY_DYNAMIC_DISPATCH(RoundRange)(task, rows.begin, rows.end, cancel));
  const int64_t keys = task.shape.keys;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return Ended(false);
    SoftmaxRows(DType::kF64, task.scores + row * keys, keys, task.dtype,
                static_cast<std::byte*>(task.out) + row * keys * SizeOf(task.dtype), keys, 1, keys);
  }
  return absl::OkStatus();
}

absl::Status RunScoreTerm(const RelativeValueTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckScores(task.shape, rows, task.scores); !status.ok()) return status;
  if (rows.begin >= rows.end || task.shape.dim == 0) return absl::OkStatus();
  if (task.out == nullptr) return absl::InvalidArgumentError("scores: out must not be null");
  return Ended(HWY_DYNAMIC_DISPATCH(ValueRange)(task, rows.begin, rows.end, cancel));
}

int64_t ScoreTermRowsPerSlice(const GridProductTask& task) {
  const int64_t products = std::min(task.table_rows, task.key_extent) * (task.shape.dim + 16) / 8;
  return RowsOf(task.shape.keys + products);
}
int64_t ScoreTermRowsPerSlice(const ContextualPositionTask& task) {
  const int64_t products = std::min(task.table_rows, task.shape.keys + 2) * (task.shape.dim + 16) / 8;
  return RowsOf(6 * task.shape.keys + products);
}
int64_t ScoreTermRowsPerSlice(const ScoreSumTask& task) { return RowsOf(task.shape.keys); }
int64_t ScoreTermRowsPerSlice(const ScoreOutputTask& task) { return RowsOf((task.softmax ? 6 : 1) * task.shape.keys); }
int64_t ScoreTermRowsPerSlice(const RelativeValueTask& task) { return RowsOf(task.shape.keys * (2 + task.shape.dim / 4)); }

}  // namespace phasor
#endif  // HWY_ONCE
