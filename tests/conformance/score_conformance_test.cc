// Tasks of attention scores, bit for bit against the reference, over element types, odd sizes, layouts and cuts of the rows.
#include <cmath>
#include <limits>
#include <random>

#include "kernels/core/narrow.h"
#include "tests/conformance/case_run.h"

namespace phasor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Backend& Reference() {
  static const std::unique_ptr<Backend> reference = *CreateBackend("reference");
  return *reference;
}

int64_t Below(std::mt19937_64& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
}

std::vector<double> Numbers(int64_t count, std::mt19937_64& random, double scale = 1) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = scale * std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63);
  return numbers;
}

// Numbers as elements of a type.
struct Elements {
  Elements(DType type, int64_t count, std::mt19937_64& random) : dtype(type), bytes(static_cast<size_t>(count * 8)) {
    const std::vector<double> numbers = Numbers(count, random, 2);
    VisitFloat(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < count; ++i) {
        const T value = Narrow<T>(numbers[static_cast<size_t>(i)]);
        std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
      }
    });
  }
  DType dtype;
  std::vector<unsigned char> bytes;
};

// [batch, tokens, heads, dim] in one of the layouts, with a gap between vectors.
HeadVectors Lay(const Elements& elements, int layout, const ScoreShape& shape, int64_t tokens, int64_t heads) {
  const int64_t dim = shape.dim + 1;
  switch (layout) {
    case 0:
      return {elements.dtype, elements.bytes.data(), tokens * heads * dim, heads * dim, dim};
    case 1:
      return {elements.dtype, elements.bytes.data(), tokens * heads * dim, dim, tokens * dim};
    default:
      return {elements.dtype, elements.bytes.data(), heads * dim, shape.batch * heads * dim, dim};
  }
}

// Scores as they are before a task: the same for both backends.
template <typename Make>
void Compare(const Variant& variant, const ScoreShape& shape, const std::vector<double>& before, std::mt19937_64& random,
             Make make) {
  const int64_t rows = shape.rows(), elements = rows * shape.keys;
  Buffer expected(elements * 8), got(elements * 8);
  for (Buffer* buffer : {&expected, &got}) {
    if (elements > 0) std::memcpy(buffer->data(), before.data(), static_cast<size_t>(elements) * 8);
  }
  ASSERT_TRUE(Reference().Run(make(reinterpret_cast<double*>(expected.data())), {0, rows}, nullptr).ok());
  const int64_t cut = rows == 0 ? 0 : Below(random, rows + 1);
  const Task task = make(reinterpret_cast<double*>(got.data()));
  const Backend& backend = variant.Select();
  ASSERT_TRUE(backend.Run(task, {cut, rows}, nullptr).ok());
  ASSERT_TRUE(backend.Run(task, {0, cut}, nullptr).ok());
  EXPECT_EQ(got.FirstDifference(expected, 0, elements, 8), -1) << variant.name;
  EXPECT_TRUE(got.GuardIntact());
  EXPECT_GE(RowsPerSlice(task), 1);
}

const ScoreShape kShapes[] = {{1, 1, 1, 1, 1},    {2, 2, 3, 5, 2},     {1, 4, 70, 33, 64}, {1, 2, 5, 600, 40},
                              {3, 2, 1, 17, 128}, {1, 1, 130, 16, 16}, {2, 3, 0, 4, 8},    {2, 1, 4, 0, 8},
                              {1, 2, 9, 48, 7},   {1, 1, 66, 530, 37}, {1, 1, 7, 9, 514},  {1, 3, 20, 20, 15}};

struct ScoreCase {
  ScoreCase(const ScoreShape& s, std::mt19937_64& random)
      : shape(s),
        group(s.heads % 2 == 0 && random() % 2 == 0 ? 2 : 1),
        dtype(kFloatTypes[random() % 4]),
        q_elements(dtype, (s.dim + 1) * s.batch * s.heads * s.queries, random),
        k_elements(dtype, (s.dim + 1) * s.batch * s.heads * s.keys, random),
        factor(Numbers(s.batch * s.queries, random)),
        add(Numbers(s.heads * s.dim, random)),
        before(Numbers(s.rows() * s.keys, random, 3)) {
    const int layout = static_cast<int>(random() % 3);
    q.q = Lay(q_elements, layout, s, s.queries, s.heads);
    if (random() % 2 == 0) q.factor = factor.data(), q.factor_batch_stride = random() % 2 == 0 ? s.queries : 0;
    if (random() % 2 == 0) q.add = add.data();
    k = {Lay(k_elements, layout, s, s.keys, s.heads / group), group};
    const bool per_batch = random() % 2 == 0;
    const int kind = static_cast<int>(random() % 3);  // consecutive, scattered, constant
    for (int64_t i = 0; i < s.batch * s.queries; ++i) {
      query_positions.push_back(kind == 0 ? s.keys - s.queries + i % s.queries : kind == 1 ? Below(random, 300) : 40);
    }
    for (int64_t j = 0; j < s.batch * s.keys; ++j) {
      key_positions.push_back(kind == 0 ? j % s.keys : kind == 1 ? Below(random, 300) : 37);
    }
    positions = {query_positions.data(), key_positions.data(), per_batch ? s.queries : 0, per_batch ? s.keys : 0};
  }

