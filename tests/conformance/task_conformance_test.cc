// The other tasks, bit for bit against the reference: rotation, bias vectors, Toeplitz matrices, table forms.
#include <random>

#include "tests/conformance/table_cases.h"

namespace phasor {
namespace {

struct RotateShape {
  int64_t tokens, heads, pairs, tail;
};

void CompareRotation(const Variant& candidate, const RotateShape& shape, DType dtype, Pairing pairing, bool inverse,
                     bool in_place, std::mt19937_64& random) {
  const int64_t size = SizeOf(dtype);
  const DType table_type = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t head_dim = 2 * shape.pairs + shape.tail;
  const int64_t head_stride = head_dim + 1;
  const int64_t token_stride = shape.heads * head_stride + 5;
  const int64_t elements = shape.tokens * token_stride;
  Buffer x(elements * size), cos(shape.tokens * shape.pairs * SizeOf(table_type)),
      sin(shape.tokens * shape.pairs * SizeOf(table_type));
  FillRandom(x, elements, dtype, random);
  FillRandom(cos, shape.tokens * shape.pairs, table_type, random);
  FillRandom(sin, shape.tokens * shape.pairs, table_type, random);
  std::vector<int32_t> table_rows;
  if (random() % 2 == 0) {
    for (int64_t t = 0; t < shape.tokens; ++t) table_rows.push_back(static_cast<int32_t>(random() % shape.tokens));
  }
  const auto run = [&](const Backend& backend) {
    Buffer y = in_place ? x : Buffer(elements * size);
    const RotateTask task{.dtype = dtype,
                          .pairing = pairing,
                          .inverse = inverse,
                          .tokens = shape.tokens,
                          .heads = shape.heads,
                          .head_dim = head_dim,
                          .pairs = shape.pairs,
                          .x = in_place ? y.data() : x.data(),
                          .y = y.data(),
                          .x_token_stride = token_stride,
                          .x_head_stride = head_stride,
                          .y_token_stride = token_stride,
                          .y_head_stride = head_stride,
                          .cos = cos.data(),
                          .sin = sin.data(),
                          .table_stride = shape.pairs,
                          .table_rows = table_rows};
    EXPECT_TRUE(backend.Run(task, {0, shape.tokens}, nullptr).ok());
    EXPECT_TRUE(y.GuardIntact());
    return y;
  };
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  EXPECT_EQ(run(candidate.Select()).FirstDifference(run(**reference), 0, elements, size), -1)
      << candidate.name << " " << Name(dtype) << " tokens " << shape.tokens << " heads " << shape.heads << " pairs "
      << shape.pairs << " tail " << shape.tail << (pairing == Pairing::kHalfSplit ? " half" : " interleaved")
      << (inverse ? " inverse" : "") << (in_place ? " in place" : "");
}

TEST(TaskConformanceTest, Rotation) {
  std::mt19937_64 random(21);
  std::vector<RotateShape> shapes;
  for (int64_t pairs : {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 48, 64, 100, 128}) {
    shapes.push_back({static_cast<int64_t>(1 + random() % 4), static_cast<int64_t>(1 + random() % 5), pairs,
                      static_cast<int64_t>(random() % 4)});
  }
  for (const Variant& variant : VariantsUnderTest()) {
    for (const RotateShape& shape : shapes) {
      for (DType dtype : kFloatTypes) {
        for (int flags = 0; flags < 8; ++flags) {
          CompareRotation(variant, shape, dtype, flags % 2 == 0 ? Pairing::kHalfSplit : Pairing::kInterleaved,
                          flags / 2 % 2 == 0, flags / 4 == 0, random);
        }
      }
    }
  }
}

// Distances [first, first + count) of some heads, or `distances` in any order.
struct BiasVector {
  DType dtype;
  int64_t first = 0;
  std::vector<int64_t> distances = {};
};

void CompareBias(const std::vector<Variant>& variants, const Case& c, const DistancePlan& plan, const BiasVector& vector) {
  const int64_t size = SizeOf(vector.dtype), count = vector.distances.empty() ? 60 : vector.distances.size();
  const int64_t first_head = VectorsOf(plan) / 3;
  const int64_t heads = std::min<int64_t>(VectorsOf(plan) - first_head, 5);
  const int64_t stride = count + 2;
  const auto run = [&](const Backend& backend) {
    Buffer out(heads * stride * size);
    const BiasVectorTask task{.plan = plan,
                              .dtype = vector.dtype,
                              .first_distance = vector.first,
                              .first_head = first_head,
                              .heads = heads,
                              .out = out.data(),
                              .head_stride = stride,
                              .distances = vector.distances};
    EXPECT_TRUE(backend.Run(task, {0, 3}, nullptr).ok());
    EXPECT_TRUE(backend.Run(task, {3, count}, nullptr).ok());
    EXPECT_TRUE(out.GuardIntact());
    return out;
  };
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const Buffer want = run(**reference);
  for (const Variant& variant : variants) {
    EXPECT_EQ(run(variant.Select()).FirstDifference(want, 0, heads * stride, size), -1)
        << variant.name << " " << c.name << " " << Name(vector.dtype) << " from " << vector.first;
  }
}

TEST(TaskConformanceTest, BiasVectors) {
  const int64_t last = (int64_t{1} << 32) - 1;
  std::mt19937_64 random(24);
  const std::vector<Variant> variants = VariantsUnderTest();
  for (const Case& c : ConformanceCases()) {
    const Plan resolved = PlanOf(c, Precision::kExact);
    const std::optional<DistancePlan> plan = DistancePlanOf(resolved);
    if (!plan) continue;
    for (DType dtype : kFloatTypes) {
      for (int64_t first : {int64_t{-30}, int64_t{-131101}, int64_t{65500}, -last, last - 59}) {
        CompareBias(variants, c, *plan, {dtype, first});
      }
      BiasVector scattered{dtype};
      for (int i = 0; i < 20; ++i) {
        scattered.distances.push_back(static_cast<int64_t>(random() >> 32) * (i % 2 == 0 ? 1 : -1) >> (random() % 32));
      }
      CompareBias(variants, c, *plan, scattered);
    }
  }
}

TEST(TaskConformanceTest, ToeplitzMatrices) {
  std::mt19937_64 random(22);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  for (const Variant& variant : VariantsUnderTest()) {
    for (int64_t size : {2, 4, 8}) {
      for (int i = 0; i < 40; ++i) {
        const int64_t heads = 1 + random() % 3, queries = 1 + random() % 40, keys = 1 + random() % 150;
        const int64_t vector_stride = queries + keys - 1 + random() % 3;
        Buffer vector(heads * vector_stride * size);
        FillRandom(vector, heads * vector_stride, size == 8 ? DType::kF64 : size == 4 ? DType::kF32 : DType::kBF16, random);
        const auto run = [&](const Backend& b) {
          Buffer out(heads * queries * keys * size);
          const ToeplitzTask task{.element_size = size,
                                  .heads = heads,
                                  .queries = queries,
                                  .keys = keys,
                                  .vector = vector.data(),
                                  .vector_stride = vector_stride,
                                  .out = out.data()};
          EXPECT_TRUE(b.Run(task, {0, heads * queries / 2}, nullptr).ok());
          EXPECT_TRUE(b.Run(task, {heads * queries / 2, heads * queries}, nullptr).ok());
          EXPECT_TRUE(out.GuardIntact());
          return out;
        };
        ASSERT_EQ(run(variant.Select()).FirstDifference(run(**reference), 0, heads * queries * keys, size), -1)
            << variant.name << " size " << size << " heads " << heads << " queries " << queries << " keys " << keys;
      }
    }
  }
}

void CompareForm(const Variant& candidate, const FormShape& shape, std::mt19937_64& random) {
  const FormCase c(shape, random);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  ASSERT_EQ(c.Run(candidate.Select()).FirstDifference(c.Run(**reference), 0, c.elements(), shape.size), -1)
      << candidate.name << " form " << static_cast<int>(shape.form) << " size " << shape.size << " pairs " << shape.pairs
      << " columns " << shape.columns;
}

TEST(TaskConformanceTest, TableForms) {
  std::mt19937_64 random(23);
  for (const Variant& variant : VariantsUnderTest()) {
    ForEachFormShape([&](const FormShape& shape) { CompareForm(variant, shape, random); });
  }
}

}  // namespace
}  // namespace phasor
