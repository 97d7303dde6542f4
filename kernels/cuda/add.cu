#include "kernels/cuda/launch_params.cuh"

namespace phasor::cuda {

template cudaError_t LaunchParams(const AddParams& params, LaunchShape shape, cudaStream_t stream);

}  // namespace phasor::cuda
