// Where one piece of work runs on a device: three streams (in, compute, out) and a ring of slots, so that a chunk comes in
// while the one before is computed and the one before that goes out.
#ifndef PHASOR_KERNELS_CUDA_LANE_H_
#define PHASOR_KERNELS_CUDA_LANE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/cuda/device_memory.h"
#include "kernels/cuda/driver.h"

namespace phasor::cuda {

// Host memory that copies reach without a detour; grows, never shrinks.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(Driver* driver) : driver_(driver) {}
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  // At least that many bytes; what was in them is lost. RESOURCE_EXHAUSTED.
  absl::Status Reserve(int64_t bytes);
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  Driver* const driver_;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Seconds that the parts of work took on the device, and launches.
struct DeviceTimes {
  double copy_in = 0, kernel = 0, copy_out = 0;
  int64_t launches = 0;
  int64_t bytes_in = 0, bytes_out = 0;
};

// One thread at a time.
class Lane {
 public:
  // Three chunks are on their way, one in each direction and one computed. Two more, so that copies go on while the thread
  // that puts the next ones on the streams is being woken.
  static constexpr int kSlots = 5;

  // Events of a chunk, in the order in which they happen.
  enum Mark : int { kInBegin, kInEnd, kKernelBegin, kKernelEnd, kOutBegin, kOutEnd, kMarks };

  struct Slot {
    explicit Slot(Driver* driver) : staging_in(driver), staging_out(driver) {}

    DeviceBuffer memory;
    PinnedBuffer staging_in, staging_out;  // of many small strips
    std::array<Driver::Event, kMarks> marks{};
    bool busy = false;
    // What is left to do on the host when the chunk is back: strips to fill from staging_out.
    std::vector<std::pair<Strip, const std::byte*>> unpack;
  };

  static absl::StatusOr<std::unique_ptr<Lane>> Create(Driver* driver, DeviceMemory* memory, int device);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Driver& driver() const { return *driver_; }
  DeviceMemory& memory() const { return *memory_; }
  Driver::Stream in() const { return streams_[0]; }
  Driver::Stream compute() const { return streams_[1]; }
  Driver::Stream out() const { return streams_[2]; }
  Slot& slot(int64_t chunk) { return *slots_[static_cast<size_t>(chunk % kSlots)]; }

  // A buffer for a piece of work's own constants, kept for the next one; at least that many bytes.
  absl::StatusOr<std::byte*> ReserveConstants(int64_t bytes);
  // An event for waits between the streams of work that is no chunk.
  Driver::Event fence() const { return fence_; }

  // Waits for the slot's chunk, if there is one, and ends it: strips filled, times added. The first error of the device.
  absl::Status Finish(Slot& slot, DeviceTimes* times);
  // The same of every slot, in the order of their chunks. After an error some may still run.
  absl::Status FinishAll(DeviceTimes* times);
  // After an error: waits until the device touches no memory of the host's any more, and forgets what the slots did.
  void Abandon();

 private:
  Lane(Driver* driver, DeviceMemory* memory) : driver_(driver), memory_(memory) {}
  absl::Status Init(int device);

  Driver* const driver_;
  DeviceMemory* const memory_;
  std::array<Driver::Stream, 3> streams_{};
  std::array<std::unique_ptr<Slot>, kSlots> slots_;
  DeviceBuffer constants_;
  Driver::Event fence_{};
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LANE_H_
