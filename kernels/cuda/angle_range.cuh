// Tables at consecutive positions: x ← 2·cos(inv_freq)·x − (the x before), from two rows at absolute multiples of 16 on, the
// rounding test on every value, and exact integers for the few that fail it.
//
// Error of z = (cos, sin), with u = 2^-53, relative to factor (kernels/cpu/angle_range.cc derives the same with more anchors
// in between):
// - The first row comes from the polynomial, 8u, and the scaling, 2u. 10u, and it turns along and grows no more.
// - The second row is a product with the rounded e^(i·inv_freq): 3u of its own.
// - A row after them adds the rounding of 2·cos(inv_freq), 2u·|x|, and of the fma, u·|x|: 3u. An error at row j of the pass
//   is at row n multiplied by sin((n−j+1)·inv_freq)/sin(inv_freq), n − j + 1 at most: the second row's 3u by 15, and 3u by
//   14 + 13 + … + 1 = 105. Together 10u + 45u + 315u = 370u.
// The bound used is 512u = 2^-44; the rest covers products of errors and the rounding of z ± e.
//
// Sines of small angles are known better, or every sine of a slow pair would fail the test. Let p be the pass's largest
// |position| (≥ 15) and t = inv_freq·p ≤ 1/8; errors relative to factor: the first row's 10u·t; its |δcos| turned along,
// 10u·sin(15·inv_freq) ≤ 10u·t; the second row's 2u·t + 2u·t/15 by 15, 32u·t; 3u·t by 105. Together 367u·t, the bound used
// 512u·t. All of it is beside the phase's own error, 2^-94 (AngleParams::absolute_error is 2^-90).
#ifndef PHASOR_KERNELS_CUDA_ANGLE_RANGE_CUH_
#define PHASOR_KERNELS_CUDA_ANGLE_RANGE_CUH_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/core/sincos-inl.h"
#include "kernels/cuda/angle.h"
#include "kernels/cuda/angle_math.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// T: float, F16 or BF16. A work is 16 rows of 16 bytes of each output.
template <typename T>
struct AngleRangeBody {
  AngleParams p;

  static constexpr int kCount = Entries<T>::kCount;
  static constexpr double kBound = 0x1p-44;
  // Six rows of doubles a thread, all in registers.
  static constexpr int kBlocksAtOnce = 2;

  // A row's values, the next row's, and what leads on from them.
  struct Pass {
    double cos[kCount], sin[kCount], next_cos[kCount], next_sin[kCount];
    double twice_cos[kCount], sin_error[kCount];
  };

  PHASOR_HOST_DEVICE_INLINE void Start(int64_t position, int64_t pair, Pass& pass) const {
    const bool negative = position < 0;
    const auto magnitude = static_cast<uint64_t>(negative ? -position : position);
    const int64_t last = position + kAnglePassRows - 1;
    const auto largest = static_cast<double>(last > -position ? last : -position);
    const double factor = p.factor, sin_factor = negative ? -factor : factor;
    const double bound = p.bound * kBound, absolute = p.absolute_error;
    const uint64_t* const turn_high = p.turns + 2 * p.turns_stride + pair;
    const uint64_t* const turn_low = p.turns + p.turns_stride + pair;
    for (int k = 0; k < kCount; k += 2) {
      const auto high = Load16<uint64_t>(turn_high + k), low = Load16<uint64_t>(turn_low + k);
      const auto step_cos = Load16<double>(p.step_cos + pair + k), step_sin = Load16<double>(p.step_sin + pair + k);
      const auto angle = Load16<double>(p.angle + pair + k);
      for (int i = 0; i < 2; ++i) {
        Complex z = SinCosOfPhase(PhaseOf(high.at[i], low.at[i], magnitude));
        z = {z.cos * factor, z.sin * sin_factor};
        const Complex next = MultiplyComplex(z, {step_cos.at[i], step_sin.at[i]});
        pass.cos[k + i] = z.cos;
        pass.sin[k + i] = z.sin + 0.0;  // a still pair's zero is positive
        pass.next_cos[k + i] = next.cos;
        pass.next_sin[k + i] = next.sin;
        pass.twice_cos[k + i] = step_cos.at[i] + step_cos.at[i];
        const double t = angle.at[i] * largest;
        // A pair that stands still has no error.
        pass.sin_error[k + i] = angle.at[i] == 0 ? 0 : std::fma(bound, t <= 0.125 ? t : 1.0, absolute);
      }
    }
  }

