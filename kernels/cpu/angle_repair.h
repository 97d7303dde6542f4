// Single entries of angle tables by the exact path of kernels/core/sincos.h.
#ifndef PHASOR_KERNELS_CPU_ANGLE_REPAIR_H_
#define PHASOR_KERNELS_CPU_ANGLE_REPAIR_H_

#include <cstdint>
#include <type_traits>

#include "kernels/core/sincos.h"
#include "kernels/core/turns.h"

namespace phasor {

enum class Component : uint8_t { kCos, kSin };

// factor·cos or factor·sin of 2π·frequency·position, rounded once to T; an exact zero is positive.
template <typename T>
T ExactEntry(const Turns& frequency, int64_t position, const Real128& factor, Component component) {
  // Every table from 0 on asks for all sines of this row.
  if (position == 0) return component == Component::kCos ? RoundTo<T>(factor) : FromBits<T>(0);
  const SinCos128 value = SinCosOfPosition(frequency, position);
  return RoundTo<T>(Multiply(component == Component::kCos ? value.cos : value.sin, factor));
}

// A recurrence or polynomial gave z with |z − entry| ≤ error: the entry, from z where that decides it, else exactly.
template <typename T>
T EntryFrom(double z, double error, const Turns& frequency, int64_t position, const Real128& factor, Component component) {
  const auto round = [](double value) {
    if constexpr (std::is_same_v<T, float>) {
      return static_cast<float>(value);  // the processor's way, which the vectors take too
    } else {
      return Narrow<T>(value);
    }
  };
  const T high = round(z + error);
  const T low = round(z - error);
  if (BitsOf(high) == BitsOf(low)) return high;
  return ExactEntry<T>(frequency, position, factor, component);
}

// cos or sin of an f32 angle, correctly rounded to f32; the canonical NaN for an infinite angle. Zeros are +0.
inline float CompatEntry(float angle, Component component) {
  if ((BitsOf(angle) & 0x7fffffff) >= kInfinityBits<float>) return FromBits<float>(kCanonicalNaNBits<float>);
  const SinCos128 value = SinCosOfRadians(angle);
  return RoundTo<float>(component == Component::kCos ? value.cos : value.sin);
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ANGLE_REPAIR_H_
