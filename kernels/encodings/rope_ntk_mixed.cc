#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factor", "how many times slower the last pair turns, about", "required", kFactorRange},
    ParameterCard{"mixed_b", "exponent b of the mixed form; absent: the fixed form", "absent", "> 0, ≤ 1024"},
});

constexpr Card kCard{
    .title = "RoPE with Su's NTK forms",
    .summary =
        "Two ways to spread a stretch over the pairs. The fixed form multiplies the base by the factor and divides every "
        "frequency by one more power of it; the mixed form leaves the fast pairs nearly alone and reaches the whole factor "
        "at the last one.",
    .formula =
        "fixed: (factor·base)^(−2i/d) / factor^(2/d); mixed: θ_i · exp(−a·(i + 1)^b), a = ln(factor)/(d/2)^b, "
        "d = rotary_dim",
    .parameters = kParameters,
    .used_by = "vLLM's rope type \"ntk\" (factor, mixed_b)",
    .pitfalls =
        "Pair 0 is slowed too, unlike with the NTK-aware base: it turns by factor^(−2/d) radians per position, not by one.",
    .source = "Su, \"Transformer upgrade path 11 and 12\" (kexue.fm 9706), as vLLM's ntk_scaling_rope computes it",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec& rope, SpecChecker& check) {
    const NtkMixedSchedule& s = std::get<NtkMixedSchedule>(rope.schedule);
    check.ScalingFactor("rope.ntk_mixed.factor", s.factor);
    if (s.mixed_b && !(*s.mixed_b > 0 && *s.mixed_b <= 1024)) {
      check.Fail("rope.ntk_mixed.mixed_b", FormatNumber(*s.mixed_b), "> 0, ≤ 1024");
    }
  });
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const NtkMixedSchedule& s = std::get<NtkMixedSchedule>(rope.schedule);
  const int64_t d = *rope.rotary_dim;
  std::vector<Wide> inv_freq;
  if (s.mixed_b) {
    inv_freq = RopeFrequencies(*rope.base, d, d / 2);
    const Wide log_factor = Log(s.factor);
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      // a·(i + 1)^b = ln(factor)·((i + 1)/(d/2))^b.
      const Wide share = Pow(Wide::FromInt(2 * (static_cast<int64_t>(i) + 1)) / Wide::FromInt(d), *s.mixed_b);
      inv_freq[i] = inv_freq[i] * Exp(-(log_factor * share));
    }
  } else {
    inv_freq = RopeFrequencies(Wide(s.factor) * *rope.base, d, d / 2);
    const Wide divisor = Pow(s.factor, Wide(2.0) / Wide::FromInt(d));
    for (Wide& f : inv_freq) f = f / divisor;
  }
  return ResolveRope(rope, inv_freq, 1.0, precision, "rope.ntk_mixed.factor");
}

}  // namespace

constexpr Scheme kRopeNtkMixed{"rope_ntk_mixed", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
