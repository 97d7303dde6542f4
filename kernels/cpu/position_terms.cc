#include "kernels/cpu/position_terms.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/position_terms.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/linear-inl.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kBlockKeys = 64;

inline void StoreRow(DType dtype, const double* values, void* out, int64_t at, int64_t count) {
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    RoundTo(values, static_cast<T*>(out) + at, count);
  });
}

// False when cancelled.
bool SumDifferenceRange(const SumDifferenceTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN double values[kBlockKeys];
  for (int64_t row = begin; row < end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    const int64_t head = row / task.queries;
    const auto query = hn::Set(d, task.query_positions[row % task.queries]);
    const auto query_hi = hn::Set(d, task.query_hi[row]);
    const auto query_lo = hn::Set(d, task.query_lo[row]);
    for (int64_t key = 0; key < task.keys; key += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, task.keys - key);
      for (int64_t i = 0; i < count; i += lanes) {
        const int64_t from = head * task.keys + key + i;
        const auto hi = hn::Sub(query_hi, LoadUpTo(d, task.key_hi + from, count - i));
        const auto lo = hn::Sub(query_lo, LoadUpTo(d, task.key_lo + from, count - i));
        const auto seen = hn::Le(LoadUpTo(d, task.key_positions + key + i, count - i), query);
        hn::StoreU(hn::IfThenElseZero(seen, hn::Add(hi, lo)), d, values + i);
      }
      StoreRow(task.dtype, values, task.out, row * task.keys + key, count);
    }
  }
  return true;
}

// Keys [key, key + count) of one row, count ≤ kBlockKeys.
HWY_INLINE void ProductBlock(const PositionProductTask& task, int64_t row, int64_t key, int64_t count) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t head = row / task.queries;
  const int64_t query = task.query_positions[row % task.queries];
  HWY_ALIGN double values[kBlockKeys];
  const double* x = task.k + head * task.dim * task.key_stride + key;
  const auto divisor = hn::Set(d, task.divisor);
  for (int64_t i = 0; i < count; i += lanes) {
    hn::StoreU(hn::Div(DotLanes(d, task.q + row * task.dim, x + i, task.dim, task.key_stride), divisor), d, values + i);
  }
  const int64_t* positions = task.key_positions + key;
  if (task.relative != nullptr) {
    const double* middle = task.relative + head * (2 * task.reach + 1) + task.reach;
    for (int64_t i = 0; i < count; ++i) {
      values[i] += middle[std::clamp(positions[i] - query, -task.reach, task.reach)];
    }
  }
  if (task.untied != nullptr) {
    for (int64_t i = 0; i < count; ++i) {
      if (query == 0) {
        values[i] = task.untied[2 * head];
      } else if (positions[i] == 0) {
        values[i] = task.untied[2 * head + 1];
      }
    }
  }
  StoreRow(task.dtype, values, task.out, row * task.keys + key, count);
}

// False when cancelled.
bool PositionProductRange(const PositionProductTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  // The rows of one head together, so that a block of keys is read from the nearest cache.
  for (int64_t row = begin; row < end;) {
    const int64_t last = std::min(end, (row / task.queries + 1) * task.queries);
    for (int64_t key = 0; key < task.keys; key += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, task.keys - key);
      for (int64_t r = row; r < last; ++r) {
        if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
        ProductBlock(task, r, key, count);
      }
    }
    row = last;
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(SumDifferenceRange);
HWY_EXPORT(PositionProductRange);

absl::Status CheckExtents(int64_t heads, int64_t queries, int64_t keys, RowRange rows, const void* out) {
  if (heads < 0 || queries < 0 || keys < 0) return absl::InvalidArgumentError("bias: extents must be at least 0");
  if (rows.begin < 0 || rows.end > heads * queries) {
    return absl::InvalidArgumentError("bias: rows outside [0, heads·queries)");
  }
  if (rows.begin < rows.end && out == nullptr) return absl::InvalidArgumentError("bias: out must not be null");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunSumDifference(const SumDifferenceTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckExtents(task.heads, task.queries, task.keys, rows, task.out); !status.ok()) return status;
  if (rows.begin >= rows.end || task.keys == 0) return absl::OkStatus();
  const bool done = HWY_DYNAMIC_DISPATCH(SumDifferenceRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("differences of sums: cancelled");
}

absl::Status RunPositionProduct(const PositionProductTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckExtents(task.heads, task.queries, task.keys, rows, task.out); !status.ok()) return status;
  if (task.reach < 0 || task.key_stride < (task.keys + 7) / 8 * 8) {
    return absl::InvalidArgumentError("products of positions: reach and key_stride are too small");
  }
  if (rows.begin >= rows.end || task.keys == 0) return absl::OkStatus();
  const bool done = HWY_DYNAMIC_DISPATCH(PositionProductRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("products of positions: cancelled");
}

int64_t SumDifferenceRowsPerSlice(const SumDifferenceTask& task) {
  return std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, task.keys));
}

int64_t PositionProductRowsPerSlice(const PositionProductTask& task) {
  constexpr int64_t kProductsPerSlice = 600000;
  return std::max<int64_t>(1, kProductsPerSlice / std::max<int64_t>(1, task.keys * (task.dim + 16)));
}

}  // namespace phasor
#endif  // HWY_ONCE
