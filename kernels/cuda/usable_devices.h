// Which devices a server should use: those that do what they are asked.
#ifndef PHASOR_KERNELS_CUDA_USABLE_DEVICES_H_
#define PHASOR_KERNELS_CUDA_USABLE_DEVICES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cuda/driver.h"

namespace phasor::cuda {

struct UsableDevices {
  std::vector<int> ids;  // at least one
  std::string left_out;  // the others and why, for people; empty: none
};

// Of `wanted` (empty: all that there are) those on which kernels (of biases, tables and rotations) give the reference's
// bits, from host memory to host memory. Another process may have a device for itself, or it may be broken, though the
// driver lists it. Errors: UNAVAILABLE where none does, or one that was wanted by its id does not; INVALID_ARGUMENT for an
// id that there is not; the driver's.
absl::StatusOr<UsableDevices> FindUsableDevices(const std::shared_ptr<Driver>& driver, const std::vector<int>& wanted,
                                                const Backend& reference);

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_USABLE_DEVICES_H_
