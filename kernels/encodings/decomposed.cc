#include <array>

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr int64_t kMaxSide = 4096;

constexpr std::array kParameters{
    ParameterCard{"query_height", "rows of the query grid", "required", "1 … 4096"},
    ParameterCard{"query_width", "its columns", "required", "1 … 4096"},
    ParameterCard{"key_height", "rows of the key grid", "query_height", "1 … 4096"},
    ParameterCard{"key_width", "its columns", "query_width", "1 … 4096"},
    ParameterCard{"weights: rel_pos_h, rel_pos_w", "[rows, d]; resized linearly to 2·max(queries, keys) − 1 rows",
                  "required", "finite numbers"},
};

constexpr Card kCard{
    .title = "Decomposed relative positions",
    .summary =
        "Relative positions of an image, one table per axis: the query meets a vector for the rows between and one for the "
        "columns between.",
    .formula =
        "S += q·R_h[Δy] + q·R_w[Δx]; Δ = i·max(k/q, 1) − j·max(q/k, 1) + (k − 1)·max(q/k, 1), truncated, for q queries and "
        "k "
        "keys along the axis",
    .parameters = kParameters,
    .used_by = "SAM's image encoder, ViTDet, MViTv2 (use_rel_pos)",
    .pitfalls =
        "It depends on q, so it is no static bias. It is added after q·k was scaled, with q unscaled. Tables of another "
        "size are "
        "resized linearly, without aligned corners.",
    .source = "Li et al., arXiv 2112.01526; transformers' modeling_sam, get_rel_pos",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  DecomposedSpec& s = std::get<DecomposedSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (s.key_height == 0) s.key_height = s.query_height;
  if (s.key_width == 0) s.key_width = s.query_width;
  check.InRange("decomposed.query_height", s.query_height, 1, kMaxSide);
  check.InRange("decomposed.query_width", s.query_width, 1, kMaxSide);
  check.InRange("decomposed.key_height", s.key_height, 1, kMaxSide);
  check.InRange("decomposed.key_width", s.key_width, 1, kMaxSide);
  if (CheckWeight(check, "rel_pos_h", s.rel_pos_h, Need::kRequired, {{0, "rows"}, {0, "d"}})) {
    CheckWeight(check, "rel_pos_w", s.rel_pos_w, Need::kRequired, {{0, "rows"}, {s.rel_pos_h->shape[1]}});
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const DecomposedSpec& s = std::get<DecomposedSpec>(canonical);
  Resolved resolved;
  resolved.plan = DecomposedPlan{.query_height = s.query_height,
                                 .query_width = s.query_width,
                                 .key_height = s.key_height,
                                 .key_width = s.key_width,
                                 .rel_pos_h = s.rel_pos_h,
                                 .rel_pos_w = s.rel_pos_w};
  return resolved;
}

}  // namespace

constexpr Scheme kDecomposed{"decomposed", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
