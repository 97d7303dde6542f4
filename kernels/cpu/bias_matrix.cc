#include "kernels/cpu/bias_matrix.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/cpu/position_runs.h"
#include "kernels/cpu/store_policy.h"
#include "kernels/tasks/mask_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bias_matrix.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/bias_blocks-inl.h"
#include "kernels/cpu/mask-inl.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Elements that are worked on in cache at a time.
inline constexpr int64_t kPiece = 1024;

// out[i] = from[positions[i]], U being the bits of an element.
template <typename U>
HWY_INLINE void Gather(const U* from, const int32_t* positions, int64_t first, U* out, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(U) == 4) {
    const hn::ScalableTag<int32_t> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    // Differences wrap back into place: the entry itself is within 2^31 of the start wherever a vector fits in memory.
    const auto base = hn::Set(d, static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(first))));
    for (; i + lanes <= count; i += lanes) {
      const auto index = hn::Sub(hn::LoadU(d, positions + i), base);
      hn::StoreU(hn::GatherIndex(d, reinterpret_cast<const int32_t*>(from), index), d, reinterpret_cast<int32_t*>(out + i));
    }
  } else if constexpr (sizeof(U) == 8) {
    const hn::ScalableTag<int64_t> d;
    const hn::Rebind<int32_t, decltype(d)> d32;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto base = hn::Set(d, first);
    for (; i + lanes <= count; i += lanes) {
      const auto index = hn::Sub(hn::PromoteTo(d, hn::LoadU(d32, positions + i)), base);
      hn::StoreU(hn::GatherIndex(d, reinterpret_cast<const int64_t*>(from), index), d, reinterpret_cast<int64_t*>(out + i));
    }
  }
#endif
  for (; i < count; ++i) out[i] = from[positions[i] - first];
}

// One row of a task after the other.
template <typename T, bool kStream>
class Rows {
 public:
  using U = BitsType<T>;

  Rows(const BiasMatrixTask& task, const std::vector<PositionRun>& runs, int64_t begin)
      : task_(task),
        runs_(runs),
        masked_(task.mask != nullptr ? MaskedBitsOf(*task.mask, task.dtype) : MaskedBits()),
        writer_(static_cast<uint8_t*>(task.out) + begin * task.keys * static_cast<int64_t>(sizeof(U))) {
    SetPattern(static_cast<U>(masked_.entry));
  }

  void Write(int64_t row) {
    const int64_t q = row % task_.queries, h = row / task_.queries % task_.heads, b = row / task_.queries / task_.heads;
    const int64_t query =
        task_.query_positions != nullptr ? task_.query_positions[b * task_.query_batch_stride + q] : task_.query_offset + q;
    // Entry (position of the key) − first_ of the vector.
    vector_ = static_cast<const U*>(task_.vector) + b * task_.vector_batch_stride + h * task_.vector_head_stride;
    first_ = query + task_.first_distance;
    positions_ = task_.key_positions != nullptr ? task_.key_positions + b * task_.key_batch_stride : nullptr;
    run_ = 0;
    if (task_.mask == nullptr) return Copy(0, task_.keys);
    const MaskRule& rule = *task_.mask;
    const KeyRuns visible = VisibleRuns(rule, task_.keys, b, q);
    if ((masked_.differ() || rule.additive != nullptr) && !HasKey(rule, visible, b, h, q)) {
      SetPattern(static_cast<U>(masked_.row));
      Fill(task_.keys);
      SetPattern(static_cast<U>(masked_.entry));
      return;
    }
    int64_t end = 0;
    for (int i = 0; i < visible.count; ++i) {
      const KeyRun run = visible.runs[i];
      Fill(run.begin - end);
      if (rule.key_padding != nullptr || rule.additive != nullptr) {
        Change(rule, b, h, q, run);
      } else {
        Copy(run.begin, run.end);
      }
      end = run.end;
    }
    Fill(task_.keys - end);
  }

  void Finish() { writer_.Finish(); }

 private:
  void SetPattern(U bits) {
    for (U& entry : pattern_) entry = bits;
  }

