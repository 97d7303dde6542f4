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
    ParameterCard{"weights: u, v", "[heads, d], added to the query for content and for position", "0", "finite numbers"},
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

SinusoidTable TableOf(TransformerXlSpec& s) { return {"transformer_xl", s.dim, s.base, s.w_r, s.r}; }

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  TransformerXlSpec& s = std::get<TransformerXlSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (s.clamp_length) check.InRange("transformer_xl.clamp_length", *s.clamp_length, 1, kMaxLength);
  CheckSinusoidTable(check, TableOf(s), {{"u", s.u}, {"v", s.v}});
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  TransformerXlSpec s = std::get<TransformerXlSpec>(canonical);
  SinusoidTermPlan plan;
  plan.form = SinusoidTermPlan::Form::kTransformerXl;
  const auto& shape = s.r ? s.r->shape : s.u ? s.u->shape : s.v->shape;
  plan.heads = shape.front();
  plan.dim = shape.back();
  plan.clamp = s.clamp_length;
  plan.unidirectional = true;
  plan.content_bias = s.u;
  plan.position_bias = s.v;
  if (auto status = FillSinusoidTable(TableOf(s), precision, &plan); !status.ok()) return status;
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kTransformerXl{"transformer_xl", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
