// Philox 4×32-10 in vectors: the words of kernels/core/philox.h.
#if defined(PHASOR_KERNELS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_PHILOX_INL_H_
#undef PHASOR_KERNELS_CPU_PHILOX_INL_H_
#else
#define PHASOR_KERNELS_CPU_PHILOX_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#include "kernels/core/philox.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How many words PhiloxWords writes at a time, at most.
#if HWY_TARGET == HWY_SCALAR
inline constexpr int64_t kMaxPhiloxStep = 4;
#else
inline constexpr int64_t kMaxPhiloxStep = HWY_MAX_BYTES;
#endif

#if HWY_TARGET != HWY_SCALAR

// Both halves of the products of 32-bit lanes.
template <class DU>
HWY_INLINE void MultiplyWide(DU du, hn::Vec<DU> a, hn::Vec<DU> b, hn::Vec<DU>& high, hn::Vec<DU>& low) {
  const hn::Repartition<uint64_t, DU> du64;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(du64, a))), b);
  high = hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(du, hn::ShiftLeft<32>(odd)), hn::BitCast(du, even));
}

#endif

// Words of blocks first, first + 1 … until `count` words are written (rounded up to kMaxPhiloxStep at most: `out` has room).
HWY_INLINE void PhiloxWords(uint64_t seed, uint64_t offset, uint64_t first, int64_t count, uint32_t* out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < count; i += 4, ++first) {
    const PhiloxBlock block = Philox(seed, offset, first);
    for (int64_t w = 0; w < 4; ++w) out[i + w] = block[static_cast<size_t>(w)];
  }
#else
  const hn::ScalableTag<uint32_t> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(du));
  HWY_ALIGN uint32_t low_words[HWY_MAX_BYTES / 4], high_words[HWY_MAX_BYTES / 4], carries[HWY_MAX_BYTES / 4];
  const auto m0 = hn::Set(du, kPhiloxMultiplier0);
  const auto m1 = hn::Set(du, kPhiloxMultiplier1);
  for (int64_t i = 0; i < count; i += 4 * lanes, first += static_cast<uint64_t>(lanes)) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const uint64_t low = offset + first + static_cast<uint64_t>(lane);
      low_words[lane] = static_cast<uint32_t>(low);
      high_words[lane] = static_cast<uint32_t>(low >> 32);
      carries[lane] = low < offset ? 1 : 0;
    }
    auto c0 = hn::Load(du, low_words), c1 = hn::Load(du, high_words), c2 = hn::Load(du, carries), c3 = hn::Zero(du);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < kPhiloxRounds; ++round, k0 += kPhiloxKeyStep0, k1 += kPhiloxKeyStep1) {
      hn::Vec<decltype(du)> high0, low0, high1, low1;
      MultiplyWide(du, c0, m0, high0, low0);
      MultiplyWide(du, c2, m1, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(du, k0));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(du, k1));
      c1 = low1;
      c3 = low0;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, du, out + i);
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_PHILOX_INL_H_
