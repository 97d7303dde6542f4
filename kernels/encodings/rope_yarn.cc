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
    ParameterCard{"attention_coefficient", "c in A and g; 0 makes A 1", "0.1", "0 … 10"},
    ParameterCard{"log_blend", "blend the logarithms of the two frequencies", "false", "true, false"},
    ParameterCard{"attention_factor_multiplier", "factor on A, whatever gives A but RopeSpec.attention_factor", "1",
                  "0.0001 … 10000"},
    ParameterCard{"extrapolation_factor", "e: the share of the ramp that keeps frequencies", "1", "0 … 1"},
});

constexpr Card kCard{
    .title = "RoPE with YaRN",
    .summary =
        "Keeps the fast pairs, divides the slow ones by factor and blends in between, and raises the attention "
        "logits a little through a factor on cos and sin. The DeepSeek form moves that factor, in part or whole, "
        "into the softmax scale.",
    .formula =
        "lo, hi = d·ln(M₀/(β·2π))/(2·ln base) for β_fast, β_slow; r_i = 1 − (1 − clamp((i − lo)/(hi − lo), 0, 1))·e; "
        "inv_freq_i = θ_i·(1 − r_i) + θ_i/factor·r_i, or θ_i/factor^r_i with log_blend; A = c·ln factor + 1, or "
        "g(mscale)/g(mscale_all_dim) with g(m) = c·m·ln factor + 1 when both are given; c = 0.1, e = 1",
    .parameters = kParameters,
    .used_by =
        "Qwen2.5 and Qwen3 long context, gpt-oss (truncate false), Olmo-3, DeepSeek-V2/V3, Kimi; rope_type \"yarn\". "
        "TeleChat3: attention_coefficient 0.07. Grok-1: log_blend, attention_coefficient 0. ggml: extrapolation_factor is "
        "ext_factor, attention_factor_multiplier is attn_factor, and factor is 1/freq_scale",
    .pitfalls =
        "Libraries disagree on which length is the original one and on whether the factor is taken as given; "
        "attention_factor replaces A in some and multiplies it in others (here: replaces). beta_fast and "
        "beta_slow swapped turn the ramp around. truncate is easily lost in nested configurations. ggml leaves A alone when "
        "ext_factor is 0 (say attention_coefficient 0), and llama.cpp's attn_factor is divided by 1 + 0.1·ln factor on the "
        "way, so that its default of 1 gives what A is here.",
    .source = "Peng et al., arXiv 2309.00071; the DeepSeek form from DeepSeek-V2's modelling code",
};

constexpr double kAttentionCoefficient = 0.1;

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

// c·m·ln s + 1, and 1 when nothing is stretched. The default coefficient is 1/10 itself, not the double beside it.
Wide MagnitudeScale(const YarnSchedule& yarn, double mscale) {
  if (yarn.factor <= 1) return 1.0;
  const Wide coefficient =
      *yarn.attention_coefficient == kAttentionCoefficient ? Wide(1.0) / 10.0 : Wide(*yarn.attention_coefficient);
  return Wide(mscale) * Log(yarn.factor) * coefficient + 1.0;
}

void CheckAttention(YarnSchedule& yarn, SpecChecker& check) {
  if (yarn.mscale) check.InRange("rope.yarn.mscale", *yarn.mscale, 0, 1000);
  if (yarn.mscale_all_dim) check.InRange("rope.yarn.mscale_all_dim", *yarn.mscale_all_dim, 0, 1000);
  // The libraries test these two for truth, so 0 says the same as nothing.
  if (yarn.mscale == 0.0) yarn.mscale.reset();
  if (yarn.mscale_all_dim == 0.0) yarn.mscale_all_dim.reset();
  check.Default("rope.yarn.attention_coefficient", yarn.attention_coefficient, kAttentionCoefficient, "0.1");
  check.InRange("rope.yarn.attention_coefficient", *yarn.attention_coefficient, 0, 10);
  check.Default("rope.yarn.log_blend", yarn.log_blend, false, "false");
  check.Default("rope.yarn.attention_factor_multiplier", yarn.attention_factor_multiplier, 1.0, "1");
  check.InRange("rope.yarn.attention_factor_multiplier", *yarn.attention_factor_multiplier, kMinAttentionFactor,
                kMaxAttentionFactor);
  check.Default("rope.yarn.extrapolation_factor", yarn.extrapolation_factor, 1.0, "1");
  check.InRange("rope.yarn.extrapolation_factor", *yarn.extrapolation_factor, 0, 1);
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
  CheckAttention(yarn, check);
  if (*rope.base <= 1) {
    check.Fail("rope.base", FormatNumber(*rope.base), "more than 1: YaRN's ramp divides by ln base");
  }
  if (!check.ok()) return;
  if (*yarn.beta_fast <= *yarn.beta_slow) {
    const bool equal = *yarn.beta_fast == *yarn.beta_slow;
    check.Warn(
        "rope.yarn.beta_fast",
        absl::StrCat("beta_fast ", FormatNumber(*yarn.beta_fast), " is not above beta_slow ", FormatNumber(*yarn.beta_slow),
                     equal ? ": pairs are kept or interpolated, none lies between" : ": they are probably swapped"));
  }
  if (rope.attention_factor) {
    check.Warn("rope.attention_factor", "replaces YaRN's own factor on cos and sin (some libraries multiply the two)");
    if (*yarn.attention_factor_multiplier != 1) {
      check.Warn("rope.yarn.attention_factor_multiplier", "has no effect: attention_factor replaces what it multiplies");
    }
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
    if (*yarn.extrapolation_factor != 1) r = Wide(1.0) - (Wide(1.0) - r) * *yarn.extrapolation_factor;
    inv_freq[i] =
        *yarn.log_blend ? inv_freq[i] / Pow(yarn.factor, r) : inv_freq[i] * (Wide(1.0) - r) + inv_freq[i] / yarn.factor * r;
  }

  const bool deepseek_form = yarn.mscale && yarn.mscale_all_dim;
  const Wide attention_factor =
      (deepseek_form ? MagnitudeScale(yarn, *yarn.mscale) / MagnitudeScale(yarn, *yarn.mscale_all_dim)
                     : MagnitudeScale(yarn, 1)) *
      *yarn.attention_factor_multiplier;
  auto resolved =
      ResolveRope(rope, inv_freq, attention_factor, precision, deepseek_form ? "rope.yarn.mscale" : "rope.yarn.factor");
  if (!resolved.ok()) return resolved;
  if (yarn.mscale_all_dim) {
    const Wide g = MagnitudeScale(yarn, *yarn.mscale_all_dim);
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
