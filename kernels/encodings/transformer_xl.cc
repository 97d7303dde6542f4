#include <array>

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/sinusoid_terms.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    kSinusoidDimCard,
    kClampCard,
    kSinusoidBaseCard,
    ParameterCard{"weights: w_r or r",
                  "w_r [heads·d, dim] projects sinusoids; r [heads, rows, d] is given, row j for distance rows − 1 − j",
                  "required", "finite numbers"},
    kSinusoidBiasCard,
};

constexpr Card kCard{
    .title = "Transformer-XL",
    .summary =
        "Four terms: q·k, u·k, and (q + v) with the projected sinusoids of the distance. Memory from before lengthens the "
        "keys; "
        "distances count on.",
    .formula = "S = ((q + u)·k_j + (q + v)·(W_r·R[i − j]))/√d, R = [sin, cos] concatenated",
    .parameters = kParameters,
    .used_by = "Transformer-XL (clamp_len, mem_len, same_length)",
    .pitfalls =
        "Table rows run from the largest distance down to 0. Libraries multiply by every row and shift: keys after the "
        "query "
        "then hold other rows' numbers until a mask hides them; here they are −∞. The fourth term is v·R, not v·k.",
    .source = "Dai et al., arXiv 1901.02860; transformers' modeling_transfo_xl (4.35)",
};

SinusoidTerm TermOf(TransformerXlSpec& s) {
  return {"transformer_xl", s.dim, s.base, s.w_r, s.r, {"u", s.u}, {"v", s.v}, s.clamp_length};
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  TransformerXlSpec& s = std::get<TransformerXlSpec>(canonical.spec);
  SpecChecker check(&canonical);
  CheckSinusoidTerm(check, TermOf(s));
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  TransformerXlSpec s = std::get<TransformerXlSpec>(canonical);
  auto plan = PlanOfSinusoidTerm(TermOf(s), SinusoidTermPlan::Form::kTransformerXl, precision);
  if (!plan.ok()) return plan.status();
  plan->unidirectional = true;
  Resolved resolved;
  resolved.plan = *std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kTransformerXl{"transformer_xl", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
