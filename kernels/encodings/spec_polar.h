// Rotary embeddings that do more than turn pairs: PoPE and FoPE. Part of spec.h.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_POLAR_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_POLAR_H_

#include <cstdint>
#include <optional>

#include "kernels/encodings/weight.h"

namespace phasor {

// Polar embedding (x-transformers PolarEmbedding): every channel has an angle φ = position·base^(−i/head_dim) of its own. A
// query becomes softplus(q)·[cos φ, sin φ], a key softplus(k)·[cos(φ + δ), sin(φ + δ)]: twice as wide, all cosines first.
struct PopeSpec {
  int64_t head_dim = 0;        // 1 … 65536
  std::optional<double> base;  // default 10000
  WeightRef delta;             // δ, [head_dim] or [key heads, head_dim]; values are clamped to [−2π, 0]; absent: 0
  friend bool operator==(const PopeSpec&, const PopeSpec&) = default;
};

// Fourier position embedding (arXiv 2412.17739): frequencies not above 2π/training_length are dropped, and the cosines and
// sines of the others are mixed, cos'_d = Σ_j cos_j·cos_coef[h, j, d], sin likewise. Pairs beyond the outputs stand still.
// Half-split pairs.
struct FopeSpec {
  int64_t head_dim = 0;  // even, 2 … 65536
  int64_t training_length = 0;
  std::optional<double> base;  // default 10000
  WeightRef cos_coef;          // [key-value heads, kept frequencies, outputs]
  WeightRef sin_coef;          // likewise
  friend bool operator==(const FopeSpec&, const FopeSpec&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_POLAR_H_
