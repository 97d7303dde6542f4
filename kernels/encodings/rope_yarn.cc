#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factor", "how many times longer the context becomes", "required", kFactorRange},
    ParameterCard{"original_max_position", "positions the model was trained on before scaling", "required", "1 … 2^31"},
    ParameterCard{"beta_fast", "pairs that turn more often than this within original_max_position keep their frequency",
                  "32", "1e-9 … 1e9"},
    ParameterCard{"beta_slow", "pairs that turn less often than this are divided by factor", "1", "1e-9 … 1e9"},
    ParameterCard{"truncate", "round the ends of the ramp outwards to whole pairs", "true", "true, false"},
    ParameterCard{"mscale", "DeepSeek form, numerator of the attention factor; 0 means absent", "absent", "0 … 1000"},
    ParameterCard{"mscale_all_dim",
                  "DeepSeek form, denominator of it, and the multiplier on the softmax scale; 0 means "
                  "absent",
                  "absent", "0 … 1000"},
});

constexpr Card kCard{
    .title = "RoPE with YaRN",
    .summary =
        "Keeps the fast pairs, divides the slow ones by factor and blends in between, and raises the attention "
        "logits a little through a factor on cos and sin. The DeepSeek form moves that factor, in part or whole, "
        "into the softmax scale.",
    .formula =
        "lo, hi = d·ln(M₀/(β·2π))/(2·ln base) for β_fast, β_slow; r_i = clamp((i − lo)/(hi − lo), 0, 1); "
        "inv_freq_i = θ_i·(1 − r_i) + θ_i/factor·r_i; A = 0.1·ln factor + 1, or g(mscale)/g(mscale_all_dim) with "
        "g(m) = 0.1·m·ln factor + 1 when both are given",
    .parameters = kParameters,
    .used_by = "Qwen2.5 and Qwen3 long context, gpt-oss (truncate false), Olmo-3, DeepSeek-V2/V3, Kimi; rope_type \"yarn\"",
    .pitfalls =
        "Libraries disagree on which length is the original one and on whether the factor is taken as given; "
        "attention_factor replaces A in some and multiplies it in others (here: replaces). beta_fast and "
        "beta_slow swapped turn the ramp around. truncate is easily lost in nested configurations.",
    .source = "Peng et al., arXiv 2309.00071; the DeepSeek form from DeepSeek-V2's modelling code",
};

// The ends of the ramp, in pairs.
struct Ramp {
  Wide low_raw;
  Wide high_raw;
  Wide low;
  Wide high;
};

// Where a pair turns `beta` times within the original length.
Wide CorrectionPair(const RopeSpec& rope, const YarnSchedule& yarn, double beta) {
  const Wide turns = Wide::FromInt(yarn.original_max_position) / (Wide(beta) * 2.0 * Pi());
  return Wide::FromInt(*rope.rotary_dim) * Log(turns) / (Wide(2.0) * Log(*rope.base));
}

// The same as the libraries take it before floor and ceil: IEEE doubles, in their order of operations.
double CorrectionPairInDouble(const RopeSpec& rope, const YarnSchedule& yarn, double beta) {
  const double turns = static_cast<double>(yarn.original_max_position) / (beta * 2 * ToDouble(Pi()));
  return static_cast<double>(*rope.rotary_dim) * ToDouble(Log(turns)) / (2 * ToDouble(Log(*rope.base)));
}

Ramp RampOf(const RopeSpec& rope, const YarnSchedule& yarn) {
  Ramp ramp;
  ramp.low_raw = CorrectionPair(rope, yarn, *yarn.beta_fast);
  ramp.high_raw = CorrectionPair(rope, yarn, *yarn.beta_slow);
  ramp.low = ramp.low_raw;
  ramp.high = ramp.high_raw;
  if (*yarn.truncate) {
    ramp.low = std::floor(CorrectionPairInDouble(rope, yarn, *yarn.beta_fast));
    ramp.high = std::ceil(CorrectionPairInDouble(rope, yarn, *yarn.beta_slow));
  }
  const Wide last = Wide::FromInt(*rope.rotary_dim - 1);  // rotary_dim − 1, not pairs − 1: the published code's bound
  if (ramp.low < 0.0) ramp.low = 0.0;
  if (ramp.high > last) ramp.high = last;
  return ramp;
}

// 0.1·m·ln s + 1, and 1 when nothing is stretched.
Wide MagnitudeScale(double factor, double mscale) {
  if (factor <= 1) return 1.0;
  return Wide(mscale) * Log(factor) / 10.0 + 1.0;
}

