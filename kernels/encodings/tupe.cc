#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/buckets.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_buckets", "bias by T5's bidirectional buckets", "absent: by clipped distance", "even, 4 … 65536"},
    ParameterCard{"max_distance", "of the buckets", "128", "above num_buckets/4, to 2^31 − 1"},
    ParameterCard{"weights: q, k", "p·U_q and p·U_k, [heads, positions, d]", "required", "finite numbers"},
    ParameterCard{"weights: bias", "[heads, 2·max − 1] by clipped distance key − query, or [num_buckets, heads]", "absent",
                  "finite numbers"},
    ParameterCard{"weights: untied", "[heads, 2]: class → any, any → class", "absent", "finite numbers"},
};

constexpr Card kCard{
    .title = "TUPE's position term",
    .summary =
        "Positions have projections of their own; their product is a bias that does not depend on the content. The class "
        "token is untied from it.",
    .formula =
        "b[h, i, j] = (p_i·U_q)·(p_j·U_k)/√(2·d) + bias[j − i]; row 0, then column 0, replaced by constants when untied",
    .parameters = kParameters,
    .used_by = "TUPE",
    .pitfalls =
        "The content scores are divided by √(2·d) as well, not by √d. The constants of the class token replace the whole "
        "bias, the distance term included: add what the model adds there. TUPE's own bucket function rounds up and uses "
        "max_distance − 1; send clipped distances where it matters.",
    .source = "Ke et al., arXiv 2006.15595",
};

void CheckBias(TupeSpec& s, int64_t heads, SpecChecker& check) {
  if (s.num_buckets) {
    check.InRange("tupe.num_buckets", *s.num_buckets, 4, 65536);
    if (*s.num_buckets % 2 != 0) check.Fail("tupe.num_buckets", absl::StrCat(*s.num_buckets), "an even number");
    check.Default("tupe.max_distance", s.max_distance, int64_t{128}, "128");
    check.InRange("tupe.max_distance", *s.max_distance, *s.num_buckets / 4 + 1, (int64_t{1} << 31) - 1);
    CheckWeight(check, "bias", s.bias, Need::kRequired, {{*s.num_buckets}, {heads}});
    return;
  }
  if (s.max_distance) check.Warn("tupe.max_distance", "has no effect: there are no buckets");
  s.max_distance.reset();
  if (CheckWeight(check, "bias", s.bias, Need::kOptional, {{heads}, {0, "2·max − 1"}}) && s.bias->shape[1] % 2 == 0) {
    check.Fail("weights.bias.tensor.shape[1]", absl::StrCat(s.bias->shape[1]), "an odd number: 2·max − 1 distances");
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  TupeSpec& s = std::get<TupeSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (CheckWeight(check, "q", s.q, Need::kRequired, {{0, "heads"}, {0, "positions"}, {0, "d"}})) {
    const int64_t heads = s.q->shape[0];
    check.InRange("weights.q.tensor.shape[0]", heads, 1, kMaxHeads);
    check.InRange("weights.q.tensor.shape[2]", s.q->shape[2], 1, kMaxHeadDim);
    CheckWeight(check, "k", s.k, Need::kRequired, {{heads}, {0, "positions"}, {s.q->shape[2]}});
    if (check.ok()) CheckBias(s, heads, check);
    CheckWeight(check, "untied", s.untied, Need::kOptional, {{heads}, {2}});
  }
  if (!check.ok()) return check.status();
  return canonical;
}

// The bias by distance, −reach … reach; reach is where it stops changing, or the farthest two positions can be apart.
void SetRelative(const TupeSpec& s, TupePlan& plan) {
  if (!s.bias) return;
  const std::vector<double> bias = s.bias->values();
  if (!s.num_buckets) {
    plan.reach = s.bias->shape[1] / 2;
    plan.relative = bias;
    return;
  }
  plan.num_buckets = *s.num_buckets;
  plan.max_distance = *s.max_distance;
  plan.reach = std::min(plan.max_distance, std::max(plan.query_positions(), plan.key_positions()));
  const DistanceBuckets rule(plan.num_buckets, plan.max_distance, true);
  std::vector<int64_t> buckets;
  for (int64_t distance = -plan.reach; distance <= plan.reach; ++distance) buckets.push_back(rule.at(distance));
  const size_t heads = static_cast<size_t>(plan.heads());
  plan.relative.resize(heads * buckets.size());
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < buckets.size(); ++i) {
      plan.relative[h * buckets.size() + i] = bias[static_cast<size_t>(buckets[i]) * heads + h];
    }
  }
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const TupeSpec& s = std::get<TupeSpec>(canonical);
  TupePlan plan;
  plan.q = s.q;
  plan.k = s.k;
  plan.weights = {s.q, s.k, s.bias, s.untied};
  SetRelative(s, plan);
  if (s.untied) plan.untied = s.untied->values();
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kTupe{"tupe", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
