// The backend that runs tasks on devices, and what devices are not worth on the CPU.
#ifndef PHASOR_KERNELS_CUDA_CUDA_BACKEND_H_
#define PHASOR_KERNELS_CUDA_CUDA_BACKEND_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cuda/driver.h"

namespace phasor::cuda {

// `cpu` takes what devices leave; `left_out`: devices that are not used and why, for the description. A device that does not
// say how much memory is free joins them. Errors: the driver's, where it has no device; UNAVAILABLE where none is left;
// INVALID_ARGUMENT for an id that it does not have.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(std::shared_ptr<Driver> driver, std::unique_ptr<Backend> cpu,
                                                         const BackendOptions& options, std::string left_out = {});

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_CUDA_BACKEND_H_
