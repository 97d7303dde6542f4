#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factor", "how many times longer the context becomes", "required", kFactorRange},
    ParameterCard{"low_freq_factor", "waves longer than original_max_position / low_freq_factor are divided by factor",
                  "required", "finite, > 0"},
    ParameterCard{"high_freq_factor", "waves shorter than original_max_position / high_freq_factor are kept", "required",
                  "finite, > 0"},
    ParameterCard{"original_max_position", "positions the model was trained on before scaling", "required", "1 … 2^31"},
});

constexpr Card kCard{
    .title = "RoPE as Llama 3.1 scales it",
    .summary =
        "Keeps short waves, divides long ones by factor, and blends in between, linearly in the frequency. cos and "
        "sin carry no factor.",
    .formula =
        "λ = 2π/θ_i; λ < M₀/high → θ_i; λ > M₀/low → θ_i/factor; else t = (M₀/λ − low)/(high − low), "
        "inv_freq_i = (1 − t)·θ_i/factor + t·θ_i",
    .parameters = kParameters,
    .used_by = "Llama 3.1, 3.2, 3.3 and their derivatives, EXAONE 4; rope_type \"llama3\"",
    .pitfalls =
        "The blend is linear in 1/λ, not in λ. Equal low and high factors are real and divide by zero in a naive "
        "blend. float32 libraries lose up to 4·10^-7 to cancellation in the blend.",
    .source = "Llama 3.1 reference code (apply_scaling); transformers modeling_rope_utils",
};

void CheckLlama3(RopeSpec& rope, SpecChecker& check) {
  const Llama3Schedule& s = std::get<Llama3Schedule>(rope.schedule);
  check.ScalingFactor("rope.llama3.factor", s.factor);
  check.Positive("rope.llama3.low_freq_factor", s.low_freq_factor);
  check.Positive("rope.llama3.high_freq_factor", s.high_freq_factor);
  check.InRange("rope.llama3.original_max_position", s.original_max_position, 1, kMaxLength);
  if (check.ok() && s.low_freq_factor > s.high_freq_factor) {
    check.Warn("rope.llama3.low_freq_factor",
               absl::StrCat("low_freq_factor ", FormatNumber(s.low_freq_factor), " is above high_freq_factor ",
                            FormatNumber(s.high_freq_factor), ": nothing is blended; they are probably swapped"));
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) { return CanonicalizeRope(spec, &CheckLlama3); }

Wide Scaled(const Wide& theta, const Llama3Schedule& s) {
  // Which piece a pair falls into is decided in IEEE double, in the libraries' order of operations.
  const double wavelength = 2 * ToDouble(Pi()) / ToDouble(theta);
  const double length = static_cast<double>(s.original_max_position);
  if (wavelength > length / s.low_freq_factor) return theta / s.factor;
  // Equal factors leave a band of width zero: a pair exactly on it keeps its frequency.
  if (wavelength < length / s.high_freq_factor || s.low_freq_factor == s.high_freq_factor) return theta;
  const Wide waves = Wide::FromInt(s.original_max_position) * theta / (Wide(2.0) * Pi());
  const Wide t = (waves - s.low_freq_factor) / (Wide(s.high_freq_factor) - s.low_freq_factor);
  return (Wide(1.0) - t) * theta / s.factor + t * theta;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  std::vector<Wide> inv_freq = RopeFrequencies(*rope.base, *rope.rotary_dim, *rope.rotary_dim / 2);
  for (Wide& f : inv_freq) f = Scaled(f, std::get<Llama3Schedule>(rope.schedule));
  return ResolveRope(rope, inv_freq, 1.0, precision, "rope.llama3.factor");
}

}  // namespace

constexpr Scheme kRopeLlama3{"rope_llama3", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
