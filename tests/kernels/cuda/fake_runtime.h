// The few functions of the CUDA runtime that cudart_driver.cu calls, by devices that do nothing: what it asks for is noted,
// and errors are made. Programs link either this or the real one.
#ifndef PHASOR_TESTS_KERNELS_CUDA_FAKE_RUNTIME_H_
#define PHASOR_TESTS_KERNELS_CUDA_FAKE_RUNTIME_H_

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace phasor::cuda {

// One for the program, as the runtime has its state; a test begins with Reset.
class FakeRuntime {
 public:
  static FakeRuntime& Get();
  void Reset(int devices);  // and the calling thread's current device

  // As the runtime does: a thread's current device is 0 until it chooses another, and a call that needs a context makes one
  // there.
  cudaError_t Enter(const std::string& function);
  static void Choose(int device);

  int devices = 0;
  std::map<std::string, cudaError_t> errors;  // by function, once each
  std::map<int, cudaError_t> no_properties, no_context;
  std::set<int> contexts;           // on which devices this process has one
  std::vector<std::string> copies;  // "1d 4096", "2d 16x3"
  std::mutex mutex;
};

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_KERNELS_CUDA_FAKE_RUNTIME_H_
