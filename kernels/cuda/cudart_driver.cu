#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cuda/architectures.h"
#include "kernels/cuda/cudart_driver.h"
#include "kernels/cuda/cudart_errors.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_params.h"

namespace phasor::cuda {

namespace {

struct CudartStream {
  int device = 0;
  int64_t resident_blocks = 1;
  cudaStream_t stream = nullptr;
};

struct CudartEvent {
  int device = 0;
  cudaEvent_t event = nullptr;
};

CudartStream* Of(Driver::Stream stream) { return reinterpret_cast<CudartStream*>(stream); }
CudartEvent* Of(Driver::Event event) { return reinterpret_cast<CudartEvent*>(event); }

// What this is compiled for; the compiler says it as 750, 800, …
constexpr std::array kBuiltFor = [] {
  std::array architectures{__CUDA_ARCH_LIST__};
  for (int& each : architectures) each /= 10;
  return architectures;
}();

// The runtime does not tell how large an allocation is; the driver does, which is not linked but asked for.
absl::StatusOr<int64_t> BytesFrom(const void* memory) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &entry, 12000, cudaEnableDefault, &found);
  if (absl::Status status = StatusOf(error); IsDeviceLost(status)) return status;
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess || entry == nullptr) {
    return absl::UnimplementedError(std::string("the driver has no cuMemGetAddressRange: ") + cudaGetErrorName(error));
  }
  const auto at = reinterpret_cast<CUdeviceptr>(memory);
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUresult result = reinterpret_cast<decltype(&cuMemGetAddressRange)>(entry)(&base, &size, at);
  if (result != CUDA_SUCCESS || at < base || at - base >= size) {
    return absl::UnimplementedError("the driver does not know the allocation: cuMemGetAddressRange: " +
                                    std::to_string(static_cast<int>(result)));
  }
  return static_cast<int64_t>(size - (at - base));
}

class CudartDriver final : public Driver {
 public:
  absl::StatusOr<std::vector<DeviceInfo>> Devices() override {
    int count = 0;  // left alone where there is no driver
    if (absl::Status status = StatusOf(cudaGetDeviceCount(&count)); !status.ok()) return status;
    if (count == 0) return absl::UnavailableError("no device");
    std::vector<DeviceInfo> devices;
    std::string others;
    for (int id = 0; id < count; ++id) {
      devices.push_back(Describe(id));
      const std::string& why_not = devices.back().unusable;
      if (why_not.empty()) continue;
      others += (others.empty() ? "" : "; ") + NameOf(devices.back()) + ": " + why_not;
    }
    const bool none = std::none_of(devices.begin(), devices.end(), [](const auto& each) { return each.unusable.empty(); });
    if (none) return absl::UnavailableError(others);
    return devices;
  }

  absl::StatusOr<int64_t> FreeBytes(int device) override {
    size_t free = 0, total = 0;
    absl::Status status = Select(device);
    if (status.ok()) status = StatusOf(cudaMemGetInfo(&free, &total));
    if (!status.ok()) return status;
    return static_cast<int64_t>(free);
  }

