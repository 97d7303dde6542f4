// cos and sin of integer phases in doubles, the rounding test, and the exact entry.
#ifndef PHASOR_KERNELS_CUDA_ANGLE_MATH_CUH_
#define PHASOR_KERNELS_CUDA_ANGLE_MATH_CUH_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sincos-inl.h"
#include "kernels/cuda/angle.h"
#include "kernels/cuda/convert16.cuh"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

struct Complex {
  double cos;
  double sin;
};

// The first 128 bits of a fraction of a turn.
struct Phase {
  uint64_t high;
  uint64_t low;
};

// turn·position for a fraction of a turn and 0 ≤ position ≤ 2^31: what the fraction's bits beyond 128 would add is below
// 2^-97 of a turn.
PHASOR_HOST_DEVICE_INLINE Phase PhaseOf(uint64_t turn_high, uint64_t turn_low, uint64_t position) {
  const unsigned __int128 low = static_cast<unsigned __int128>(turn_low) * position;
  return {turn_high * position + static_cast<uint64_t>(low >> 64), static_cast<uint64_t>(low)};
}

// z·w. Normwise error 2u, u = 2^-53 (Jeannerod, Kornerup, Louvet, Muller, Math. Comp. 86, 2017: one fma per component).
PHASOR_HOST_DEVICE_INLINE Complex MultiplyComplex(Complex z, Complex w) {
  return {std::fma(z.cos, w.cos, -(z.sin * w.sin)), std::fma(z.sin, w.cos, z.cos * w.sin)};
}

// cos and sin of x for |x| ≤ π/4 and a little, x good to 3.5u: within 8u of the true values, relative (Taylor; what is left
// out is below u/2). The formula of kernels/cpu/angle-inl.h.
PHASOR_HOST_DEVICE_INLINE Complex SinCosFine(double x) {
  const double y = x * x;
  double s = -1.0 / 1307674368000.0;
  s = std::fma(s, y, 1.0 / 6227020800.0);
  s = std::fma(s, y, -1.0 / 39916800.0);
  s = std::fma(s, y, 1.0 / 362880.0);
  s = std::fma(s, y, -1.0 / 5040.0);
  s = std::fma(s, y, 1.0 / 120.0);
  s = std::fma(s, y, -1.0 / 6.0);
  double k = 1.0 / 20922789888000.0;
  k = std::fma(k, y, -1.0 / 87178291200.0);
  k = std::fma(k, y, 1.0 / 479001600.0);
  k = std::fma(k, y, -1.0 / 3628800.0);
  k = std::fma(k, y, 1.0 / 40320.0);
  k = std::fma(k, y, -1.0 / 720.0);
  k = std::fma(k, y, 1.0 / 24.0);
  k = std::fma(k, y, -0.5);
  return {std::fma(k, y, 1.0), std::fma(x * y, s, x)};
}

// z·i^quarter; the low two bits of `quarter` count.
PHASOR_HOST_DEVICE_INLINE Complex TurnByQuarters(Complex z, uint64_t quarter) {
  const bool swap = (quarter & 1) != 0;
  // Bit 63: whether sin is negative; one quarter on, whether cos is.
  const uint64_t half = quarter << 62, next = half + (uint64_t{1} << 62);
  constexpr uint64_t kSign = uint64_t{1} << 63;
  const auto flip = [](double v, uint64_t bit) { return std::bit_cast<double>(std::bit_cast<uint64_t>(v) ^ (bit & kSign)); };
  return {flip(swap ? z.sin : z.cos, next), flip(swap ? z.cos : z.sin, half)};
}

// Each component within 8u, relative, and what the phase is off by.
PHASOR_HOST_DEVICE_INLINE Complex SinCosOfPhase(Phase phase) {
  const uint64_t quarter = (phase.high + (uint64_t{1} << 61)) >> 62;
  const auto rest = static_cast<int64_t>(phase.high - (quarter << 62));  // in [−2^61, 2^61): ±1/8 turn
  const double turns = std::fma(static_cast<double>(phase.low), 0x1p-64, static_cast<double>(rest));
  return TurnByQuarters(SinCosFine(turns * 0x1.921fb54442d18p-62), quarter);  // 2π·2^-64
}

