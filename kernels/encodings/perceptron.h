// Small perceptrons: what learned functions of positions are made of. Numbers only; backends run them.
#ifndef PHASOR_KERNELS_ENCODINGS_PERCEPTRON_H_
#define PHASOR_KERNELS_ENCODINGS_PERCEPTRON_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace phasor {

// y_o = Σ_i weight[o, i]·x_i (FixedDot, sum.h), + bias[o]. Where gain is not empty, LayerNorm over the y: with
// m = Σ y_o/n and v = Σ (y_o − m)²/n (FixedSum, the products not rounded by themselves), y_o becomes
// fma((y_o − m)/√(v + 1e-5), gain[o], shift[o]).
struct PerceptronLayer {
  int64_t inputs = 0;
  int64_t outputs = 0;
  std::vector<double> weight;  // [outputs, inputs]
  std::vector<double> bias;    // [outputs], or empty: nothing is added
  std::vector<double> gain;    // [outputs], or empty: no LayerNorm
  std::vector<double> shift;   // as gain
};
inline constexpr double kLayerNormEpsilon = 1e-5;

enum class Activation : uint8_t { kRelu = 1, kSilu = 2 };
enum class OutputMap : uint8_t { kIdentity = 1, kSixteenSigmoid = 2 };

// Layers one after the other, all in f64, the activation after each but the last, the map after the last.
struct Perceptron {
  std::vector<PerceptronLayer> layers;  // at least one; each one's inputs are the outputs of the one before
  Activation activation = Activation::kRelu;
  OutputMap map = OutputMap::kIdentity;

  int64_t inputs() const { return layers.front().inputs; }
  int64_t outputs() const { return layers.back().outputs; }
  // Widest row of numbers between layers, the ends included.
  int64_t width() const {
    int64_t widest = inputs();
    for (const PerceptronLayer& layer : layers) widest = std::max(widest, layer.outputs);
    return widest;
  }
  // Products for one point.
  int64_t products() const {
    int64_t count = 0;
    for (const PerceptronLayer& layer : layers) count += layer.inputs * layer.outputs;
    return count;
  }
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PERCEPTRON_H_
