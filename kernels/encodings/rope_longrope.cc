#include "kernels/encodings/rope.h"

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"short_factor", "divisors of the frequencies up to original_max_position", "required",
                  "rotary_dim/2 finite numbers > 0"},
    ParameterCard{"long_factor", "divisors of the frequencies beyond it", "required", "rotary_dim/2 finite numbers > 0"},
    ParameterCard{"original_max_position", "the longest sequence that uses short_factor", "required", "2 … 2^31"},
    ParameterCard{"factor", "how many times longer the context becomes; only the attention factor depends on it",
                  "max_position / original_max_position", "finite, > 0 (≥ 1 is usual)"},
    ParameterCard{"max_position", "the scaled model's positions", "absent", "1 … 2^31"},
    ParameterCard{"short_mscale", "attention factor of the short list", "the formula's", "0.0001 … 10000"},
    ParameterCard{"long_mscale", "attention factor of the long list", "the formula's", "0.0001 … 10000"},
});

constexpr Card kCard{
    .title = "LongRoPE",
    .summary =
        "Divides every frequency by its own searched number, from one list for short sequences and another for long "
        "ones. cos and sin carry a factor that grows with the stretch.",
    .formula =
        "inv_freq_i = θ_i / f_i, f = short_factor when L ≤ M₀, else long_factor; A = sqrt(1 + ln factor / ln M₀), "
        "1 when factor ≤ 1",
    .parameters = kParameters,
    .used_by = "Phi-3, Phi-3.5, Phi-4-mini, PhiMoE (with mscales), MiniCPM3; rope_type \"longrope\", formerly \"su\"",
    .pitfalls =
        "The switch is strict: a sequence of exactly original_max_position positions is short. Crossing it makes "
        "cached keys stale. The lists have rotary_dim/2 entries, not head_dim/2.",
    .source = "Ding et al., arXiv 2402.13753; Phi-3's modelling code",
};

void CheckList(const RopeSpec& rope, std::string_view field, const std::vector<double>& list, SpecChecker& check) {
  CheckPairCount(field, rope, list, check);
  check.EachPositive(field, list);
}

void CheckLengths(LongRopeSchedule& s, bool needs_factor, SpecChecker& check) {
  check.InRange("rope.longrope.original_max_position", s.original_max_position, 2, kMaxLength);
  if (s.max_position) check.InRange("rope.longrope.max_position", *s.max_position, 1, kMaxLength);
  if (!check.ok()) return;
  if (!s.factor && !s.max_position) {
    if (needs_factor) check.Fail("rope.longrope.factor", "nothing", "factor, max_position or attention_factor");
    return;
  }
  if (s.max_position) {
    // A parameter, so the double that a library would form.
    const double ratio = static_cast<double>(*s.max_position) / static_cast<double>(s.original_max_position);
    if (s.factor && *s.factor != ratio) {
      check.Warn("rope.longrope.factor",
                 absl::StrCat("factor ", FormatNumber(*s.factor), " differs from max_position / original_max_position = ",
                              FormatNumber(ratio), "; factor is used"));
    }
    check.Default("rope.longrope.factor", s.factor, ratio,
                  absl::StrCat("max_position / original_max_position = ", FormatNumber(ratio)));
  }
  check.Positive("rope.longrope.factor", *s.factor);
}

void CheckLongRope(RopeSpec& rope, SpecChecker& check) {
  LongRopeSchedule& s = std::get<LongRopeSchedule>(rope.schedule);
  CheckList(rope, "rope.longrope.short_factor", s.short_factor, check);
  CheckList(rope, "rope.longrope.long_factor", s.long_factor, check);
  CheckLengths(s, !rope.attention_factor && !(s.short_mscale && s.long_mscale), check);
  if (s.short_mscale) {
    check.InRange("rope.longrope.short_mscale", *s.short_mscale, kMinAttentionFactor, kMaxAttentionFactor);
  }
  if (s.long_mscale) {
    check.InRange("rope.longrope.long_mscale", *s.long_mscale, kMinAttentionFactor, kMaxAttentionFactor);
  }
  if (rope.attention_factor) {
    check.Warn("rope.attention_factor", "replaces LongRoPE's own factor on cos and sin, for both lists");
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) { return CanonicalizeRope(spec, &CheckLongRope); }

Wide AttentionFactor(const LongRopeSchedule& s, bool is_long) {
  const std::optional<double>& given = is_long ? s.long_mscale : s.short_mscale;
  if (given) return *given;
  if (!s.factor || *s.factor <= 1) return 1.0;
  return Sqrt(Wide(1.0) + Log(*s.factor) / Log(Wide::FromInt(s.original_max_position)));
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t> sequence_length,
                                     Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const LongRopeSchedule& s = std::get<LongRopeSchedule>(rope.schedule);
  const bool is_long = *sequence_length > s.original_max_position;
  const std::vector<double>& divisors = is_long ? s.long_factor : s.short_factor;
  std::vector<Wide> inv_freq = RopeFrequencies(*rope.base, *rope.rotary_dim, *rope.rotary_dim / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = inv_freq[i] / divisors[i];
  auto resolved = ResolveRope(rope, inv_freq, AttentionFactor(s, is_long), precision,
                              is_long ? "rope.longrope.long_factor" : "rope.longrope.short_factor");
  if (resolved.ok()) resolved->derived = {{"list", is_long ? "long" : "short"}};
  return resolved;
}

}  // namespace

constexpr Scheme kRopeLongRope{"rope_longrope", "angle", true, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
