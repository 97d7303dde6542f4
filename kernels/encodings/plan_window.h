// Plans of biases over windows of an image, and of biases that are learned functions of positions. Part of plan.h.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_WINDOW_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_WINDOW_H_

#include <cstdint>
#include <vector>

#include "kernels/encodings/perceptron.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// Tokens of a window row by row, and the rule that gives two of them their row of a table (WindowBiasSpec).
struct TokenWindow {
  int64_t height = 0;
  int64_t width = 0;
  bool class_token = false;

  constexpr int64_t tokens() const { return height * width + (class_token ? 1 : 0); }
  constexpr int64_t offsets() const { return (2 * height - 1) * (2 * width - 1); }
  constexpr int64_t table_rows() const { return offsets() + (class_token ? 3 : 0); }
  constexpr int64_t row_of(int64_t query, int64_t key) const {
    if (class_token) {
      if (query == 0) return offsets() + (key == 0 ? 2 : 0);
      if (key == 0) return offsets() + 1;
      --query, --key;
    }
    const int64_t dy = query / width - key / width;
    const int64_t dx = query % width - key % width;
    return (dy + height - 1) * (2 * width - 1) + dx + width - 1;
  }
  friend bool operator==(const TokenWindow&, const TokenWindow&) = default;
};

struct WindowBiasPlan {
  TokenWindow window;
  int64_t num_heads = 0;
  WeightRef table;  // [window.table_rows(), num_heads], or none

  int64_t heads() const { return num_heads; }
};

struct ContinuousWindowBiasPlan {
  TokenWindow window;
  int64_t pretrained_height = 0;
  int64_t pretrained_width = 0;
  Perceptron perceptron;           // of two inputs
  std::vector<WeightRef> weights;  // what it was made of

  int64_t heads() const { return perceptron.outputs(); }
};

struct FirePlan {
  double c = 0;
  double threshold = 0;
  double epsilon = 0;
  Perceptron perceptron;  // of one input
  std::vector<WeightRef> weights;

  int64_t heads() const { return perceptron.outputs(); }
};

// A function of q − k.
struct DynamicPositionBiasPlan {
  bool log_distance = false;
  bool layer_norm = false;
  Perceptron perceptron;  // of one input
  std::vector<WeightRef> weights;

  int64_t heads() const { return perceptron.outputs(); }
};

struct ForgettingBiasPlan {
  bool logits = false;
  WeightRef gates;  // [batch, heads, keys] or [heads, keys]

  bool has_batch() const { return gates->shape.size() == 3; }
  int64_t batch() const { return has_batch() ? gates->shape[0] : 1; }
  int64_t heads() const { return gates->shape[gates->shape.size() - 2]; }
  int64_t keys() const { return gates->shape.back(); }
};

struct TupePlan {
  WeightRef q, k;  // [heads, positions, d]
  std::vector<double>
      relative;  // [heads, 2·reach + 1] by distance key − query = −reach … reach, which hold beyond; or empty
  int64_t reach = 0;
  std::vector<double> untied;  // [heads, 2], or empty
  std::vector<WeightRef> weights;
  int64_t num_buckets = 0;  // 0: clipped distances
  int64_t max_distance = 0;

  int64_t heads() const { return q->shape[0]; }
  int64_t query_positions() const { return q->shape[1]; }
  int64_t key_positions() const { return k->shape[1]; }
  int64_t dim() const { return q->shape[2]; }
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_WINDOW_H_
