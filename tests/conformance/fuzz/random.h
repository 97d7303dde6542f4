// Random numbers for differential tests: the same seed gives the same numbers on every machine.
#ifndef PHASOR_TESTS_CONFORMANCE_FUZZ_RANDOM_H_
#define PHASOR_TESTS_CONFORMANCE_FUZZ_RANDOM_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// splitmix64.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t Word() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Both ends included.
  int64_t Int(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Word() % static_cast<uint64_t>(high - low + 1));
  }
  // Likewise; every number of bits is as likely.
  int64_t LogInt(int64_t low, int64_t high) {
    const int bits = static_cast<int>(Int(0, std::bit_width(static_cast<uint64_t>(high - low))));
    return low + std::min(high - low, static_cast<int64_t>(bits == 0 ? 0 : Word() >> (64 - bits)));
  }
  // An extent: small ones and large ones alike.
  int64_t Extent(int64_t most) { return OneIn(2) ? LogInt(1, most) : Int(1, most); }
  bool OneIn(int64_t n) { return Int(1, n) == 1; }
  double Real(double low, double high) { return low + (high - low) * std::ldexp(static_cast<double>(Word() >> 11), -53); }
  double LogReal(double low, double high) { return std::exp(Real(std::log(low), std::log(high))); }
  template <typename T>
  T Pick(std::initializer_list<T> choices) {
    return choices.begin()[Int(0, static_cast<int64_t>(choices.size()) - 1)];
  }
  DType FloatType() { return Pick({DType::kF64, DType::kF32, DType::kF16, DType::kBF16}); }

 private:
  uint64_t state_;
};

// Ordinary numbers up to `scale`, some of them zeros of both signs, tiny ones and whole ones. `wild`: also NaN, infinities
// and any bits at all.
inline void FillFloats(Rng& rng, DType dtype, int64_t count, double scale, bool wild, void* to) {
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < count; ++i) {
      double value = rng.Real(-scale, scale);
      const int64_t kind = rng.Int(0, 39);
      if (kind == 0) value = 0;
      if (kind == 1) value = -0.0;
      if (kind == 2) value = scale * 0x1p-40;
      if (kind == 3) value = std::floor(value);
      T narrow = Narrow<T>(value);
      if (wild && kind == 4) narrow = FromBits<T>(static_cast<decltype(BitsOf(narrow))>(rng.Word()));
      if (wild && kind == 5) narrow = Narrow<T>(-std::numeric_limits<double>::infinity());
      std::memcpy(static_cast<char*>(to) + i * static_cast<int64_t>(sizeof(T)), &narrow, sizeof(T));
    }
  });
}

// A weight of any float type.
inline WeightRef RandomWeight(Rng& rng, std::vector<int64_t> shape, double scale = 1) {
  auto weight = std::make_shared<Weight>();
  weight->dtype = rng.FloatType();
  weight->shape = std::move(shape);
  const auto bytes = static_cast<size_t>(weight->bytes());
  const std::shared_ptr<std::byte[]> data(new std::byte[bytes]);
  FillFloats(rng, weight->dtype, weight->elements(), scale, false, data.get());
  weight->data = std::shared_ptr<const std::byte>(data, data.get());
  weight->digest.assign(reinterpret_cast<const char*>(data.get()), bytes);
  return WeightRef(std::move(weight));
}

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_FUZZ_RANDOM_H_
