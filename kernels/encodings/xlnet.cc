#include <array>

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/sinusoid_terms.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    kSinusoidDimCard,
    kClampCard,
    kSinusoidBaseCard,
    ParameterCard{"unidirectional", "attn_type uni: only distances ≥ 0 have a row", "false", "true, false"},
    ParameterCard{"separate_cls", "the first query and the first key have neither position nor segment terms (Funnel)",
                  "false", "true, false"},
    ParameterCard{"weights: w_r or r",
                  "w_r [heads·d, dim] projects sinusoids; r [heads, rows, d] is given, row j for distance keys − j",
                  "required", "finite numbers"},
    ParameterCard{"weights: r_w_bias, r_r_bias", "[heads, d], added to the query for content and for position", "0",
                  "finite numbers"},
    ParameterCard{"weights: r_s_bias, seg_embed, segments",
                  "[heads, d], [2, heads, d], and [queries, keys] of 0 (same segment) and 1", "absent; all three together",
                  "finite numbers; segments 0 and 1"},
};

constexpr Card kCard{
    .title = "XLNet",
    .summary =
        "Transformer-XL's terms over distances of both signs, and a term for whether query and key lie in the same segment.",
    .formula = "S = ((q + r_w)·k_j + (q + r_r)·(W_r·R[i − j]) + (q + r_s)·seg[same?])/√d, R = [sin, cos] concatenated",
    .parameters = kParameters,
    .used_by = "XLNet (attn_type, clamp_len; bi_data: give the second half of the batch negated positions), Funnel",
    .pitfalls =
        "The table starts at distance keys, one more than any pair has, and the library's shift drops that row and cuts the "
        "rest to the number of keys. Its fp16 mask is −65500, not −∞. Funnel's seg_embed has the rows the other way round, "
        "and "
        "its blocks after the first ask for the positions that pooling left: 1 − 2^b, then every 2^b-th from 1.",
    .source = "Yang et al., arXiv 1906.08237; transformers' modeling_xlnet",
};

SinusoidTerm TermOf(XlnetSpec& s) {
  return {"xlnet", s.dim, s.base, s.w_r, s.r, {"r_w_bias", s.r_w_bias}, {"r_r_bias", s.r_r_bias}, s.clamp_length};
}

void CheckSegments(SpecChecker& check, const XlnetSpec& s, const TermWidth& width) {
  if (!s.r_s_bias && !s.seg_embed && !s.segments) return;
  CheckWeight(check, "r_s_bias", s.r_s_bias, Need::kRequired, {{width.heads}, {width.dim}});
  CheckWeight(check, "seg_embed", s.seg_embed, Need::kRequired, {{2}, {width.heads}, {width.dim}});
  if (!CheckWeight(check, "segments", s.segments, Need::kRequired, {{0, "queries"}, {0, "keys"}})) return;
  for (int64_t i = 0; i < s.segments->elements() && check.ok(); ++i) {
    const double segment = s.segments->at(i);
    if (segment != 0 && segment != 1) check.Fail("weights.segments.tensor", FormatNumber(segment), "0, 1");
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  XlnetSpec& s = std::get<XlnetSpec>(canonical.spec);
  SpecChecker check(&canonical);
  const TermWidth width = CheckSinusoidTerm(check, TermOf(s));
  if (check.ok()) CheckSegments(check, s, width);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  XlnetSpec s = std::get<XlnetSpec>(canonical);
  auto plan = PlanOfSinusoidTerm(TermOf(s), SinusoidTermPlan::Form::kXlnet, precision);
  if (!plan.ok()) return plan.status();
  plan->unidirectional = s.unidirectional;
  plan->separate_cls = s.separate_cls;
  plan->segment_bias = s.r_s_bias;
  plan->segment_embed = s.seg_embed;
  plan->segments = s.segments;
  Resolved resolved;
  resolved.plan = *std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kXlnet{"xlnet", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