  void Fill(int64_t count) {
    if (count <= 0) return;
    writer_.AppendRepeated(reinterpret_cast<const uint8_t*>(pattern_), count * static_cast<int64_t>(sizeof(U)));
  }

  void Append(const U* from, int64_t count) {
    writer_.Append(reinterpret_cast<const uint8_t*>(from), count * static_cast<int64_t>(sizeof(U)));
  }

  // Elements from key `k` on that can be had at once, at most `limit`, and where they are: in the vector or in `buffer`
  // (which has room for kPiece).
  int64_t Fetch(int64_t k, int64_t limit, U* buffer, const U** data) {
    if (positions_ == nullptr) {
      *data = vector_ + (k - first_);
      return limit;
    }
    while (runs_[run_].end <= k) ++run_;
    const PositionRun& run = runs_[run_];
    const int64_t left = std::min(limit, run.end - k);
    if (run.kind == PositionRun::kStep) {
      *data = vector_ + (positions_[k] - first_);
      return left;
    }
    const int64_t count = std::min(left, kPiece);
    *data = buffer;
    if (run.kind == PositionRun::kStill) {
      std::fill_n(buffer, count, vector_[positions_[k] - first_]);
    } else {
      Gather(vector_, positions_ + k, first_, buffer, count);
    }
    return count;
  }

  void Copy(int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end;) {
      const U* data = nullptr;
      const int64_t count = Fetch(k, end - k, piece_, &data);
      Append(data, count);
      k += count;
    }
  }

  void Change(const MaskRule& rule, int64_t b, int64_t h, int64_t q, KeyRun keys) {
    for (int64_t k = keys.begin; k < keys.end;) {
      const U* data = nullptr;
      const int64_t count = Fetch(k, std::min(keys.end - k, kPiece), piece_, &data);
      if (data != piece_) std::memcpy(piece_, data, static_cast<size_t>(count) * sizeof(U));
      if (rule.additive != nullptr) {
        VisitFloat(rule.additive_dtype, [&](auto tag) HWY_ATTR {
          using A = typename decltype(tag)::type;
          const A* add = static_cast<const A*>(rule.additive) + AdditiveRow(rule, b, h, q) + k;
          AddInto(reinterpret_cast<T*>(piece_), add, count);
          if (rule.masked_value) HideMinusInfinity(piece_, add, static_cast<U>(masked_.entry), count);
        });
      }
      if (rule.key_padding != nullptr) {
        Hide(piece_, rule.key_padding + b * rule.key_padding_batch_stride + k, static_cast<U>(masked_.entry), count);
      }
      Append(piece_, count);
      k += count;
    }
  }

  const BiasMatrixTask& task_;
  const std::vector<PositionRun>& runs_;
  const MaskedBits masked_;
  LineWriter<kStream> writer_;
  const U* vector_ = nullptr;
  const int32_t* positions_ = nullptr;
  int64_t first_ = 0;
  size_t run_ = 0;
  HWY_ALIGN U pattern_[static_cast<size_t>(kLineBytes) / sizeof(U)];
  HWY_ALIGN U piece_[kPiece];
};

template <typename T, bool kStream>
bool WriteRows(const BiasMatrixTask& task, const std::vector<PositionRun>& runs, int64_t begin, int64_t end,
               const CancelFlag* cancel) {
#if HWY_TARGET != HWY_SCALAR
  bool any = false;
  for (const PositionRun& run : runs) any |= run.kind == PositionRun::kAny;
  if (any && task.mask == nullptr) {
    while (begin < end) {
      const int64_t stop = WriteBlocks<T, kStream>(task, begin, end, cancel);
      if (stop < 0) return false;
      if (stop == end) return true;
      // The row that no block takes, by itself.
      Rows<T, kStream> rows(task, runs, stop);
      rows.Write(stop);
      rows.Finish();
      begin = stop + 1;
    }
    return true;
  }
#endif
  Rows<T, kStream> rows(task, runs, begin);
  int64_t row = begin;
  for (; row < end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    rows.Write(row);
  }
  rows.Finish();
  return row == end;
}

