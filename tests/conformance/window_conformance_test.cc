// Tables gathered by window rules, perceptrons of positions, products of positions and differences of sums, bit for bit
// against the reference, and in any cut of the rows.
#include <cmath>
#include <random>

#include "tests/conformance/window_cases.h"

namespace phasor {
namespace {

const Backend& Reference() {
  static const std::unique_ptr<Backend> reference = *CreateBackend("reference");
  return *reference;
}

double Uniform(std::mt19937_64& random) { return std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63); }

std::vector<double> Numbers(int64_t count, std::mt19937_64& random, double scale = 1) {
  std::vector<double> numbers(static_cast<size_t>(count));
  for (double& number : numbers) number = scale * Uniform(random);
  return numbers;
}

// Runs `make(out)` in two pieces on the candidate and whole on the reference; `elements` of `size` bytes must agree.
template <typename Make>
void Compare(const Variant& variant, int64_t rows, int64_t elements, int64_t size, std::mt19937_64& random, Make make) {
  Buffer expected(elements * size), got(elements * size);
  ASSERT_TRUE(Reference().Run(make(expected.data()), {0, rows}, nullptr).ok());
  const int64_t cut = rows == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint64_t>(rows + 1));
  const Task task = make(got.data());
  const Backend& backend = variant.Select();
  ASSERT_TRUE(backend.Run(task, {cut, rows}, nullptr).ok());
  ASSERT_TRUE(backend.Run(task, {0, cut}, nullptr).ok());
  EXPECT_EQ(got.FirstDifference(expected, 0, elements, size), -1) << variant.name << ", element size " << size;
  EXPECT_TRUE(got.GuardIntact());
  EXPECT_GE(RowsPerSlice(task), 1);
}

TEST(WindowConformanceTest, GatheredTables) {
  std::mt19937_64 random(31);
  for (const Variant& variant : VariantsUnderTest()) {
    for (const TokenWindow& window : kTestedWindows) {
      for (int64_t size : {2, 4, 8}) {
        for (StoreHint hint : {StoreHint::kKeep, StoreHint::kReadNext}) {
          const WindowCase c(window, size, random);
          SCOPED_TRACE(testing::Message() << window.height << "x" << window.width << (window.class_token ? "+1" : ""));
          Compare(variant, c.rows(), c.elements(), size, random, [&](void* out) -> Task { return c.TaskTo(out, hint); });
        }
      }
    }
  }
}

Perceptron RandomPerceptron(std::vector<int64_t> widths, Activation activation, bool layer_norm, OutputMap map,
                            std::mt19937_64& random) {
  Perceptron perceptron{.layers = {}, .activation = activation, .map = map};
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    PerceptronLayer layer{.inputs = widths[i], .outputs = widths[i + 1], .weight = {}, .bias = {}, .gain = {}, .shift = {}};
    layer.weight = Numbers(layer.inputs * layer.outputs, random);
    if (random() % 4 != 0) layer.bias = Numbers(layer.outputs, random);
    if (layer_norm && i + 2 < widths.size()) {
      layer.gain = Numbers(layer.outputs, random);
      layer.shift = Numbers(layer.outputs, random);
    }
    perceptron.layers.push_back(std::move(layer));
  }
  return perceptron;
}

TEST(WindowConformanceTest, Perceptrons) {
  std::mt19937_64 random(32);
  const std::vector<std::vector<int64_t>> shapes = {
      {2, 512, 3}, {1, 32, 12}, {1, 1, 1}, {3, 17, 5}, {1, 16, 16, 15, 2}, {2, 33, 31, 7}, {1, 5, 5, 5, 5, 5, 5, 5, 4}};
  for (const Variant& variant : VariantsUnderTest()) {
    for (const auto& shape : shapes) {
      for (DType dtype : kFloatTypes) {
        const int flags = static_cast<int>(random() % 8);
        const Perceptron perceptron =
            RandomPerceptron(shape, flags % 2 == 0 ? Activation::kRelu : Activation::kSilu, flags / 2 % 2 == 0,
                             flags / 4 == 0 ? OutputMap::kIdentity : OutputMap::kSixteenSigmoid, random);
        const int64_t points = 1 + static_cast<int64_t>(random() % 150);
        const int64_t first = static_cast<int64_t>(random() % static_cast<uint64_t>(shape.back()));
        const int64_t heads = shape.back() - first;
        const int64_t stride = points + 3;
        const std::vector<double> features = Numbers(points * shape.front(), random, 40);
        Compare(variant, points, heads * stride, SizeOf(dtype), random, [&](void* out) -> Task {
          return PerceptronTask{.perceptron = &perceptron,
                                .dtype = dtype,
                                .features = features.data(),
                                .first_head = first,
                                .heads = heads,
                                .out = out,
                                .head_stride = stride};
        });
      }
    }
  }
}

std::vector<int64_t> Positions(int64_t count, std::mt19937_64& random) {
  std::vector<int64_t> positions(static_cast<size_t>(count));
  const bool ordered = random() % 2 == 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    positions[i] = ordered ? static_cast<int64_t>(i) : static_cast<int64_t>(random() % 40);
  }
  return positions;
}

