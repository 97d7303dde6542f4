// Random masks, and random tasks of masks and of biases by any positions, for every backend.
#ifndef PHASOR_TESTS_CONFORMANCE_MASK_CASES_H_
#define PHASOR_TESTS_CONFORMANCE_MASK_CASES_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/program/masking.h"
#include "tests/conformance/case_run.h"

namespace phasor {

using Random = std::mt19937_64;

inline int64_t Below(Random& random, int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }

// Ordinary numbers, some infinities, NaNs and zeros.
inline void FillFloats(Buffer& buffer, int64_t elements, DType dtype, Random& random) {
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < elements; ++i) {
      double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -60);
      if (Below(random, 8) == 0) value = -std::numeric_limits<double>::infinity();
      if (Below(random, 40) == 0) value = std::numeric_limits<double>::quiet_NaN();
      if (Below(random, 40) == 0) value = std::numeric_limits<double>::infinity();
      if (Below(random, 20) == 0) value = 0;
      const T narrow = Narrow<T>(value);
      std::memcpy(static_cast<char*>(buffer.data()) + i * static_cast<int64_t>(sizeof(T)), &narrow, sizeof(T));
    }
  });
}

struct MaskShape {
  int64_t batch, heads, queries, keys;
  int64_t rows() const { return batch * heads * queries; }
};

inline std::vector<int64_t> Lengths(int64_t sequences, int64_t end, Random& random) {
  std::vector<int64_t> ends = {0, end};
  for (int64_t i = 1; i < sequences; ++i) ends.push_back(Below(random, end + 1));
  std::sort(ends.begin(), ends.end());
  return ends;
}

// Each kind of mask is there or not.
struct RandomMasking {
  RandomMasking(const MaskShape& shape, Random& random) {
    const auto maybe = [&](int64_t one_in) { return Below(random, one_in) == 0; };
    masking.causal = maybe(2);
    if (maybe(3)) masking.window_before = 1 + Below(random, shape.keys + 2);
    if (maybe(3)) masking.window_after = 1 + Below(random, shape.keys + 2);
    if (maybe(4)) masking.chunk = maybe(5) ? INT64_MAX : 1 + Below(random, shape.keys + 2);
    if (maybe(3)) {
      for (int64_t i = maybe(2) ? shape.batch : 1; i > 0; --i) masking.prefix.push_back(Below(random, shape.keys + 2));
    }
    if (maybe(3)) {
      const int64_t sequences = 1 + Below(random, 4);
      masking.query_cu_seqlens = Lengths(sequences, shape.queries, random);
      masking.key_cu_seqlens = Lengths(sequences, shape.keys, random);
    }
    if (maybe(3)) {
      const bool per_batch = maybe(2);
      masking.key_padding_batch_stride = per_batch ? shape.keys : 0;
      for (int64_t i = 0; i < (per_batch ? shape.batch : 1) * shape.keys; ++i)
        masking.key_padding.push_back(maybe(3) ? 0 : 1);
    }
    if (maybe(2)) {
      masking.additive = kFloatTypes[Below(random, 4)];
      masking.additive_query_stride = shape.keys + Below(random, 2);
      masking.additive_head_stride = maybe(2) ? 0 : shape.queries * masking.additive_query_stride;
      masking.additive_batch_stride = maybe(2) ? 0 : shape.heads * shape.queries * masking.additive_query_stride;
      const int64_t elements = shape.rows() * (shape.keys + 1);
      additive = Buffer(elements * 8);
      FillFloats(additive, elements, *masking.additive, random);
    }
    if (maybe(3)) masking.masked_value = maybe(2) ? -1e9 : -12345.678;
    masking.lowest_finite_rows = maybe(2);
    offset = Below(random, 2 * shape.keys + 1) - shape.keys;
    rule = RuleOf(masking, offset, additive.data());
  }
  RandomMasking(const RandomMasking&) = delete;

  Masking masking;
  Buffer additive{0};
  int64_t offset = 0;
  MaskRule rule;
};

inline MaskShape RandomShape(Random& random) {
  const int64_t keys[] = {1, 2, 7, 15, 16, 17, 33, 64, 100, 257};
  return {1 + Below(random, 3), 1 + Below(random, 3), 1 + Below(random, 20), keys[Below(random, 10)]};
}

inline void RunInCuts(const Backend& backend, const Task& task, int64_t rows) {
  ASSERT_TRUE(backend.Run(task, {0, rows / 3}, nullptr).ok());
  ASSERT_TRUE(backend.Run(task, {rows / 3, rows}, nullptr).ok());
}

// A matrix to mask in place.
class MaskCase {
 public:
  MaskCase(DType dtype, Random& random) : shape_(RandomShape(random)), dtype_(dtype), mask_(shape_, random) {
    data_ = Buffer(elements() * SizeOf(dtype));
    FillFloats(data_, elements(), dtype, random);
  }

