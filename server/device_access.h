// Places in device memory as requests name them.
#ifndef PHASOR_SERVER_DEVICE_ACCESS_H_
#define PHASOR_SERVER_DEVICE_ACCESS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/tensor.pb.h"

#include "server/region.h"
#include "server/region_access.h"

namespace phasor::server {

// The range, which lies within an allocation that is mapped here. Errors below `path`: DeviceMemoryOff (also
// where the driver does not tell how large it is), NotLocal, INVALID_ARGUMENT, a quota's, UNAVAILABLE where the device is
// lost.
absl::StatusOr<SharedPlace> ParseDevicePlace(const v1::DeviceMemory& message, std::string_view path,
                                             const RegionAccess* access);

// A place for answers.
void Write(const DeviceAllocation& allocation, int64_t offset, int64_t size, v1::DeviceMemory* out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DEVICE_ACCESS_H_
