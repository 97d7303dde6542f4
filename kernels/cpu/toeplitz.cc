#include "kernels/cpu/toeplitz.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/store_policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/toeplitz.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

template <bool kStream>
bool CopyRows(const ToeplitzTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const int64_t size = task.element_size;
  const int64_t row_bytes = task.keys * size;
  LineWriter<kStream> writer(static_cast<uint8_t*>(task.out) + begin * row_bytes);
  int64_t row = begin;
  for (; row < end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) break;
    const int64_t head = row / task.queries;
    const int64_t query = row - head * task.queries;
    const int64_t first = head * task.vector_stride + (task.queries - 1 - query);
    writer.Append(static_cast<const uint8_t*>(task.vector) + first * size, row_bytes);
  }
  writer.Finish();
  return row == end;
}

// False when cancelled.
bool ToeplitzRange(const ToeplitzTask& task, int64_t begin, int64_t end, const CancelFlag* cancel, bool stream) {
  return stream ? CopyRows<kHasStreaming>(task, begin, end, cancel) : CopyRows<false>(task, begin, end, cancel);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(ToeplitzRange);

// Bytes that one core writes in well under a millisecond, the first touch of fresh pages included.
constexpr int64_t kSliceBytes = 2 << 20;

}  // namespace

absl::Status RunToeplitz(const ToeplitzTask& task, RowRange rows, const CancelFlag* cancel) {
  if (task.element_size != 2 && task.element_size != 4 && task.element_size != 8) {
    return absl::InvalidArgumentError("toeplitz: the element size must be 2, 4 or 8");
  }
  if (task.heads < 0 || task.queries < 0 || task.keys < 0) {
    return absl::InvalidArgumentError("toeplitz: extents must be at least 0");
  }
  if (rows.begin < 0 || rows.end > task.heads * task.queries) {
    return absl::InvalidArgumentError("toeplitz: rows outside [0, heads·queries)");
  }
  if (rows.begin >= rows.end || task.keys == 0) return absl::OkStatus();
  if (task.vector == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("toeplitz: vector and out must not be null");
  }
  const int64_t total_bytes = task.heads * task.queries * task.keys * task.element_size;
  const bool stream = PrefersStreaming(task.hint, total_bytes);
  const bool done = HWY_DYNAMIC_DISPATCH(ToeplitzRange)(task, rows.begin, rows.end, cancel, stream);
  return done ? absl::OkStatus() : absl::CancelledError("toeplitz: cancelled");
}

int64_t ToeplitzRowsPerSlice(const ToeplitzTask& task) {
  return std::max<int64_t>(1, kSliceBytes / std::max<int64_t>(1, task.keys * task.element_size));
}

}  // namespace phasor
#endif  // HWY_ONCE
