// Biases of windows and learned functions of positions, one number at a time.
#include <algorithm>
#include <cmath>

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sum.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

void StoreRounded(void* out, int64_t index, DType dtype, double value) {
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    StoreBits(out, index, sizeof(T), BitsOf(Narrow<T>(value)));
  });
}

void LayerNorm(const PerceptronLayer& layer, std::vector<double>& y) {
  const double count = static_cast<double>(layer.outputs);
  FixedSum sum, squares;
  for (int64_t o = 0; o < layer.outputs; ++o) sum.Add(o, y[o]);
  const double mean = sum.Total() / count;
  for (int64_t o = 0; o < layer.outputs; ++o) squares.AddProduct(o, y[o] - mean, y[o] - mean);
  const double deviation = std::sqrt(squares.Total() / count + kLayerNormEpsilon);
  for (int64_t o = 0; o < layer.outputs; ++o) {
    y[o] = std::fma((y[o] - mean) / deviation, layer.gain[o], layer.shift[o]);
  }
}

std::vector<double> Outputs(const Perceptron& perceptron, std::vector<double> x) {
  for (const PerceptronLayer& layer : perceptron.layers) {
    std::vector<double> y(static_cast<size_t>(layer.outputs));
    for (int64_t o = 0; o < layer.outputs; ++o) {
      y[o] = FixedDot(&layer.weight[o * layer.inputs], x.data(), layer.inputs);
      if (!layer.bias.empty()) y[o] += layer.bias[o];
    }
    if (!layer.gain.empty()) LayerNorm(layer, y);
    const bool last = &layer == &perceptron.layers.back();
    for (double& v : y) {
      if (!last) v = perceptron.activation == Activation::kRelu ? math::Relu(v) : math::Silu(v);
      if (last && perceptron.map == OutputMap::kSixteenSigmoid) v = 16 * math::Sigmoid(v);
    }
    x = std::move(y);
  }
  return x;
}

double FeatureOf(const PairPerceptronTask& task, int64_t query, int64_t key) {
  const double distance = static_cast<double>(query - key);
  switch (task.feature) {
    case PairFeature::kLogDistance:
      return std::copysign(math::Log1p(std::fabs(distance)), distance);
    case PairFeature::kFire: {
      const double normalizer = math::Log1p(task.c * std::max(task.threshold, static_cast<double>(query)));
      return math::Log1p(task.c * std::fabs(distance)) / (normalizer + task.epsilon);
    }
    default:
      return distance;
  }
}

}  // namespace

absl::Status RunRow(const WindowTask& task, int64_t row) {
  if (task.table == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("window bias without a table or an output");
  }
  const int64_t tokens = task.window.tokens();
  const int64_t head = row / tokens;
  for (int64_t key = 0; key < tokens; ++key) {
    const int64_t from = head * task.table_stride + task.window.row_of(row % tokens, key);
    StoreBits(task.out, row * tokens + key, task.element_size, LoadBits(task.table, from, task.element_size));
  }
  return absl::OkStatus();
}

absl::Status RunRow(const PerceptronTask& task, int64_t row) {
  if (task.features == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("perceptron without features or an output");
  }
  const double* x = task.features + row * task.perceptron->inputs();
  const std::vector<double> y = Outputs(*task.perceptron, {x, x + task.perceptron->inputs()});
  for (int64_t h = 0; h < task.heads; ++h) {
    StoreRounded(task.out, h * task.head_stride + row, task.dtype, y[task.first_head + h]);
  }
  return absl::OkStatus();
}

absl::Status RunRow(const PairPerceptronTask& task, int64_t row) {
  if (task.out == nullptr) return absl::InvalidArgumentError("perceptron of pairs without an output");
  const int64_t query = row / task.blocks();
  const int64_t first = row % task.blocks() * PairPerceptronTask::kKeysPerRow;
  const int64_t last = std::min(first + PairPerceptronTask::kKeysPerRow, task.keys());
  for (int64_t key = first; key < last; ++key) {
    const double x = FeatureOf(task, task.query_positions[query], task.key_positions[key]);
    const std::vector<double> y = Outputs(*task.perceptron, {x});
    for (int64_t h = 0; h < task.heads; ++h) {
      StoreRounded(task.out, (h * task.queries() + query) * task.keys() + key, task.dtype, y[task.first_head + h]);
    }
  }
  return absl::OkStatus();
}

absl::Status RunRow(const SumDifferenceTask& task, int64_t row) {
  if (task.out == nullptr) return absl::InvalidArgumentError("differences of sums without an output");
  const int64_t head = row / task.queries;
  const int64_t query = row % task.queries;
  for (int64_t key = 0; key < task.keys; ++key) {
    const int64_t from = head * task.keys + key;
    double value = 0;
    if (task.key_positions[key] <= task.query_positions[query]) {
      value = (task.query_hi[row] - task.key_hi[from]) + (task.query_lo[row] - task.key_lo[from]);
    }
    StoreRounded(task.out, row * task.keys + key, task.dtype, value);
  }
  return absl::OkStatus();
}

absl::Status RunRow(const PositionProductTask& task, int64_t row) {
  if (task.out == nullptr) return absl::InvalidArgumentError("products of positions without an output");
  const int64_t head = row / task.queries;
  const int64_t query_position = task.query_positions[row % task.queries];
  for (int64_t key = 0; key < task.keys; ++key) {
    FixedSum dot;
    for (int64_t i = 0; i < task.dim; ++i) {
      dot.AddProduct(i, task.q[row * task.dim + i], task.k[(head * task.dim + i) * task.key_stride + key]);
    }
    double value = dot.Total() / task.divisor;
    if (task.relative != nullptr) {
      const int64_t distance = std::clamp(task.key_positions[key] - query_position, -task.reach, task.reach);
      value += task.relative[head * (2 * task.reach + 1) + distance + task.reach];
    }
    if (task.untied != nullptr && query_position == 0) {
      value = task.untied[2 * head];
    } else if (task.untied != nullptr && task.key_positions[key] == 0) {
      value = task.untied[2 * head + 1];
    }
    StoreRounded(task.out, row * task.keys + key, task.dtype, value);
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
