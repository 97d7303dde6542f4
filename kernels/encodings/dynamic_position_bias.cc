#include <array>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"
#include "kernels/encodings/window_limits.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"log_distance", "feed sign·ln(1 + |q − k|) instead of q − k", "false", "true, false"},
    ParameterCard{"layer_norm", "LayerNorm (ε 1e-5) after every hidden layer, before its SiLU", "false", "true, false"},
    ParameterCard{"weights: w1, b1 … wN, bN", "[width, 1], [width] … [heads, width], [heads]", "required", "N = 2 … 8"},
    ParameterCard{"weights: g1, h1 …", "LayerNorm's scale and shift [width]", "with layer_norm: g required, h 0",
                  "finite numbers"},
};

constexpr Card kCard{
    .title = "Dynamic position bias",
    .summary = "A perceptron of the signed distance gives one bias per head.",
    .formula = "b[h, q, k] = perceptron(q − k)_h, linear layers with SiLU between, none after the last",
    .parameters = kParameters,
    .used_by = "x-transformers DynamicPositionBias, CrossFormer's idea",
    .pitfalls =
        "The distance is query minus key, the opposite of the bias vector's order. It depends on the distance only: a table "
        "of 2·S − 1 values is enough, the vector form.",
    .source = "Wang et al., arXiv 2108.00154; x-transformers",
};

void CheckLayers(const DynamicPositionBiasSpec& s, size_t layers, SpecChecker& check) {
  int64_t inputs = 1;
  for (size_t i = 0; i < layers && check.ok(); ++i) {
    const bool last = i + 1 == layers;
    const Extent outputs = last ? Extent{0, "heads"} : i == 0 ? Extent{0, "width"} : Extent{inputs};
    if (!CheckWeight(check, LayerWeight('w', i), s.w[i], Need::kRequired, {outputs, {inputs}})) return;
    inputs = s.w[i]->shape[0];
    check.InRange(absl::StrCat("weights.", LayerWeight('w', i), ".tensor.shape[0]"), inputs, 1,
                  last ? kMaxHeads : kMaxLayerWidth);
    CheckWeight(check, LayerWeight('b', i), s.b[i], Need::kRequired, {{inputs}});
    if (last || !s.layer_norm) continue;
    CheckWeight(check, LayerWeight('g', i), s.g[i], Need::kRequired, {{inputs}});
    CheckWeight(check, LayerWeight('h', i), s.h[i], Need::kOptional, {{inputs}});
  }
  for (size_t i = s.layer_norm ? layers - 1 : 0; i < s.g.size(); ++i) {
    const std::string_view why = s.layer_norm ? "only hidden layers are normed" : "layer_norm is not set";
    RefuseWeight(check, LayerWeight('g', i), s.g[i], why);
    RefuseWeight(check, LayerWeight('h', i), s.h[i], why);
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  const DynamicPositionBiasSpec& s = std::get<DynamicPositionBiasSpec>(canonical.spec);
  SpecChecker check(&canonical);
  const size_t layers = CountLayers(check, s.w, s.b, 2);
  if (check.ok()) CheckLayers(s, layers, check);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const DynamicPositionBiasSpec& s = std::get<DynamicPositionBiasSpec>(canonical);
  DynamicPositionBiasPlan plan{.log_distance = s.log_distance, .layer_norm = s.layer_norm, .perceptron = {}, .weights = {}};
  plan.perceptron.activation = Activation::kSilu;
  for (size_t i = 0; i < s.w.size() && s.w[i]; ++i) {
    PerceptronLayer layer = MakeLayer(s.w[i], s.b[i]);
    plan.weights.push_back(s.w[i]);
    plan.weights.push_back(s.b[i]);
    if (i < s.g.size() && s.g[i]) {
      layer.gain = s.g[i]->values();
      layer.shift = s.h[i] ? s.h[i]->values() : std::vector<double>(layer.gain.size());
      plan.weights.push_back(s.g[i]);
      plan.weights.push_back(s.h[i]);
    }
    plan.perceptron.layers.push_back(std::move(layer));
  }
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kDynamicPositionBias{"dynamic_position_bias", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
