// What the schemes over windows share.
#ifndef PHASOR_KERNELS_ENCODINGS_WINDOW_LIMITS_H_
#define PHASOR_KERNELS_ENCODINGS_WINDOW_LIMITS_H_

#include <cstdint>
#include <vector>

#include "kernels/encodings/perceptron.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// Longest side of a window, tokens.
inline constexpr int64_t kMaxWindow = 4096;
// Widest layer of a perceptron.
inline constexpr int64_t kMaxLayerWidth = 65536;

// A layer made of weights [outputs, inputs] and, where given, [outputs].
inline PerceptronLayer MakeLayer(const WeightRef& weight, const WeightRef& bias) {
  PerceptronLayer layer;
  layer.outputs = weight->shape[0];
  layer.inputs = weight->shape[1];
  layer.weight = weight->values();
  if (bias) layer.bias = bias->values();
  return layer;
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_WINDOW_LIMITS_H_
