#include "kernels/cpu/rotate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/store_policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rotate.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/interleave-inl.h"
#include "kernels/cpu/rotate-inl.h"
#include "kernels/cpu/rotate_heads-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What the loops need of a RotateTask, with the decisions that are taken once. Strides in elements.
struct RotateArgs {
  const RotateTask* task;
  const int32_t* table_rows;  // null: row t
  int64_t begin, end;         // tokens
  const CancelFlag* cancel;
  bool copy_tail;
  int64_t ahead_bytes;  // how far ahead memory is asked for
};

inline bool IsCancelled(const CancelFlag* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Heads that a rotation from one pairing to the other moves through scratch memory at a time.
template <typename T>
int64_t HeadsInScratch(const RotateTask& task) {
  const int64_t fitting = (int64_t{64} << 10) / std::max<int64_t>(1, 2 * task.pairs * static_cast<int64_t>(sizeof(T)));
  return std::clamp<int64_t>(fitting, 1, std::max<int64_t>(task.heads, 1));
}

#if HWY_TARGET == HWY_SCALAR

template <typename T>
HWY_INLINE T LoadElement(const T* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T, Pairing kPairing, bool kStream>
bool RotateTokens(const RotateArgs& args) {
  using C = ComputeType<T>;
  const RotateTask& task = *args.task;
  const int64_t n = task.pairs;
  for (int64_t t = args.begin; t < args.end; ++t) {
    if (IsCancelled(args.cancel)) return false;
    const int64_t row = args.table_rows != nullptr ? args.table_rows[t] : t;
    const C* cos = static_cast<const C*>(task.cos) + row * task.table_stride;
    const C* sin = static_cast<const C*>(task.sin) + row * task.table_stride;
    for (int64_t h = 0; h < task.heads; ++h) {
      const T* x = static_cast<const T*>(task.x) + t * task.x_token_stride + h * task.x_head_stride;
      T* y = static_cast<T*>(task.y) + t * task.y_token_stride + h * task.y_head_stride;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t ia = kPairing == Pairing::kHalfSplit ? i : 2 * i;
        const int64_t ib = kPairing == Pairing::kHalfSplit ? i + n : 2 * i + 1;
        const C a = Widen<C>(LoadElement(x + ia)), b = Widen<C>(LoadElement(x + ib));
        const C c = LoadElement(cos + i), s = task.inverse ? -LoadElement(sin + i) : LoadElement(sin + i);
        const T ya = Narrow<T>(std::fma(a, c, -(b * s))), yb = Narrow<T>(std::fma(b, c, a * s));
        std::memcpy(y + ia, &ya, sizeof(T));
        std::memcpy(y + ib, &yb, sizeof(T));
      }
      if (args.copy_tail) std::memcpy(y + 2 * n, x + 2 * n, static_cast<size_t>(task.head_dim - 2 * n) * sizeof(T));
    }
  }
  return true;
}

// kInterleavedToHalf: a half-split rotation out of (or, inverse, into) scratch memory in which the pairs lie in halves.
template <typename T>
bool RotateChangingPairing(const RotateArgs& args) {
  const RotateTask& task = *args.task;
  const int64_t n = task.pairs;
  std::vector<T> scratch(static_cast<size_t>(2 * n));
  RotateTask half = task;
  half.pairing = Pairing::kHalfSplit;
  half.tokens = half.heads = 1;
  half.head_dim = 2 * n;
  for (int64_t t = args.begin; t < args.end; ++t) {
    const int64_t row = args.table_rows != nullptr ? args.table_rows[t] : t;
    half.cos = static_cast<const ComputeType<T>*>(task.cos) + row * task.table_stride;
    half.sin = static_cast<const ComputeType<T>*>(task.sin) + row * task.table_stride;
    for (int64_t h = 0; h < task.heads; ++h) {
      const T* x = static_cast<const T*>(task.x) + t * task.x_token_stride + h * task.x_head_stride;
      T* y = static_cast<T*>(task.y) + t * task.y_token_stride + h * task.y_head_stride;
      half.x = task.inverse ? x : scratch.data();
      half.y = task.inverse ? scratch.data() : y;
      if (!task.inverse) SplitPairs(x, scratch.data(), n);
      if (!RotateTokens<T, Pairing::kHalfSplit, false>({&half, nullptr, 0, 1, args.cancel, false, 0})) return false;
      if (task.inverse) JoinPairs(scratch.data(), y, n);
      if (args.copy_tail) std::memcpy(y + 2 * n, x + 2 * n, static_cast<size_t>(task.head_dim - 2 * n) * sizeof(T));
    }
  }
  return true;
}

#else  // vectors

// Puts the canonical NaN in the place of every other one. Rare: only where a sentinel saw one.
template <typename T>
HWY_NOINLINE void CanonicalizeRow(void* row, int64_t elements) {
  uint8_t* at = static_cast<uint8_t*>(row);
  for (int64_t i = 0; i < elements; ++i, at += sizeof(T)) {
    BitsType<T> bits;
    std::memcpy(&bits, at, sizeof(bits));
    if ((bits & (kSignBit<T> - 1u)) <= kInfinityBits<T>) continue;
    bits = kCanonicalNaNBits<T>;
    std::memcpy(at, &bits, sizeof(bits));
  }
}

template <bool kStream>
HWY_INLINE void CopyBytes(const uint8_t* from, uint8_t* to, int64_t bytes) {
  if constexpr (kStream) {
    const hn::CappedTag<uint8_t, kLineBytes> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; bytes >= kLineBytes; bytes -= lanes, from += lanes, to += lanes) hn::Stream(hn::LoadU(d, from), d, to);
  }
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

template <typename T, Pairing kPairing, bool kStream>
bool RotateTokens(const RotateArgs& args) {
  using Step = StepOf<T, kPairing>;
  using Stored = typename Step::Stored;
  using C = ComputeType<T>;
  constexpr bool kHalfSplit = kPairing == Pairing::kHalfSplit;
  const hn::ScalableTag<C> df;
  const RotateTask& task = *args.task;
  const int64_t n = task.pairs;
  const int64_t tail_bytes = args.copy_tail ? (task.head_dim - 2 * n) * static_cast<int64_t>(sizeof(T)) : 0;
  const auto flip = task.inverse ? hn::Set(df, C{-0.0}) : hn::Zero(df);
  TokenTables<C> tables;
  for (int64_t t = args.begin; t < args.end; ++t) {
    if (IsCancelled(args.cancel)) break;
    const int64_t row = args.table_rows != nullptr ? args.table_rows[t] : t;
    const C* cos = static_cast<const C*>(task.cos) + row * task.table_stride;
    const C* sin = static_cast<const C*>(task.sin) + row * task.table_stride;
    const Stored* x_token = static_cast<const Stored*>(task.x) + t * task.x_token_stride;
    Stored* y_token = static_cast<Stored*>(task.y) + t * task.y_token_stride;
    for (int64_t first = 0; first < n; first += kBlockPairs) {
      const int64_t pairs = n - first < kBlockPairs ? n - first : kBlockPairs;
      Step::Prepare(df, cos + first, sin + first, pairs, flip, tables);
      const int64_t offset = kHalfSplit ? first : 2 * first;
      const int64_t elements = kHalfSplit ? pairs : 2 * pairs;
      const TokenSpans<Stored, TokenTables<C> > spans{x_token + offset,   y_token + offset, task.x_head_stride,
                                                      task.y_head_stride, task.heads,       n,
                                                      elements,           args.ahead_bytes, &tables};
      if (HWY_UNLIKELY((RotateHeads<Step, kStream>(df, spans)))) {
        for (int64_t h = 0; h < task.heads; ++h) {
          CanonicalizeRow<T>(spans.y + h * task.y_head_stride, elements);
          if constexpr (kHalfSplit) CanonicalizeRow<T>(spans.y + h * task.y_head_stride + n, elements);
        }
      }
    }
    for (int64_t h = 0; tail_bytes != 0 && h < task.heads; ++h) {
      CopyBytes<kStream>(reinterpret_cast<const uint8_t*>(x_token + h * task.x_head_stride + 2 * n),
                         reinterpret_cast<uint8_t*>(y_token + h * task.y_head_stride + 2 * n), tail_bytes);
    }
  }
  FinishStores<kStream>();
  return !IsCancelled(args.cancel);
}

// kInterleavedToHalf: a half-split rotation out of (or, inverse, into) scratch memory in which the pairs lie in halves.
template <typename T>
bool RotateChangingPairing(const RotateArgs& args) {
  using Step = StepOf<T, Pairing::kHalfSplit>;
  using Stored = typename Step::Stored;
  using C = ComputeType<T>;
  const hn::ScalableTag<C> df;
  const RotateTask& task = *args.task;
  const int64_t n = task.pairs;
  const int64_t group = HeadsInScratch<T>(task);
  std::vector<Stored> memory(static_cast<size_t>(2 * n * group));
  Stored* const scratch = memory.data();
  const auto flip = task.inverse ? hn::Set(df, C{-0.0}) : hn::Zero(df);
  TokenTables<C> tables;
  for (int64_t t = args.begin; t < args.end; ++t) {
    if (IsCancelled(args.cancel)) return false;
    const int64_t row = args.table_rows != nullptr ? args.table_rows[t] : t;
    const C* cos = static_cast<const C*>(task.cos) + row * task.table_stride;
    const C* sin = static_cast<const C*>(task.sin) + row * task.table_stride;
    for (int64_t h0 = 0; h0 < task.heads; h0 += group) {
      const int64_t heads = std::min(group, task.heads - h0);
      const Stored* x = static_cast<const Stored*>(task.x) + t * task.x_token_stride + h0 * task.x_head_stride;
      Stored* y = static_cast<Stored*>(task.y) + t * task.y_token_stride + h0 * task.y_head_stride;
      if (!task.inverse) {
        for (int64_t h = 0; h < heads; ++h) SplitPairs(x + h * task.x_head_stride, scratch + h * 2 * n, n);
      }
      const Stored* from = task.inverse ? x : scratch;
      Stored* to = task.inverse ? scratch : y;
      const int64_t from_stride = task.inverse ? task.x_head_stride : 2 * n;
      const int64_t to_stride = task.inverse ? 2 * n : task.y_head_stride;
      for (int64_t first = 0; first < n; first += kBlockPairs) {
        const int64_t pairs = std::min(n - first, kBlockPairs);
        Step::Prepare(df, cos + first, sin + first, pairs, flip, tables);
        const TokenSpans<Stored, TokenTables<C> > spans{from + first, to + first, from_stride, to_stride, heads, n,
                                                        pairs,        0,          &tables};
        if (HWY_UNLIKELY((RotateHeads<Step, false>(df, spans)))) {
          for (int64_t h = 0; h < heads; ++h) {
            CanonicalizeRow<T>(spans.y + h * to_stride, pairs);
            CanonicalizeRow<T>(spans.y + h * to_stride + n, pairs);
          }
        }
      }
      for (int64_t h = 0; h < heads; ++h) {
        if (task.inverse) JoinPairs(scratch + h * 2 * n, y + h * task.y_head_stride, n);
        if (args.copy_tail) {
          std::memcpy(y + h * task.y_head_stride + 2 * n, x + h * task.x_head_stride + 2 * n,
                      static_cast<size_t>(task.head_dim - 2 * n) * sizeof(T));
        }
      }
    }
  }
  return true;
}

#endif  // vectors

template <typename T>
bool RotateOfType(const RotateArgs& args, bool stream) {
  if (args.task->pairing == Pairing::kInterleavedToHalf) return RotateChangingPairing<T>(args);
  if (args.task->pairing == Pairing::kHalfSplit) {
    return stream ? RotateTokens<T, Pairing::kHalfSplit, kHasStreaming>(args)
                  : RotateTokens<T, Pairing::kHalfSplit, false>(args);
  }
  return stream ? RotateTokens<T, Pairing::kInterleaved, kHasStreaming>(args)
                : RotateTokens<T, Pairing::kInterleaved, false>(args);
}

// False when cancelled. Plain types only: this function exists once per instruction set.
bool RotateRange(const RotateTask* task, const int32_t* table_rows, int64_t begin, int64_t end, const CancelFlag* cancel,
                 bool stream) {
  const bool in_place = task->x == task->y;
  const int64_t bytes = (in_place ? 1 : 2) * task->tokens * task->heads * task->head_dim * SizeOf(task->dtype);
  // Data that the L2 cache holds needs nothing asked for, and the asking has its price.
  const int64_t ahead_bytes = PrefersStreaming(StoreHint::kAuto, bytes) ? 4096 : 0;
  const RotateArgs args{task, table_rows, begin, end, cancel, !in_place && task->head_dim > 2 * task->pairs, ahead_bytes};
  return VisitFloat(task->dtype, [&](auto tag) { return RotateOfType<typename decltype(tag)::type>(args, stream); });
}

// Bytes of x and y that one core moves in well under a millisecond, the first touch of fresh pages included.
int64_t RotateSliceBytes() { return HWY_TARGET == HWY_SCALAR ? 64 << 10 : 1 << 20; }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(RotateRange);
HWY_EXPORT(RotateSliceBytes);

absl::Status CheckRotate(const RotateTask& task, RowRange rows) {
  if (task.tokens < 0 || task.heads < 0 || task.pairs < 0 || task.head_dim < 0 || task.pairs > task.head_dim / 2) {
    return absl::InvalidArgumentError("rotate: extents must be at least 0 and head_dim at least 2·pairs");
  }
  if (rows.begin < 0 || rows.end > task.tokens) return absl::InvalidArgumentError("rotate: rows outside [0, tokens)");
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("rotate: the element type must be a float");
  if (!task.table_rows.empty() && static_cast<int64_t>(task.table_rows.size()) < task.tokens) {
    return absl::InvalidArgumentError("rotate: fewer table_rows than tokens");
  }
  const bool empty = rows.begin >= rows.end || task.heads == 0 || task.head_dim == 0;
  if (empty) return absl::OkStatus();
  if (task.x == nullptr || task.y == nullptr) return absl::InvalidArgumentError("rotate: x and y must not be null");
  if (task.pairs > 0 && (task.cos == nullptr || task.sin == nullptr)) {
    return absl::InvalidArgumentError("rotate: cos and sin must not be null");
  }
  return absl::OkStatus();
}

// Streaming needs every vector that it stores to begin at a multiple of a line.
bool CanStream(const RotateTask& task) {
  if (task.x == task.y || task.pairing == Pairing::kInterleavedToHalf) return false;
  const int64_t size = SizeOf(task.dtype);
  const int64_t span = (task.pairing == Pairing::kHalfSplit ? task.pairs : 2 * task.pairs) * size;
  const int64_t ors = static_cast<int64_t>(reinterpret_cast<uintptr_t>(task.y)) | (task.y_token_stride * size) |
                      (task.y_head_stride * size) | span;
  return ors % kLineBytes == 0 && PrefersStreaming(task.hint, 2 * task.tokens * task.heads * task.head_dim * size);
}

}  // namespace

absl::Status RunRotate(const RotateTask& task, RowRange rows, const CancelFlag* cancel) {
  if (absl::Status status = CheckRotate(task, rows); !status.ok()) return status;
  if (rows.begin >= rows.end || task.heads == 0 || task.head_dim == 0) return absl::OkStatus();
  const int32_t* table_rows = task.table_rows.empty() ? nullptr : task.table_rows.data();
  const bool done = HWY_DYNAMIC_DISPATCH(RotateRange)(&task, table_rows, rows.begin, rows.end, cancel, CanStream(task));
  return done ? absl::OkStatus() : absl::CancelledError("rotate: cancelled");
}

int64_t RotateRowsPerSlice(const RotateTask& task) {
  const int64_t token_bytes = std::max<int64_t>(1, task.heads * task.head_dim * SizeOf(task.dtype));
  return std::max<int64_t>(1, HWY_DYNAMIC_DISPATCH(RotateSliceBytes)() / token_bytes);
}

}  // namespace phasor
#endif  // HWY_ONCE
