#include "kernels/cuda/launch_params.cuh"

namespace phasor::cuda {

template cudaError_t LaunchParams(const WindowParams& params, LaunchShape shape, cudaStream_t stream);

}  // namespace phasor::cuda
