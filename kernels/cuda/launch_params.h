// Launches on a stream of the CUDA runtime, one translation unit a kernel: NAME.cu.
#ifndef PHASOR_KERNELS_CUDA_LAUNCH_PARAMS_H_
#define PHASOR_KERNELS_CUDA_LAUNCH_PARAMS_H_

#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"

namespace phasor::cuda {

template <typename Params>
cudaError_t LaunchParams(const Params& params, LaunchShape shape, cudaStream_t stream);

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LAUNCH_PARAMS_H_
