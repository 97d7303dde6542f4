// Canonical bytes: what keys of caches and input of fingerprints are made of.
#ifndef PHASOR_KERNELS_CORE_KEY_BYTES_H_
#define PHASOR_KERNELS_CORE_KEY_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/double_double.h"

namespace phasor {

// Every field is little-endian and of a fixed size, or preceded by its length, so that different contents never spell the
// same bytes. Stable across machines.
class KeyBytes {
 public:
  template <typename T>
  void Word(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void Byte(uint8_t value) { Word(value); }
  void Int(int64_t value) { Word(static_cast<uint64_t>(value)); }
  void Double(double value) { Word(std::bit_cast<uint64_t>(value)); }
  void Float(float value) { Word(std::bit_cast<uint32_t>(value)); }
  void Double(const DoubleDouble& value) {
    Double(value.hi);
    Double(value.lo);
  }
  // Its length, then its bytes.
  void Text(std::string_view text) {
    Word(static_cast<uint64_t>(text.size()));
    bytes_ += text;
  }
  void Ints(const std::vector<int64_t>& values) {
    Word(static_cast<uint64_t>(values.size()));
    for (int64_t value : values) Int(value);
  }

  const std::string& bytes() const { return bytes_; }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_KEY_BYTES_H_
