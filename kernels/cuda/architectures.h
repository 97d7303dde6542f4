// On which devices a build's kernels run.
#ifndef PHASOR_KERNELS_CUDA_ARCHITECTURES_H_
#define PHASOR_KERNELS_CUDA_ARCHITECTURES_H_

#include <span>

namespace phasor::cuda {

// Whether a device of compute capability major.minor can run code that was compiled for `architectures` (10·major + minor,
// from the oldest on): machine code serves its own major from its minor on; of the newest there is PTX as well, which a
// driver compiles for whatever is newer.
constexpr bool RunsOn(std::span<const int> architectures, int major, int minor) {
  for (const int each : architectures) {
    if (each / 10 == major && each % 10 <= minor) return true;
  }
  return !architectures.empty() && architectures.back() <= 10 * major + minor;
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ARCHITECTURES_H_
