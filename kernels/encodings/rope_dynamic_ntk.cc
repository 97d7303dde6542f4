#include <algorithm>

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"factor", "how fast the base grows beyond max_position", "required", kFactorRange},
    ParameterCard{"max_position", "length up to which nothing changes", "required", "1 … 2^31"},
});

constexpr Card kCard{
    .title = "RoPE with dynamic NTK",
    .summary =
        "Up to max_position the plain frequencies; beyond it the base grows with the sequence length. The table "
        "depends on the length of the sequence that it serves.",
    .formula = "L = max(sequence_length, M); base' = base · (factor·L/M − (factor − 1))^(d/(d − 2)), d = rotary_dim",
    .parameters = kParameters,
    .used_by = "InternLM2, Nomic; rope_type \"dynamic\"",
    .pitfalls =
        "Keys that were cached at a shorter length were rotated with another base: keep one length for a sequence, "
        "or rotate again. rotary_dim 2 divides by zero.",
    .source = "transformers modeling_rope_utils (dynamic)",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec& rope, SpecChecker& check) {
    const DynamicNtkSchedule& s = std::get<DynamicNtkSchedule>(rope.schedule);
    check.ScalingFactor("rope.dynamic_ntk.factor", s.factor);
    check.InRange("rope.dynamic_ntk.max_position", s.max_position, 1, kMaxLength);
    CheckNtkWidth(rope, check);
  });
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t> sequence_length,
                                     Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const DynamicNtkSchedule& s = std::get<DynamicNtkSchedule>(rope.schedule);
  const int64_t d = *rope.rotary_dim;
  const int64_t beyond = std::max(*sequence_length, s.max_position) - s.max_position;
  // factor·L/M − (factor − 1), in the form that is exactly 1 at L = M.
  const Wide growth = Wide(s.factor) * Wide::FromInt(beyond) / Wide::FromInt(s.max_position) + 1.0;
  const Wide base = NtkBase(*rope.base, growth, d);
  auto resolved = ResolveRope(rope, RopeFrequencies(base, d, d / 2), 1.0, precision, "rope.dynamic_ntk.factor");
  if (resolved.ok()) resolved->derived = {{"effective_base", ToString(base, 20)}};
  return resolved;
}

}  // namespace

constexpr Scheme kRopeDynamicNtk{"rope_dynamic_ntk", "angle", true, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
