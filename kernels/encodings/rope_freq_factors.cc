#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factors", "divisors of the frequencies, one per pair", "required", "rotary_dim/2 finite numbers > 0"},
    ParameterCard{"factor", "divisor of all frequencies: 1/freq_scale in ggml's words", "1", kFactorRange},
});

constexpr Card kCard{
    .title = "RoPE with given divisors",
    .summary =
        "Divides the frequency of every pair by a number that was stored with the model, and all of them by one more. ggml "
        "keeps Llama 3's and LongRoPE's scalings in this form.",
    .formula = "inv_freq_i = θ_i / (factors_i · factor)",
    .parameters = kParameters,
    .used_by = "GGUF files with rope_freqs.weight, rope_factors_long.weight or rope_factors_short.weight",
    .pitfalls =
        "They are divisors, not factors: the reciprocal turns the scaling around. rope_freqs are stored as float32, so a "
        "converted Llama 3 differs from its configuration by some 1e-7. LongRoPE's attention factor is not in the list.",
    .source = "ggml_rope_ext (freq_factors); ggml-org/llama.cpp#8676",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec& rope, SpecChecker& check) {
    FreqFactorsSchedule& s = std::get<FreqFactorsSchedule>(rope.schedule);
    CheckPairCount("rope.freq_factors.factors", rope, s.factors, check);
    check.EachPositive("rope.freq_factors.factors", s.factors);
    check.Default("rope.freq_factors.factor", s.factor, 1.0, "1");
    check.ScalingFactor("rope.freq_factors.factor", *s.factor);
  });
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const FreqFactorsSchedule& s = std::get<FreqFactorsSchedule>(rope.schedule);
  std::vector<Wide> inv_freq = RopeFrequencies(*rope.base, *rope.rotary_dim, *rope.rotary_dim / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) inv_freq[i] = inv_freq[i] / (Wide(s.factors[i]) * *s.factor);
  return ResolveRope(rope, inv_freq, 1.0, precision, "rope.freq_factors.factors");
}

}  // namespace

constexpr Scheme kRopeFreqFactors{"rope_freq_factors", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
