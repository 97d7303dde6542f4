// Tables of cos and sin, as backends run them. Part of plan.h.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_ANGLE_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_ANGLE_H_

#include <cstdint>
#include <vector>

#include "kernels/core/double_double.h"
#include "kernels/core/turns.h"
#include "kernels/encodings/spec_axes.h"

namespace phasor {

enum class Precision : uint8_t {
  // Every entry is the correctly rounded value of its definition (f64: within 0.5001 ulp).
  kExact = 1,
  // What float32 libraries mean: angle = fl32(fl32(inv_freq)·fl32(position)), cos and sin of it correctly rounded to f32,
  // times fl32(A) in f32, then one cast.
  kCompatF32 = 2,
};

// cos and sin of position × inv_freq, times attention_factor: the table [positions, pairs] of RoPE and of sinusoids.
struct AnglePlan {
  Precision precision = Precision::kExact;
  std::vector<Turns> frequencies;   // per pair: inv_freq / 2π, 192 fractional bits
  std::vector<double> inv_freq;     // per pair: radians per position, correctly rounded (information; not part of the key)
  std::vector<float> inv_freq_f32;  // per pair: correctly rounded; what kCompatF32 computes from
  DoubleDouble attention_factor{1, 0};  // A, good to 2^−100 (a given one is exact)
  float attention_factor_f32 = 1;       // A rounded once; what kCompatF32 multiplies by
  int64_t axes = 1;                     // coordinates of a position, up to kMaxAxes
  std::vector<uint8_t> axis_of_pair;    // per pair: whose coordinate turns it; empty with one axis

  int64_t pairs() const { return static_cast<int64_t>(frequencies.size()); }
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_ANGLE_H_
