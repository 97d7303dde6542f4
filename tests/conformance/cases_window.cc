// Cases of biases over windows and of learned functions of positions. Their weights follow a fixed rule.
#include <cmath>
#include <string>
#include <utility>

#include "tests/conformance/cases.h"

namespace phasor {
namespace {

// Numbers in [−scale, scale), exact in every float type but for the 16-bit ones.
WeightRef Numbers(uint64_t seed, std::vector<int64_t> shape, double scale = 1) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::vector<double> values(static_cast<size_t>(count));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = scale * std::ldexp(static_cast<double>(static_cast<int64_t>(state) >> 43), -20);
  }
  return MakeWeight(std::move(shape), values);
}

WindowBiasSpec Window(int64_t height, int64_t width, bool class_token, int64_t heads) {
  const int64_t rows = (2 * height - 1) * (2 * width - 1) + (class_token ? 3 : 0);
  return {.window_height = height,
          .window_width = width,
          .num_heads = heads,
          .class_token = class_token,
          .table = Numbers(1, {rows, heads})};
}

ContinuousWindowBiasSpec Continuous(int64_t height, int64_t width, int64_t pretrained, int64_t heads, int64_t hidden) {
  return {.window_height = height,
          .window_width = width,
          .pretrained_height = pretrained,
          .pretrained_width = pretrained,
          .w1 = Numbers(2, {hidden, 2}),
          .b1 = Numbers(3, {hidden}),
          .w2 = Numbers(4, {heads, hidden}, 0.25)};
}

FireSpec Fire(int64_t width, int64_t heads) {
  return {.c = {},
          .threshold = {},
          .epsilon = {},
          .w1 = Numbers(5, {width, 1}),
          .b1 = Numbers(6, {width}),
          .w2 = Numbers(7, {heads, width}),
          .b2 = Numbers(8, {heads})};
}

DynamicPositionBiasSpec Dynamic(size_t layers, int64_t width, int64_t heads, bool log_distance, bool layer_norm) {
  DynamicPositionBiasSpec s{.log_distance = log_distance, .layer_norm = layer_norm, .w = {}, .b = {}, .g = {}, .h = {}};
  for (size_t i = 0; i < layers; ++i) {
    const int64_t outputs = i + 1 == layers ? heads : width;
    s.w[i] = Numbers(10 + i, {outputs, i == 0 ? 1 : width}, 0.5);
    s.b[i] = Numbers(20 + i, {outputs});
    if (layer_norm && i + 1 < layers) {
      s.g[i] = Numbers(30 + i, {width});
      if (i > 0) s.h[i] = Numbers(40 + i, {width});
    }
  }
  return s;
}

TupeSpec Tupe(int64_t heads, int64_t positions, int64_t dim, std::optional<int64_t> num_buckets, bool untied) {
  TupeSpec s{.num_buckets = num_buckets,
             .max_distance = {},
             .q = Numbers(50, {heads, positions, dim}),
             .k = Numbers(51, {heads, positions, dim}),
             .bias = num_buckets ? Numbers(52, {*num_buckets, heads}) : Numbers(52, {heads, 2 * 9 - 1}),
             .untied = {}};
  if (untied) s.untied = Numbers(53, {heads, 2});
  return s;
}

}  // namespace

void AppendWindowCases(std::vector<Case>& cases) {
  cases.push_back({"window_bias/swin-tiny-stage-1", Window(7, 7, false, 3), {}});
  cases.push_back({"window_bias/swin-window-12", Window(12, 12, false, 4), {}});
  cases.push_back({"window_bias/beit-base", Window(14, 14, true, 12), {}});
  cases.push_back({"window_bias/rectangle-class-token", Window(2, 5, true, 3), {}});
  cases.push_back({"window_bias/one-row", Window(1, 33, false, 2), {}});
  cases.push_back({"window_bias/one-token", Window(1, 1, false, 1), {}});
  cases.push_back({"continuous_window_bias/swinv2-tiny", Continuous(8, 8, 0, 3, 512), {}});
  cases.push_back({"continuous_window_bias/larger-than-trained", Continuous(6, 7, 4, 5, 33), {}});
  cases.push_back({"fire/width-32", Fire(32, 12), {}});
  cases.push_back({"fire/odd-width", Fire(7, 3), {}});
  cases.push_back({"dynamic_position_bias/depth-2", Dynamic(2, 32, 8, false, false), {}});
  cases.push_back({"dynamic_position_bias/depth-4-log-norm", Dynamic(4, 19, 3, true, true), {}});
  cases.push_back({"dynamic_position_bias/depth-8", Dynamic(8, 8, 1, true, false), {}});
  cases.push_back({"forgetting_bias/logits", ForgettingBiasSpec{.logits = true, .gates = Numbers(60, {3, 300}, 4)}, {}});
  cases.push_back({"forgetting_bias/batch", ForgettingBiasSpec{.logits = false, .gates = Numbers(61, {2, 3, 130})}, {}});
  cases.push_back({"tupe/clipped-untied", Tupe(3, 130, 33, {}, true), {}});
  cases.push_back({"tupe/buckets", Tupe(2, 150, 64, 32, false), {}});
}

}  // namespace phasor
