#include <array>

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_heads", "attention heads of the whole model", "required", "1 … 65536"},
    ParameterCard{"dim", "d̄, width of the sinusoids (NeMo: its hidden_size argument)", "128", "even, 2 … 65536"},
    ParameterCard{"base", "base of the frequencies", "10000", kBaseRange},
};

constexpr Card kCard{
    .title = "Sandwich",
    .summary =
        "The inner product of two sinusoidal encodings as a bias: it falls with the distance, without anything learned.",
    .formula = "b = (Σ_{k=1}^{dim/2} cos(Δ·base^(−2k/dim)) − dim/2)·num_heads/(8·(h + 1))",
    .parameters = kParameters,
    .used_by = "NeMo (position_embedding_type: sandwich)",
    .pitfalls =
        "k starts at 1, so the fastest frequency is not 1 radian a position. 0 at distance 0, negative elsewhere, but not "
        "monotone. The first head decays most. Another revision of NeMo sums Δ·frequency without the cosine.",
    .source = "Chi et al., arXiv 2212.10356; NVIDIA NeMo sandwich_relative_position_embedding.py",
};

constexpr int64_t kMaxWidth = 65536;

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  SandwichSpec& s = std::get<SandwichSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("sandwich.num_heads", s.num_heads, 1, kMaxHeads);
  check.Default("sandwich.dim", s.dim, int64_t{128}, "128");
  check.Default("sandwich.base", s.base, 10000.0, "10000");
  check.InRange("sandwich.dim", *s.dim, 2, kMaxWidth);
  if (check.ok() && *s.dim % 2 != 0) check.Fail("sandwich.dim", std::to_string(*s.dim), "an even number");
  check.Positive("sandwich.base", *s.base);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const SandwichSpec& s = std::get<SandwichSpec>(canonical);
  SandwichPlan plan;
  const std::vector<Wide> frequencies = RopeFrequencies(*s.base, *s.dim, *s.dim / 2 + 1);
  const Wide two_pi = Wide(2.0) * Pi();
  const Wide smallest = ScaleByPowerOfTwo(1.0, -96), limit = ScaleByPowerOfTwo(1.0, 63);
  for (size_t k = 1; k < frequencies.size(); ++k) {
    const Wide turns = frequencies[k] / two_pi;
    if (turns < smallest || turns >= limit) {
      return MakeSpecError("sandwich.base", FormatNumber(*s.base), kBaseRange);
    }
    plan.half_frequencies.push_back(ToTurns(turns / Wide(2.0)));
  }
  for (int64_t h = 0; h < s.num_heads; ++h) {
    plan.factors.push_back(ToDoubleDouble(Wide::FromInt(s.num_heads) / Wide::FromInt(8 * (h + 1))));
  }
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kSandwich{"sandwich", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
