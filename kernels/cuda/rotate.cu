#include "kernels/cuda/launch_params.cuh"

namespace phasor::cuda {

template cudaError_t LaunchParams(const RotateParams& params, LaunchShape shape, cudaStream_t stream);
template cudaError_t LaunchParams(const RotateGroupParams& params, LaunchShape shape, cudaStream_t stream);

}  // namespace phasor::cuda
