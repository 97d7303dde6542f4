// Loads and stores of vectors for every instruction set: partial vectors, streaming stores, and a writer that turns pieces
// of any length into whole lines. Addresses need no alignment unless a function says so.
#if defined(PHASOR_KERNELS_CPU_STORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_STORES_INL_H_
#undef PHASOR_KERNELS_CPU_STORES_INL_H_
#else
#define PHASOR_KERNELS_CPU_STORES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "kernels/cpu/store_policy.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Streaming stores exist as such: elsewhere (scalar) they would be slower copies.
inline constexpr bool kHasStreaming = HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128;

// kStream: past the cache, `to` aligned to the vector. Else any address.
template <bool kStream, class D>
HWY_INLINE void Put(hn::Vec<D> v, D d, hn::TFromD<D>* to) {
  if constexpr (kStream) {
    hn::Stream(v, d, to);
  } else {
    hn::StoreU(v, d, to);
  }
}

// Asks the memory for a line, into L2: one that is needed later than what L1 holds would only push that out.
HWY_INLINE void PrefetchToL2(const void* line) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  __builtin_prefetch(line, 0, 2);
#else
  hwy::Prefetch(line);
#endif
}

// Makes streaming stores visible to whoever sees a later store. Once after the last Put<true> of a piece of work.
template <bool kStream>
HWY_INLINE void FinishStores() {
  if constexpr (kStream) hwy::FlushStream();
}

// The first min(count, lanes) elements, the rest zero; reads nothing beyond them.
template <class D>
HWY_INLINE hn::Vec<D> LoadUpTo(D d, const hn::TFromD<D>* from, int64_t count) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (HWY_LIKELY(count >= lanes)) return hn::LoadU(d, from);
  HWY_ALIGN hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(hn::Zero(d), d, buffer);
  std::memcpy(buffer, from, static_cast<size_t>(count) * sizeof(hn::TFromD<D>));
  return hn::Load(d, buffer);
}

// Stores the first count < lanes elements.
template <class D>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, hn::TFromD<D>* to, int64_t count) {
  HWY_ALIGN hn::TFromD<D> buffer[HWY_MAX_BYTES / sizeof(hn::TFromD<D>)];
  hn::Store(v, d, buffer);
  std::memcpy(to, buffer, static_cast<size_t>(count) * sizeof(hn::TFromD<D>));
}

// Writes consecutive pieces to consecutive addresses. With kStream every full line is written by streaming stores, whatever
// the lengths and addresses of the pieces: a line that several pieces share is collected first. Finish() writes what is
// left; nothing outside the pieces is touched.
template <bool kStream>
class LineWriter {
 public:
  explicit LineWriter(uint8_t* to) : to_(to) {
    if constexpr (kStream) {
      first_ = fill_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % kLineBytes);
      to_ -= first_;
    }
  }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  void Append(const uint8_t* from, int64_t bytes) {
    if constexpr (!kStream) {
      std::memcpy(to_, from, static_cast<size_t>(bytes));
      to_ += bytes;
    } else {
      if (fill_ != 0) {
        const int64_t missing = kLineBytes - fill_;
        const int64_t taken = bytes < missing ? bytes : missing;
        std::memcpy(line_ + fill_, from, static_cast<size_t>(taken));
        fill_ += taken;
        if (fill_ < kLineBytes) return;
        FlushLine();
        from += taken;
        bytes -= taken;
      }
      for (; bytes >= kLineBytes; bytes -= kLineBytes, from += kLineBytes, to_ += kLineBytes) StreamLine(from);
      std::memcpy(line_, from, static_cast<size_t>(bytes));
      fill_ = bytes;
    }
  }

  void AppendZeros(int64_t bytes) {
    static constexpr uint8_t kZeros[kLineBytes] = {};
    for (; bytes > kLineBytes; bytes -= kLineBytes) Append(kZeros, kLineBytes);
    Append(kZeros, bytes);
  }

  // Bytes of a line over and over. Its period must divide every offset that pieces begin at: lines of one element do.
  void AppendRepeated(const uint8_t* line, int64_t bytes) {
    if constexpr (!kStream) {
      for (; bytes >= kLineBytes; bytes -= kLineBytes, to_ += kLineBytes) std::memcpy(to_, line, kLineBytes);
      std::memcpy(to_, line, static_cast<size_t>(bytes));
      to_ += bytes;
    } else {
      if (fill_ != 0) {
        const int64_t missing = kLineBytes - fill_;
        const int64_t taken = bytes < missing ? bytes : missing;
        std::memcpy(line_ + fill_, line, static_cast<size_t>(taken));
        fill_ += taken;
        if (fill_ < kLineBytes) return;
        FlushLine();
        bytes -= taken;
      }
      for (; bytes >= kLineBytes; bytes -= kLineBytes, to_ += kLineBytes) StreamLine(line);
      std::memcpy(line_, line, static_cast<size_t>(bytes));
      fill_ = bytes;
    }
  }

  void Finish() {
    if constexpr (kStream) {
      std::memcpy(to_ + first_, line_ + first_, static_cast<size_t>(fill_ - first_));
      FinishStores<true>();
    }
  }

 private:
  // The collected line, complete but for the bytes before the first piece.
  void FlushLine() {
    if (first_ == 0) {
      StreamLine(line_);
    } else {
      std::memcpy(to_ + first_, line_ + first_, static_cast<size_t>(kLineBytes - first_));
      first_ = 0;
    }
    fill_ = 0;
    to_ += kLineBytes;
  }

  HWY_INLINE void StreamLine(const uint8_t* from) {
    const hn::CappedTag<uint8_t, kLineBytes> d;
    const size_t lanes = hn::Lanes(d);
    for (size_t i = 0; i < static_cast<size_t>(kLineBytes); i += lanes) {
      hn::Stream(hn::LoadU(d, from + i), d, to_ + i);
    }
  }

  uint8_t* to_;  // kStream: start of the current line
  int64_t first_ = 0;
  int64_t fill_ = 0;
  HWY_ALIGN uint8_t line_[kLineBytes];
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_STORES_INL_H_
