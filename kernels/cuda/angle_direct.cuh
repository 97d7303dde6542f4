// Tables whose entries are made one by one: a polynomial of the integer phase (or of what is left of a float angle), the
// rounding test, and exact integers for what fails it.
//
// Error of z, relative to |z| and to factor: 8u of the polynomial and 2u of the scaling, against a bound of 2^-48·|z|; and
// what the phase's 128 bits leave out, below 2^-94, against AngleParams::absolute_error.
//
// kCompat (kernels/cpu/angle_compat-inl.h): with 2/π = h + l + δ, |δ| < 2^-107, the rest after n quarters is fma(a, h, −n) +
// a·l, 3u relative and |a|·2^-106 absolute. No float is nearer to a multiple of π/2 than 2^-31, zero apart, so that for |a|
// ≤ 2^30 the absolute part is below 2^-44 of the rest. cos and sin of it are within 2^-44 + 10u of theirs, against 2^-42.
#ifndef PHASOR_KERNELS_CUDA_ANGLE_DIRECT_CUH_
#define PHASOR_KERNELS_CUDA_ANGLE_DIRECT_CUH_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sincos-inl.h"
#include "kernels/cuda/angle.h"
#include "kernels/cuda/angle_math.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// A row's position, as the method takes it.
template <AngleMethod kMethod>
struct AnglePosition;
template <>
struct AnglePosition<AngleMethod::kWhole> {
  int64_t value;
  PHASOR_HOST_DEVICE_INLINE AnglePosition(const AngleParams& p, int64_t row)
      : value(p.ids != nullptr ? p.ids[row] : p.first + row * p.stride) {}
};
template <>
struct AnglePosition<AngleMethod::kFractional> {
  double value;
  PHASOR_HOST_DEVICE_INLINE AnglePosition(const AngleParams& p, int64_t row) : value(p.fractional_ids[row]) {}
};
template <>
struct AnglePosition<AngleMethod::kCompat> {
  float value;
  PHASOR_HOST_DEVICE_INLINE AnglePosition(const AngleParams& p, int64_t row)
      : value(p.fractional_ids != nullptr ? static_cast<float>(p.fractional_ids[row]) + 0.0f  // −0 as 0
                                          : static_cast<float>(AnglePosition<AngleMethod::kWhole>(p, row).value)) {}
};

// ---- Exact.

template <AngleMethod kMethod>
PHASOR_HOST_DEVICE_INLINE SinCos128 ExactSinCos(const AngleParams& p, int64_t pair, AnglePosition<kMethod> position) {
  if constexpr (kMethod == AngleMethod::kFractional) {
    return sincos_inline::OfFractionalPosition(p.FrequencyOf(pair), position.value);
  } else {
    return sincos_inline::OfPosition(p.FrequencyOf(pair), position.value);
  }
}

template <typename T, AngleMethod kMethod>
PHASOR_HOST_DEVICE_INLINE Entry<T> EvaluateExact(const AngleParams& p, int64_t pair, AnglePosition<kMethod> position) {
  const bool negative = position.value < 0;
  Phase phase;
  bool still;
  if constexpr (kMethod == AngleMethod::kFractional) {
    const Turns frequency = p.FrequencyOf(pair);
    const Turns fraction = phasor::PhaseOfFraction(frequency, negative ? -position.value : position.value);
    phase = {fraction.limb[2], fraction.limb[1]};
    still = frequency.IsZero();
  } else {
    const uint64_t high = p.turns[2 * p.turns_stride + pair], low = p.turns[p.turns_stride + pair];
    phase = PhaseOf(high, low, static_cast<uint64_t>(negative ? -position.value : position.value));
    still = (high | low | p.turns[pair]) == 0;
  }
  Complex z = SinCosOfPhase(phase);
  // Adding zero makes the zero of a still pair positive.
  z = {z.cos * p.factor, z.sin * (negative ? -p.factor : p.factor) + 0.0};
  const double absolute = still ? 0 : p.absolute_error;
  return {TestRounding<T>(z.cos, std::fma(std::fabs(z.cos), 0x1p-48, absolute)),
          TestRounding<T>(z.sin, std::fma(std::fabs(z.sin), 0x1p-48, absolute))};
}

// ---- As float32 libraries mean it.

// A correctly rounded cos or sin, times or divided by the factor in f32, cast.
template <typename T>
PHASOR_HOST_DEVICE_INLINE BitsType<T> CompatBits(const AngleParams& p, float value) {
  return std::bit_cast<BitsType<T>>(NarrowBits<T>(p.divide ? value / p.factor_f32 : value * p.factor_f32));
}

