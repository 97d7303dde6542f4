// Checks of the weights of a spec, for schemes' canonicalize.
#ifndef PHASOR_KERNELS_ENCODINGS_WEIGHT_CHECK_H_
#define PHASOR_KERNELS_ENCODINGS_WEIGHT_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// One extent of a shape that a weight must have.
struct Extent {
  int64_t size = 0;            // 0: any
  std::string_view name = {};  // for messages where any does: "heads"
};

enum class Need : uint8_t { kRequired, kOptional };

// Fails unless the weight is there (or may be missing), has the shape, and holds finite numbers only. Paths: "weights" where
// it is missing, else "weights.NAME.tensor.shape" and "weights.NAME.tensor"; whoever knows the weight's place in a message
// puts it in place of the name. True when it is there and good.
bool CheckWeight(SpecChecker& check, std::string_view name, const WeightRef& weight, Need need,
                 std::initializer_list<Extent> shape);

// Fails when a weight is there that nothing would read; `why` ends the sentence "no NAME: …".
void RefuseWeight(SpecChecker& check, std::string_view name, const WeightRef& weight, std::string_view why);

// Name of a layer's weight: "w1" is that of ('w', 0).
std::string LayerWeight(char kind, size_t layer);

// Layers of a perceptron, whose matrices and biases stand in arrays of one size: as many as w are given, from the first one
// on. Fails on gaps, on fewer than `least`, and on a bias of no layer.
size_t CountLayers(SpecChecker& check, std::span<const WeightRef> w, std::span<const WeightRef> b, size_t least);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_WEIGHT_CHECK_H_
