// Runs a check on every instruction set that this machine has, the scalar one included.
#ifndef PHASOR_TESTS_KERNELS_CPU_EACH_TARGET_H_
#define PHASOR_TESTS_KERNELS_CPU_EACH_TARGET_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "hwy/targets.h"

namespace phasor {

// Calls check() once per instruction set, the dispatch of kernels/cpu being held to it meanwhile.
template <typename F>
void OnEachTarget(F&& check) {
  hwy::SetSupportedTargetsForTest(0);
  constexpr int64_t kNotBuilt = HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_EMU128;
  const int64_t targets = (hwy::SupportedTargets() & ~kNotBuilt) | HWY_SCALAR;
  for (int64_t rest = targets; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_CPU_EACH_TARGET_H_
