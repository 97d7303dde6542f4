#include "kernels/cuda/launch_params.cuh"

namespace phasor::cuda {

template cudaError_t LaunchParams(const KeptKeysParams& params, LaunchShape shape, cudaStream_t stream);
template cudaError_t LaunchParams(const MaskParams& params, LaunchShape shape, cudaStream_t stream);

}  // namespace phasor::cuda
