#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factor", "how many times longer the context becomes; every frequency is divided by it", "required",
                  kFactorRange},
});

constexpr Card kCard{
    .title = "RoPE with linear scaling (position interpolation)",
    .summary =
        "Divides every frequency by one factor, which is the same as dividing the positions. Simple, and the model "
        "needs some fine-tuning because neighbouring tokens come closer together.",
    .formula = "inv_freq_i = base^(−2i/rotary_dim) / factor",
    .parameters = kParameters,
    .used_by = "Gemma-3 global layers (factor 8), Vicuna-16k, DeepSeek-Coder; rope_type \"linear\"",
    .pitfalls =
        "A factor that is applied both to positions and to frequencies counts twice. In models with several kinds "
        "of layers it may belong to the global layers only.",
    .source = "Chen et al., arXiv 2306.15595",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec& rope, SpecChecker& check) {
    check.ScalingFactor("rope.linear.factor", std::get<LinearSchedule>(rope.schedule).factor);
  });
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const Wide factor = std::get<LinearSchedule>(rope.schedule).factor;
  std::vector<Wide> inv_freq = RopeFrequencies(*rope.base, *rope.rotary_dim, *rope.rotary_dim / 2);
  for (Wide& f : inv_freq) f = f / factor;
  return ResolveRope(rope, inv_freq, 1.0, precision, "rope.linear.factor");
}

}  // namespace

constexpr Scheme kRopeLinear{"rope_linear", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
