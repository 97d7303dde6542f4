#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr Card kCard{
    .title = "RoPE",
    .summary =
        "Rotary position embedding: every pair of channels of a query or key turns by position × inv_freq, so that their "
        "product depends on the distance alone. The first pair turns one radian per position whatever the base; the base "
        "sets how slow the last one is.",
    .formula = "inv_freq_i = base^(−2i/rotary_dim), i = 0 … rotary_dim/2 − 1; angle = position · inv_freq_i",
    .parameters = kRopeParameters,
    .used_by =
        "LLaMA, Mistral, Qwen, Phi, GPT-NeoX, GPT-J, Cohere, GLM; rope_type \"default\" or no scaling at all. "
        "partial_rotary_factor, rotary_pct and rotary_dim narrow it",
    .pitfalls =
        "The pairing must be the checkpoint's: a swapped one gives fluent nonsense. For a partial rotation the "
        "exponents run over rotary_dim, not head_dim. A base that a reader missed falls back to 10000 silently.",
    .source = "Su et al., RoFormer, arXiv 2104.09864, eq. 15",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec&, SpecChecker&) {});
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  return ResolveRope(rope, RopeFrequencies(*rope.base, *rope.rotary_dim, *rope.rotary_dim / 2), 1.0, precision, "rope.base");
}

}  // namespace

constexpr Scheme kRopeDefault{"rope_default", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
