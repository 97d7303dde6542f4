// Plans of biases that depend on the distance only: b[h, query, key] = RN(value_h(key − query)). Part of plan.h.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_BIAS_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_BIAS_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "kernels/core/double_double.h"
#include "kernels/core/turns.h"
#include "kernels/encodings/buckets.h"
#include "kernels/encodings/spec.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// Straight lines: slope·d for d ≤ 0, and for d > 0 slope·d (causal), −slope·d (symmetric) or −future_slope·d (two-sided).
// One rounding of the exact product; an exact zero is +0.
struct BiasPlan {
  AlibiForm form = AlibiForm::kCausal;
  // One per global head and, with a batch, batch row: head h of row b is entry b·heads() + h. Good to 2^−100 (given ones are
  // exact).
  std::vector<DoubleDouble> slopes;
  std::vector<DoubleDouble> future_slopes = {};  // of the two-sided form: as many
  int64_t batch = 0;                             // 0: no batch axis

  int64_t heads() const { return vectors() / (batch > 0 ? batch : 1); }
  int64_t vectors() const { return static_cast<int64_t>(slopes.size()); }
};

// Rows of a learned table: table[bucket(d), h]·scale, one rounding of the exact product; an exact zero is +0.
struct BucketPlan {
  int64_t num_buckets = 0;
  int64_t max_distance = 0;
  bool bidirectional = false;
  int64_t num_heads = 0;
  double scale = 1;
  int64_t distance_divisor = 1;
  WeightRef table;          // [num_buckets, num_heads], finite; none: indices only
  DistanceBuckets buckets;  // follows from the members above; not part of the key

  int64_t heads() const { return num_heads; }
  int64_t vectors() const { return num_heads; }
};

// KERPLE, n = |d|: −r1·ln(1 + r2·n^p), or −r1·n^r2 (kPower). f32 and narrower are correctly rounded, f64 within one unit in
// the last place (distance_value.h).
struct KerplePlan {
  bool power = false;
  std::vector<double> r1;  // per head
  std::vector<double> r2;
  std::vector<double> p;  // as many, 1 where the form has none

  int64_t heads() const { return static_cast<int64_t>(r1.size()); }
  int64_t vectors() const { return heads(); }
};

// factor_h·Σ (cos(d·frequency) − 1), correctly rounded.
struct SandwichPlan {
  std::vector<Turns> half_frequencies;  // per term: half of the frequency, turns a position
  std::vector<DoubleDouble> factors;    // per head, good to 2^−100

  int64_t heads() const { return static_cast<int64_t>(factors.size()); }
  int64_t vectors() const { return heads(); }
};

// Any of them, for tasks. `vectors` of a plan: how many values it has at a distance.
using DistancePlan = std::variant<const BiasPlan*, const BucketPlan*, const KerplePlan*, const SandwichPlan*>;

inline bool IsNull(const DistancePlan& plan) {
  return std::visit([](const auto* p) { return p == nullptr; }, plan);
}
inline int64_t HeadsOf(const DistancePlan& plan) {
  return std::visit([](const auto* p) { return p->heads(); }, plan);
}
inline int64_t VectorsOf(const DistancePlan& plan) {
  return std::visit([](const auto* p) { return p->vectors(); }, plan);
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_BIAS_H_
