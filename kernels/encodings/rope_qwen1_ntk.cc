#include <cmath>

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"training_length", "length up to which nothing changes (seq_length in configurations)", "required",
                  "1 … 2^31"},
});

constexpr Card kCard{
    .title = "RoPE as Qwen-1 scales it",
    .summary =
        "Dynamic NTK in steps: the base grows when the sequence passes the training length times a power of two. "
        "The model also scales its queries by a logarithm of the position, which is not part of this table.",
    .formula = "α = max(1, 2^ceil(log2(L/M) + 1) − 1), base' = base·α^(d/(d − 2)), d = rotary_dim, M = training_length",
    .parameters = kParameters,
    .used_by = "Qwen-7B and Qwen-14B (first generation) with use_dynamic_ntk",
    .pitfalls =
        "α is computed at prefill, from the prompt's length, and kept while decoding. A prompt of one token over "
        "the training length jumps to α = 3.",
    .source = "Qwen-7B's remote code, modeling_qwen.py",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(spec, [](RopeSpec& rope, SpecChecker& check) {
    check.InRange("rope.qwen1_ntk.training_length", std::get<Qwen1NtkSchedule>(rope.schedule).training_length, 1,
                  kMaxLength);
    CheckNtkWidth(rope, check);
  });
}

// The exponent is decided in IEEE double in the library's order: log(L/M, 2) is there a quotient of two logarithms.
Wide Alpha(int64_t length, int64_t training_length) {
  const double ratio = static_cast<double>(length) / static_cast<double>(training_length);
  const double log2_ratio = ToDouble(Log(ratio)) / ToDouble(Log(2.0));
  const int exponent = static_cast<int>(std::ceil(log2_ratio + 1));
  const Wide alpha = ScaleByPowerOfTwo(1.0, exponent) - 1.0;
  return alpha < 1.0 ? Wide(1.0) : alpha;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t> sequence_length,
                                     Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const int64_t d = *rope.rotary_dim;
  const Wide alpha = Alpha(*sequence_length, std::get<Qwen1NtkSchedule>(rope.schedule).training_length);
  const Wide base = NtkBase(*rope.base, alpha, d);
  auto resolved = ResolveRope(rope, RopeFrequencies(base, d, d / 2), 1.0, precision, "rope.base");
  if (resolved.ok()) resolved->derived = {{"alpha", ToString(alpha, 20)}, {"effective_base", ToString(base, 20)}};
  return resolved;
}

}  // namespace

constexpr Scheme kRopeQwen1Ntk{"rope_qwen1_ntk", "angle", true, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