// False when cancelled.
bool BiasMatrixRange(const BiasMatrixTask& task, const std::vector<PositionRun>& runs, int64_t begin, int64_t end,
                     const CancelFlag* cancel, bool stream) {
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    return stream ? WriteRows<T, kHasStreaming>(task, runs, begin, end, cancel)
                  : WriteRows<T, false>(task, runs, begin, end, cancel);
  };
  // Integers are moved as the floats of their size.
  if (task.dtype == DType::kI64) return run(TypeTag<double>{});
  if (task.dtype == DType::kI32) return run(TypeTag<float>{});
  return VisitFloat(task.dtype, run);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(BiasMatrixRange);

constexpr int64_t kSliceBytes = 2 << 20;
// Runs shorter than this are not worth leaving the gathering loop for.
constexpr int64_t kShortestRun = 32;

std::vector<PositionRun> RunsOf(const int32_t* positions, int64_t keys) {
  std::vector<PositionRun> runs;
  const auto append_any = [&](int64_t begin, int64_t end) {
    if (begin >= end) return;
    if (!runs.empty() && runs.back().kind == PositionRun::kAny) {
      runs.back().end = end;
    } else {
      runs.push_back({begin, end, PositionRun::kAny});
    }
  };
  for (int64_t k = 0; k < keys;) {
    int64_t end = k + 1;
    // Wide: neighbours may be 2^32 apart.
    const int64_t step = end < keys ? int64_t{positions[end]} - positions[k] : 2;
    if (step == 0 || step == 1) {
      while (end < keys && int64_t{positions[end]} - positions[end - 1] == step) ++end;
    }
    if (end - k >= kShortestRun) {
      runs.push_back({k, end, step == 1 ? PositionRun::kStep : PositionRun::kStill});
    } else {
      append_any(k, end);
    }
    k = end;
  }
  return runs;
}

absl::Status Check(const BiasMatrixTask& task, RowRange rows) {
  const bool integers = task.dtype == DType::kI32 || task.dtype == DType::kI64;
  if (!IsFloat(task.dtype) && !(integers && task.mask == nullptr)) {
    return absl::InvalidArgumentError("bias matrix: the element type must be a float, or an integer without masks");
  }
  if (task.batch < 0 || task.heads < 0 || task.queries < 0 || task.keys < 0) {
    return absl::InvalidArgumentError("bias matrix: extents must be at least 0");
  }
  if (rows.begin < 0 || rows.end > task.batch * task.heads * task.queries) {
    return absl::InvalidArgumentError("bias matrix: rows outside [0, batch·heads·queries)");
  }
  if (task.mask != nullptr) return CheckRule(*task.mask, task.dtype, task.batch, task.queries, task.keys);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunBiasMatrix(const BiasMatrixTask& task, RowRange rows, const CancelFlag* cancel) {
  if (absl::Status status = Check(task, rows); !status.ok()) return status;
  if (rows.begin >= rows.end || task.keys == 0) return absl::OkStatus();
  if (task.vector == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("bias matrix: vector and out must not be null");
  }
  const int64_t total_bytes = task.batch * task.heads * task.queries * task.keys * SizeOf(task.dtype);
  const bool stream = PrefersStreaming(StoreHint::kAuto, total_bytes);
  // Batch row by batch row: the runs are those of its keys.
  const int64_t per_batch = task.heads * task.queries;
  std::vector<PositionRun> runs;
  for (int64_t begin = rows.begin; begin < rows.end;) {
    const int64_t b = begin / per_batch;
    const bool first = begin == rows.begin;
    if (task.key_positions != nullptr && (first || task.key_batch_stride != 0)) {
      runs = RunsOf(task.key_positions + b * task.key_batch_stride, task.keys);
    }
    const int64_t end = std::min(rows.end, (b + 1) * per_batch);
    if (!HWY_DYNAMIC_DISPATCH(BiasMatrixRange)(task, runs, begin, end, cancel, stream)) {
      return absl::CancelledError("bias matrix: cancelled");
    }
    begin = end;
  }
  return absl::OkStatus();
}

int64_t BiasMatrixRowsPerSlice(const BiasMatrixTask& task) {
  return std::max<int64_t>(1, kSliceBytes / std::max<int64_t>(1, task.keys * SizeOf(task.dtype)));
}

}  // namespace phasor
#endif  // HWY_ONCE
