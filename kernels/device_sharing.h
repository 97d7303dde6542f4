// Memory of devices that belongs to other processes of this host: mapped by a backend that has devices, and worked on in
// place by its tasks.
#ifndef PHASOR_KERNELS_DEVICE_SHARING_H_
#define PHASOR_KERNELS_DEVICE_SHARING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"

namespace phasor {

// Bytes of a handle (CUDA IPC: cudaIpcMemHandle_t).
inline constexpr size_t kDeviceHandleBytes = 64;

// Bytes [data, data + size) of a device's memory. `data` is an address of the device: the host cannot read or write there.
struct DeviceMapping {
  std::byte* data = nullptr;  // aligned to 256 bytes
  int64_t size = 0;           // from there to the end of the allocation, as the driver knows it
};

// Thread-safe; may outlive the backend. While an allocation is mapped, RotateTask and AddTask of that backend may have x ==
// y in it: they run on its device, whatever their size, and nothing of x or y is copied. Never on the CPU: what the device
// has no kernel or no memory for is an error (UNIMPLEMENTED for vectors that overlap, or whose strides in x and y differ;
// RESOURCE_EXHAUSTED), before anything was written. After any other error, or CANCELLED, x may be half done. Every other
// address that a task has is the host's.
class DeviceSharing {
 public:
  virtual ~DeviceSharing() = default;

  // Ids, as in BackendOptions.
  virtual std::vector<int> devices() const = 0;
  // Maps the allocation that `handle` (kDeviceHandleBytes) stands for, of another process, in the memory of `device` (one
  // of the above). Each mapping is closed once. May take milliseconds. Errors:
  //   INVALID_ARGUMENT    the handle stands for no such allocation: unknown, freed, this process's own, another device's
  //   UNIMPLEMENTED       the driver does not tell how large it is, so that nothing could be checked against it
  //   RESOURCE_EXHAUSTED  there is no room to map it
  //   ALREADY_EXISTS      a mapping of the device that is still open lies where this one must: of an allocation that its
  //                       process freed, and got again at the same address. Once that is closed, it opens
  //   UNAVAILABLE         the device is lost
  //   INTERNAL            anything else
  virtual absl::StatusOr<DeviceMapping> Open(int device, std::string_view handle) const = 0;
  // Nothing that runs uses it.
  virtual void Close(int device, std::byte* data) const = 0;
};

// What such backends implement beside Backend.
class SharesDevices {
 public:
  virtual ~SharesDevices() = default;
  virtual std::shared_ptr<const DeviceSharing> sharing() const = 0;
};

// Null where the backend has no devices.
inline std::shared_ptr<const DeviceSharing> SharingOf(const Backend& backend) {
  const auto* const shares = dynamic_cast<const SharesDevices*>(&backend);
  return shares == nullptr ? nullptr : shares->sharing();
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_DEVICE_SHARING_H_