  absl::StatusOr<std::byte*> Allocate(int device, int64_t bytes) override {
    void* memory = nullptr;
    absl::Status status = Select(device);
    if (status.ok()) status = StatusOf(cudaMalloc(&memory, static_cast<size_t>(bytes)));
    if (!status.ok()) return status;
    return static_cast<std::byte*>(memory);
  }
  void Free(int device, std::byte* memory) override {
    if (Select(device).ok()) StatusOf(cudaFree(memory)).IgnoreError();
  }
  void PinThrough(int device) override { pins_through_.store(device, std::memory_order_relaxed); }
  absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) override {
    void* memory = nullptr;
    absl::Status status = SelectPinning();
    // For every device.
    if (status.ok()) status = StatusOf(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable));
    if (!status.ok()) return status;
    return static_cast<std::byte*>(memory);
  }
  void FreePinned(std::byte* memory) override {
    if (SelectPinning().ok()) StatusOf(cudaFreeHost(memory)).IgnoreError();
  }
  absl::Status Pin(std::byte* memory, int64_t bytes) override {
    if (absl::Status status = SelectPinning(); !status.ok()) return status;
    return StatusOf(cudaHostRegister(memory, static_cast<size_t>(bytes), cudaHostRegisterPortable));
  }
  void Unpin(std::byte* memory) override {
    if (SelectPinning().ok()) StatusOf(cudaHostUnregister(memory)).IgnoreError();
  }

  absl::StatusOr<DeviceMapping> OpenIpc(int device, std::string_view handle) override {
    cudaIpcMemHandle_t raw;
    static_assert(sizeof(raw) == kDeviceHandleBytes);
    if (handle.size() != sizeof(raw)) return absl::InvalidArgumentError("a handle of another size");
    std::memcpy(&raw, handle.data(), sizeof(raw));
    if (absl::Status status = Select(device); !status.ok()) return status;
    void* memory = nullptr;
    const cudaError_t error = cudaIpcOpenMemHandle(&memory, raw, cudaIpcMemLazyEnablePeerAccess);
    if (error != cudaSuccess) return NotOpened(device, error);
    DeviceMapping mapping{static_cast<std::byte*>(memory), 0};
    if (absl::Status status = Measure(device, &mapping); !status.ok()) {
      CloseIpc(device, mapping.data);
      return status;
    }
    return mapping;
  }
  void CloseIpc(int device, std::byte* memory) override {
    if (Select(device).ok()) StatusOf(cudaIpcCloseMemHandle(memory)).IgnoreError();
  }

  absl::StatusOr<Stream> CreateStream(int device) override {
    auto made = std::make_unique<CudartStream>();
    made->device = device;
    cudaDeviceProp properties;
    absl::Status status = Select(device);
    if (status.ok()) status = StatusOf(cudaGetDeviceProperties(&properties, device));
    if (status.ok()) status = StatusOf(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking));
    if (!status.ok()) return status;
    made->resident_blocks = ResidentBlocks(properties);
    return Stream{reinterpret_cast<uintptr_t>(made.release())};
  }
  void DestroyStream(Stream stream) override {
    const std::unique_ptr<CudartStream> owned(Of(stream));
    if (Select(owned->device).ok()) StatusOf(cudaStreamDestroy(owned->stream)).IgnoreError();
  }
  absl::StatusOr<Event> CreateEvent(int device) override {
    auto made = std::make_unique<CudartEvent>();
    made->device = device;
    absl::Status status = Select(device);
    // Whoever waits for it gives its core away.
    if (status.ok()) status = StatusOf(cudaEventCreateWithFlags(&made->event, cudaEventBlockingSync));
    if (!status.ok()) return status;
    return Event{reinterpret_cast<uintptr_t>(made.release())};
  }
  void DestroyEvent(Event event) override {
    const std::unique_ptr<CudartEvent> owned(Of(event));
    if (Select(owned->device).ok()) StatusOf(cudaEventDestroy(owned->event)).IgnoreError();
  }

  absl::Status Record(Event event, Stream stream) override {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    return StatusOf(cudaEventRecord(Of(event)->event, Of(stream)->stream));
  }
  absl::Status Wait(Stream stream, Event event) override {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    return StatusOf(cudaStreamWaitEvent(Of(stream)->stream, Of(event)->event, 0));
  }
  absl::Status Synchronize(Event event) override {
    if (absl::Status status = Select(Of(event)->device); !status.ok()) return status;
    return StatusOf(cudaEventSynchronize(Of(event)->event));
  }
  absl::StatusOr<double> Seconds(Event from, Event to) override {
    float milliseconds = 0;
    absl::Status status = Select(Of(to)->device);
    if (status.ok()) status = StatusOf(cudaEventElapsedTime(&milliseconds, Of(from)->event, Of(to)->event));
    if (!status.ok()) return status;
    return milliseconds * 1e-3;
  }

  absl::Status CopyIn(Stream stream, const Strip& from, std::byte* to) override {
    return Copy(stream, to, from.row_bytes, from.host, from.pitch, from, cudaMemcpyHostToDevice);
  }
  absl::Status CopyOut(Stream stream, const std::byte* from, const Strip& to) override {
    return Copy(stream, to.host, to.pitch, from, to.row_bytes, to, cudaMemcpyDeviceToHost);
  }

  absl::Status Launch(Stream stream, const KernelParams& params) override {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    const LaunchShape shape = ShapeFor(WorksOf(params), Of(stream)->resident_blocks);
    return StatusOf(std::visit([&](const auto& p) { return LaunchParams(p, shape, Of(stream)->stream); }, params));
  }

 private:
  static int64_t ResidentBlocks(const cudaDeviceProp& properties) {
    return static_cast<int64_t>(properties.multiProcessorCount) * properties.maxThreadsPerMultiProcessor / kBlockThreads;
  }

  // Asks for properties alone, which needs no context.
  static DeviceInfo Describe(int id) {
    DeviceInfo info;
    info.id = id;
    cudaDeviceProp properties;
    if (absl::Status status = StatusOf(cudaGetDeviceProperties(&properties, id)); !status.ok()) {
      info.unusable = std::string(status.message());
      return info;
    }
    info.name = properties.name;
    info.major = properties.major;
    info.minor = properties.minor;
    info.total_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    info.resident_blocks = ResidentBlocks(properties);
    info.uuid = UuidOf(properties.uuid);
    if (!RunsOn(kBuiltFor, info.major, info.minor)) info.unusable = "the kernels are not compiled for it";
    return info;
  }

  // As nvidia-smi and CUDA_VISIBLE_DEVICES write it.
  static std::string UuidOf(const cudaUUID_t& uuid) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text = "GPU";
    for (int i = 0; i < 16; ++i) {
      if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
      const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
      text += kDigits[byte / 16];
      text += kDigits[byte % 16];
    }
    return text;
  }

  // Whatever the runtime calls it, an unknown handle says nothing of the device: what is asked next does.
  absl::Status NotOpened(int device, cudaError_t error) {
    (void)cudaGetLastError();
    const absl::Status status = FreeBytes(device).status();
    if (!status.ok()) return status;
    if (error == cudaErrorMemoryAllocation) return StatusOf(error);
    if (error == cudaErrorAlreadyMapped) {
      return absl::AlreadyExistsError(std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error));
    }
    return absl::InvalidArgumentError(std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error));
  }

  static absl::Status Measure(int device, DeviceMapping* mapping) {
    cudaPointerAttributes attributes;
    if (absl::Status status = StatusOf(cudaPointerGetAttributes(&attributes, mapping->data)); !status.ok()) return status;
    if (attributes.type != cudaMemoryTypeDevice || attributes.device != device) {
      return absl::InvalidArgumentError("memory of device " + std::to_string(attributes.device));
    }
    if (reinterpret_cast<uintptr_t>(mapping->data) % 256 != 0) {
      return absl::InvalidArgumentError("memory that is not aligned to 256 bytes");
    }
    const auto bytes = BytesFrom(mapping->data);
    if (!bytes.ok()) return bytes.status();
    mapping->size = *bytes;
    return absl::OkStatus();
  }

  // The runtime's current device is a thread's own.
  static absl::Status Select(int device) { return StatusOf(cudaSetDevice(device)); }

  absl::Status SelectPinning() const {
    const int device = pins_through_.load(std::memory_order_relaxed);
    return device < 0 ? absl::OkStatus() : Select(device);
  }

  static absl::Status Copy(Stream stream, void* to, int64_t to_pitch, const void* from, int64_t from_pitch,
                           const Strip& strip, cudaMemcpyKind kind) {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    if (strip.rows == 1 || strip.pitch == strip.row_bytes) {
      return StatusOf(cudaMemcpyAsync(to, from, static_cast<size_t>(strip.bytes()), kind, Of(stream)->stream));
    }
    return StatusOf(cudaMemcpy2DAsync(to, static_cast<size_t>(to_pitch), from, static_cast<size_t>(from_pitch),
                                      static_cast<size_t>(strip.row_bytes), static_cast<size_t>(strip.rows), kind,
                                      Of(stream)->stream));
  }

  std::atomic<int> pins_through_{-1};
};

}  // namespace

std::shared_ptr<Driver> MakeCudartDriver() { return std::make_shared<CudartDriver>(); }

}  // namespace phasor::cuda
