// Masks and biases by any positions, bit for bit against the reference, over random rules, shapes, types and cuts.
#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/core/narrow.h"
#include "kernels/program/masking.h"
#include "tests/conformance/case_run.h"

namespace phasor {
namespace {

using Random = std::mt19937_64;

int64_t Below(Random& random, int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); }

// Ordinary numbers, some infinities, NaNs and zeros.
void FillFloats(Buffer& buffer, int64_t elements, DType dtype, Random& random) {
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

struct Shape {
  int64_t batch, heads, queries, keys;
  int64_t rows() const { return batch * heads * queries; }
};

std::vector<int64_t> Lengths(int64_t sequences, int64_t end, Random& random) {
  std::vector<int64_t> ends = {0, end};
  for (int64_t i = 1; i < sequences; ++i) ends.push_back(Below(random, end + 1));
  std::sort(ends.begin(), ends.end());
  return ends;
}

// Each kind of mask is there or not.
struct RandomMasking {
  RandomMasking(const Shape& shape, Random& random) {
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

Shape RandomShape(Random& random) {
  const int64_t keys[] = {1, 2, 7, 15, 16, 17, 33, 64, 100, 257};
  return {1 + Below(random, 3), 1 + Below(random, 3), 1 + Below(random, 20), keys[Below(random, 10)]};
}

void RunInCuts(const Backend& backend, const Task& task, int64_t rows) {
  ASSERT_TRUE(backend.Run(task, {0, rows / 3}, nullptr).ok());
  ASSERT_TRUE(backend.Run(task, {rows / 3, rows}, nullptr).ok());
}

TEST(MaskConformanceTest, InPlace) {
  Random random(31);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const std::vector<Variant> variants = VariantsUnderTest();
  for (int i = 0; i < 600; ++i) {
    const Shape shape = RandomShape(random);
    const DType dtype = kFloatTypes[i % 4];
    const RandomMasking mask(shape, random);
    const int64_t elements = shape.rows() * shape.keys, size = SizeOf(dtype);
    Buffer data(elements * size);
    FillFloats(data, elements, dtype, random);
    const auto run = [&](const Backend& backend) {
      Buffer out = data;
      RunInCuts(backend,
                MaskTask{.dtype = dtype,
                         .batch = shape.batch,
                         .heads = shape.heads,
                         .queries = shape.queries,
                         .keys = shape.keys,
                         .rule = &mask.rule,
                         .data = out.data()},
                shape.rows());
      EXPECT_TRUE(out.GuardIntact());
      return out;
    };
    const Buffer want = run(**reference);
    for (const Variant& variant : variants) {
      ASSERT_EQ(run(variant.Select()).FirstDifference(want, 0, elements, size), -1)
          << variant.name << " " << Name(dtype) << " case " << i;
    }
  }
}

// Positions as padding makes them, in runs, at random, or none.
std::vector<int32_t> RandomPositions(int64_t rows, int64_t count, Random& random) {
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

TEST(MaskConformanceTest, BiasMatrices) {
  Random random(32);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const std::vector<Variant> variants = VariantsUnderTest();
  constexpr int64_t kDistances = 1000;  // from −500 on: every position below is within 400, every offset within 100
  for (int i = 0; i < 600; ++i) {
    Shape shape = RandomShape(random);
    if (i % 50 == 0) shape = {1, 2, 3, 2500};  // several pieces, and streamed where the cache is small
    const DType dtype = i % 9 == 8 ? DType::kI64 : i % 9 == 7 ? DType::kI32 : kFloatTypes[i % 4];
    const RandomMasking mask(shape, random);
    const int64_t size = SizeOf(dtype), elements = shape.rows() * shape.keys;
    const bool per_batch = Below(random, 2) == 0;
    const bool wide = shape.keys > 400;
    const int64_t stride = wide ? 6000 : kDistances;
    Buffer vector(shape.batch * shape.heads * stride * size);
    FillFloats(vector, shape.batch * shape.heads * stride,
               size == 8   ? DType::kF64
               : size == 4 ? DType::kF32
                           : DType::kBF16,
               random);
    const std::vector<int32_t> queries = wide ? std::vector<int32_t>() : RandomPositions(shape.batch, shape.queries, random);
    const std::vector<int32_t> keys = wide ? std::vector<int32_t>() : RandomPositions(shape.batch, shape.keys, random);
    BiasMatrixTask task;
    task.dtype = dtype;
    task.batch = shape.batch, task.heads = shape.heads, task.queries = shape.queries, task.keys = shape.keys;
    task.vector = vector.data();
    task.vector_head_stride = stride;
    task.vector_batch_stride = Below(random, 2) == 0 ? 0 : shape.heads * stride;
    task.first_distance = wide ? -3000 : -500;
    task.query_offset = Below(random, 200) - 100;
    if (!queries.empty()) task.query_positions = queries.data();
    if (!keys.empty()) task.key_positions = keys.data();
    task.query_batch_stride = per_batch ? shape.queries : 0;
    task.key_batch_stride = per_batch ? shape.keys : 0;
    if (IsFloat(dtype) && Below(random, 3) != 0) task.mask = &mask.rule;
    // At a whole line half of the time, where rows are stored straight from registers.
    const auto run = [&](const Backend& backend) {
      Buffer out(elements * size + 64);
      const auto address = reinterpret_cast<uintptr_t>(out.data());
      const int64_t shift = i % 2 == 0 ? static_cast<int64_t>((64 - address % 64) % 64) : 0;
      task.out = static_cast<char*>(out.data()) + shift;
      RunInCuts(backend, task, shape.rows());
      EXPECT_TRUE(out.GuardIntact());
      const unsigned char* begin = out.bytes() + shift;
      return std::vector<unsigned char>(begin, begin + elements * size);
    };
    const std::vector<unsigned char> want = run(**reference);
    for (const Variant& variant : variants) {
      ASSERT_EQ(run(variant.Select()), want) << variant.name << " " << Name(dtype) << " case " << i;
    }
  }
}

TEST(MaskConformanceTest, RefusesAndCancels) {
  for (const Variant& variant : VariantsUnderTest()) {
    const Backend& backend = variant.Select();
    std::vector<float> data(12, 1);
    MaskRule rule;
    rule.causal = true;
    MaskTask good{.heads = 2, .queries = 2, .keys = 3, .rule = &rule, .data = data.data()};
    const CancelFlag cancel = true;
    EXPECT_TRUE(absl::IsCancelled(backend.Run(good, {0, 4}, &cancel)));
    const auto refused = [&](auto change) {
      MaskTask task = good;
      change(task);
      return absl::IsInvalidArgument(backend.Run(task, {0, 4}, nullptr));
    };
    EXPECT_TRUE(refused([](MaskTask& t) { t.rule = nullptr; }));
    EXPECT_TRUE(refused([](MaskTask& t) { t.data = nullptr; }));
    EXPECT_TRUE(refused([](MaskTask& t) { t.dtype = DType::kI32; }));
    EXPECT_TRUE(refused([](MaskTask& t) { t.queries = 1; }));
    const std::vector<int64_t> prefix = {1, 2, 3}, lengths = {0, 2};
    MaskRule bad = rule;
    bad.prefix = prefix;
    EXPECT_TRUE(refused([&](MaskTask& t) { t.rule = &bad; }));
    bad = rule;
    bad.query_cu_seqlens = lengths;
    EXPECT_TRUE(refused([&](MaskTask& t) { t.rule = &bad; }));
    BiasMatrixTask matrix{.heads = 2,
                          .queries = 2,
                          .keys = 3,
                          .vector = data.data(),
                          .vector_head_stride = 4,
                          .first_distance = -1,
                          .out = data.data()};
    EXPECT_TRUE(absl::IsCancelled(backend.Run(matrix, {0, 4}, &cancel)));
    matrix.dtype = DType::kI32;
    matrix.mask = &rule;
    EXPECT_TRUE(absl::IsInvalidArgument(backend.Run(matrix, {0, 4}, nullptr)));
    EXPECT_EQ(data, std::vector<float>(12, 1));
  }
}

// What each mask means, by hand.
std::string Drawn(const MaskRule& rule, int64_t queries, int64_t keys) {
  std::string picture;
  std::vector<float> data(static_cast<size_t>(queries * keys), 0);
  const auto backend = CreateBackend("cpu");
  EXPECT_TRUE((*backend)
                  ->Run(MaskTask{.heads = 1, .queries = queries, .keys = keys, .rule = &rule, .data = data.data()},
                        {0, queries}, nullptr)
                  .ok());
  for (size_t i = 0; i < data.size(); ++i) {
    picture += data[i] == 0 ? 'x' : '.';
    if ((i + 1) % static_cast<size_t>(keys) == 0) picture += ' ';
  }
  return picture;
}

TEST(MaskConformanceTest, MeansWhatItSays) {
  MaskRule causal;
  causal.causal = true;
  EXPECT_EQ(Drawn(causal, 3, 3), "x.. xx. xxx ");
  // Bottom-right alignment of two queries over four keys; top-left (offset 0) hides cached keys.
  causal.query_offset = 2;
  EXPECT_EQ(Drawn(causal, 2, 4), "xxx. xxxx ");
  causal.query_offset = 0;
  EXPECT_EQ(Drawn(causal, 2, 4), "x... xx.. ");

  MaskRule window;
  window.window_before = 2;
  window.causal = true;
  EXPECT_EQ(Drawn(window, 4, 4), "x... xx.. .xx. ..xx ");
  window.window_before = 1;  // itself only
  EXPECT_EQ(Drawn(window, 3, 3), "x.. .x. ..x ");
  window.causal = false;
  window.window_before = window.window_after = 2;
  EXPECT_EQ(Drawn(window, 4, 4), "xx.. xxx. .xxx ..xx ");

  MaskRule chunk;
  chunk.chunk = 2;
  chunk.causal = true;
  EXPECT_EQ(Drawn(chunk, 5, 5), "x.... xx... ..x.. ..xx. ....x ");

  MaskRule prefix;
  const std::vector<int64_t> two = {2};
  prefix.prefix = two;
  prefix.causal = true;
  EXPECT_EQ(Drawn(prefix, 4, 4), "xx.. xx.. xxx. xxxx ");

  // Packing: sequences of 1 and 2 queries over 2 and 3 keys, each aligned bottom-right.
  MaskRule packed;
  const std::vector<int64_t> queries = {0, 1, 3}, keys = {0, 2, 5};
  packed.query_cu_seqlens = queries;
  packed.key_cu_seqlens = keys;
  packed.causal = true;
  EXPECT_EQ(Drawn(packed, 3, 5), "xx... ..xx. ..xxx ");
}

}  // namespace
}  // namespace phasor
