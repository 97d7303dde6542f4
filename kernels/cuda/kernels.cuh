// From a kernel's parameters to its body: the one place that turns them into types.
#ifndef PHASOR_KERNELS_CUDA_KERNELS_CUH_
#define PHASOR_KERNELS_CUDA_KERNELS_CUH_

#include <cstdint>
#include <variant>

#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/toeplitz.cuh"

namespace phasor::cuda {

// launch(body), with the body that runs those parameters.
template <typename Launch>
struct BodyVisitor {
  Launch& launch;

  void operator()(const ToeplitzParams& p) const {
    switch (p.element_size) {
      case 2:
        return launch(ToeplitzBody<uint16_t>{p});
      case 8:
        return launch(ToeplitzBody<uint64_t>{p});
      default:
        return launch(ToeplitzBody<uint32_t>{p});
    }
  }
};

template <typename Launch>
void VisitBody(const KernelParams& params, Launch launch) {
  std::visit(BodyVisitor<Launch>{launch}, params);
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_KERNELS_CUH_
