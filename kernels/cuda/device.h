// One device as the backend uses it: its memory, its lanes, and what they have done.
#ifndef PHASOR_KERNELS_CUDA_DEVICE_H_
#define PHASOR_KERNELS_CUDA_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/lane.h"

namespace phasor::cuda {

// Thread-safe.
class Device {
 public:
  // More lanes than this gain nothing: three streams keep both directions of the bus and the device busy.
  static constexpr int kMaxLanes = 8;

  Device(Driver* driver, DeviceInfo info, int64_t budget_bytes)
      : driver_(driver), info_(std::move(info)), memory_(driver, info_.id, budget_bytes) {}
  ~Device();

  const DeviceInfo& info() const { return info_; }
  DeviceMemory& memory() { return memory_; }

  // A lane for one piece of work; goes back when it dies.
  class LaneLease {
   public:
    LaneLease(Device* device, std::unique_ptr<Lane> lane) : device_(device), lane_(std::move(lane)) {}
    ~LaneLease() {
      if (lane_ != nullptr) device_->GiveBack(std::move(lane_));
    }
    LaneLease(LaneLease&&) = default;
    Lane& operator*() const { return *lane_; }

   private:
    Device* device_;
    std::unique_ptr<Lane> lane_;
  };
  // Waits for one when all are taken. Errors: of making one.
  absl::StatusOr<LaneLease> TakeLane();

  // Memory that nobody uses goes back to the device: lanes with their slots, kept blocks, tables.
  void ReleaseUnused();

  // Bytes of work that was given to the device and has not ended.
  std::atomic<int64_t>& load() { return load_; }
  void Add(const DeviceTimes& times, int64_t grouped_tasks);
  // `error`: what the driver says when it is asked how much memory is free, which is where the loss of an idle device shows.
  DeviceStats stats(absl::Status* error);

 private:
  void GiveBack(std::unique_ptr<Lane> lane);

  Driver* const driver_;
  const DeviceInfo info_;
  DeviceMemory memory_;
  std::atomic<int64_t> load_{0};
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::vector<std::unique_ptr<Lane>> free_;
  int lanes_ = 0;  // free or taken
  DeviceTimes times_;
  int64_t grouped_launches_ = 0, grouped_tasks_ = 0;
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_DEVICE_H_