void CheckYarn(RopeSpec& rope, SpecChecker& check) {
  YarnSchedule& yarn = std::get<YarnSchedule>(rope.schedule);
  check.ScalingFactor("rope.yarn.factor", yarn.factor);
  check.InRange("rope.yarn.original_max_position", yarn.original_max_position, 1, kMaxLength);
  check.Default("rope.yarn.beta_fast", yarn.beta_fast, 32.0, "32");
  check.InRange("rope.yarn.beta_fast", *yarn.beta_fast, 1e-9, 1e9);
  check.Default("rope.yarn.beta_slow", yarn.beta_slow, 1.0, "1");
  check.InRange("rope.yarn.beta_slow", *yarn.beta_slow, 1e-9, 1e9);
  check.Default("rope.yarn.truncate", yarn.truncate, true, "true");
  if (yarn.mscale) check.InRange("rope.yarn.mscale", *yarn.mscale, 0, 1000);
  if (yarn.mscale_all_dim) check.InRange("rope.yarn.mscale_all_dim", *yarn.mscale_all_dim, 0, 1000);
  // The libraries test these two for truth, so 0 says the same as nothing.
  if (yarn.mscale == 0.0) yarn.mscale.reset();
  if (yarn.mscale_all_dim == 0.0) yarn.mscale_all_dim.reset();
  if (*rope.base <= 1) {
    check.Fail("rope.base", FormatNumber(*rope.base), "more than 1: YaRN's ramp divides by ln base");
  }
  if (!check.ok()) return;
  if (*yarn.beta_fast <= *yarn.beta_slow) {
    check.Warn("rope.yarn.beta_fast", absl::StrCat("beta_fast ", FormatNumber(*yarn.beta_fast), " is not above beta_slow ",
                                                   FormatNumber(*yarn.beta_slow), ": they are probably swapped"));
  }
  if (rope.attention_factor) {
    check.Warn("rope.attention_factor", "replaces YaRN's own factor on cos and sin (some libraries multiply the two)");
  } else if (yarn.mscale.has_value() != yarn.mscale_all_dim.has_value()) {
    check.Warn(yarn.mscale ? "rope.yarn.mscale" : "rope.yarn.mscale_all_dim",
               "the other one of mscale and mscale_all_dim is absent, so the attention factor is 0.1·ln factor + 1 (some "
               "libraries assume a value for the other one)");
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) { return CanonicalizeRope(spec, &CheckYarn); }

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const YarnSchedule& yarn = std::get<YarnSchedule>(rope.schedule);
  const Ramp ramp = RampOf(rope, yarn);
  // Equal ends would divide by zero; the published code moves the upper one by this much.
  const Wide width = ramp.low == ramp.high ? Wide(1.0) / 1000.0 : ramp.high - ramp.low;
  std::vector<Wide> inv_freq = RopeFrequencies(*rope.base, *rope.rotary_dim, *rope.rotary_dim / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    Wide r = (Wide::FromInt(static_cast<int64_t>(i)) - ramp.low) / width;
    if (r < 0.0) r = 0.0;
    if (r > 1.0) r = 1.0;
    inv_freq[i] = inv_freq[i] * (Wide(1.0) - r) + inv_freq[i] / yarn.factor * r;
  }

  const bool deepseek_form = yarn.mscale && yarn.mscale_all_dim;
  const Wide attention_factor =
      deepseek_form ? MagnitudeScale(yarn.factor, *yarn.mscale) / MagnitudeScale(yarn.factor, *yarn.mscale_all_dim)
                    : MagnitudeScale(yarn.factor, 1);
  auto resolved =
      ResolveRope(rope, inv_freq, attention_factor, precision, deepseek_form ? "rope.yarn.mscale" : "rope.yarn.factor");
  if (!resolved.ok()) return resolved;
  if (yarn.mscale_all_dim) {
    const Wide g = MagnitudeScale(yarn.factor, *yarn.mscale_all_dim);
    resolved->softmax_scale_multiplier = ToDouble(g * g);
  }
  resolved->derived = {{"low_raw", ToString(ramp.low_raw, 15)},
                       {"high_raw", ToString(ramp.high_raw, 15)},
                       {"low", ToString(ramp.low, 15)},
                       {"high", ToString(ramp.high, 15)}};
  return resolved;
}

}  // namespace

constexpr Scheme kRopeYarn{"rope_yarn", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
