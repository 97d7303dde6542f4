#include "kernels/cpu/mask.h"

#include <algorithm>
#include <cstdint>

#include "kernels/core/narrow.h"
#include "kernels/tasks/mask_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mask.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/mask-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void MaskRow(const MaskTask& task, const MaskedBits& masked, int64_t row) {
  using U = BitsType<T>;
  const MaskRule& rule = *task.rule;
  const int64_t q = row % task.queries, h = row / task.queries % task.heads, b = row / task.queries / task.heads;
  T* data = static_cast<T*>(task.data) + row * task.keys;
  U* bits = reinterpret_cast<U*>(data);
  const KeyRuns visible = VisibleRuns(rule, task.keys, b, q);
  if ((masked.differ() || rule.additive != nullptr) && !HasKey(rule, visible, b, h, q)) {
    std::fill_n(bits, task.keys, static_cast<U>(masked.row));
    return;
  }
  const U hidden = static_cast<U>(masked.entry);
  int64_t end = 0;  // of what is done
  for (int i = 0; i < visible.count; ++i) {
    const KeyRun run = visible.runs[i];
    std::fill(bits + end, bits + run.begin, hidden);
    const int64_t count = run.end - run.begin;
    if (rule.additive != nullptr) {
      VisitFloat(rule.additive_dtype, [&](auto tag) HWY_ATTR {
        using A = typename decltype(tag)::type;
        const A* add = static_cast<const A*>(rule.additive) + AdditiveRow(rule, b, h, q) + run.begin;
        AddInto(data + run.begin, add, count);
        if (rule.masked_value) HideMinusInfinity(bits + run.begin, add, hidden, count);
      });
    }
    if (rule.key_padding != nullptr) {
      Hide(bits + run.begin, rule.key_padding + b * rule.key_padding_batch_stride + run.begin, hidden, count);
    }
    end = run.end;
  }
  std::fill(bits + end, bits + task.keys, hidden);
}

// False when cancelled.
bool MaskRange(const MaskTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const MaskedBits masked = MaskedBitsOf(*task.rule, task.dtype);
  return VisitFloat(task.dtype, [&](auto tag) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
      MaskRow<typename decltype(tag)::type>(task, masked, row);
    }
    return true;
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(MaskRange);

constexpr int64_t kSliceBytes = 1 << 20;

}  // namespace

absl::Status RunMask(const MaskTask& task, RowRange rows, const CancelFlag* cancel) {
  if (task.rule == nullptr) return absl::InvalidArgumentError("mask: rule must not be null");
  if (task.batch < 0 || task.heads < 0 || task.queries < 0 || task.keys < 0) {
    return absl::InvalidArgumentError("mask: extents must be at least 0");
  }
  if (rows.begin < 0 || rows.end > task.batch * task.heads * task.queries) {
    return absl::InvalidArgumentError("mask: rows outside [0, batch·heads·queries)");
  }
  if (absl::Status status = CheckRule(*task.rule, task.dtype, task.batch, task.queries, task.keys); !status.ok()) {
    return status;
  }
  if (rows.begin >= rows.end || task.keys == 0) return absl::OkStatus();
  if (task.data == nullptr) return absl::InvalidArgumentError("mask: data must not be null");
  const bool done = HWY_DYNAMIC_DISPATCH(MaskRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("mask: cancelled");
}

int64_t MaskRowsPerSlice(const MaskTask& task) {
  return std::max<int64_t>(1, kSliceBytes / std::max<int64_t>(1, task.keys * SizeOf(task.dtype)));
}

}  // namespace phasor
#endif  // HWY_ONCE
