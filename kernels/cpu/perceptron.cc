#include "kernels/cpu/perceptron.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/perceptron.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/linear-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kMaxPoints = 64;
inline constexpr int64_t kPointsMultiple = 8;  // a multiple of the lanes of every vector

// Points of a block: the numbers between two layers stay in the L1 cache where they can.
inline int64_t PointsPerBlock(const Perceptron& perceptron) {
  constexpr int64_t kBytes = 24 << 10;
  const int64_t points = kBytes / (static_cast<int64_t>(sizeof(double)) * perceptron.width());
  return std::clamp(points / kPointsMultiple * kPointsMultiple, kPointsMultiple, kMaxPoints);
}

// The numbers of a block of points between layers: [width, points] each.
struct Block {
  explicit Block(const Perceptron& perceptron)
      : points(PointsPerBlock(perceptron)),
        x(static_cast<size_t>(perceptron.width() * points)),
        y(static_cast<size_t>(perceptron.width() * points)) {}
  int64_t points;
  std::vector<double> x, y;
};

template <class F>
HWY_INLINE void Each(double* values, int64_t count, F f) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, values + i)), d, values + i);
}

void Activate(Activation activation, double* values, int64_t count) {
  if (activation == Activation::kSilu) {
    Each(values, count, [](auto d, auto v) HWY_ATTR { return Silu(d, v); });
  } else {
    Each(values, count, [](auto d, auto v) HWY_ATTR { return Relu(d, v); });
  }
}

void LayerNorm(const PerceptronLayer& layer, double* y, int64_t points) {
  const hn::ScalableTag<double> d;
  const auto count = hn::Set(d, static_cast<double>(layer.outputs));
  const auto epsilon = hn::Set(d, kLayerNormEpsilon);
  for (int64_t p = 0; p < points; p += static_cast<int64_t>(hn::Lanes(d))) {
    const auto add = [&](auto v, auto sum) HWY_ATTR { return hn::Add(sum, v); };
    const auto mean = hn::Div(SumLanes(d, y + p, layer.outputs, points, add), count);
    const auto add_square = [&](auto v, auto sum) HWY_ATTR {
      const auto difference = hn::Sub(v, mean);
      return FusedMulAdd(d, difference, difference, sum);
    };
    const auto squares = SumLanes(d, y + p, layer.outputs, points, add_square);
    const auto deviation = hn::Sqrt(hn::Add(hn::Div(squares, count), epsilon));
    for (int64_t o = 0; o < layer.outputs; ++o) {
      const auto v = hn::Div(hn::Sub(hn::LoadU(d, y + o * points + p), mean), deviation);
      hn::StoreU(FusedMulAdd(d, v, hn::Set(d, layer.gain[o]), hn::Set(d, layer.shift[o])), d, y + o * points + p);
    }
  }
}

// Outputs [begin, end) of the layer, for every point: y[(o − begin)·points + p].
void Linear(const PerceptronLayer& layer, int64_t begin, int64_t end, const double* x, double* y, int64_t points) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t o = begin; o < end; ++o) {
    const double* weight = layer.weight.data() + o * layer.inputs;
    double* to = y + (o - begin) * points;
    for (int64_t p = 0; p < points; p += lanes) {
      auto sum = DotLanes(d, weight, x + p, layer.inputs, points);
      if (!layer.bias.empty()) sum = hn::Add(sum, hn::Set(d, layer.bias[o]));
      hn::StoreU(sum, d, to + p);
    }
  }
}

// From features in block.x to outputs [first, first + count) in block.y.
void Evaluate(const Perceptron& perceptron, int64_t first, int64_t count, Block& block) {
  for (const PerceptronLayer& layer : perceptron.layers) {
    if (&layer == &perceptron.layers.back()) {
      Linear(layer, first, first + count, block.x.data(), block.y.data(), block.points);
      break;
    }
    Linear(layer, 0, layer.outputs, block.x.data(), block.y.data(), block.points);
    if (!layer.gain.empty()) LayerNorm(layer, block.y.data(), block.points);
    Activate(perceptron.activation, block.y.data(), layer.outputs * block.points);
    std::swap(block.x, block.y);
  }
  if (perceptron.map == OutputMap::kSixteenSigmoid) {
    Each(block.y.data(), count * block.points,
         [](auto d, auto v) HWY_ATTR { return hn::Mul(hn::Set(d, 16.0), Sigmoid(d, v)); });
  }
}

// Head h's first `count` points to out[h·head_stride + at …].
void Store(DType dtype, const Block& block, int64_t heads, int64_t count, void* out, int64_t head_stride, int64_t at) {
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t h = 0; h < heads; ++h) {
      RoundTo(block.y.data() + h * block.points, static_cast<T*>(out) + h * head_stride + at, count);
    }
  });
}

