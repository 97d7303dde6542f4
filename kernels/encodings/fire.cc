#include <array>

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"
#include "kernels/encodings/window_limits.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"c", "how fast the logarithm bends", "0.1", "> 0"},
    ParameterCard{"threshold", "L, positions: queries before it are treated as if they stood there", "512", "> 0"},
    ParameterCard{"epsilon", "added to the denominator", "1e-6", "≥ 0"},
    ParameterCard{"weights: w1, b1, w2, b2", "[width, 1], [width], [heads, width], [heads]", "required", "finite numbers"},
};

constexpr Card kCard{
    .title = "FIRE",
    .summary =
        "A small perceptron of the log distance relative to the query's own position: every context length maps to the same "
        "interval.",
    .formula = "x = ln(1 + c·|q − k|)/(ln(1 + c·max(L, q)) + ε); b = w2·relu(w1·x + b1) + b2",
    .parameters = kParameters,
    .used_by = "FIRE; Abacus's code (mcleish7/arithmetic), width 32",
    .pitfalls =
        "The normaliser is the query's absolute position, so rows differ even at equal distances, there is no vector form, "
        "and decoding with a cache needs the query's offset.",
    .source = "Li et al., arXiv 2310.04418; mcleish7/arithmetic, cramming/architectures/embeddings.py",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  FireSpec& s = std::get<FireSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("fire.c", s.c, 0.1, "0.1");
  check.Default("fire.threshold", s.threshold, 512.0, "512");
  check.Default("fire.epsilon", s.epsilon, 1e-6, "1e-6");
  check.Positive("fire.c", *s.c);
  check.Positive("fire.threshold", *s.threshold);
  check.InRange("fire.epsilon", *s.epsilon, 0, 1e300);
  if (CheckWeight(check, "w1", s.w1, Need::kRequired, {{0, "width"}, {1}})) {
    const int64_t width = s.w1->shape[0];
    check.InRange("weights.w1.tensor.shape[0]", width, 1, kMaxLayerWidth);
    CheckWeight(check, "b1", s.b1, Need::kRequired, {{width}});
    if (CheckWeight(check, "w2", s.w2, Need::kRequired, {{0, "heads"}, {width}})) {
      check.InRange("weights.w2.tensor.shape[0]", s.w2->shape[0], 1, kMaxHeads);
      CheckWeight(check, "b2", s.b2, Need::kRequired, {{s.w2->shape[0]}});
    }
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const FireSpec& s = std::get<FireSpec>(canonical);
  FirePlan plan{
      .c = *s.c, .threshold = *s.threshold, .epsilon = *s.epsilon, .perceptron = {}, .weights = {s.w1, s.b1, s.w2, s.b2}};
  plan.perceptron.layers = {MakeLayer(s.w1, s.b1), MakeLayer(s.w2, s.b2)};
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kFire{"fire", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
