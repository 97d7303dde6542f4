// Which instruction set the vector code of kernels/cpu runs on. The results never depend on it; tests force each one, and
// an operator may avoid one.
#ifndef PHASOR_KERNELS_CPU_CPU_TARGET_H_
#define PHASOR_KERNELS_CPU_CPU_TARGET_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace phasor {

// Targets compiled in that this CPU can run, best first: "avx3", "avx2", "scalar" on x86-64, "neon" on Arm. Never empty.
// Not changed by ForceCpuTarget.
std::vector<std::string> CpuTargets();

// Makes the target the one that every later call of this process uses; "auto" goes back to the best. The choice is kept by
// Highway, for the whole process: call it at start-up or between tests, not while kernels run.
// Errors: INVALID_ARGUMENT for a name that CpuTargets does not list; the message lists them.
absl::Status ForceCpuTarget(std::string_view name);

// The target in use: "avx3".
std::string CurrentCpuTarget();

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_CPU_TARGET_H_
