// The CUDA runtime, linked statically: it loads the machine's driver when it is first asked, and says so where there is
// none. Only in builds with PHASOR_CUDA.
#ifndef PHASOR_KERNELS_CUDA_CUDART_DRIVER_H_
#define PHASOR_KERNELS_CUDA_CUDART_DRIVER_H_

#include <memory>

#include "kernels/cuda/driver.h"

namespace phasor::cuda {

std::shared_ptr<Driver> MakeCudartDriver();

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_CUDART_DRIVER_H_
