#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/sinusoid_terms.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    kSinusoidDimCard,
    kSinusoidBaseCard,
    ParameterCard{"weights: w_r or r",
                  "w_r [heads·d, dim] projects sinusoids; r [heads, 2·n − 1, d] is given, row j for distance n − 1 − j",
                  "required", "finite numbers"},
    kSinusoidBiasCard,
    ParameterCard{"num_heads", "heads, where neither r nor u nor v is given to say it", "the weights'", "1 … 65536"},
    ParameterCard{"concatenated", "columns of R are sines, then cosines, instead of taking turns", "false", "true, false"},
    ParameterCard{"base_inclusive", "frequencies base^(−i/(dim/2 − 1)), the last 1/base, instead of base^(−2i/dim)", "false",
                  "true, false"},
};

constexpr Card kCard{
    .title = "Conformer's relative positions",
    .summary =
        "Transformer-XL's terms in both directions: distances keys − 1 down to −(keys − 1), and sinusoids interleaved "
        "instead of "
        "concatenated.",
    .formula = "S = ((q + u)·k_j + (q + v)·(W_r·R[i − j]))/√d, R = [sin_0, cos_0, sin_1, …]",
    .parameters = kParameters,
    .used_by =
        "wav2vec2-conformer (position_embeddings_type relative), ESPnet's RelPositionMultiHeadedAttention, Parakeet, "
        "FastSpeech2Conformer; the sound encoders of Gemma 3n and 4 (without u and v, concatenated, base_inclusive)",
    .pitfalls =
        "ESPnet's legacy form has rows for distances ≥ 0 only, so its shift puts other rows' numbers at keys after the "
        "query. "
        "The columns of R are not those of Transformer-XL.",
    .source = "Gulati et al., arXiv 2005.08100; transformers' modeling_wav2vec2_conformer",
};

SinusoidTerm TermOf(ConformerSpec& s) {
  return {"conformer", s.dim, s.base, s.w_r, s.r, {"u", s.u}, {"v", s.v}, /*clamp=*/{}, &s.num_heads, s.base_inclusive};
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  ConformerSpec& s = std::get<ConformerSpec>(canonical.spec);
  SpecChecker check(&canonical);
  CheckSinusoidTerm(check, TermOf(s));
  if (check.ok() && s.r && s.r->shape[1] % 2 == 0) {
    check.Fail("weights.r.tensor.shape[1]", absl::StrCat(s.r->shape[1]), "an odd number: distances n − 1 … −(n − 1)");
  }
  for (const auto& [field, flag] :
       {std::pair("conformer.concatenated", &s.concatenated), std::pair("conformer.base_inclusive", &s.base_inclusive)}) {
    if (!s.r || !*flag) continue;
    check.Warn(field, "has no effect: r is given");
    *flag = false;
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  ConformerSpec s = std::get<ConformerSpec>(canonical);
  auto plan = PlanOfSinusoidTerm(TermOf(s), SinusoidTermPlan::Form::kConformer, precision);
  if (!plan.ok()) return plan.status();
  plan->concatenated = s.concatenated;
  Resolved resolved;
  resolved.plan = *std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kConformer{"conformer", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
