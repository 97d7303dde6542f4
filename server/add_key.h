// What decides the bits of an addition beside its plans and tensors, as canonical bytes.
#ifndef PHASOR_SERVER_ADD_KEY_H_
#define PHASOR_SERVER_ADD_KEY_H_

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/encodings/weight.h"
#include "server/fingerprint.h"

namespace phasor::server {

// Numbers one after the other, each of a fixed size.
class KeyWriter {
 public:
  void Int(int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift));
    }
  }
  void Double(double value) { Int(std::bit_cast<int64_t>(value)); }
  template <typename T>
  void Hash(const std::vector<T>& values) {
    Int(static_cast<int64_t>(values.size()));
    bytes_ += Sha256({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  void Weight(const WeightRef& weight) {
    Int(weight ? static_cast<int64_t>(weight->dtype) : 0);
    if (!weight) return;
    Int(static_cast<int64_t>(weight->shape.size()));
    for (int64_t extent : weight->shape) Int(extent);
    bytes_ += weight->digest;
  }
  void Text(std::string_view text) {
    Int(static_cast<int64_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_ = "add";
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ADD_KEY_H_
