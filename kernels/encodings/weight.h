// Learned numbers that a scheme needs: a table, the layers of a perceptron. Immutable and shared, never copied.
#ifndef PHASOR_KERNELS_ENCODINGS_WEIGHT_H_
#define PHASOR_KERNELS_ENCODINGS_WEIGHT_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/key_bytes.h"
#include "kernels/core/narrow.h"

namespace phasor {

// A dense, row-major tensor of floats.
struct Weight {
  DType dtype = DType::kF32;   // IsFloat
  std::vector<int64_t> shape;  // each ≥ 1
  std::shared_ptr<const std::byte> data;
  // A collision-resistant hash of the bytes (SHA-256), computed by whoever made the weight: equal digests with equal dtype
  // and shape are equal weights. Part of plan keys.
  std::string digest;

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    return count;
  }
  int64_t bytes() const { return elements() * SizeOf(dtype); }
  // Element `index` of the row-major order, exactly.
  double at(int64_t index) const {
    return VisitFloat(dtype, [&](auto tag) -> double {
      using T = typename decltype(tag)::type;
      T value;
      std::memcpy(&value, data.get() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
      return Widen<double>(value);
    });
  }
  // Every element, exactly: for the small ones.
  std::vector<double> values() const {
    std::vector<double> all(static_cast<size_t>(elements()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = at(static_cast<int64_t>(i));
    return all;
  }
};

// A reference to a weight, or to none. Compared by content.
class WeightRef {
 public:
  WeightRef() = default;
  explicit WeightRef(std::shared_ptr<const Weight> weight) : weight_(std::move(weight)) {}

  explicit operator bool() const { return weight_ != nullptr; }
  const Weight& operator*() const { return *weight_; }
  const Weight* operator->() const { return weight_.get(); }
  const std::shared_ptr<const Weight>& shared() const { return weight_; }

  friend bool operator==(const WeightRef& a, const WeightRef& b) {
    if (a.weight_ == b.weight_) return true;
    if (!a || !b) return false;
    return a->dtype == b->dtype && a->shape == b->shape && a->digest == b->digest;
  }

 private:
  std::shared_ptr<const Weight> weight_;
};

// Type, shape and digest: what the numbers are made of. A reference to none is content too.
void AppendContent(const WeightRef& weight, KeyBytes& key);

// A weight that owns a copy of `values`, of type f64. `digest` as in Weight; empty: the bytes themselves (for small ones).
WeightRef MakeWeight(std::vector<int64_t> shape, const std::vector<double>& values, std::string digest = {});

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_WEIGHT_H_
