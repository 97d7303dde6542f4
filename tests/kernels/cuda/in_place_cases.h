// What the tests of memory of other processes share.
#ifndef PHASOR_TESTS_KERNELS_CUDA_IN_PLACE_CASES_H_
#define PHASOR_TESTS_KERNELS_CUDA_IN_PLACE_CASES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "kernels/core/narrow.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/device_sharing.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor::cuda {

struct OnFake {
  explicit OnFake(FakeOptions fake = {}, BackendOptions options = {}) : driver(std::make_shared<FakeDriver>(fake)) {
    auto made = MakeCudaBackend(driver, *CreateBackend("cpu"), options);
    EXPECT_TRUE(made.ok()) << made.status();
    backend = *std::move(made);
    sharing = SharingOf(*backend);
  }
  int64_t launches(size_t device = 0) const { return backend->stats().devices[device].launches; }

  std::shared_ptr<FakeDriver> driver;
  std::unique_ptr<Backend> backend;
  std::shared_ptr<const DeviceSharing> sharing;
};

// Numbers between −1 and 1, of any float type.
inline std::string SomeBytes(DType dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes;
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i) {
      const auto value = Narrow<T>(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-63);
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }
  });
  return bytes;
}

enum class Form : uint8_t { kDense, kApart, kHeadsFirst };

inline RotateTask Rotation(DType dtype, int64_t tokens, int64_t heads, int64_t head_dim, int64_t pairs, Form form) {
  RotateTask task;
  task.dtype = dtype;
  task.tokens = tokens;
  task.heads = heads;
  task.head_dim = head_dim;
  task.pairs = pairs;
  const int64_t gap = form == Form::kApart ? 3 : 0;
  task.x_head_stride = task.y_head_stride = form == Form::kHeadsFirst ? tokens * head_dim + 5 : head_dim + gap;
  task.x_token_stride = task.y_token_stride = form == Form::kHeadsFirst ? head_dim : heads * (head_dim + gap) + gap;
  task.table_stride = pairs;
  return task;
}

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_KERNELS_CUDA_IN_PLACE_CASES_H_
