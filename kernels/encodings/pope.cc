#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = std::array{
    ParameterCard{"head_dim", "channels of one attention head", "required", "1 … 65536"},
    ParameterCard{"base", "base of the geometric frequencies", "10000", kBaseRange},
    ParameterCard{"weights.delta", "learned phase of the keys, per channel or per key head and channel", "0",
                  "[head_dim] or [heads, head_dim]; values are clamped to [−2π, 0]"},
};

constexpr Card kCard{
    .title = "PoPE (polar embedding)",
    .summary =
        "Takes a channel's value, made positive by softplus, as a radius and the position as an angle, so that content and "
        "position do not mix. Every channel has its own frequency, and queries and keys become twice as wide.",
    .formula =
        "q → softplus(q)·[cos φ, sin φ], k → softplus(k)·[cos(φ + δ), sin(φ + δ)], φ_i = position · base^(−i/head_dim), "
        "i = 0 … head_dim − 1",
    .parameters = kParameters,
    .used_by = "x-transformers (PolarEmbedding, polar_pos_emb)",
    .pitfalls =
        "The exponent is −i/head_dim, half of RoPE's step, because each channel turns alone. δ belongs to keys only. The "
        "softmax scale stays that of head_dim, although the heads are twice as wide.",
    .source = "Gopalakrishnan et al., arXiv 2509.10534; x-transformers",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  PopeSpec& pope = std::get<PopeSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("pope.head_dim", pope.head_dim, 1, kMaxHeadDim);
  check.Default("pope.base", pope.base, 10000.0, "10000");
  check.Positive("pope.base", *pope.base);
  if (check.ok() && pope.delta) {
    const std::vector<int64_t>& shape = pope.delta->shape;
    if (shape.empty() || shape.size() > 2 || shape.back() != pope.head_dim || shape.front() > kMaxDim) {
      check.Fail("weights.delta", ShapeText(shape), absl::StrCat("[", pope.head_dim, "] or [heads, ", pope.head_dim, "]"));
    }
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const PopeSpec& pope = std::get<PopeSpec>(canonical);
  return ResolveAngles(RopeFrequencies(*pope.base, 2 * pope.head_dim, pope.head_dim), 1.0, precision, "pope.base");
}

}  // namespace

constexpr Scheme kPope{"pope", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
