// Errors of the CUDA runtime as Driver (driver.h) tells them. Only in builds with PHASOR_CUDA.
#ifndef PHASOR_KERNELS_CUDA_CUDART_ERRORS_H_
#define PHASOR_KERNELS_CUDA_CUDART_ERRORS_H_

#include <cuda_runtime.h>

#include <string>

#include "absl/status/status.h"

namespace phasor::cuda {

// Errors after which the context cannot be used either, of runtimes newer than the oldest that builds this:
// cudaErrorContained, cudaErrorTensorMemoryLeak, cudaErrorMpsClientTerminated.
inline constexpr int kLostToo[] = {226, 721, 810};

inline absl::StatusCode CodeOf(cudaError_t error) {
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
    case cudaErrorDevicesUnavailable:  // exclusive to another process, or prohibited
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
    case cudaErrorContextIsDestroyed:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return absl::StatusCode::kAborted;
    default:
      return absl::StatusCode::kInternal;
  }
}

inline absl::Status StatusOf(cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // an error that does not last must not show in the next call
  return absl::Status(CodeOf(error), std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error));
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_CUDART_ERRORS_H_
