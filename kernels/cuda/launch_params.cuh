// What each NAME.cu instantiates.
#ifndef PHASOR_KERNELS_CUDA_LAUNCH_PARAMS_CUH_
#define PHASOR_KERNELS_CUDA_LAUNCH_PARAMS_CUH_

#include <cstdint>

#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/launch_params.h"

namespace phasor::cuda {

// Blocks that a multiprocessor holds at least; four leave a thread 128 registers. Without a number the compiler aims for
// more blocks than there is work for, and spills a register or two for them.
template <typename Body>
constexpr int BlocksAtOnce() {
  if constexpr (requires { Body::kBlocksAtOnce; }) {
    return Body::kBlocksAtOnce;
  } else {
    return 4;
  }
}

// Bodies are plain values: they travel in the kernel's parameters.
template <typename Body>
__global__ void __launch_bounds__(kBlockThreads, BlocksAtOnce<Body>()) RunBody(const __grid_constant__ Body body) {
  body(
      GridThread{static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, static_cast<int64_t>(gridDim.x) * blockDim.x});
}

template <typename Params>
cudaError_t LaunchParams(const Params& params, LaunchShape shape, cudaStream_t stream) {
  const auto launch = [&](const auto& body) { RunBody<<<shape.blocks, shape.block_threads, 0, stream>>>(body); };
  BodyVisitor<decltype(launch)>{launch}(params);
  return cudaGetLastError();
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LAUNCH_PARAMS_CUH_
