// Weights by the rule of tests/golden/window/make.py.
#ifndef PHASOR_TESTS_KERNELS_PROGRAM_GOLDEN_WEIGHTS_H_
#define PHASOR_TESTS_KERNELS_PROGRAM_GOLDEN_WEIGHTS_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/weight.h"

namespace phasor {

inline uint64_t SplitMix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Element i: ((SplitMix(seed·2^32 + i) >> 43) − 2^20)·2^−20·scale, exact in float32 when scale is a power of two.
inline std::vector<double> RuleValues(uint64_t seed, int64_t count, double scale = 1) {
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t whole = static_cast<int64_t>(SplitMix((seed << 32) + i) >> 43) - (int64_t{1} << 20);
    values[i] = std::ldexp(static_cast<double>(whole), -20) * scale;
  }
  return values;
}

inline WeightRef RuleWeight(uint64_t seed, std::vector<int64_t> shape, double scale = 1) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  const std::vector<double> values = RuleValues(seed, count, scale);
  return MakeWeight(std::move(shape), values, absl::StrCat("rule ", seed, " ", count, " ", scale));
}

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_PROGRAM_GOLDEN_WEIGHTS_H_
