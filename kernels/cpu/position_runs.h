// Key positions as runs that can be copied.
#ifndef PHASOR_KERNELS_CPU_POSITION_RUNS_H_
#define PHASOR_KERNELS_CPU_POSITION_RUNS_H_

#include <cstdint>

namespace phasor {

// Consecutive keys [begin, end) whose positions go up by 1 each (kStep), are the same (kStill), or neither (kAny).
struct PositionRun {
  enum Kind : int8_t { kStep, kStill, kAny };
  int64_t begin;
  int64_t end;
  Kind kind;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_POSITION_RUNS_H_
