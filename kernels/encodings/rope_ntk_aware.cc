#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factor", "how many times slower the last pair turns", "required", kFactorRange},
});

constexpr Card kCard{
    .title = "RoPE with an NTK-aware base",
    .summary =
        "Raises the base so that the first pair keeps its frequency and the last one is divided by factor, with the "
        "pairs between spread geometrically. Works without fine-tuning up to about the factor.",
    .formula = "base' = base · factor^(d/(d − 2)), d = rotary_dim; inv_freq_i = base'^(−2i/d)",
    .parameters = kParameters,
    .used_by = "Hunyuan (alpha), x-transformers (base_rescale_factor), rotary-embedding-torch (theta_rescale_factor)",
    .pitfalls = "Some programs multiply the base by the factor itself, without the exponent. rotary_dim 2 divides by zero.",
    .source = "The NTK-aware rule as x-transformers computes it",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec& rope, SpecChecker& check) {
    check.ScalingFactor("rope.ntk_aware.factor", std::get<NtkAwareSchedule>(rope.schedule).factor);
    CheckNtkWidth(rope, check);
  });
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const int64_t d = *rope.rotary_dim;
  const Wide base = NtkBase(*rope.base, std::get<NtkAwareSchedule>(rope.schedule).factor, d);
  auto resolved = ResolveRope(rope, RopeFrequencies(base, d, d / 2), 1.0, precision, "rope.ntk_aware.factor");
  if (resolved.ok()) resolved->derived = {{"effective_base", ToString(base, 20)}};
  return resolved;
}

}  // namespace

constexpr Scheme kRopeNtkAware{"rope_ntk_aware", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
