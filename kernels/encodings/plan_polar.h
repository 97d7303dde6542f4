// The plan of FoPE. Part of plan.h.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_POLAR_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_POLAR_H_

#include <cstdint>
#include <vector>

#include "kernels/core/turns.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// Tables [positions, heads, pairs]: entry d of head h is Σ_j cos(position·frequency_j)·cos_coef[h, j, d], the cosines
// correctly rounded to f64 and summed by FixedDot (kernels/core/sum.h); sines likewise. Entries from `outputs` on are cos 1,
// sin 0.
struct MixedAnglePlan {
  std::vector<Turns> frequencies;  // those that are kept
  WeightRef cos_coef;              // [heads, frequencies, outputs]
  WeightRef sin_coef;
  int64_t heads = 0;
  int64_t outputs = 0;
  int64_t pairs = 0;  // ≥ outputs
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_POLAR_H_
