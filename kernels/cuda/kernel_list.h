// Every kernel, by its parameters.
#ifndef PHASOR_KERNELS_CUDA_KERNEL_LIST_H_
#define PHASOR_KERNELS_CUDA_KERNEL_LIST_H_

#include <variant>

#include "kernels/cuda/add.h"
#include "kernels/cuda/angle.h"
#include "kernels/cuda/assemble.h"
#include "kernels/cuda/bias_matrix.h"
#include "kernels/cuda/gather.h"
#include "kernels/cuda/mask.h"
#include "kernels/cuda/rotate.h"
#include "kernels/cuda/toeplitz.h"
#include "kernels/cuda/window.h"

namespace phasor::cuda {

// Plain values: addresses are the device's. Each has works(), see launch.h.
using KernelParams =
    std::variant<AngleParams, RotateParams, RotateGroupParams, ToeplitzParams, WindowParams, BiasMatrixParams,
                 KeptKeysParams, MaskParams, AssembleParams, GatherParams, SquarePartialsParams, NormsParams, AddParams>;

inline int64_t WorksOf(const KernelParams& params) {
  return std::visit([](const auto& p) { return p.works(); }, params);
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_KERNEL_LIST_H_
