// What Phasor needs of a CUDA runtime, and no more: so that everything above it is tested on machines without a device, by a
// double that lives with the tests (tests/kernels/cuda/fake_driver.h).
#ifndef PHASOR_KERNELS_CUDA_DRIVER_H_
#define PHASOR_KERNELS_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/lowering.h"
#include "kernels/device_sharing.h"

namespace phasor::cuda {

struct DeviceInfo {
  int id = 0;
  std::string name{};           // "NVIDIA H200"
  int major = 0, minor = 0;     // compute capability
  int64_t total_bytes = 0;      // of memory
  int64_t resident_blocks = 0;  // blocks of kBlockThreads that are kept busy at once (see ShapeFor)
  std::string uuid{};           // "GPU-4a1f…": the same in every process, unlike id
  std::string unusable{};       // why it cannot be used (the rest may be unknown then); empty: it can
};

// For people: "device 1 (NVIDIA H200, compute capability 9.0)".
inline std::string NameOf(const DeviceInfo& info) {
  std::string text = "device " + std::to_string(info.id);
  if (info.name.empty()) return text;
  return text + " (" + info.name + ", compute capability " + std::to_string(info.major) + "." + std::to_string(info.minor) +
         ")";
}

// Thread-safe, but for work on one stream or event from several threads at once. Every function may fail with
//   RESOURCE_EXHAUSTED  the device (or the host, for pinned memory) has no memory for it; nothing happened
//   ABORTED             the device's state is lost: every later call fails likewise, until the process ends
//   UNAVAILABLE         there is no driver or no device, or others have the device for themselves
//   INTERNAL            anything else
// and a message that begins with the name of the runtime's error. Errors of work on a stream may be reported by any later
// call. Functions that release return nothing: a failure there shows in the next call.
class Driver {
 public:
  // Handles; 0 is none.
  enum class Stream : uintptr_t {};
  enum class Event : uintptr_t {};

  virtual ~Driver() = default;

  // All that there are; at least one of them can be used, or an error.
  virtual absl::StatusOr<std::vector<DeviceInfo>> Devices() = 0;
  virtual absl::StatusOr<int64_t> FreeBytes(int device) = 0;

  // Aligned to 256 bytes. bytes > 0.
  virtual absl::StatusOr<std::byte*> Allocate(int device, int64_t bytes) = 0;
  virtual void Free(int device, std::byte* memory) = 0;
  // The device whose context pins host memory from now on, for all of them: one that is used anyway. Until then it is the
  // calling thread's current one, on which a context is made for that, if it can be: half a gigabyte of somebody's device.
  virtual void PinThrough(int device) = 0;
  // Host memory that copies reach without a detour.
  virtual absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) = 0;
  virtual void FreePinned(std::byte* memory) = 0;
  // Makes existing host memory such; whole pages.
  virtual absl::Status Pin(std::byte* memory, int64_t bytes) = 0;
  virtual void Unpin(std::byte* memory) = 0;

  // Maps another process's allocation in the device's memory, by its handle (kDeviceHandleBytes); one handle may be opened
  // several times. INVALID_ARGUMENT: it stands for none. UNIMPLEMENTED: its size is not known. ALREADY_EXISTS: a mapping
  // that is open lies where this one must. None harms the device.
  virtual absl::StatusOr<DeviceMapping> OpenIpc(int device, std::string_view handle) = 0;
  // Once for every time that it was opened. No work on it is left on any stream.
  virtual void CloseIpc(int device, std::byte* memory) = 0;

  // Work on one stream happens in order; work on two has no order but by events.
  virtual absl::StatusOr<Stream> CreateStream(int device) = 0;
  virtual void DestroyStream(Stream stream) = 0;
  virtual absl::StatusOr<Event> CreateEvent(int device) = 0;
  virtual void DestroyEvent(Event event) = 0;
  // The event stands for what was put on the stream until now.
  virtual absl::Status Record(Event event, Stream stream) = 0;
  // What is put on the stream from now on waits for the event as last recorded.
  virtual absl::Status Wait(Stream stream, Event event) = 0;
  // Blocks until it has happened.
  virtual absl::Status Synchronize(Event event) = 0;
  // From one event to another; both have happened.
  virtual absl::StatusOr<double> Seconds(Event from, Event to) = 0;

  // Between a strip and device memory without gaps. The host's memory is read or written some time until the stream has
  // come past it.
  virtual absl::Status CopyIn(Stream stream, const Strip& from, std::byte* to) = 0;
  virtual absl::Status CopyOut(Stream stream, const std::byte* from, const Strip& to) = 0;
  // WorksOf(params) > 0.
  virtual absl::Status Launch(Stream stream, const KernelParams& params) = 0;
};

inline bool IsOutOfMemory(const absl::Status& status) { return status.code() == absl::StatusCode::kResourceExhausted; }
inline bool IsDeviceLost(const absl::Status& status) { return status.code() == absl::StatusCode::kAborted; }

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_DRIVER_H_