// The rounding test: where z + e and z − e round to the same T, a true value between them does too.
template <typename T>
struct Tested {
  BitsType<T> bits;
  bool in_doubt;
};
template <typename T>
PHASOR_HOST_DEVICE_INLINE Tested<T> TestRounding(double z, double error) {
  const BitsType<T> high = std::bit_cast<BitsType<T>>(RoundDouble<T>(z + error));
  const BitsType<T> low = std::bit_cast<BitsType<T>>(RoundDouble<T>(z - error));
  return {high, high != low};
}

// A pair's entries in a row.
template <typename T>
struct Entry {
  Tested<T> cos, sin;
};

// Those of one group of pairs, and which are in doubt: bit k is the cos of pair k, bit kCount + k its sin.
template <typename T>
struct Entries {
  static constexpr int kCount = Vector16<BitsType<T>>::kCount;
  Vector16<BitsType<T>> cos, sin;
  uint32_t doubts = 0;

  // k is known where this is compiled.
  PHASOR_HOST_DEVICE_INLINE void Set(int k, const Entry<T>& entry) {
    cos.at[k] = entry.cos.bits;
    sin.at[k] = entry.sin.bits;
    doubts |= static_cast<uint32_t>(entry.cos.in_doubt) << k | static_cast<uint32_t>(entry.sin.in_doubt) << (kCount + k);
  }
  // The last pair's; all others move down by one. kCount of these set everything, in a loop that stays one.
  PHASOR_HOST_DEVICE_INLINE void Push(const Entry<T>& entry) {
    const auto push = [](Vector16<BitsType<T>>& vector, BitsType<T> bits) {
      constexpr int kBits = 8 * static_cast<int>(sizeof(bits));
      const auto number = std::bit_cast<unsigned __int128>(vector);
      vector = std::bit_cast<Vector16<BitsType<T>>>(number >> kBits | static_cast<unsigned __int128>(bits) << (128 - kBits));
    };
    push(cos, entry.cos.bits);
    push(sin, entry.sin.bits);
    doubts = doubts >> 1 & ~(1u << (kCount - 1));
    doubts |= static_cast<uint32_t>(entry.cos.in_doubt) << (kCount - 1);
    doubts |= static_cast<uint32_t>(entry.sin.in_doubt) << (2 * kCount - 1);
  }
};

// Doubts of pairs that exist.
template <typename T>
PHASOR_HOST_DEVICE_INLINE uint32_t DoubtsThatCount(const AngleParams& p, int64_t pair) {
  constexpr int kCount = Entries<T>::kCount;
  const int64_t count = p.pairs - pair < kCount ? p.pairs - pair : kCount;
  return ((1u << count) - 1) * ((1u << kCount) + 1);
}

// The group's entries from `pair` on to their row. is_vector: AngleParams::IsVector of that pair.
template <typename T>
PHASOR_HOST_DEVICE_INLINE void StoreEntries(const AngleParams& p, int64_t row, int64_t pair, bool is_vector,
                                            const Entries<T>& entries) {
  using Bits = BitsType<T>;
  if (is_vector) {
    const int64_t element = row * p.row_stride + p.first_column + pair;
    if (p.cos != nullptr) Store16<Bits>(static_cast<Bits*>(p.cos) + element, entries.cos);
    if (p.sin != nullptr) Store16<Bits>(static_cast<Bits*>(p.sin) + element, entries.sin);
    return;
  }
  for (int k = 0; k < Entries<T>::kCount; ++k) {
    if (pair + k >= p.pairs) continue;
    const int64_t element = p.ElementOf(row, pair + k);
    if (p.cos != nullptr) static_cast<Bits*>(p.cos)[element] = entries.cos.at[k];
    if (p.sin != nullptr) static_cast<Bits*>(p.sin)[element] = entries.sin.at[k];
  }
}

// One entry over what was stored.
template <typename T>
PHASOR_HOST_DEVICE_INLINE void StoreEntry(const AngleParams& p, int64_t row, int64_t pair, bool is_sin, uint64_t bits) {
  void* const out = is_sin ? p.sin : p.cos;
  if (out != nullptr) static_cast<BitsType<T>*>(out)[p.ElementOf(row, pair)] = static_cast<BitsType<T>>(bits);
}

// factor·cos or factor·sin, rounded once.
template <typename T>
PHASOR_HOST_DEVICE_INLINE uint64_t RoundExact(const Real128& value, const Real128& factor) {
  return sincos_inline::RoundReal(sincos_inline::MultiplyReal(value, factor), FloatFormat<T>::kExponentBits,
                                  FloatFormat<T>::kFractionBits);
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ANGLE_MATH_CUH_
