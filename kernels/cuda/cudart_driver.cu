#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cuda/architectures.h"
#include "kernels/cuda/cudart_driver.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_params.h"

namespace phasor::cuda {

namespace {

struct CudartStream {
  int device = 0;
  int64_t resident_blocks = 1;
  cudaStream_t stream = nullptr;
};

CudartStream* Of(Driver::Stream stream) { return reinterpret_cast<CudartStream*>(stream); }
cudaEvent_t Of(Driver::Event event) { return reinterpret_cast<cudaEvent_t>(event); }

// What this is compiled for; the compiler says it as 750, 800, …
constexpr std::array kBuiltFor = [] {
  std::array architectures{__CUDA_ARCH_LIST__};
  for (int& each : architectures) each /= 10;
  return architectures;
}();

// Errors after which the context cannot be used either, of runtimes newer than the oldest that builds this:
// cudaErrorContained, cudaErrorTensorMemoryLeak, cudaErrorMpsClientTerminated.
constexpr int kLostToo[] = {226, 721, 810};

absl::StatusCode CodeOf(cudaError_t error) {
  for (const int each : kLostToo) {
    if (static_cast<int>(error) == each) return absl::StatusCode::kAborted;
  }
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
    case cudaErrorStubLibrary:
      return absl::StatusCode::kUnavailable;
    // The context cannot be used after these.
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return absl::StatusCode::kAborted;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status StatusOf(cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // an error that does not last must not show in the next call
  return absl::Status(CodeOf(error), std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error));
}

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
      cudaDeviceProp properties;
      if (absl::Status status = StatusOf(cudaGetDeviceProperties(&properties, id)); !status.ok()) return status;
      if (!RunsOn(kBuiltFor, properties.major, properties.minor)) {
        others += std::string(others.empty() ? "" : ", ") + properties.name + " (compute capability " +
                  std::to_string(properties.major) + "." + std::to_string(properties.minor) + ")";
        continue;
      }
      devices.push_back({id, properties.name, properties.major, properties.minor,
                         static_cast<int64_t>(properties.totalGlobalMem), ResidentBlocks(properties)});
    }
    if (devices.empty()) return absl::UnavailableError("the kernels are not compiled for " + others);
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
  absl::StatusOr<std::byte*> AllocatePinned(int64_t bytes) override {
    void* memory = nullptr;
    // For every device.
    const cudaError_t error = cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable);
    if (absl::Status status = StatusOf(error); !status.ok()) return status;
    return static_cast<std::byte*>(memory);
  }
  void FreePinned(std::byte* memory) override { StatusOf(cudaFreeHost(memory)).IgnoreError(); }
  absl::Status Pin(std::byte* memory, int64_t bytes) override {
    return StatusOf(cudaHostRegister(memory, static_cast<size_t>(bytes), cudaHostRegisterPortable));
  }
  void Unpin(std::byte* memory) override { StatusOf(cudaHostUnregister(memory)).IgnoreError(); }

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
    StatusOf(cudaStreamDestroy(owned->stream)).IgnoreError();
  }
  absl::StatusOr<Event> CreateEvent(int device) override {
    cudaEvent_t event = nullptr;
    absl::Status status = Select(device);
    // Whoever waits for it gives its core away.
    if (status.ok()) status = StatusOf(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
    if (!status.ok()) return status;
    return Event{reinterpret_cast<uintptr_t>(event)};
  }
  void DestroyEvent(Event event) override { StatusOf(cudaEventDestroy(Of(event))).IgnoreError(); }

  absl::Status Record(Event event, Stream stream) override {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    return StatusOf(cudaEventRecord(Of(event), Of(stream)->stream));
  }
  absl::Status Wait(Stream stream, Event event) override {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    return StatusOf(cudaStreamWaitEvent(Of(stream)->stream, Of(event), 0));
  }
  absl::Status Synchronize(Event event) override { return StatusOf(cudaEventSynchronize(Of(event))); }
  absl::StatusOr<double> Seconds(Event from, Event to) override {
    float milliseconds = 0;
    if (absl::Status status = StatusOf(cudaEventElapsedTime(&milliseconds, Of(from), Of(to))); !status.ok()) return status;
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

  // Whatever the runtime calls it, an unknown handle says nothing of the device: what is asked next does.
  absl::Status NotOpened(int device, cudaError_t error) {
    (void)cudaGetLastError();
    const absl::Status status = FreeBytes(device).status();
    if (!status.ok()) return status;
    if (error == cudaErrorMemoryAllocation) return StatusOf(error);
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

  static absl::Status Copy(Stream stream, void* to, int64_t to_pitch, const void* from, int64_t from_pitch,
                           const Strip& strip, cudaMemcpyKind kind) {
    if (absl::Status status = Select(Of(stream)->device); !status.ok()) return status;
    if (strip.rows == 1) {
      return StatusOf(cudaMemcpyAsync(to, from, static_cast<size_t>(strip.row_bytes), kind, Of(stream)->stream));
    }
    return StatusOf(cudaMemcpy2DAsync(to, static_cast<size_t>(to_pitch), from, static_cast<size_t>(from_pitch),
                                      static_cast<size_t>(strip.row_bytes), static_cast<size_t>(strip.rows), kind,
                                      Of(stream)->stream));
  }
};

}  // namespace

std::shared_ptr<Driver> MakeCudartDriver() { return std::make_shared<CudartDriver>(); }

}  // namespace phasor::cuda
