#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/buckets.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr int64_t kMaxRelativePositions = 1 << 20;
constexpr int64_t kMaxBuckets = 65536;

constexpr std::array kParameters{
    ParameterCard{"position_buckets", "logarithmic buckets; 0: one row per distance", "256", "0, or even, 2 … 65536"},
    ParameterCard{"max_relative_positions", "distance at which the buckets end", "512",
                  "1 … 2^20, above position_buckets/2 + 1"},
    ParameterCard{"c2p", "content to position: q·key_positions[δ]", "true", "true, false"},
    ParameterCard{"p2c", "position to content: k·query_positions[δ]", "true", "true, false"},
    ParameterCard{"weights: key_positions, query_positions",
                  "projected tables [heads, 2·span, d]; span = position_buckets, or max_relative_positions without",
                  "required for scores", "finite numbers"},
};

constexpr Card kCard{
    .title = "DeBERTa's disentangled attention",
    .summary =
        "Queries meet a table of projected key positions and keys one of projected query positions, both by the "
        "logarithmically bucketed distance. The scale of all terms counts them.",
    .formula =
        "S = (q·k + q·K_r[δ(i − j)] + k·Q_r[δ(i − j)])/√(d·f), f = 1 + number of terms; δ = clamp(bucket + span, 0, 2·span "
        "− 1); bucket: |Δ| ≤ mid as it is, else sign·(⌈ln(|Δ|/mid)/ln((max − 1)/mid)·(mid − 1)⌉ + mid)",
    .parameters = kParameters,
    .used_by = "DeBERTa v2 and v3 (relative_attention, pos_att_type, position_buckets, max_relative_positions)",
    .pitfalls =
        "Both terms index by query − key, where the paper writes the opposite sign for p2c. The scale is not 1/√d. The "
        "bucket "
        "rounds up where T5's truncates.",
    .source = "He et al., arXiv 2006.03654; transformers' modeling_deberta_v2",
};

int64_t SpanOf(const DebertaSpec& s) { return *s.position_buckets > 0 ? *s.position_buckets : *s.max_relative_positions; }

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  DebertaSpec& s = std::get<DebertaSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("deberta.position_buckets", s.position_buckets, int64_t{256}, "256");
  check.Default("deberta.max_relative_positions", s.max_relative_positions, int64_t{512}, "512");
  check.Default("deberta.c2p", s.c2p, true, "true");
  check.Default("deberta.p2c", s.p2c, true, "true");
  const int64_t buckets = *s.position_buckets;
  check.InRange("deberta.position_buckets", buckets, 0, kMaxBuckets);
  if (buckets % 2 != 0) {
    check.Fail("deberta.position_buckets", absl::StrCat(buckets), "0, or an even number of 2 … 65536");
  }
  check.InRange("deberta.max_relative_positions", *s.max_relative_positions, buckets > 0 ? buckets / 2 + 2 : 1,
                kMaxRelativePositions);
  if (!check.ok()) return check.status();
  const int64_t rows = 2 * SpanOf(s);
  if (!*s.c2p) RefuseWeight(check, "key_positions", s.key_positions, "c2p is false");
  if (!*s.p2c) RefuseWeight(check, "query_positions", s.query_positions, "p2c is false");
  const bool keys = CheckWeight(check, "key_positions", s.key_positions, Need::kOptional, {{0, "heads"}, {rows}, {0, "d"}});
  if (keys && s.query_positions) {
    const auto& shape = s.key_positions->shape;
    CheckWeight(check, "query_positions", s.query_positions, Need::kOptional, {{shape[0]}, {rows}, {shape[2]}});
  } else {
    CheckWeight(check, "query_positions", s.query_positions, Need::kOptional, {{0, "heads"}, {rows}, {0, "d"}});
  }
  if (check.ok() && *s.c2p && *s.p2c && !s.key_positions != !s.query_positions) {
    const char* missing = s.key_positions ? "query_positions" : "key_positions";
    check.Fail("weights", absl::StrCat("no ", missing), "both tables, or none");
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const DebertaSpec& s = std::get<DebertaSpec>(canonical);
  Resolved resolved;
  resolved.plan = DebertaPlan{.position_buckets = *s.position_buckets,
                              .max_relative_positions = *s.max_relative_positions,
                              .c2p = *s.c2p,
                              .p2c = *s.p2c,
                              .key_positions = s.key_positions,
                              .query_positions = s.query_positions,
                              .buckets = LogBuckets(*s.position_buckets, *s.max_relative_positions)};
  return resolved;
}

}  // namespace

constexpr Scheme kDeberta{"deberta", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