TEST(WindowConformanceTest, PerceptronsOfPairs) {
  std::mt19937_64 random(33);
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType dtype : kFloatTypes) {
      for (PairFeature feature : {PairFeature::kDistance, PairFeature::kLogDistance, PairFeature::kFire}) {
        for (int64_t keys : {1, 7, 65, 1030}) {
          const Perceptron perceptron = RandomPerceptron({1, 9, 3}, Activation::kRelu, false, OutputMap::kIdentity, random);
          std::vector<int64_t> query_positions = Positions(keys > 1000 ? 2 : 5, random);
          std::vector<int64_t> key_positions = Positions(keys, random);
          query_positions[0] = (int64_t{1} << 31) - 1;
          key_positions[0] = -(int64_t{1} << 31) + 1;
          const int64_t queries = static_cast<int64_t>(query_positions.size());
          const int64_t rows = queries * ((keys + 1023) / 1024);
          Compare(variant, rows, 2 * queries * keys, SizeOf(dtype), random, [&](void* out) -> Task {
            return PairPerceptronTask{.perceptron = &perceptron,
                                      .dtype = dtype,
                                      .feature = feature,
                                      .c = 0.1,
                                      .threshold = 20.5,
                                      .epsilon = 1e-6,
                                      .query_positions = query_positions,
                                      .key_positions = key_positions,
                                      .first_head = 1,
                                      .heads = 2,
                                      .out = out};
          });
        }
      }
    }
  }
}

TEST(WindowConformanceTest, DifferencesOfSums) {
  std::mt19937_64 random(34);
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType dtype : kFloatTypes) {
      for (int64_t keys : {1, 2, 8, 63, 64, 65, 130}) {
        const int64_t heads = 2, queries = 3;
        const auto query_hi = Numbers(heads * queries, random, 100), query_lo = Numbers(heads * queries, random, 1e-15);
        const auto key_hi = Numbers(heads * keys, random, 100), key_lo = Numbers(heads * keys, random, 1e-15);
        std::vector<double> query_positions, key_positions;
        for (int64_t p : Positions(queries, random)) query_positions.push_back(static_cast<double>(p));
        for (int64_t p : Positions(keys, random)) key_positions.push_back(static_cast<double>(p));
        Compare(variant, heads * queries, heads * queries * keys, SizeOf(dtype), random, [&](void* out) -> Task {
          return SumDifferenceTask{.dtype = dtype,
                                   .heads = heads,
                                   .queries = queries,
                                   .keys = keys,
                                   .query_hi = query_hi.data(),
                                   .query_lo = query_lo.data(),
                                   .key_hi = key_hi.data(),
                                   .key_lo = key_lo.data(),
                                   .query_positions = query_positions.data(),
                                   .key_positions = key_positions.data(),
                                   .out = out};
        });
      }
    }
  }
}

TEST(WindowConformanceTest, ProductsOfPositions) {
  std::mt19937_64 random(35);
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType dtype : kFloatTypes) {
      for (int64_t keys : {1, 7, 64, 77}) {
        for (int64_t dim : {1, 3, 16, 33, 64}) {
          const int64_t heads = 2, queries = 5, reach = 4, stride = (keys + 7) / 8 * 8 + 8;
          const auto q = Numbers(heads * queries * dim, random), k = Numbers(heads * dim * stride, random);
          const auto relative = Numbers(heads * (2 * reach + 1), random), untied = Numbers(2 * heads, random);
          std::vector<int64_t> query_positions = Positions(queries, random), key_positions = Positions(keys, random);
          const bool has_relative = random() % 2 == 0, has_untied = random() % 2 == 0;
          Compare(variant, heads * queries, heads * queries * keys, SizeOf(dtype), random, [&](void* out) -> Task {
            return PositionProductTask{.dtype = dtype,
                                       .heads = heads,
                                       .queries = queries,
                                       .keys = keys,
                                       .dim = dim,
                                       .q = q.data(),
                                       .k = k.data(),
                                       .key_stride = stride,
                                       .divisor = 11.3,
                                       .relative = has_relative ? relative.data() : nullptr,
                                       .reach = reach,
                                       .query_positions = query_positions.data(),
                                       .key_positions = key_positions.data(),
                                       .untied = has_untied ? untied.data() : nullptr,
                                       .out = out};
          });
        }
      }
    }
  }
}

TEST(WindowConformanceTest, RefusesWhatCannotBeRun) {
  const Perceptron perceptron{.layers = {{.inputs = 1, .outputs = 1, .weight = {1}, .bias = {}, .gain = {}, .shift = {}}}};
  const Task tasks[] = {WindowTask{.window = {2, 2, false}, .heads = 1},
                        PerceptronTask{.perceptron = &perceptron, .heads = 1},
                        SumDifferenceTask{.heads = 1, .queries = 1, .keys = 1},
                        PositionProductTask{.heads = 1, .queries = 1, .keys = 1, .key_stride = 8}};
  for (const Variant& variant : VariantsUnderTest()) {
    for (const Task& task : tasks) {
      EXPECT_EQ(variant.Select().Run(task, {0, 1}, nullptr).code(), absl::StatusCode::kInvalidArgument) << task.index();
      EXPECT_EQ(Reference().Run(task, {0, 1}, nullptr).code(), absl::StatusCode::kInvalidArgument) << task.index();
    }
  }
}

TEST(WindowConformanceTest, StopsWhenCancelled) {
  const CancelFlag cancel(true);
  const std::vector<uint32_t> table(9);
  std::vector<uint32_t> out(16);
  const WindowTask task{.window = {2, 2, false}, .heads = 1, .table = table.data(), .table_stride = 9, .out = out.data()};
  for (const Variant& variant : VariantsUnderTest()) {
    EXPECT_EQ(variant.Select().Run(task, {0, 4}, &cancel).code(), absl::StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace phasor
