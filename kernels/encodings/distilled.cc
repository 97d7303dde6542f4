#include <array>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"
#include "kernels/encodings/wide.h"
#include "kernels/encodings/window_limits.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_positions", "positions that the function was fitted to", "required", "2 … 2^31 − 1"},
    ParameterCard{"first_position", "the first of them", "0", "−2^31 + 1 … 2^31 − 1"},
    ParameterCard{"cosine_terms", "cosines that the first layer is fed with; 0: the position itself", "0", "0 … 65536"},
    ParameterCard{"weights: w1, b1 … wN, bN", "[outputs, inputs], [outputs] of each layer; the last outputs are the columns",
                  "required", "N = 1 … 8, finite numbers"},
};

constexpr Card kCard{
    .title = "Distilled function",
    .summary =
        "A small function of the position that was fitted to a table: a perceptron, or a short cosine series. The server "
        "makes "
        "one (Distill), with its error at every position of the fitted range; the caller sends its weights.",
    .formula = "PE(m) = layers(x), SiLU between; x = 2·(m − first)/(N − 1) − 1, or x_k = cos(π·k·(m − first + ½)/N)",
    .parameters = kParameters,
    .used_by = "nobody's checkpoint: an approximation of a learned or uploaded table, or of a closed form",
    .pitfalls =
        "Beyond the fitted positions it goes anywhere: a perceptron runs off in straight lines, a cosine series repeats the "
        "range backwards. Schemes with a closed form (RoPE, sinusoids, ALiBi) are exact and cheaper; take them instead.",
    .source =
        "Ahmed, Natarajan and Rao, IEEE Trans. Computers C-23 (1974): the discrete cosine transform; Elfwing et al., arXiv "
        "1702.03118: SiLU",
};

constexpr int64_t kMaxPosition = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxTerms = 65536;

void CheckLayers(const DistilledSpec& s, size_t layers, SpecChecker& check) {
  int64_t inputs = s.cosine_terms == 0 ? 1 : s.cosine_terms;
  for (size_t i = 0; i < layers && check.ok(); ++i) {
    const bool last = i + 1 == layers;
    const Extent outputs{0, last ? "columns" : "width"};
    if (!CheckWeight(check, LayerWeight('w', i), s.w[i], Need::kRequired, {outputs, {inputs}})) return;
    inputs = s.w[i]->shape[0];
    check.InRange(absl::StrCat("weights.", LayerWeight('w', i), ".tensor.shape[0]"), inputs, 1, kMaxLayerWidth);
    CheckWeight(check, LayerWeight('b', i), s.b[i], Need::kRequired, {{inputs}});
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  DistilledSpec& s = std::get<DistilledSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("distilled.num_positions", s.num_positions, 2, kMaxPosition);
  check.Default("distilled.first_position", s.first_position, int64_t{0}, "0");
  check.InRange("distilled.first_position", *s.first_position, -kMaxPosition, kMaxPosition);
  check.InRange("distilled.cosine_terms", s.cosine_terms, 0, kMaxTerms);
  if (!check.ok()) return check.status();
  const size_t layers = CountLayers(check, s.w, s.b, 1);
  if (check.ok()) CheckLayers(s, layers, check);
  if (!check.ok()) return check.status();
  return canonical;
}

// k/(2N) turns per position: πk/N radians.
absl::StatusOr<AnglePlan> CosinesOf(const DistilledSpec& s) {
  std::vector<Wide> frequencies;
  const Wide step = Pi() / Wide::FromInt(s.num_positions);
  for (int64_t k = 0; k < s.cosine_terms; ++k) frequencies.push_back(step * Wide::FromInt(k));
  absl::StatusOr<Resolved> angles = ResolveAngles(frequencies, 1.0, Precision::kExact, "distilled.num_positions");
  if (!angles.ok()) return angles.status();
  return std::get<AnglePlan>(std::move(angles->plan));
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const DistilledSpec& s = std::get<DistilledSpec>(canonical);
  DistilledPlan plan;
  plan.first_position = *s.first_position;
  plan.num_positions = s.num_positions;
  if (s.cosine_terms > 0) {
    absl::StatusOr<AnglePlan> angles = CosinesOf(s);
    if (!angles.ok()) return angles.status();
    plan.angles = *std::move(angles);
  }
  plan.perceptron.activation = Activation::kSilu;
  for (size_t i = 0; i < s.w.size() && s.w[i]; ++i) {
    plan.perceptron.layers.push_back(MakeLayer(s.w[i], s.b[i]));
    plan.weights.push_back(s.w[i]);
    plan.weights.push_back(s.b[i]);
  }
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kDistilled{"distilled", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
