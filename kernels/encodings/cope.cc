#include <array>

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"max_positions", "rows of e that count; positions beyond are held to the last", "columns of e",
                  "2 … 65536"},
    ParameterCard{"weights: e", "[d, max_positions] or [heads, d, max_positions]", "required", "finite numbers"},
};

constexpr Card kCard{
    .title = "CoPE",
    .summary =
        "Contextual positions: each key counts as a fraction, the sigmoid of its score, and a key's position is the sum of "
        "the "
        "counts from it to the query. The query meets a learned vector at that position, linear between whole ones.",
    .formula = "p_ij = min(Σ_{k=j}^{i} σ(q_i·k_k), max − 1); S += (1 − w)·q·e[⌊p⌋] + w·q·e[⌈p⌉], w = p − ⌊p⌋",
    .parameters = kParameters,
    .used_by = "CoPE; x-transformers (CoPE)",
    .pitfalls =
        "Causal: keys after the query must be hidden before the sigmoid, or they count. The gates take q·k without the "
        "scale; "
        "x-transformers scales before: give q·scale, e/scale and a scale of 1.",
    .source = "Golovneva et al., arXiv 2405.18719, listing 1; x-transformers, attend.py and x_transformers.py",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  CopeSpec& s = std::get<CopeSpec>(canonical.spec);
  SpecChecker check(&canonical);
  const bool by_head = s.e && s.e->shape.size() == 3;
  const bool good =
      by_head ? CheckWeight(check, "e", s.e, Need::kRequired, {{0, "heads"}, {0, "d"}, {s.max_positions, "max_positions"}})
              : CheckWeight(check, "e", s.e, Need::kRequired, {{0, "d"}, {s.max_positions, "max_positions"}});
  if (good) s.max_positions = s.e->shape.back();
  check.InRange("cope.max_positions", s.max_positions, 2, 65536);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const CopeSpec& s = std::get<CopeSpec>(canonical);
  Resolved resolved;
  resolved.plan = CopePlan{.max_positions = s.max_positions, .e = s.e};
  return resolved;
}

}  // namespace

constexpr Scheme kCope{"cope", "term", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
