#include <array>

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr int64_t kMaxClip = 1 << 20;

constexpr std::array kParameters{
    ParameterCard{"clip", "distances beyond ± clip share the row of ± clip; BERT: max_position − 1", "required", "0 … 2^20"},
    ParameterCard{"query_term_too", "adds k·a[row] as well (relative_key_query)", "false", "true, false"},
    ParameterCard{"key_minus_query", "the row is clip − Δ (Shaw) instead of clip + Δ (BERT), Δ = i − j", "false",
                  "true, false"},
    ParameterCard{"weights: keys, values", "[2·clip + 1, d] each; values add Σ_j p_ij·values[row] to the output",
                  "keys required for scores", "finite numbers"},
};

constexpr Card kCard{
    .title = "Shaw's relative positions",
    .summary =
        "A learned vector per clipped distance, multiplied by the query (and, in one form, by the key), is added to the "
        "scores. A second table may be added to the values.",
    .formula = "S += q·a[clip + clamp(i − j, −clip, clip)] (+ k·a[same])",
    .parameters = kParameters,
    .used_by = "Shaw et al.; BERT and ESM variants (position_embedding_type relative_key, relative_key_query)",
    .pitfalls =
        "Clipping shares one row among all far distances, nothing is zeroed. BERT counts rows by query − key, Shaw by key − "
        "query: a table read the other way round is mirrored.",
    .source = "Shaw et al., arXiv 1803.02155; transformers' BERT",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  ShawSpec& s = std::get<ShawSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("shaw.clip", s.clip, 0, kMaxClip);
  if (check.ok() && CheckWeight(check, "keys", s.keys, Need::kOptional, {{2 * s.clip + 1}, {0, "d"}})) {
    CheckWeight(check, "values", s.values, Need::kOptional, {{2 * s.clip + 1}, {0, "d"}});
  } else if (check.ok()) {
    RefuseWeight(check, "values", s.values, "values go with keys");
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const ShawSpec& s = std::get<ShawSpec>(canonical);
  Resolved resolved;
  resolved.plan = ShawPlan{.clip = s.clip,
                           .query_term_too = s.query_term_too,
                           .key_minus_query = s.key_minus_query,
                           .keys = s.keys,
                           .values = s.values};
  return resolved;
}

}  // namespace

constexpr Scheme kShaw{"shaw", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
