#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_heads", "attention heads of the whole model, before any split", "the number of slopes", "1 … 65536"},
    ParameterCard{"max_bias", "the first power-of-two heads have slopes down to 2^−max_bias", "8", "0 … 256"},
    ParameterCard{"form", "causal: slope·(key − query), signed; symmetric: −slope·|key − query|", "causal",
                  "causal, symmetric"},
    ParameterCard{"slopes", "replace the rule; taken as the doubles they are", "absent",
                  "num_heads numbers, each 0 or of magnitude 2^-256 … 2^64"},
};

constexpr Card kCard{
    .title = "ALiBi",
    .summary =
        "Attention with linear biases: each head subtracts its slope times the distance from the scores. No "
        "position goes into the embeddings, queries or keys.",
    .formula =
        "p = 2^floor(log2 H); slope_h = 2^(−max_bias·(h + 1)/p) for h < p, then 2^(−max_bias·(2k + 1)/(2p)), "
        "k = h − p; bias = slope_h·(key − query)",
    .parameters = kParameters,
    .used_by = "BLOOM, MPT (alibi, alibi_bias_max), Baichuan-13B, Falcon-RW, jina-bert (symmetric)",
    .pitfalls =
        "Head counts that are no power of two do not follow one geometric series. Libraries store forms that "
        "differ by a constant per row: compare after the softmax. In the causal form keys after the query get a "
        "reward, so they must be masked. A shard needs the global head count and its offset.",
    .source = "Press et al., arXiv 2108.12409; the rule for other head counts from the authors' code",
};

constexpr double kMaxBias = 256;

void CheckSlopes(AlibiSpec& s, SpecChecker& check) {
  const int64_t count = static_cast<int64_t>(s.slopes.size());
  check.InRange("alibi.slopes", count, 1, kMaxHeads);
  if (s.num_heads == 0) s.num_heads = count;
  if (count != s.num_heads) {
    return check.Fail("alibi.slopes", absl::StrCat(count, " entries"), absl::StrCat(s.num_heads, " entries (num_heads)"));
  }
  const double largest = std::ldexp(1.0, 64);
  const double smallest = std::ldexp(1.0, -256);
  for (size_t i = 0; i < s.slopes.size() && check.ok(); ++i) {
    double& slope = s.slopes[i];
    const double magnitude = std::fabs(slope);
    if (!(magnitude == 0 || (magnitude >= smallest && magnitude <= largest))) {
      check.Fail(absl::StrCat("alibi.slopes[", i, "]"), FormatNumber(slope), "0, or a magnitude of 2^-256 … 2^64");
    }
    slope += 0.0;  // −0 → 0
  }
  if (s.max_bias) check.Warn("alibi.max_bias", "has no effect: slopes replace the rule");
  s.max_bias.reset();
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  AlibiSpec& s = std::get<AlibiSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (s.max_bias) check.InRange("alibi.max_bias", *s.max_bias, 0, kMaxBias);
  if (s.slopes.empty()) {
    check.InRange("alibi.num_heads", s.num_heads, 1, kMaxHeads);
    check.Default("alibi.max_bias", s.max_bias, 8.0, "8");
  } else {
    CheckSlopes(s, check);
  }
  check.Default("alibi.form", s.form, AlibiForm::kCausal, "causal");
  if (*s.form != AlibiForm::kCausal && *s.form != AlibiForm::kSymmetric) {
    check.Fail("alibi.form", absl::StrCat(static_cast<int>(*s.form)), "causal, symmetric");
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const AlibiSpec& s = std::get<AlibiSpec>(canonical);
  BiasPlan plan{.form = *s.form, .slopes = {}};
  plan.slopes.reserve(s.num_heads);
  for (double slope : s.slopes) plan.slopes.push_back({slope, 0});
  if (s.slopes.empty()) {
    const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(s.num_heads)));
    for (int64_t h = 0; h < s.num_heads; ++h) {
      // Over 2p in both halves of the rule; the exponent is exact, so slopes that are powers of two are too.
      const int64_t step = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
      const Wide exponent = -(Wide(*s.max_bias) * Wide::FromInt(step) / Wide::FromInt(2 * power));
      plan.slopes.push_back(ToDoubleDouble(Exp2(exponent)));
    }
  }
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kAlibi{"alibi", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
