// Memory of other processes that this one has mapped, by address: how a backend knows that a task works there.
#ifndef PHASOR_KERNELS_CUDA_IPC_MAPPINGS_H_
#define PHASOR_KERNELS_CUDA_IPC_MAPPINGS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/cuda/driver.h"
#include "kernels/device_sharing.h"

namespace phasor::cuda {

// Addresses of the host and of devices are of one space, so an address says where it belongs.
class IpcMappings final : public DeviceSharing {
 public:
  // `on_lost`: called, once or more, when the driver says that a device is lost; UNAVAILABLE is its answer.
  IpcMappings(std::shared_ptr<Driver> driver, std::vector<int> devices, std::function<absl::Status(absl::Status)> on_lost)
      : driver_(std::move(driver)), devices_(std::move(devices)), on_lost_(std::move(on_lost)) {}

  std::vector<int> devices() const override { return devices_; }
  absl::StatusOr<DeviceMapping> Open(int device, std::string_view handle) const override;
  void Close(int device, std::byte* data) const override;

  // The device whose mapped memory the address lies in. Quick where nothing is mapped.
  std::optional<int> DeviceOf(const void* address) const;
  int64_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    uintptr_t end = 0;
    int device = 0;
    int64_t opened = 0;  // one allocation may be opened several times, at the same address
  };

  const std::shared_ptr<Driver> driver_;
  const std::vector<int> devices_;
  const std::function<absl::Status(absl::Status)> on_lost_;
  mutable std::atomic<int64_t> count_{0};  // of open handles
  mutable std::mutex mutex_;
  mutable std::map<uintptr_t, Range> ranges_;  // by the first address
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_IPC_MAPPINGS_H_
