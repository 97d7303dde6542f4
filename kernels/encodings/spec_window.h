// Biases over windows of an image, and biases that are learned functions of positions. Part of spec.h.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_WINDOW_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_WINDOW_H_

#include <array>
#include <cstdint>
#include <optional>

#include "kernels/encodings/weight.h"

namespace phasor {

// Swin (arXiv 2103.14030): b[h, i, j] = table[(Δy + Wh − 1)·(2·Ww − 1) + Δx + Ww − 1, h], Δ = coordinates of i − coordinates
// of j, tokens row by row. With class token (BEiT, Data2VecVision) token 0 is the class token and three more rows follow:
// class → token, token → class, class → class.
struct WindowBiasSpec {
  int64_t window_height = 0;  // 1 … 4096
  int64_t window_width = 0;   // 1 … 4096
  int64_t num_heads = 0;      // default: the table's; needed without one
  bool class_token = false;
  WeightRef table;  // [(2·Wh − 1)·(2·Ww − 1) (+ 3), heads]; without it there are only indices
  friend bool operator==(const WindowBiasSpec&, const WindowBiasSpec&) = default;
};

// Swin v2 (arXiv 2111.09883): b = 16·σ(w2·relu(w1·f + b1)), f = sign(c)·log2(1 + 8·|c|)/3 per axis, c = Δ/(pretrained − 1).
struct ContinuousWindowBiasSpec {
  int64_t window_height = 0;      // 1 … 4096
  int64_t window_width = 0;       // 1 … 4096
  int64_t pretrained_height = 0;  // default: window_height; 1 only where that is 1
  int64_t pretrained_width = 0;   // default: window_width; 1 only where that is 1
  WeightRef w1, b1, w2;           // [hidden, 2], [hidden], [heads, hidden]
  friend bool operator==(const ContinuousWindowBiasSpec&, const ContinuousWindowBiasSpec&) = default;
};

// FIRE (arXiv 2310.04418): b[h, q, k] = w2·relu(w1·x + b1) + b2, x = ln(1 + c·|q − k|)/(ln(1 + c·max(L, q)) + ε).
struct FireSpec {
  std::optional<double> c;          // default 0.1
  std::optional<double> threshold;  // L, default 512
  std::optional<double> epsilon;    // default 1e-6
  WeightRef w1, b1, w2, b2;         // [width, 1], [width], [heads, width], [heads]
  friend bool operator==(const FireSpec&, const FireSpec&) = default;
};

// x-transformers' DynamicPositionBias: a perceptron of q − k with SiLU between its N layers.
struct DynamicPositionBiasSpec {
  static constexpr int kMaxLayers = 8;
  bool log_distance = false;  // of sign·ln(1 + |q − k|) instead
  bool layer_norm = false;    // LayerNorm (ε 1e-5) after every hidden layer, before its SiLU
  // w[0] [width, 1], w[i] [width, width], w[N − 1] [heads, width], N = 2 … 8 of them; b likewise.
  std::array<WeightRef, kMaxLayers> w, b;
  // LayerNorm's scale and shift [width], of the hidden layers; a shift that is missing is 0.
  std::array<WeightRef, kMaxLayers - 1> g, h;
  friend bool operator==(const DynamicPositionBiasSpec&, const DynamicPositionBiasSpec&) = default;
};

// Forgetting attention, data-dependent ALiBi: b[b, h, q, k] = Σ_{j = k+1}^{q} g[b, h, j] for k ≤ q, 0 beyond.
struct ForgettingBiasSpec {
  bool logits = false;  // the gates are f, and g = log σ(f)
  WeightRef gates;      // [batch, heads, keys] or [heads, keys]
  friend bool operator==(const ForgettingBiasSpec&, const ForgettingBiasSpec&) = default;
};

// TUPE (arXiv 2006.15595): b[h, i, j] = (q[h, i]·k[h, j])/√(2·d) + bias[j − i]. Untied: where i = 0 the whole of it is
// untied[h, 0], else where j = 0 untied[h, 1].
struct TupeSpec {
  std::optional<int64_t> num_buckets;   // T5's bidirectional buckets; default: clipped distances
  std::optional<int64_t> max_distance;  // of the buckets; default 128
  WeightRef q, k;                       // [heads, positions, d] each
  WeightRef bias;                       // [num_buckets, heads], or by distance [heads, 2·max − 1]; may be missing
  WeightRef untied;                     // [heads, 2]; may be missing
  friend bool operator==(const TupeSpec&, const TupeSpec&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_WINDOW_H_