  int64_t elements() const { return shape_.rows() * shape_.keys; }
  Buffer Run(const Backend& backend) const {
    Buffer out = data_;
    RunInCuts(backend,
              MaskTask{.dtype = dtype_,
                       .batch = shape_.batch,
                       .heads = shape_.heads,
                       .queries = shape_.queries,
                       .keys = shape_.keys,
                       .rule = &mask_.rule,
                       .data = out.data()},
              shape_.rows());
    EXPECT_TRUE(out.GuardIntact());
    return out;
  }

 private:
  const MaskShape shape_;
  const DType dtype_;
  const RandomMasking mask_;
  Buffer data_{0};
};

// Positions as padding makes them, in runs, at random, or none.
inline std::vector<int32_t> RandomPositions(int64_t rows, int64_t count, Random& random) {
  std::vector<int32_t> positions;
  const int64_t kind = Below(random, 4);
  if (kind == 0) return positions;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t pad = Below(random, count);
    int32_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (kind == 1) positions.push_back(static_cast<int32_t>(std::max<int64_t>(i - pad, 0)));
      if (kind == 2) positions.push_back(static_cast<int32_t>(Below(random, 400)));
      if (kind == 3) {
        at = Below(random, 40) == 0 ? static_cast<int32_t>(Below(random, 100)) : at + 1;
        positions.push_back(std::min(at, 399));
      }
    }
  }
  return positions;
}

// A matrix of biases, masked or not. Number i of many.
class BiasMatrixCase {
 public:
  BiasMatrixCase(int i, Random& random) : shape_(ShapeOf(i, random)), aligned_(i % 2 == 0), mask_(shape_, random) {
    constexpr int64_t kDistances = 1000;  // from −500 on: every position below is within 400, every offset within 100
    const DType dtype = i % 9 == 8 ? DType::kI64 : i % 9 == 7 ? DType::kI32 : kFloatTypes[i % 4];
    const int64_t size = SizeOf(dtype);
    const bool per_batch = Below(random, 2) == 0;
    const bool wide = shape_.keys > 400;
    const int64_t stride = wide ? 6000 : kDistances;
    const int64_t entries = shape_.batch * shape_.heads * stride;
    vector_ = Buffer(entries * size);
    FillFloats(vector_, entries, size == 8 ? DType::kF64 : size == 4 ? DType::kF32 : DType::kBF16, random);
    if (!wide) queries_ = RandomPositions(shape_.batch, shape_.queries, random);
    if (!wide) keys_ = RandomPositions(shape_.batch, shape_.keys, random);
    task_.dtype = dtype;
    task_.batch = shape_.batch, task_.heads = shape_.heads, task_.queries = shape_.queries, task_.keys = shape_.keys;
    task_.vector = vector_.data();
    task_.vector_head_stride = stride;
    task_.vector_batch_stride = Below(random, 2) == 0 ? 0 : shape_.heads * stride;
    task_.first_distance = wide ? -3000 : -500;
    task_.query_offset = Below(random, 200) - 100;
    if (!queries_.empty()) task_.query_positions = queries_.data();
    if (!keys_.empty()) task_.key_positions = keys_.data();
    task_.query_batch_stride = per_batch ? shape_.queries : 0;
    task_.key_batch_stride = per_batch ? shape_.keys : 0;
    if (IsFloat(dtype) && Below(random, 3) != 0) task_.mask = &mask_.rule;
  }
  BiasMatrixCase(const BiasMatrixCase&) = delete;

  const BiasMatrixTask& task() const { return task_; }
  // At a whole line half of the time, where rows are stored straight from registers.
  std::vector<unsigned char> Run(const Backend& backend) const {
    const int64_t bytes = shape_.rows() * shape_.keys * SizeOf(task_.dtype);
    Buffer out(bytes + 64);
    const auto address = reinterpret_cast<uintptr_t>(out.data());
    const int64_t shift = aligned_ ? static_cast<int64_t>((64 - address % 64) % 64) : 0;
    BiasMatrixTask task = task_;
    task.out = static_cast<char*>(out.data()) + shift;
    RunInCuts(backend, task, shape_.rows());
    EXPECT_TRUE(out.GuardIntact());
    const unsigned char* begin = out.bytes() + shift;
    return std::vector<unsigned char>(begin, begin + bytes);
  }

 private:
  static MaskShape ShapeOf(int i, Random& random) {
    const MaskShape shape = RandomShape(random);
    if (i % 50 == 0) return {1, 2, 3, 2500};  // several pieces, and streamed where the cache is small
    return shape;
  }

  const MaskShape shape_;
  const bool aligned_;
  const RandomMasking mask_;
  Buffer vector_{0};
  std::vector<int32_t> queries_, keys_;
  BiasMatrixTask task_;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_MASK_CASES_H_
