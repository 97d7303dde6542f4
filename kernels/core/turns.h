// Angles as fixed-point turns, wide enough that position × frequency loses nothing that a double could show.
#ifndef PHASOR_KERNELS_CORE_TURNS_H_
#define PHASOR_KERNELS_CORE_TURNS_H_

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/core/host_device.h"

namespace phasor {

// A non-negative number of turns (1 turn = 2π): Σ limb[i]·2^(64·(i−3)). limb[3] is the integer part, limb[0..2] the
// 192-bit fraction (limb[2] most significant). A frequency is inv_freq / 2π turns per position, rounded to nearest;
// with |position| < 2^31 the phase is then good to 2^−162 of a turn.
struct Turns {
  std::array<uint64_t, 4> limb{};

  friend bool operator==(const Turns&, const Turns&) = default;
  PHASOR_HOST_DEVICE bool IsZero() const { return (limb[0] | limb[1] | limb[2] | limb[3]) == 0; }
};

// 1 − the fraction of a phase (two's complement); its integer part is dropped.
PHASOR_HOST_DEVICE_INLINE Turns Backwards(const Turns& phase) {
  Turns result;
  uint64_t borrow = 0;
  for (int i = 0; i < 3; ++i) {
    const unsigned __int128 difference = (static_cast<unsigned __int128>(1) << 64) - phase.limb[i] - borrow;
    result.limb[i] = static_cast<uint64_t>(difference);
    borrow = (difference >> 64) == 0 ? 1 : 0;
  }
  return result;
}

// The fractions of two phases added, modulo one turn.
PHASOR_HOST_DEVICE_INLINE Turns AddPhases(const Turns& a, const Turns& b) {
  Turns sum;
  unsigned __int128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<unsigned __int128>(a.limb[i]) + b.limb[i];
    sum.limb[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  return sum;
}

// frequency × position, modulo one turn: the integer part of the result is dropped. Any int64_t position whose magnitude is
// below 2^63; a negative one gives 1 − the phase of its magnitude (two's complement of the fraction).
PHASOR_HOST_DEVICE_INLINE Turns PhaseOf(const Turns& frequency, int64_t position) {
  const uint64_t magnitude = position < 0 ? uint64_t{0} - static_cast<uint64_t>(position) : static_cast<uint64_t>(position);
  Turns phase;
  unsigned __int128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<unsigned __int128>(frequency.limb[i]) * magnitude;
    phase.limb[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  return position < 0 ? Backwards(phase) : phase;
}

// The same of a fractional position, 0 or 2^-64 ≤ |position| < 2^31, cut below 2^-192 of a turn. Equal to the above where
// the position is a whole number.
PHASOR_HOST_DEVICE_INLINE Turns PhaseOfFraction(const Turns& frequency, double position) {
  const uint64_t bits = std::bit_cast<uint64_t>(position);
  const auto field = static_cast<int>(bits >> 52 & 0x7ff);
  if (field == 0) return Turns{};
  // |position| = mantissa·2^-shift, 22 ≤ shift ≤ 116.
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int shift = 1075 - field;
  uint64_t product[6] = {};
  unsigned __int128 carry = 0;
  for (int i = 0; i < 4; ++i) {
    carry += static_cast<unsigned __int128>(frequency.limb[i]) * mantissa;
    product[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  product[4] = static_cast<uint64_t>(carry);
  Turns phase;
  for (int i = 0; i < 3; ++i) {
    // Chosen by a condition, not by an index: a device keeps the words in registers.
    const uint64_t low = shift < 64 ? product[i] : product[i + 1];
    const uint64_t high = shift < 64 ? product[i + 1] : product[i + 2];
    phase.limb[i] = static_cast<uint64_t>((static_cast<unsigned __int128>(high) << 64 | low) >> shift % 64);
  }
  return position < 0 ? Backwards(phase) : phase;
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_TURNS_H_
