// An independent source of exact cos and sin for tests: MPFR at 320 bits for starting points, then a complex recurrence in
// 192-bit fixed point, about 50 ns a step. Shares nothing with kernels/ but the plan that it fills.
#ifndef PHASOR_TESTS_KERNELS_CPU_ANGLE_ORACLE_H_
#define PHASOR_TESTS_KERNELS_CPU_ANGLE_ORACLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/encodings/plan.h"

namespace phasor::testing {

// inv_freq_i = base^(−i/pairs)/scale for i < live, 0 beyond; the factor A is the double `factor`.
struct AngleConfig {
  double base = 10000;
  int64_t pairs = 64;
  double scale = 1;
  double factor = 1;
  int64_t live = -1;  // −1: all

  std::string ToString() const;
  int64_t LivePairs() const { return live < 0 ? pairs : live; }
};

AnglePlan MakePlan(const AngleConfig& config, Precision precision = Precision::kExact);

// (−1)^negative · limb · 2^-190, limbs least significant first; magnitude ≤ 1 (and 2^-185 of error).
struct Fixed192 {
  std::array<uint64_t, 3> limb{};
  bool negative = false;
};

// Walks consecutive positions, all pairs at once.
class AngleOracle {
 public:
  // 300-bit phases at `position`.
  AngleOracle(const AngleConfig& config, int64_t position);

  void Step();  // to the next position; exactly 1 and 0 at position 0
  const Fixed192& cos(int64_t pair) const { return cos_[static_cast<size_t>(pair)]; }
  const Fixed192& sin(int64_t pair) const { return sin_[static_cast<size_t>(pair)]; }

 private:
  int64_t position_;
  std::vector<Fixed192> cos_, sin_, step_cos_, step_sin_;
};

// IEEE bits of value·factor rounded once to nearest even. `factor`: positive, normal.
uint64_t RoundOracle(const Fixed192& value, double factor, DType dtype);

// The same from MPFR alone, for single values: cos or sin of position·inv_freq, times or divided by the factor.
uint64_t RoundByMpfr(const AngleConfig& config, int64_t pair, int64_t position, bool sine, bool inverse, DType dtype);

// cos or sin of a float angle rounded once to f32, by MPFR.
float CompatByMpfr(float angle, bool sine);

}  // namespace phasor::testing

#endif  // PHASOR_TESTS_KERNELS_CPU_ANGLE_ORACLE_H_
