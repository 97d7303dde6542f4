#include "kernels/encodings/alibi.h"

#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/core/narrow.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_heads", "attention heads of the whole model, before any split", "the number of slopes", "1 … 65536"},
    ParameterCard{"max_bias", "the first power-of-two heads have slopes down to 2^−max_bias", "8", "0 … 256"},
    ParameterCard{"form",
                  "causal: slope·(key − query), signed; symmetric: −slope·|key − query|; two-sided: causal up to the query, "
                  "−slope·future_factor·(key − query) beyond",
                  "causal", "causal, symmetric, two_sided"},
    ParameterCard{"slopes", "replace the rule; taken as the doubles they are", "absent",
                  "num_heads numbers, each 0 or of magnitude 2^-256 … 2^64"},
    ParameterCard{"biased_heads", "only the first so many heads are biased, by the rule for that number; the others get 0",
                  "num_heads", "1 … num_heads"},
    ParameterCard{"scale", "factor on the bias (Falcon: 1/√d, as it scales scores and bias alike)", "1", "2^-64 … 2^64"},
    ParameterCard{"slope_dtype", "round the slopes to this type first (Falcon: BF16)", "not rounded", "F32, F16, BF16"},
    ParameterCard{"future_factor", "two-sided form: factor for keys after the query", "1", "2^-64 … 2^64"},
    ParameterCard{"batch_slopes", "slopes for every batch row, one row after the other: the bias has a batch axis", "absent",
                  "a multiple of num_heads numbers, as slopes"},
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
    .used_by =
        "BLOOM, MPT (alibi, alibi_bias_max), Baichuan-13B, Falcon-RW, jina-bert (symmetric), x-transformers "
        "(alibi_num_heads)",
    .pitfalls =
        "Head counts that are no power of two do not follow one geometric series. Libraries store forms that "
        "differ by a constant per row: compare after the softmax. In the causal form keys after the query get a "
        "reward, so they must be masked. A shard needs the global head count and its offset.",
    .source = "Press et al., arXiv 2108.12409; the rule for other head counts from the authors' code",
};

constexpr double kMaxBias = 256;
constexpr int64_t kMaxBatchSlopes = int64_t{1} << 20;

const BinaryFormat& FormatOf(DType dtype) {
  return dtype == DType::kF16 ? kFormatF16 : dtype == DType::kBF16 ? kFormatBF16 : kFormatF32;
}

double LargestOf(DType dtype) { return dtype == DType::kF16 ? 65504.0 : std::ldexp(1.0, 64); }

void CheckSlopeValues(const char* field, std::vector<double>& slopes, std::optional<DType> dtype, SpecChecker& check) {
  const double largest = dtype ? LargestOf(*dtype) : std::ldexp(1.0, 64);
  const double smallest = std::ldexp(1.0, -256);
  for (size_t i = 0; i < slopes.size() && check.ok(); ++i) {
    double& slope = slopes[i];
    const double magnitude = std::fabs(slope);
    if (!(magnitude == 0 || (magnitude >= smallest && magnitude <= largest))) {
      check.Fail(
          absl::StrCat(field, "[", i, "]"), FormatNumber(slope),
          largest == 65504 ? "0, or a magnitude of 2^-256 … 65504 (slope_dtype)" : "0, or a magnitude of 2^-256 … 2^64");
    }
    slope += 0.0;  // −0 → 0
  }
}

// What the rule's parameters come to where slopes are given.
void DropRule(AlibiSpec& s, const char* given, SpecChecker& check) {
  if (s.max_bias) check.Warn("alibi.max_bias", absl::StrCat("has no effect: ", given, " replace the rule"));
  s.max_bias.reset();
  if (s.biased_heads) {
    check.Fail("alibi.biased_heads", absl::StrCat(*s.biased_heads),
               absl::StrCat("unset: ", given, " replace the rule, and 0 is a slope"));
  }
}

void CheckSlopes(AlibiSpec& s, SpecChecker& check) {
  const int64_t count = static_cast<int64_t>(s.slopes.size());
  check.InRange("alibi.slopes", count, 1, kMaxHeads);
  if (s.num_heads == 0) s.num_heads = count;
  if (count != s.num_heads) {
    return check.Fail("alibi.slopes", absl::StrCat(count, " entries"), absl::StrCat(s.num_heads, " entries (num_heads)"));
  }
  CheckSlopeValues("alibi.slopes", s.slopes, s.slope_dtype, check);
  DropRule(s, "slopes", check);
}

void CheckBatchSlopes(AlibiSpec& s, SpecChecker& check) {
  const int64_t count = static_cast<int64_t>(s.batch_slopes.size());
  if (!s.slopes.empty()) check.Fail("alibi.batch_slopes", absl::StrCat(count, " entries"), "none: slopes are given");
  check.InRange("alibi.num_heads", s.num_heads, 1, kMaxHeads);
  check.InRange("alibi.batch_slopes", count, 1, kMaxBatchSlopes);
  if (!check.ok()) return;
  if (count % s.num_heads != 0) {
    return check.Fail("alibi.batch_slopes", absl::StrCat(count, " entries"),
                      absl::StrCat("a multiple of ", s.num_heads, " (num_heads): one row of slopes per batch row"));
  }
  CheckSlopeValues("alibi.batch_slopes", s.batch_slopes, s.slope_dtype, check);
  DropRule(s, "batch_slopes", check);
}