// False when cancelled.
bool PerceptronRange(const PerceptronTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  Block block(*task.perceptron);
  const int64_t inputs = task.perceptron->inputs();
  for (int64_t first = begin; first < end; first += block.points) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    const int64_t count = std::min(block.points, end - first);
    std::fill_n(block.x.begin(), inputs * block.points, 0.0);
    for (int64_t p = 0; p < count; ++p) {
      for (int64_t i = 0; i < inputs; ++i) block.x[i * block.points + p] = task.features[(first + p) * inputs + i];
    }
    Evaluate(*task.perceptron, task.first_head, task.heads, block);
    Store(task.dtype, block, task.heads, count, task.out, task.head_stride, first);
  }
  return true;
}

// The features of a query at `query` and keys at the distances in x, in place.
void PairFeatures(const PairPerceptronTask& task, double query, double* x, int64_t count) {
  switch (task.feature) {
    case PairFeature::kLogDistance:
      Each(x, count, [](auto d, auto v) HWY_ATTR { return hn::CopySign(Log1p(d, hn::Abs(v)), v); });
      break;
    case PairFeature::kFire: {
      const double normalizer = phasor::math::Log1p(task.c * std::max(task.threshold, query)) + task.epsilon;
      Each(x, count, [&](auto d, auto v) HWY_ATTR {
        return hn::Div(Log1p(d, hn::Mul(hn::Set(d, task.c), hn::Abs(v))), hn::Set(d, normalizer));
      });
      break;
    }
    case PairFeature::kDistance:
      break;
  }
}

bool PairPerceptronRange(const PairPerceptronTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  Block block(*task.perceptron);
  const int64_t keys = task.keys();
  for (int64_t row = begin; row < end; ++row) {
    const int64_t query = row / task.blocks();
    const int64_t first_key = row % task.blocks() * PairPerceptronTask::kKeysPerRow;
    const int64_t last_key = std::min(first_key + PairPerceptronTask::kKeysPerRow, keys);
    const int64_t position = task.query_positions[static_cast<size_t>(query)];
    for (int64_t key = first_key; key < last_key; key += block.points) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
      const int64_t count = std::min(block.points, last_key - key);
      double* x = block.x.data();
      for (int64_t p = 0; p < count; ++p) {
        x[p] = static_cast<double>(position - task.key_positions[static_cast<size_t>(key + p)]);
      }
      std::fill(x + count, x + block.points, 0.0);
      PairFeatures(task, static_cast<double>(position), x, block.points);
      Evaluate(*task.perceptron, task.first_head, task.heads, block);
      Store(task.dtype, block, task.heads, count, task.out, task.queries() * keys, query * keys + key);
    }
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(PerceptronRange);
HWY_EXPORT(PairPerceptronRange);

// Products that one core makes in a millisecond on the slowest instruction set, the sums' ends included.
constexpr int64_t kProductsPerSlice = 600000;

int64_t CostOf(const Perceptron& perceptron) {
  int64_t cost = 32;
  for (const PerceptronLayer& layer : perceptron.layers) cost += layer.outputs * (layer.inputs + 16);
  return cost;
}

absl::Status CheckHeads(const Perceptron* perceptron, int64_t first_head, int64_t heads) {
  if (perceptron == nullptr) return absl::InvalidArgumentError("perceptron: must not be null");
  if (first_head < 0 || heads < 0 || first_head + heads > perceptron->outputs()) {
    return absl::InvalidArgumentError("perceptron: heads outside its outputs");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPerceptron(const PerceptronTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckHeads(task.perceptron, task.first_head, task.heads); !status.ok()) return status;
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (rows.begin < 0 || task.features == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("perceptron: features and out must not be null, rows not below 0");
  }
  const bool done = HWY_DYNAMIC_DISPATCH(PerceptronRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("perceptron: cancelled");
}

absl::Status RunPerceptron(const PairPerceptronTask& task, RowRange rows, const CancelFlag* cancel) {
  if (auto status = CheckHeads(task.perceptron, task.first_head, task.heads); !status.ok()) return status;
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (rows.begin < 0 || rows.end > task.queries() * task.blocks() || task.out == nullptr || task.perceptron->inputs() != 1) {
    return absl::InvalidArgumentError("perceptron of pairs: one input, an output, and rows in [0, queries·blocks)");
  }
  const bool done = HWY_DYNAMIC_DISPATCH(PairPerceptronRange)(task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("perceptron of pairs: cancelled");
}

int64_t PerceptronRowsPerSlice(const PerceptronTask& task) {
  return std::max<int64_t>(1, kProductsPerSlice / CostOf(*task.perceptron));
}

int64_t PerceptronRowsPerSlice(const PairPerceptronTask& task) {
  const int64_t keys = std::max<int64_t>(1, std::min(task.keys(), PairPerceptronTask::kKeysPerRow));
  return std::max<int64_t>(1, kProductsPerSlice / (CostOf(*task.perceptron) * keys));
}

}  // namespace phasor
#endif  // HWY_ONCE
