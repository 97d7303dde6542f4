// How finished rows leave the kernels: computed in a small buffer that stays in L1, repaired there, then copied out in
// order, so that streaming stores see whole lines and never meet a later correction.
#if defined(PHASOR_KERNELS_CPU_ANGLE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_ROWS_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_ROWS_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_ROWS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Columns that are worked on at a time; a multiple of every vector's lanes.
inline constexpr int64_t kChunk = 128;

// One of the two outputs. Pieces come in the order of rows; with rows wider than kChunk, chunk by chunk. `in_order`: every
// row of the job comes, so that contiguous ones may be collected into whole lines.
template <bool kStream>
class RowOutput {
 public:
  RowOutput(void* base, const AngleJob& job, bool in_order = true)
      : base_(static_cast<uint8_t*>(base)),
        element_(SizeOf(job.dtype)),
        row_bytes_(job.row_stride * element_),
        whole_(in_order && job.pairs == job.row_stride && job.pairs <= kChunk),
        writer_(static_cast<uint8_t*>(base)) {}

  // Rows [row, row + rows), columns [column, column + columns), from consecutive elements.
  void Write(const void* from, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    if (base_ == nullptr) return;
    const auto* bytes = static_cast<const uint8_t*>(from);
    if (whole_) {
      writer_.Append(bytes, rows * columns * element_);
      return;
    }
    const int64_t piece = columns * element_;
    for (int64_t r = 0; r < rows; ++r, bytes += piece)
      Copy(base_ + (row + r) * row_bytes_ + column * element_, bytes, piece);
  }

  void Finish() {
    if (base_ == nullptr) return;
    if (whole_) {
      writer_.Finish();
    } else {
      FinishStores<kStream>();
    }
  }

 private:
  void Copy(uint8_t* to, const uint8_t* from, int64_t bytes) {
    if constexpr (kStream) {
      if (reinterpret_cast<uintptr_t>(to) % kLineBytes == 0 && bytes % kLineBytes == 0) {
        const hn::CappedTag<uint8_t, kLineBytes> d;
        for (int64_t i = 0; i < bytes; i += static_cast<int64_t>(hn::Lanes(d)))
          hn::Stream(hn::LoadU(d, from + i), d, to + i);
        return;
      }
    }
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  uint8_t* base_;
  int64_t element_;
  int64_t row_bytes_;
  bool whole_;
  LineWriter<kStream> writer_;
};

// Calls f(TypeTag<T>{}, stream) with T of the 32- and 16-bit types and stream a std::bool_constant.
template <typename F>
HWY_INLINE bool VisitJob(const AngleJob& job, F&& f) {
  const auto visit = [&](auto stream) {
    switch (job.dtype) {
      case DType::kF16:
        return f(TypeTag<F16>{}, stream);
      case DType::kBF16:
        return f(TypeTag<BF16>{}, stream);
      default:
        return f(TypeTag<float>{}, stream);
    }
  };
  return job.stream && kHasStreaming ? visit(std::true_type{}) : visit(std::false_type{});
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_ROWS_INL_H_