void CheckRule(AlibiSpec& s, SpecChecker& check) {
  check.InRange("alibi.num_heads", s.num_heads, 1, kMaxHeads);
  if (!check.ok()) return;
  check.Default("alibi.max_bias", s.max_bias, 8.0, "8");
  check.Default("alibi.biased_heads", s.biased_heads, s.num_heads, absl::StrCat(s.num_heads));
  check.InRange("alibi.biased_heads", *s.biased_heads, 1, s.num_heads);
}

void CheckFactors(AlibiSpec& s, SpecChecker& check) {
  const double smallest = std::ldexp(1.0, -64), largest = std::ldexp(1.0, 64);
  check.Default("alibi.scale", s.scale, 1.0, "1");
  check.InRange("alibi.scale", *s.scale, smallest, largest);
  if (s.form == AlibiForm::kTwoSided) {
    check.Default("alibi.future_factor", s.future_factor, 1.0, "1");
    check.InRange("alibi.future_factor", *s.future_factor, smallest, largest);
  } else if (s.future_factor) {
    check.InRange("alibi.future_factor", *s.future_factor, smallest, largest);
    check.Warn("alibi.future_factor", "has no effect: the form is not two-sided");
    s.future_factor.reset();
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  AlibiSpec& s = std::get<AlibiSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (s.max_bias) check.InRange("alibi.max_bias", *s.max_bias, 0, kMaxBias);
  if (s.slope_dtype && *s.slope_dtype != DType::kF32 && *s.slope_dtype != DType::kF16 && *s.slope_dtype != DType::kBF16) {
    const std::string_view name = Name(*s.slope_dtype);
    check.Fail("alibi.slope_dtype", name, "f32, f16, bf16");
  }
  if (!s.batch_slopes.empty()) {
    CheckBatchSlopes(s, check);
  } else if (!s.slopes.empty()) {
    CheckSlopes(s, check);
  } else {
    CheckRule(s, check);
  }
  check.Default("alibi.form", s.form, AlibiForm::kCausal, "causal");
  if (*s.form < AlibiForm::kCausal || *s.form > AlibiForm::kTwoSided) {
    check.Fail("alibi.form", absl::StrCat(static_cast<int>(*s.form)), "causal, symmetric, two_sided");
  }
  CheckFactors(s, check);
  if (!check.ok()) return check.status();
  return canonical;
}

// Before slope_dtype and scale.
std::vector<Wide> PlainSlopes(const AlibiSpec& s) {
  std::vector<Wide> slopes;
  for (double slope : s.batch_slopes.empty() ? s.slopes : s.batch_slopes) slopes.push_back(Wide(slope));
  if (!slopes.empty()) return slopes;
  slopes = AlibiSlopes(*s.biased_heads, *s.max_bias);
  slopes.resize(static_cast<size_t>(s.num_heads));  // the others are 0
  return slopes;
}

// The value of a slope rounded to a type.
Wide Rounded(const Wide& slope, DType dtype) {
  const uint64_t bits = RoundToBits(slope, FormatOf(dtype));
  switch (dtype) {
    case DType::kF16:
      return Wide(Widen<double>(FromBits<F16>(bits)));
    case DType::kBF16:
      return Wide(Widen<double>(FromBits<BF16>(bits)));
    default:
      return Wide(Widen<double>(FromBits<float>(bits)));
  }
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const AlibiSpec& s = std::get<AlibiSpec>(canonical);
  BiasPlan plan;
  plan.form = *s.form;
  plan.batch = static_cast<int64_t>(s.batch_slopes.size()) / s.num_heads;
  // The same distances on both sides are the symmetric form.
  const bool two_sided = plan.form == AlibiForm::kTwoSided && *s.future_factor != 1;
  if (plan.form == AlibiForm::kTwoSided && !two_sided) plan.form = AlibiForm::kSymmetric;
  for (Wide slope : PlainSlopes(s)) {
    if (s.slope_dtype) slope = Rounded(slope, *s.slope_dtype);
    slope = slope * Wide(*s.scale);
    plan.slopes.push_back(ToDoubleDouble(slope));
    if (two_sided) plan.future_slopes.push_back(ToDoubleDouble(slope * Wide(*s.future_factor)));
  }
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

std::vector<Wide> AlibiSlopes(int64_t heads, double max_bias) {
  std::vector<Wide> slopes;
  slopes.reserve(static_cast<size_t>(heads));
  const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  for (int64_t h = 0; h < heads; ++h) {
    // Over 2p in both halves of the rule; the exponent is exact, so slopes that are powers of two are too.
    const int64_t step = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
    slopes.push_back(Exp2(-(Wide(max_bias) * Wide::FromInt(step) / Wide::FromInt(2 * power))));
  }
  return slopes;
}

constexpr Scheme kAlibi{"alibi", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
