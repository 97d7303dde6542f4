#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/alibi.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"form", "log: −r1·ln(1 + r2·|Δ|); power: −r1·|Δ|^r2; nemo: −r1·ln(1 + r2·|Δ|^p)", "required",
                  "log, power, nemo"},
    ParameterCard{"num_heads", "attention heads of the whole model", "the number of r1, else of r2", "1 … 65536"},
    ParameterCard{"r1", "per head (NeMo's b)", "required; nemo: ALiBi's slopes", "2^-256 … 2^64"},
    ParameterCard{"r2", "per head (NeMo's a)", "required", "2^-256 … 2^64; power: up to 2"},
    ParameterCard{"p", "per head, NeMo's form only", "1", "2^-256 … 2"},
};

constexpr Card kCard{
    .title = "KERPLE",
    .summary =
        "Kernelised relative biases: a bias that falls with the logarithm or a power of the distance, with learned "
        "parameters for every head.",
    .formula = "b = −r1·ln(1 + r2·|Δ|), or −r1·|Δ|^r2, or −r1·ln(1 + r2·|Δ|^p)",
    .parameters = kParameters,
    .used_by = "NeMo (position_embedding_type: kerple), GPT-NeoX forks",
    .pitfalls =
        "NeMo's code starts with a = 0 and keeps a and p as plain tensors: the bias is then 0 for ever, which is refused "
        "here. Both sides of the query are treated alike: add a causal mask.",
    .source = "Chi et al., arXiv 2205.09921; NVIDIA NeMo kerple_relative_position_embedding.py",
};

void CheckList(const char* field, std::vector<double>& values, int64_t heads, double largest, const char* allowed,
               SpecChecker& check) {
  if (!check.ok()) return;
  const auto count = static_cast<int64_t>(values.size());
  if (count != heads) {
    return check.Fail(field, count == 0 ? "nothing" : absl::StrCat(count, " entries"),
                      absl::StrCat(heads, " entries, one per head"));
  }
  const double smallest = std::ldexp(1.0, -256);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= smallest && values[i] <= largest)) {
      return check.Fail(absl::StrCat(field, "[", i, "]"), FormatNumber(values[i]), allowed);
    }
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  KerpleSpec& s = std::get<KerpleSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (!s.form || *s.form < KerpleForm::kLog || *s.form > KerpleForm::kNemo) {
    check.Fail("kerple.form", s.form ? absl::StrCat(static_cast<int>(*s.form)) : "nothing", "log, power, nemo");
    return check.status();
  }
  if (s.num_heads == 0) s.num_heads = static_cast<int64_t>(s.r1.empty() ? s.r2.size() : s.r1.size());
  check.InRange("kerple.num_heads", s.num_heads, 1, kMaxHeads);
  const double large = std::ldexp(1.0, 64);
  const bool nemo = *s.form == KerpleForm::kNemo;
  const bool power = *s.form == KerpleForm::kPower;
  if (!nemo || !s.r1.empty()) CheckList("kerple.r1", s.r1, s.num_heads, large, "2^-256 … 2^64", check);
  CheckList("kerple.r2", s.r2, s.num_heads, power ? 2 : large, power ? "2^-256 … 2" : "2^-256 … 2^64", check);
  if (nemo && s.p.empty() && check.ok()) {
    s.p.assign(static_cast<size_t>(s.num_heads), 1);
    canonical.defaults.push_back({"kerple.p", "1 for every head (default)"});
  }
  if (nemo) {
    CheckList("kerple.p", s.p, s.num_heads, 2, "2^-256 … 2", check);
    if (s.r1.empty() && check.ok()) {
      for (const Wide& slope : AlibiSlopes(s.num_heads, 8)) s.r1.push_back(ToDouble(slope));
      canonical.defaults.push_back({"kerple.r1", "ALiBi's slopes (default)"});
    }
  } else if (!s.p.empty()) {
    check.Fail("kerple.p", absl::StrCat(s.p.size(), " entries"), "none: only NeMo's form has an exponent p");
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const KerpleSpec& s = std::get<KerpleSpec>(canonical);
  KerplePlan plan;
  plan.power = *s.form == KerpleForm::kPower;
  plan.r1 = s.r1;
  plan.r2 = s.r2;
  plan.p = s.p;
  plan.p.resize(static_cast<size_t>(s.num_heads), 1);
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kKerple{"kerple", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
