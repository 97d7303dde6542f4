#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"partial_rotary_factor", "part of the pairs that turn", "required", "> 0, ≤ 1"},
    ParameterCard{"factor", "every frequency is divided by it", "1", kFactorRange},
});

constexpr Card kCard{
    .title = "Proportional RoPE (p-RoPE)",
    .summary =
        "Rotates over the whole head, but only the first pairs have a frequency; the others stand still at angle 0. "
        "The exponents run over head_dim.",
    .formula =
        "live = int(partial_rotary_factor·head_dim // 2); inv_freq_i = base^(−2i/head_dim)/factor for i < live, "
        "else 0",
    .parameters = kParameters,
    .used_by = "Gemma-4 global layers (0.25 of head_dim 512, base 10^6); rope_type \"proportional\"",
    .pitfalls =
        "Not a partial rotation: with half-split pairs channel i moves with i + head_dim/2, so the moving channels "
        "are not a prefix.",
    .source = "transformers modeling_rope_utils (proportional)",
};

void CheckProportional(RopeSpec& rope, SpecChecker& check) {
  ProportionalSchedule& s = std::get<ProportionalSchedule>(rope.schedule);
  if (*rope.rotary_dim != rope.head_dim) {
    check.Fail("rope.rotary_dim", absl::StrCat(*rope.rotary_dim),
               absl::StrCat("head_dim = ", rope.head_dim, ": this schedule rotates the whole head"));
  }
  if (!(s.partial_rotary_factor > 0 && s.partial_rotary_factor <= 1)) {
    check.Fail("rope.proportional.partial_rotary_factor", FormatNumber(s.partial_rotary_factor), "> 0, ≤ 1");
  }
  check.Default("rope.proportional.factor", s.factor, 1.0, "1");
  check.ScalingFactor("rope.proportional.factor", *s.factor);
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, &CheckProportional);
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const ProportionalSchedule& s = std::get<ProportionalSchedule>(rope.schedule);
  const int64_t live = static_cast<int64_t>(std::floor(s.partial_rotary_factor * static_cast<double>(rope.head_dim) / 2));
  std::vector<Wide> inv_freq = RopeFrequencies(*rope.base, rope.head_dim, live);
  for (Wide& f : inv_freq) f = f / *s.factor;
  inv_freq.resize(rope.head_dim / 2);
  auto resolved = ResolveRope(rope, inv_freq, 1.0, precision, "rope.proportional.factor");
  if (resolved.ok()) resolved->derived = {{"live_pairs", absl::StrCat(live)}};
  return resolved;
}

}  // namespace

constexpr Scheme kRopeProportional{"rope_proportional", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
