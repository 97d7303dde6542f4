// What the conformance tests share: a case as a plan, and outputs with guard bytes around them.
#ifndef PHASOR_TESTS_CONFORMANCE_CASE_RUN_H_
#define PHASOR_TESTS_CONFORMANCE_CASE_RUN_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_target.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/encodings/encoding.h"
#include "tests/conformance/cases.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor {

inline constexpr DType kFloatTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

// The case's plan; a test failure and an empty plan when it has none.
inline Plan PlanOf(const Case& c, Precision precision) {
  const auto canonical = Canonicalize(c.spec);
  if (!canonical.ok()) {
    ADD_FAILURE() << c.name << ": " << canonical.status();
    return {};
  }
  auto resolved = Resolve(*canonical, c.sequence_length, precision);
  if (!resolved.ok()) {
    ADD_FAILURE() << c.name << ": " << resolved.status();
    return {};
  }
  return std::move(resolved->plan);
}

// A backend to test, on one instruction set.
struct Variant {
  std::string name;        // "cpu/avx2"
  std::string cpu_target;  // empty where the backend has none to choose
  std::shared_ptr<const Backend> backend;

  // Makes the instruction set current and returns the backend. For the whole process: tests here use one thread.
  const Backend& Select() const {
    if (!cpu_target.empty()) {
      const absl::Status status = ForceCpuTarget(cpu_target);
      EXPECT_TRUE(status.ok()) << status;
    }
    return *backend;
  }
};

// The cuda backend on a device made of host memory, which runs the same kernels with its threads in that order.
inline Variant OnFakeDevice(const std::string& name, cuda::ThreadOrder order) {
  cuda::FakeOptions fake;
  fake.grid.order = order;
  BackendOptions options;
  options.min_device_bytes = 0;
  auto backend = cuda::MakeCudaBackend(std::make_shared<cuda::FakeDriver>(fake), *CreateBackend("cpu"), options);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return {name, "", backend.ok() ? *std::move(backend) : nullptr};
}

// The cuda backend on this machine's devices, one for all tests of a program, whose end says what the devices did; a test
// failure where there are none.
inline Variant OnRealDevices() {
  static std::shared_ptr<const Backend> backend;
  struct Ending final : ::testing::Environment {
    void TearDown() override {
      if (backend == nullptr) return;
      const BackendStats stats = backend->stats();
      int64_t launches = 0, left = 0;
      for (const DeviceStats& device : stats.devices) launches += device.launches;
      for (const int64_t count : stats.left_to_cpu) left += count;
      std::printf("launches on devices: %lld, left to the CPU: %lld\n", static_cast<long long>(launches),
                  static_cast<long long>(left));
      backend.reset();  // before the runtime's own end
    }
  };
  if (backend == nullptr) {
    BackendOptions options;
    options.min_device_bytes = 0;
    auto created = CreateBackend("cuda", options);
    EXPECT_TRUE(created.ok()) << created.status();
    if (created.ok()) backend = *std::move(created);
    ::testing::AddGlobalTestEnvironment(new Ending);
  }
  return {"cuda", "", backend};
}

// Every usable backend but the reference, on every instruction set that this machine has, and the cuda backend's kernels on
// the host. With PHASOR_VARIANTS=devices only real devices: gpu-check.sh has tested the rest, or has no time for it.
inline std::vector<Variant> VariantsUnderTest() {
  const char* const only = std::getenv("PHASOR_VARIANTS");
  std::vector<Variant> variants;
  if (only != nullptr && std::string_view(only) == "devices") {
    if (Variant real = OnRealDevices(); real.backend != nullptr) variants.push_back(std::move(real));
    return variants;
  }
  for (const BackendInfo& info : ListBackends()) {
    if (!info.usable || info.name == "reference") continue;
    BackendOptions options;
    options.min_device_bytes = 0;
    auto created = CreateBackend(info.name, options);
    if (!created.ok()) {
      ADD_FAILURE() << created.status();
      continue;
    }
    const std::shared_ptr<const Backend> backend = *std::move(created);
    const std::string name(info.name);
    if (name != "cpu") {
      variants.push_back({name, "", backend});
      continue;
    }
    for (const std::string& target : CpuTargets()) variants.push_back({name + "/" + target, target, backend});
  }
  variants.push_back(OnFakeDevice("cuda/forward", cuda::ThreadOrder::kForward));
  variants.push_back(OnFakeDevice("cuda/reversed", cuda::ThreadOrder::kReversed));
  variants.push_back(OnFakeDevice("cuda/shuffled", cuda::ThreadOrder::kShuffled));
  return variants;
}

// `bytes` bytes of a pattern, followed by a guard that nothing may touch.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : data_(bytes + kGuard, kPattern), bytes_(bytes) {}

  void* data() { return data_.data(); }
  const unsigned char* bytes() const { return data_.data(); }
  bool GuardIntact() const {
    for (size_t i = bytes_; i < data_.size(); ++i) {
      if (data_[i] != kPattern) return false;
    }
    return true;
  }
  // First differing element in [begin, end), or −1.
  int64_t FirstDifference(const Buffer& other, int64_t begin, int64_t end, int64_t element_size) const {
    for (int64_t i = begin; i < end; ++i) {
      if (std::memcmp(&data_[i * element_size], &other.data_[i * element_size], element_size) != 0) return i;
    }
    return -1;
  }

 private:
  static constexpr int64_t kGuard = 256;
  static constexpr unsigned char kPattern = 0xa5;
  std::vector<unsigned char> data_;
  int64_t bytes_;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_CASE_RUN_H_