template <typename T>
PHASOR_HOST_DEVICE_INLINE Entry<T> EvaluateCompat(const AngleParams& p, int64_t pair, float position) {
  const float angle = p.inv_freq[pair] * position;
  const float magnitude = std::fabs(angle);
  // What the bound is not derived for, and infinite angles.
  const bool beyond = !(magnitude <= 0x1p30f && (magnitude >= 0x1p-100f || magnitude == 0));
  const double a = beyond ? 0 : static_cast<double>(angle);
  // Adding 1.5·2^52 rounds to a whole number, whose low bits are then those of the sum.
  constexpr double kMagic = 0x1.8p52;
  const double sum = std::fma(a, 0x1.45f306dc9c883p-1, kMagic);
  const double quarters = std::fma(a, -0x1.6b01ec5417056p-55, std::fma(a, 0x1.45f306dc9c883p-1, -(sum - kMagic)));
  const Complex z = TurnByQuarters(SinCosFine(quarters * 0x1.921fb54442d18p+0), std::bit_cast<uint64_t>(sum));
  const double sin = z.sin + 0.0;
  const Tested<float> c = TestRounding<float>(z.cos, std::fabs(z.cos) * 0x1p-42);
  const Tested<float> s = TestRounding<float>(sin, std::fabs(sin) * 0x1p-42);
  return {{CompatBits<T>(p, std::bit_cast<float>(c.bits)), c.in_doubt || beyond},
          {CompatBits<T>(p, std::bit_cast<float>(s.bits)), s.in_doubt || beyond}};
}

template <typename T>
PHASOR_HOST_DEVICE_INLINE uint64_t ExactCompat(const AngleParams& p, int64_t pair, float position, bool is_sin) {
  const float angle = p.inv_freq[pair] * position;
  uint32_t bits = 0x7fc00000;  // of an infinite angle
  if ((std::bit_cast<uint32_t>(angle) & 0x7fffffff) < 0x7f800000) {
    const SinCos128 value = sincos_inline::OfRadians(angle);
    bits = static_cast<uint32_t>(sincos_inline::RoundReal(is_sin ? value.sin : value.cos, 8, 23));
  }
  return CompatBits<T>(p, std::bit_cast<float>(bits));
}

// ---- Bodies. A work is one row of 16 bytes of each output.

template <typename T, AngleMethod kMethod>
struct AngleDirectBody {
  AngleParams p;

  static constexpr int kCount = Entries<T>::kCount;

  PHASOR_HOST_DEVICE_INLINE void Repair(uint32_t doubts, int64_t row, int64_t pair, AnglePosition<kMethod> position) const {
    if (doubts != 0) OrderStores();
    while (doubts != 0) {
      const int bit = std::countr_zero(doubts);
      doubts &= doubts - 1;
      const int64_t at = pair + bit % kCount;
      const bool is_sin = bit >= kCount;
      uint64_t bits;
      if constexpr (kMethod == AngleMethod::kCompat) {
        bits = ExactCompat<T>(p, at, position.value, is_sin);
      } else {
        const SinCos128 value = ExactSinCos<kMethod>(p, at, position);
        bits = RoundExact<T>(is_sin ? value.sin : value.cos, p.exact_factor);
      }
      StoreEntry<T>(p, row, at, is_sin, bits);
    }
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    const int64_t works = p.works(), groups = p.groups();
    PHASOR_NO_UNROLL
    for (int64_t work = thread.index; work < works; work += thread.count) {
      const int64_t row = Quotient(work, groups), pair = (work - row * groups) * kCount;
      const AnglePosition<kMethod> position(p, row);
      Entries<T> entries;
      if constexpr (kMethod == AngleMethod::kCompat) {
        for (int k = 0; k < kCount; ++k) entries.Set(k, EvaluateCompat<T>(p, pair + k, position.value));
      } else {
        // Side by side these would take more registers than there are.
        PHASOR_NO_UNROLL
        for (int k = 0; k < kCount; ++k) entries.Push(EvaluateExact<T, kMethod>(p, pair + k, position));
      }
      StoreEntries<T>(p, row, pair, p.IsVector<kCount>(pair), entries);
      Repair(entries.doubts & DoubtsThatCount<T>(p, pair), row, pair, position);
    }
  }
};

// Doubles: exact integers for every entry.
template <>
struct AngleDirectBody<double, AngleMethod::kWhole> {
  AngleParams p;

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    const int64_t works = p.works(), groups = p.groups();
    PHASOR_NO_UNROLL
    for (int64_t work = thread.index; work < works; work += thread.count) {
      const int64_t row = Quotient(work, groups), pair = (work - row * groups) * 2;
      const AnglePosition<AngleMethod::kWhole> position(p, row);
      Entries<double> entries;
      PHASOR_NO_UNROLL
      for (int k = 0; k < 2; ++k) {
        const SinCos128 value = ExactSinCos<AngleMethod::kWhole>(p, pair + k, position);
        entries.Push({{RoundExact<double>(value.cos, p.exact_factor), false},
                      {RoundExact<double>(value.sin, p.exact_factor), false}});
      }
      StoreEntries<double>(p, row, pair, p.IsVector<2>(pair), entries);
    }
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ANGLE_DIRECT_CUH_