  ScoreShape shape;
  int64_t group;
  DType dtype;
  Elements q_elements, k_elements;
  std::vector<double> factor, add, before;
  QueryVectors q;
  KeyVectors k;
  std::vector<int64_t> query_positions, key_positions;
  ScorePositions positions;
};

TEST(ScoreConformanceTest, Products) {
  std::mt19937_64 random(41);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        const ScoreCase c(shape, random);
        Compare(variant, shape, c.before, random, [&](double* scores) -> Task {
          return ScoreProductTask{.shape = shape, .q = c.q, .k = c.k, .scores = scores};
        });
      }
    }
  }
}

// Rules with and without clamping, rising and falling, with steps of 0 and 2.
DistanceRows RandomRows(std::mt19937_64& random, std::vector<int32_t>& map, int64_t* table_rows) {
  DistanceRows rows;
  rows.first = -Below(random, 60);
  rows.last = rows.first + Below(random, 120) - 1;
  rows.clamp_below = random() % 2 == 0;
  rows.clamp_above = random() % 2 == 0;
  const int64_t count = rows.last - rows.first + 1;
  const bool rising = random() % 2 == 0;
  rows.slope = rising ? 1 : -1;
  rows.origin = rising ? -rows.first : rows.last;
  *table_rows = count;
  if (random() % 2 == 0 && count > 0) {
    int32_t row = 0;
    for (int64_t i = 0; i < count; ++i, row += static_cast<int32_t>(random() % 3)) map.push_back(row);
    *table_rows = row + 1;
    if (!rising) std::reverse(map.begin(), map.end());
    rows.map = map;
  }
  return rows;
}

TEST(ScoreConformanceTest, RelativeProducts) {
  std::mt19937_64 random(42);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      for (int repeat = 0; repeat < 8; ++repeat) {
        const ScoreCase c(shape, random);
        std::vector<int32_t> map;
        int64_t table_rows = 0;
        const DistanceRows rows = RandomRows(random, map, &table_rows);
        const bool by_head = random() % 2 == 0;
        const std::vector<double> table = Numbers(shape.heads * (table_rows + 1) * shape.dim, random);
        Compare(variant, shape, c.before, random, [&](double* scores) -> Task {
          return RelativeProductTask{.shape = shape,
                                     .of_keys = repeat % 2 == 1,
                                     .q = c.q,
                                     .k = c.k,
                                     .positions = c.positions,
                                     .rows = rows,
                                     .table = table.data(),
                                     .table_head_stride = by_head ? (table_rows + 1) * shape.dim : 0,
                                     .scores = scores};
        });
      }
    }
  }
}

TEST(ScoreConformanceTest, Grids) {
  std::mt19937_64 random(43);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const ScoreCase c(shape, random);
        GridProductTask grid{.shape = shape, .q = c.q};
        grid.table_rows = 1 + Below(random, 12);
        grid.query_divisor = 1 + Below(random, 3);
        grid.key_divisor = 1 + Below(random, 3);
        grid.query_extent = 1 + Below(random, 9);
        grid.key_extent = 1 + Below(random, 9);
        std::vector<int32_t> index;
        for (int64_t i = 0; i < grid.query_extent * grid.key_extent; ++i) {
          index.push_back(static_cast<int32_t>(Below(random, grid.table_rows)));
        }
        const std::vector<double> table = Numbers(shape.heads * grid.table_rows * shape.dim, random);
        grid.table = table.data();
        grid.table_head_stride = random() % 2 == 0 ? grid.table_rows * shape.dim : 0;
        grid.index = index.data();
        Compare(variant, shape, c.before, random, [&](double* scores) -> Task {
          grid.scores = scores;
          return grid;
        });
      }
    }
  }
}

TEST(ScoreConformanceTest, ContextualPositions) {
  std::mt19937_64 random(44);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      for (bool keep_content : {true, false}) {
        const ScoreCase c(shape, random);
        const int64_t rows = 2 + Below(random, 90);
        const std::vector<double> table = Numbers(shape.heads * rows * shape.dim, random);
        const int64_t stride = random() % 2 == 0 ? rows * shape.dim : 0;
        Compare(variant, shape, c.before, random, [&](double* scores) -> Task {
          return ContextualPositionTask{.shape = shape,
                                        .q = c.q,
                                        .positions = c.positions,
                                        .table = table.data(),
                                        .table_rows = rows,
                                        .table_head_stride = stride,
                                        .keep_content = keep_content,
                                        .scores = scores};
        });
      }
    }
  }
}

