#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"
#include "kernels/encodings/window_limits.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"window_height", "Wh, tokens", "required", "1 … 4096"},
    ParameterCard{"window_width", "Ww, tokens", "required", "1 … 4096"},
    ParameterCard{"pretrained_height", "window height of the pre-training, tokens", "window_height", "1 … 4096"},
    ParameterCard{"pretrained_width", "window width of the pre-training, tokens", "window_width", "1 … 4096"},
    ParameterCard{"weights: w1, b1, w2", "[hidden, 2], [hidden], [heads, hidden]", "required", "finite numbers"},
};

constexpr Card kCard{
    .title = "Continuous window bias (Swin v2)",
    .summary =
        "A small perceptron of the log-spaced offset between two tokens of a window, squashed to 0 … 16: it carries over to "
        "windows that the model was not trained on.",
    .formula =
        "c = Δ/(pretrained − 1) per axis, f = sign(c)·log2(1 + 8·|c|)/3; b = 16·σ(w2·relu(w1·f + b1)), Δ = coordinates of "
        "query − coordinates of key",
    .parameters = kParameters,
    .used_by = "Swin v2 (window_size, pretrained_window_sizes; 0 there means the window itself)",
    .pitfalls =
        "The offset is divided by the pre-training window minus 1, not by the current one. The last layer has no bias, and "
        "the result is 16 times a sigmoid. It goes with cosine attention and a clamped logit scale; transformers adds the "
        "shift mask twice, which does no harm at −100.",
    .source = "Liu et al., arXiv 2111.09883; transformers models/swinv2",
};

// A pre-training side of 1 has no offsets to divide by.
void CheckPretrained(SpecChecker& check, std::string_view field, int64_t window, int64_t* pretrained) {
  if (*pretrained == 0) *pretrained = window;
  check.InRange(field, *pretrained, window > 1 ? 2 : 1, kMaxWindow);
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  ContinuousWindowBiasSpec& s = std::get<ContinuousWindowBiasSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("continuous_window_bias.window_height", s.window_height, 1, kMaxWindow);
  check.InRange("continuous_window_bias.window_width", s.window_width, 1, kMaxWindow);
  CheckPretrained(check, "continuous_window_bias.pretrained_height", s.window_height, &s.pretrained_height);
  CheckPretrained(check, "continuous_window_bias.pretrained_width", s.window_width, &s.pretrained_width);
  if (CheckWeight(check, "w1", s.w1, Need::kRequired, {{0, "hidden"}, {2}})) {
    const int64_t hidden = s.w1->shape[0];
    check.InRange("weights.w1.tensor.shape[0]", hidden, 1, kMaxLayerWidth);
    CheckWeight(check, "b1", s.b1, Need::kRequired, {{hidden}});
    if (CheckWeight(check, "w2", s.w2, Need::kRequired, {{0, "heads"}, {hidden}})) {
      check.InRange("weights.w2.tensor.shape[0]", s.w2->shape[0], 1, kMaxHeads);
    }
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const ContinuousWindowBiasSpec& s = std::get<ContinuousWindowBiasSpec>(canonical);
  ContinuousWindowBiasPlan plan{.window = {s.window_height, s.window_width, false},
                                .pretrained_height = s.pretrained_height,
                                .pretrained_width = s.pretrained_width,
                                .perceptron = {},
                                .weights = {s.w1, s.b1, s.w2}};
  plan.perceptron.layers = {MakeLayer(s.w1, s.b1), MakeLayer(s.w2, WeightRef())};
  plan.perceptron.map = OutputMap::kSixteenSigmoid;
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kContinuousWindowBias{"continuous_window_bias", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
