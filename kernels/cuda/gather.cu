#include "kernels/cuda/launch_params.cuh"

namespace phasor::cuda {

template cudaError_t LaunchParams(const GatherParams& params, LaunchShape shape, cudaStream_t stream);
template cudaError_t LaunchParams(const SquarePartialsParams& params, LaunchShape shape, cudaStream_t stream);
template cudaError_t LaunchParams(const NormsParams& params, LaunchShape shape, cudaStream_t stream);

}  // namespace phasor::cuda
