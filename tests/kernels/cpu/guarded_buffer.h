// Bytes between guards, at any misalignment, filled with a pattern: what a kernel must not touch shows.
#ifndef PHASOR_TESTS_KERNELS_CPU_GUARDED_BUFFER_H_
#define PHASOR_TESTS_KERNELS_CPU_GUARDED_BUFFER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace phasor {

class GuardedBuffer {
 public:
  // `bytes` bytes at an address that is `misalignment` beyond a multiple of 64, 0 ≤ misalignment < 64.
  explicit GuardedBuffer(int64_t bytes, int64_t misalignment = 0)
      : bytes_(bytes), storage_(static_cast<size_t>(bytes + misalignment + 3 * kGuard)) {
    for (size_t i = 0; i < storage_.size(); ++i) storage_[i] = static_cast<uint8_t>(0xa5 + 31 * i);
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    begin_ = static_cast<int64_t>((address + 2 * kGuard - 1) / kGuard * kGuard - address) + misalignment;
  }

  uint8_t* data() { return storage_.data() + begin_; }
  const uint8_t* data() const { return storage_.data() + begin_; }
  int64_t bytes() const { return bytes_; }

  // True when both hold the same bytes, and this one's guards are as they were.
  bool SameAs(const GuardedBuffer& other) const {
    if (bytes_ != other.bytes_ || std::memcmp(data(), other.data(), static_cast<size_t>(bytes_)) != 0) return false;
    for (size_t i = 0; i < storage_.size(); ++i) {
      const bool inside = i >= static_cast<size_t>(begin_) && i < static_cast<size_t>(begin_ + bytes_);
      if (!inside && storage_[i] != static_cast<uint8_t>(0xa5 + 31 * i)) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 64;
  int64_t bytes_;
  int64_t begin_ = 0;
  std::vector<uint8_t> storage_;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_CPU_GUARDED_BUFFER_H_
