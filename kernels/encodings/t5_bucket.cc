#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_buckets", "rows of the table", "32", "2 … 65536; bidirectional: even, from 4"},
    ParameterCard{"max_distance", "distance at which the last bucket is reached", "128",
                  "above num_buckets/2 (bidirectional: num_buckets/4), up to 2^31 − 1"},
    ParameterCard{"bidirectional", "a half of the buckets for each side of the query (encoders)", "true", "true, false"},
    ParameterCard{"num_heads", "attention heads of the whole model", "the table's", "1 … 65536"},
    ParameterCard{"scale", "factor on the bias (x-transformers: √dim_head)", "1", "finite"},
    ParameterCard{"distance_divisor", "distances are divided by it and truncated first: positions on a finer grid", "1",
                  "1 … 2^31 − 1"},
    ParameterCard{"weights", "table [num_buckets, num_heads]: relative_attention_bias.weight", "absent: indices only",
                  "finite F64, F32, F16, BF16"},
};

constexpr Card kCard{
    .title = "T5's relative buckets",
    .summary =
        "A learned number per head and bucket of distances: small distances have a bucket each, larger ones share "
        "buckets that grow geometrically. Upload the table once and name it by hash.",
    .formula =
        "b = table[bucket(key − query), h]·scale; N = num_buckets (bidirectional: half, + N where key > query), e = N/2; "
        "n < e → n, else min(N − 1, e + trunc(ln(n/e)/ln(max_distance/e)·(N − e)))",
    .parameters = kParameters,
    .used_by =
        "T5, mT5, UMT5, MPNet, LongT5 (relative_attention_num_buckets, relative_attention_max_distance); LayoutLMv3 and "
        "UDOP, "
        "for tokens and for the boxes of a page",
    .pitfalls =
        "The sign is key − query. Decoders are not bidirectional, cross-attention has no bias. T5 shares the first layer's "
        "table, UMT5 has one per layer. T5 does not scale q·k. With cached keys the row of a new query needs its offset.",
    .source = "Raffel et al., arXiv 1910.10683; transformers T5Attention._relative_position_bucket",
};

constexpr int64_t kMaxBuckets = 65536;
constexpr int64_t kLargestDistance = (int64_t{1} << 31) - 1;

void CheckTable(T5BucketSpec& s, SpecChecker& check) {
  if (!s.table) return check.InRange("t5_bucket.num_heads", s.num_heads, 1, kMaxHeads);
  const std::vector<int64_t>& shape = s.table->shape;
  if (shape.size() != 2 || shape[0] != *s.num_buckets || shape[1] > kMaxHeads ||
      (s.num_heads != 0 && shape[1] != s.num_heads)) {
    const std::string heads = s.num_heads != 0 ? absl::StrCat(s.num_heads) : "heads";
    return check.Fail("weights.table", absl::StrCat("shape [", absl::StrJoin(shape, ", "), "]"),
                      absl::StrCat("[", *s.num_buckets, " (num_buckets), ", heads, "]"));
  }
  s.num_heads = shape[1];
  for (int64_t i = 0; i < s.table->elements(); ++i) {
    const double value = s.table->at(i);
    if (std::isfinite(value)) continue;
    return check.Fail(absl::StrCat("weights.table[", i / s.num_heads, ", ", i % s.num_heads, "]"), FormatNumber(value),
                      "a finite number");
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  T5BucketSpec& s = std::get<T5BucketSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("t5_bucket.num_buckets", s.num_buckets, int64_t{32}, "32");
  check.Default("t5_bucket.max_distance", s.max_distance, int64_t{128}, "128");
  check.Default("t5_bucket.bidirectional", s.bidirectional, true, "true");
  check.Default("t5_bucket.scale", s.scale, 1.0, "1");
  const bool both = *s.bidirectional;
  check.InRange("t5_bucket.num_buckets", *s.num_buckets, both ? 4 : 2, kMaxBuckets);
  if (check.ok() && both && *s.num_buckets % 2 != 0) {
    check.Fail("t5_bucket.num_buckets", absl::StrCat(*s.num_buckets), "an even number: it is bidirectional");
  }
  const int64_t exact = (both ? *s.num_buckets / 2 : *s.num_buckets) / 2;
  if (check.ok()) check.InRange("t5_bucket.max_distance", *s.max_distance, exact + 1, kLargestDistance);
  if (!std::isfinite(*s.scale)) check.Fail("t5_bucket.scale", FormatNumber(*s.scale), "a finite number");
  *s.scale += 0.0;
  if (check.ok()) check.InRange("t5_bucket.distance_divisor", s.distance_divisor, 1, kLargestDistance);
  if (check.ok()) CheckTable(s, check);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const T5BucketSpec& s = std::get<T5BucketSpec>(canonical);
  BucketPlan plan;
  plan.num_buckets = *s.num_buckets;
  plan.max_distance = *s.max_distance;
  plan.bidirectional = *s.bidirectional;
  plan.num_heads = s.num_heads;
  plan.scale = *s.scale;
  plan.distance_divisor = s.distance_divisor;
  plan.table = s.table;
  plan.buckets = DistanceBuckets(plan.num_buckets, plan.max_distance, plan.bidirectional, plan.distance_divisor);
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kT5Bucket{"t5_bucket", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
