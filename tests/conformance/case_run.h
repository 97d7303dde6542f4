// What the conformance tests share: a case as a plan, and outputs with guard bytes around them.
#ifndef PHASOR_TESTS_CONFORMANCE_CASE_RUN_H_
#define PHASOR_TESTS_CONFORMANCE_CASE_RUN_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "tests/conformance/cases.h"

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

// Every usable backend but the reference.
inline std::vector<std::unique_ptr<Backend>> BackendsUnderTest() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const BackendInfo& info : ListBackends()) {
    if (!info.usable || info.name == "reference") continue;
    auto backend = CreateBackend(info.name);
    if (backend.ok()) {
      backends.push_back(*std::move(backend));
    } else {
      ADD_FAILURE() << backend.status();
    }
  }
  return backends;
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