// Where q·k is no number, the position is the table's last row, however few keys there are; without content the row's
// product is all there is.
TEST(ScoreConformanceTest, ContextualPositionsOfNaN) {
  std::mt19937_64 random(48);
  const ScoreShape shape{1, 1, 2, 2, 3};
  const int64_t table_rows = 9, query[] = {5, 5}, key[] = {1, 2};
  const std::vector<double> q = Numbers(6, random), table = Numbers(table_rows * 3, random);
  const std::vector<double> before = {0.5, 1, 0.5, std::numeric_limits<double>::quiet_NaN()};
  for (const Variant& variant : VariantsUnderTest()) {
    Compare(variant, shape, before, random, [&](double* scores) -> Task {
      ContextualPositionTask task;
      task.shape = shape;
      task.q.q = {DType::kF64, q.data(), 6, 3, 0};
      task.positions = {query, key, 0, 0};
      task.table = table.data();
      task.table_rows = table_rows;
      task.keep_content = false;
      task.scores = scores;
      return task;
    });
  }
}

TEST(ScoreConformanceTest, Sums) {
  std::mt19937_64 random(45);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      const ScoreCase c(shape, random);
      const std::vector<double> vectors = Numbers(shape.batch * shape.heads * (shape.queries + shape.keys + 1), random);
      const int64_t width = shape.queries + shape.keys;
      for (int kind = 0; kind < 3; ++kind) {  // none, a Toeplitz vector per head, a number per query
        Compare(variant, shape, c.before, random, [&](double* scores) -> Task {
          return ScoreSumTask{.shape = shape,
                              .scale = 0.37,
                              .addend = kind == 0 ? nullptr : vectors.data() + (kind == 1 ? shape.queries : 0),
                              .batch_stride = shape.heads * width,
                              .head_stride = width,
                              .query_stride = kind == 1 ? -1 : 1,
                              .key_stride = kind == 1 ? 1 : 0,
                              .scores = scores};
        });
      }
    }
  }
}

TEST(ScoreConformanceTest, Outputs) {
  std::mt19937_64 random(46);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      ScoreCase c(shape, random);
      const int64_t elements = shape.rows() * shape.keys;
      for (int64_t i = 0; i < elements; ++i) {
        double& score = c.before[static_cast<size_t>(i)];
        const uint64_t kind = random() % 40;
        if (kind == 0) score = -kInfinity;
        if (kind == 1) score = std::numeric_limits<double>::lowest();
        if (kind == 2) score = std::ldexp(score, -140);
        if (kind == 3 && random() % 8 == 0) score = -std::numeric_limits<double>::quiet_NaN();
      }
      for (DType dtype : kFloatTypes) {
        for (bool softmax : {false, true}) {
          const int64_t size = SizeOf(dtype);
          Buffer expected(elements * size), got(elements * size);
          const auto task = [&](void* out) -> Task {
            return ScoreOutputTask{
                .shape = shape, .scores = c.before.data(), .softmax = softmax, .dtype = dtype, .out = out};
          };
          ASSERT_TRUE(Reference().Run(task(expected.data()), {0, shape.rows()}, nullptr).ok());
          ASSERT_TRUE(variant.Select().Run(task(got.data()), {0, shape.rows()}, nullptr).ok());
          EXPECT_EQ(got.FirstDifference(expected, 0, elements, size), -1) << variant.name << " " << Name(dtype);
          EXPECT_TRUE(got.GuardIntact());
        }
      }
    }
  }
}

TEST(ScoreConformanceTest, RelativeValues) {
  std::mt19937_64 random(47);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const ScoreShape& shape : kShapes) {
      const ScoreCase c(shape, random);
      std::vector<int32_t> map;
      int64_t table_rows = 0;
      const DistanceRows rows = RandomRows(random, map, &table_rows);
      const std::vector<double> table = Numbers((table_rows + 1) * shape.dim, random);
      for (DType dtype : kFloatTypes) {
        const int64_t size = SizeOf(dtype), elements = shape.rows() * shape.dim;
        Buffer expected(elements * size), got(elements * size);
        const auto task = [&](void* out) -> Task {
          return RelativeValueTask{.shape = shape,
                                   .positions = c.positions,
                                   .rows = rows,
                                   .table = table.data(),
                                   .scores = c.before.data(),
                                   .dtype = dtype,
                                   .out = out};
        };
        ASSERT_TRUE(Reference().Run(task(expected.data()), {0, shape.rows()}, nullptr).ok());
        ASSERT_TRUE(variant.Select().Run(task(got.data()), {0, shape.rows()}, nullptr).ok());
        EXPECT_EQ(got.FirstDifference(expected, 0, elements, size), -1) << variant.name << " " << Name(dtype);
        EXPECT_TRUE(got.GuardIntact());
      }
    }
  }
}

// The lowest finite number of every type stands for a row without keys where a caller asks for it.
TEST(ScoreConformanceTest, LowestFiniteStaysFinite) {
  const double score = std::numeric_limits<double>::lowest();
  float out = 0;
  const ScoreOutputTask task{.shape = {1, 1, 1, 1, 1}, .scores = &score, .dtype = DType::kF32, .out = &out};
  for (const Variant& variant : VariantsUnderTest()) {
    ASSERT_TRUE(variant.Select().Run(Task(task), {0, 1}, nullptr).ok());
    EXPECT_EQ(out, std::numeric_limits<float>::lowest());
  }
}

}  // namespace
}  // namespace phasor