  // One row, when the table has it. The doubts about it.
  PHASOR_HOST_DEVICE_INLINE uint32_t Emit(const double (&cos)[kCount], const double (&sin)[kCount],
                                          const double (&sin_error)[kCount], int64_t row, int64_t pair,
                                          bool is_vector) const {
    if (row < 0 || row >= p.rows) return 0;
    const double cos_error = p.bound * kBound;
    Entries<T> entries;
    for (int k = 0; k < kCount; ++k) {
      entries.Set(k, {TestRounding<T>(cos[k], cos_error), TestRounding<T>(sin[k], sin_error[k])});
    }
    StoreEntries<T>(p, row, pair, is_vector, entries);
    return entries.doubts;
  }

  // Doubts about two rows, the second's from bit 2·kCount on.
  PHASOR_HOST_DEVICE_INLINE void Repair(uint32_t doubts, int64_t row, int64_t pair) const {
    if (doubts != 0) OrderStores();
    while (doubts != 0) {
      const int bit = std::countr_zero(doubts);
      doubts &= doubts - 1;
      const int64_t at_row = row + bit / (2 * kCount), at_pair = pair + bit % kCount;
      const bool is_sin = bit % (2 * kCount) >= kCount;
      const SinCos128 value = sincos_inline::OfPosition(p.FrequencyOf(at_pair), p.first + at_row);
      StoreEntry<T>(p, at_row, at_pair, is_sin, RoundExact<T>(is_sin ? value.sin : value.cos, p.exact_factor));
    }
  }

  PHASOR_HOST_DEVICE_INLINE void RunPass(int64_t position, int64_t pair) const {
    Pass z;
    Start(position, pair, z);
    const bool is_vector = p.IsVector<kCount>(pair);
    const uint32_t counting = DoubtsThatCount<T>(p, pair);
    const int64_t first_row = position - p.first;
    // Two rows at a time, so that nothing has to change places.
    PHASOR_NO_UNROLL
    for (int64_t row = first_row; row < first_row + kAnglePassRows && row < p.rows; row += 2) {
      uint32_t doubts = Emit(z.cos, z.sin, z.sin_error, row, pair, is_vector) & counting;
      for (int k = 0; k < kCount; ++k) {
        z.cos[k] = std::fma(z.twice_cos[k], z.next_cos[k], -z.cos[k]);
        z.sin[k] = std::fma(z.twice_cos[k], z.next_sin[k], -z.sin[k]);
      }
      doubts |= (Emit(z.next_cos, z.next_sin, z.sin_error, row + 1, pair, is_vector) & counting) << (2 * kCount % 32);
      for (int k = 0; k < kCount; ++k) {
        z.next_cos[k] = std::fma(z.twice_cos[k], z.cos[k], -z.next_cos[k]);
        z.next_sin[k] = std::fma(z.twice_cos[k], z.sin[k], -z.next_sin[k]);
      }
      Repair(doubts, row, pair);
    }
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    const int64_t works = p.works(), groups = p.groups(), first = AnglePassOf(p.first);
    PHASOR_NO_UNROLL
    for (int64_t work = thread.index; work < works; work += thread.count) {
      const int64_t pass = Quotient(work, groups);
      RunPass(first + pass * kAnglePassRows, (work - pass * groups) * kCount);
    }
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ANGLE_RANGE_CUH_
