#include "tests/kernels/cuda/fake_runtime.h"

#include <cstdlib>
#include <cstring>

#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/launch_params.h"

namespace phasor::cuda {

namespace {
thread_local int current_device = 0;
}  // namespace

FakeRuntime& FakeRuntime::Get() {
  static FakeRuntime runtime;
  return runtime;
}

void FakeRuntime::Reset(int count) {
  const std::lock_guard lock(mutex);
  devices = count;
  errors.clear();
  no_properties.clear();
  no_context.clear();
  contexts.clear();
  copies.clear();
  current_device = 0;
}

void FakeRuntime::Choose(int device) { current_device = device; }

cudaError_t FakeRuntime::Enter(const std::string& function) {
  const std::lock_guard lock(mutex);
  const int device = current_device;
  if (const auto error = no_context.find(device); error != no_context.end()) return error->second;
  contexts.insert(device);
  const auto error = errors.extract(function);
  return error.empty() ? cudaSuccess : error.mapped();
}

// Kernels are not here.
template <typename Params>
cudaError_t LaunchParams(const Params&, LaunchShape, cudaStream_t) {
  return FakeRuntime::Get().Enter("launch");
}
template cudaError_t LaunchParams(const AngleParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const RotateParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const RotateGroupParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const ToeplitzParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const WindowParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const BiasMatrixParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const KeptKeysParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const MaskParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const AssembleParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const GatherParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const SquarePartialsParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const NormsParams&, LaunchShape, cudaStream_t);
template cudaError_t LaunchParams(const AddParams&, LaunchShape, cudaStream_t);

}  // namespace phasor::cuda

namespace {

using phasor::cuda::FakeRuntime;

cudaError_t Enter(const char* function) { return FakeRuntime::Get().Enter(function); }
template <typename T>
cudaError_t Make(const char* function, T** made, size_t bytes) {
  const cudaError_t error = Enter(function);
  if (error == cudaSuccess) *made = static_cast<T*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return error;
}
cudaError_t Drop(const char* function, void* made) {
  std::free(made);
  return Enter(function);
}
cudaError_t Note(std::string copy) {
  FakeRuntime::Get().copies.push_back(std::move(copy));
  return Enter("copy");
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorFake"; }
const char* cudaGetErrorString(cudaError_t) { return "of a test"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }

// No context is needed for these.
cudaError_t cudaGetDeviceCount(int* count) {
  *count = FakeRuntime::Get().devices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const auto& none = FakeRuntime::Get().no_properties;
  if (const auto error = none.find(device); error != none.end()) return error->second;
  *properties = {};
  std::strcpy(properties->name, "Fake");
  properties->major = 9;
  properties->totalGlobalMem = size_t{1} << 30;
  properties->multiProcessorCount = 2;
  properties->maxThreadsPerMultiProcessor = 2048;
  for (int i = 0; i < 16; ++i) properties->uuid.bytes[i] = static_cast<char>(0xa0 + i + device);
  return cudaSuccess;
}

// Makes the context, since CUDA 12.
cudaError_t cudaSetDevice(int device) {
  FakeRuntime::Get().Choose(device);
  return Enter("cudaSetDevice");
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 30;
  return Enter("cudaMemGetInfo");
}
cudaError_t cudaMalloc(void** memory, size_t size) { return Make("cudaMalloc", memory, size); }
cudaError_t cudaFree(void* memory) { return Drop("cudaFree", memory); }
cudaError_t cudaHostAlloc(void** memory, size_t size, unsigned) { return Make("cudaHostAlloc", memory, size); }
cudaError_t cudaFreeHost(void* memory) { return Drop("cudaFreeHost", memory); }
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return Enter("cudaHostRegister"); }
cudaError_t cudaHostUnregister(void*) { return Enter("cudaHostUnregister"); }
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) { return Enter("cudaIpcOpenMemHandle"); }
cudaError_t cudaIpcCloseMemHandle(void*) { return Enter("cudaIpcCloseMemHandle"); }
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes*, const void*) { return Enter("cudaPointerGetAttributes"); }
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*) {
  return Enter("cudaGetDriverEntryPointByVersion");
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return Make("cudaStreamCreate", stream, 1); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return Drop("cudaStreamDestroy", stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return Enter("cudaStreamWaitEvent"); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return Make("cudaEventCreate", event, 1); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return Drop("cudaEventDestroy", event); }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return Enter("cudaEventRecord"); }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return Enter("cudaEventSynchronize"); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return Enter("cudaEventElapsedTime");
}
cudaError_t cudaMemcpyAsync(void*, const void*, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return Note("1d " + std::to_string(bytes));
}
cudaError_t cudaMemcpy2DAsync(void*, size_t, const void*, size_t, size_t width, size_t height, cudaMemcpyKind,
                              cudaStream_t) {
  return Note("2d " + std::to_string(width) + "x" + std::to_string(height));
}

}  // extern "C"
