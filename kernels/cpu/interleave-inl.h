// Splits interleaved pairs into halves, and joins them again: what a rotation that reads the one and writes the other needs.
#if defined(PHASOR_KERNELS_CPU_INTERLEAVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_INTERLEAVE_INL_H_
#undef PHASOR_KERNELS_CPU_INTERLEAVE_INL_H_
#else
#define PHASOR_KERNELS_CPU_INTERLEAVE_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[i] = from[2i], to[n + i] = from[2i + 1], i < n. No overlap; any alignment.
template <typename T>
void SplitPairs(const T* from, T* to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> first, second;
    hn::LoadInterleaved2(d, from + 2 * i, first, second);
    hn::StoreU(first, d, to + i);
    hn::StoreU(second, d, to + n + i);
  }
#endif
  for (; i < n; ++i) {
    std::memcpy(to + i, from + 2 * i, sizeof(T));
    std::memcpy(to + n + i, from + 2 * i + 1, sizeof(T));
  }
}

// to[2i] = from[i], to[2i + 1] = from[n + i], i < n. As SplitPairs.
template <typename T>
void JoinPairs(const T* from, T* to, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    hn::StoreInterleaved2(hn::LoadU(d, from + i), hn::LoadU(d, from + n + i), d, to + 2 * i);
  }
#endif
  for (; i < n; ++i) {
    std::memcpy(to + 2 * i, from + i, sizeof(T));
    std::memcpy(to + 2 * i + 1, from + n + i, sizeof(T));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_INTERLEAVE_INL_H_
