#include "kernels/cpu/assemble.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/store_policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/assemble.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One output array: its task (with the number of rows), and which halves it is made of.
struct AssembleArgs {
  const AssembleTask* task;
  const int32_t* table_rows;  // null: row r
  const void* first;          // the half that comes first, or is repeated
  const void* second;
  void* out;
  int64_t begin, end;
  const CancelFlag* cancel;
};

// [a_0, b_0, a_1, b_1, …]: `columns` of them, through a buffer that stays in L1.
template <typename T, bool kStream>
HWY_INLINE void AppendInterleaved(LineWriter<kStream>& writer, const T* a, const T* b, int64_t columns) {
  constexpr int64_t kChunkPairs = 512;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T chunk[2 * kChunkPairs + 2 * HWY_MAX_BYTES / sizeof(T)];
  for (int64_t done = 0; done < columns; done += 2 * kChunkPairs) {
    const int64_t width = columns - done < 2 * kChunkPairs ? columns - done : 2 * kChunkPairs;
    const int64_t pairs = (width + 1) / 2;
    for (int64_t i = 0; i < pairs; i += lanes) {
      const int64_t from = done / 2 + i;
#if HWY_TARGET == HWY_SCALAR
      std::memcpy(chunk + 2 * i, a + from, sizeof(T));
      std::memcpy(chunk + 2 * i + 1, b + from, sizeof(T));
#else
      hn::StoreInterleaved2(LoadUpTo(d, a + from, pairs - i), LoadUpTo(d, b + from, pairs - i), d, chunk + 2 * i);
#endif
    }
    writer.Append(reinterpret_cast<const uint8_t*>(chunk), width * static_cast<int64_t>(sizeof(T)));
  }
}

template <typename T, bool kStream>
bool AssembleRows(const AssembleArgs& args) {
  constexpr int64_t kSize = sizeof(T);
  const AssembleTask& task = *args.task;
  const bool interleaved = task.form == TableForm::kInterleavedDuplicated || task.form == TableForm::kSinCosInterleaved;
  const int64_t n = task.pairs;
  // Columns of each half; of interleaved forms, of both.
  int64_t first_columns = n < task.columns ? n : task.columns;
  int64_t second_columns = task.form == TableForm::kHalf ? 0 : task.columns - first_columns;
  if (task.form == TableForm::kSinCosConcatenated) {
    first_columns = n < (task.columns + 1) / 2 ? n : (task.columns + 1) / 2;
    second_columns = task.columns / 2;
  }
  if (second_columns > n) second_columns = n;
  const int64_t filled = first_columns + second_columns;

  LineWriter<kStream> writer(static_cast<uint8_t*>(args.out) + args.begin * task.columns * kSize);
  int64_t r = args.begin;
  for (; r < args.end; ++r) {
    if (args.cancel != nullptr && args.cancel->load(std::memory_order_relaxed)) break;
    const int64_t row = args.table_rows != nullptr ? args.table_rows[r] : r;
    const T* first = static_cast<const T*>(args.first) + row * task.table_stride;
    const T* second = static_cast<const T*>(args.second) + row * task.table_stride;
    if (interleaved) {
      AppendInterleaved<T>(writer, first, second, filled);
    } else {
      writer.Append(reinterpret_cast<const uint8_t*>(first), first_columns * kSize);
      if (second_columns > 0) writer.Append(reinterpret_cast<const uint8_t*>(second), second_columns * kSize);
    }
    if (filled < task.columns) writer.AppendZeros((task.columns - filled) * kSize);
  }
  writer.Finish();
  return r == args.end;
}

template <typename T>
bool AssembleOfSize(const AssembleArgs& args, bool stream) {
  return stream ? AssembleRows<T, kHasStreaming>(args) : AssembleRows<T, false>(args);
}

// One output array. False when cancelled.
bool AssembleArray(const AssembleTask& task, const int32_t* table_rows, const void* first, const void* second, void* out,
                   RowRange rows, const CancelFlag* cancel, bool stream) {
  const AssembleArgs args{&task, table_rows, first, second, out, rows.begin, rows.end, cancel};
  switch (task.element_size) {
    case 2:
      return AssembleOfSize<uint16_t>(args, stream);
    case 4:
      return AssembleOfSize<uint32_t>(args, stream);
    default:
      return AssembleOfSize<uint64_t>(args, stream);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(AssembleArray);

// Bytes that one core writes in well under a millisecond, the first touch of fresh pages included.
constexpr int64_t kSliceBytes = 1 << 20;

bool HasTwoArrays(TableForm form) {
  return form == TableForm::kHalf || form == TableForm::kDuplicated || form == TableForm::kInterleavedDuplicated;
}

absl::Status CheckAssemble(const AssembleTask& task, RowRange rows) {
  if (task.element_size != 2 && task.element_size != 4 && task.element_size != 8) {
    return absl::InvalidArgumentError("assemble: the element size must be 2, 4 or 8");
  }
  if (task.pairs < 0 || task.columns < 0) return absl::InvalidArgumentError("assemble: extents must be at least 0");
  if (rows.begin < 0) return absl::InvalidArgumentError("assemble: rows must not be negative");
  if (!task.table_rows.empty() && rows.end > static_cast<int64_t>(task.table_rows.size())) {
    return absl::InvalidArgumentError("assemble: rows beyond table_rows");
  }
  if (rows.begin >= rows.end || task.columns == 0) return absl::OkStatus();
  const bool no_output = task.out == nullptr && (task.out_sin == nullptr || !HasTwoArrays(task.form));
  if (no_output) return absl::InvalidArgumentError("assemble: out must not be null");
  const bool needs_sin = !HasTwoArrays(task.form) || task.out_sin != nullptr;
  const bool needs_cos = !HasTwoArrays(task.form) || task.out != nullptr;
  if ((needs_cos && task.cos == nullptr) || (needs_sin && task.sin == nullptr)) {
    return absl::InvalidArgumentError("assemble: cos and sin must not be null");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunAssemble(const AssembleTask& task, RowRange rows, const CancelFlag* cancel) {
  if (absl::Status status = CheckAssemble(task, rows); !status.ok()) return status;
  if (rows.begin >= rows.end || task.columns == 0) return absl::OkStatus();
  const int32_t* table_rows = task.table_rows.empty() ? nullptr : task.table_rows.data();
  // The task does not say how many rows there are in all; rows.end is the best guess at the size of the whole.
  const bool stream = PrefersStreaming(task.hint, rows.end * task.columns * task.element_size);
  const auto write = [&](const void* first, const void* second, void* out) {
    return HWY_DYNAMIC_DISPATCH(AssembleArray)(task, table_rows, first, second, out, rows, cancel, stream);
  };
  bool done = true;
  if (HasTwoArrays(task.form)) {
    if (task.out != nullptr) done = write(task.cos, task.cos, task.out);
    if (done && task.out_sin != nullptr) done = write(task.sin, task.sin, task.out_sin);
  } else if (task.form == TableForm::kConcatenated) {
    done = write(task.cos, task.sin, task.out);
  } else {
    done = write(task.sin, task.cos, task.out);
  }
  return done ? absl::OkStatus() : absl::CancelledError("assemble: cancelled");
}

int64_t AssembleRowsPerSlice(const AssembleTask& task) {
  const int64_t arrays = HasTwoArrays(task.form) ? 2 : 1;
  return std::max<int64_t>(1, kSliceBytes / std::max<int64_t>(1, arrays * task.columns * task.element_size));
}

}  // namespace phasor
#endif  // HWY_ONCE
