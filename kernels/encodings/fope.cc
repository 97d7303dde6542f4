#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = std::array{
    ParameterCard{"head_dim", "channels of one attention head", "required", "even, 2 … 65536"},
    ParameterCard{"training_length", "M, positions: slower frequencies than one turn in M are dropped", "required",
                  "1 … 2^31"},
    ParameterCard{"base", "base of the geometric frequencies", "10000", kBaseRange},
    ParameterCard{"weights.cos_coef", "how the cosines are mixed", "required",
                  "[key-value heads, kept frequencies, outputs], outputs ≤ head_dim/2"},
    ParameterCard{"weights.sin_coef", "how the sines are mixed", "required", "as cos_coef"},
};

constexpr Card kCard{
    .title = "FoPE (Fourier position embedding)",
    .summary =
        "RoPE whose cosines and sines are learned mixtures over the frequencies that turn at least once within the trained "
        "length; the slower ones are replaced by standing still. Each key-value head has its own mixture.",
    .formula =
        "cos'_d = Σ_j cos(position·ω_j)·C[h, j, d], sin'_d = Σ_j sin(position·ω_j)·S[h, j, d] over ω_j = "
        "base^(−2j/head_dim) > "
        "2π/M; pairs beyond the outputs have cos 1, sin 0; half-split pairs",
    .parameters = kParameters,
    .used_by = "OLMo trained with FoPE; vLLM's fope rope type (fope_sep_head: one mixture per key-value head)",
    .pitfalls =
        "The table depends on the head: query head h takes the mixture of its key-value head. cos'² + sin'² is not 1, so "
        "the "
        "inverse of the rotation is not its transpose. Padding sin with 1 instead of 0 mixes the halves.",
    .source = "Hua et al., arXiv 2412.17739; vLLM fope.py",
};

// How many frequencies turn at least once in the trained length. Decided in IEEE double.
int64_t KeptFrequencies(const FopeSpec& fope) {
  const double limit = 2.0 * ToDouble(Pi()) / static_cast<double>(fope.training_length);
  int64_t kept = 0;
  for (const Wide& f : RopeFrequencies(*fope.base, fope.head_dim, fope.head_dim / 2)) kept += ToDouble(f) > limit ? 1 : 0;
  return kept;
}

void CheckCoefficients(const FopeSpec& fope, SpecChecker& check) {
  if (!fope.cos_coef) return check.Fail("weights.cos_coef", "nothing", "[heads, frequencies, outputs]");
  if (!fope.sin_coef) return check.Fail("weights.sin_coef", "nothing", "the shape of cos_coef");
  const std::vector<int64_t>& shape = fope.cos_coef->shape;
  const int64_t kept = KeptFrequencies(fope);
  if (kept == 0) {
    return check.Fail("fope.training_length", absl::StrCat(fope.training_length),
                      "7 or more: no frequency turns once in it");
  }
  if (shape.size() != 3 || shape[0] > kMaxHeads || shape[1] != kept || shape[2] > fope.head_dim / 2) {
    return check.Fail(
        "weights.cos_coef", ShapeText(shape),
        absl::StrCat("[heads, ", kept, " (frequencies above 2π/training_length), up to ", fope.head_dim / 2, "]"));
  }
  if (fope.sin_coef->shape != shape) check.Fail("weights.sin_coef", ShapeText(fope.sin_coef->shape), ShapeText(shape));
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  FopeSpec& fope = std::get<FopeSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("fope.head_dim", fope.head_dim, 2, kMaxHeadDim);
  if (check.ok() && fope.head_dim % 2 != 0) check.Fail("fope.head_dim", absl::StrCat(fope.head_dim), "an even number");
  check.InRange("fope.training_length", fope.training_length, 1, kMaxLength);
  check.Default("fope.base", fope.base, 10000.0, "10000");
  check.Positive("fope.base", *fope.base);
  if (check.ok() && *fope.base <= 1) check.Fail("fope.base", FormatNumber(*fope.base), "more than 1");
  if (check.ok()) CheckCoefficients(fope, check);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const FopeSpec& fope = std::get<FopeSpec>(canonical);
  if (precision == Precision::kCompatF32) {
    return MakeSpecError("precision", "PRECISION_COMPAT_F32", "PRECISION_EXACT: sums of FoPE have no float32 form");
  }
  std::vector<Wide> inv_freq = RopeFrequencies(*fope.base, fope.head_dim, fope.cos_coef->shape[1]);
  auto angles = ResolveAngles(inv_freq, 1.0, precision, "fope.base");
  if (!angles.ok()) return angles;
  MixedAnglePlan plan;
  plan.frequencies = std::move(std::get<AnglePlan>(angles->plan).frequencies);
  plan.cos_coef = fope.cos_coef;
  plan.sin_coef = fope.sin_coef;
  plan.heads = fope.cos_coef->shape[0];
  plan.outputs = fope.cos_coef->shape[2];
  plan.pairs = fope.head_dim / 2;
  Resolved resolved;
  resolved.derived = {{"kept_frequencies", absl::StrCat(plan.frequencies.size())}};
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kFope{"fope", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
