#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"logits", "the gates are f, and log σ(f) is summed", "false: they are log-gates", "true, false"},
    ParameterCard{"weights: gates", "[batch, heads, keys] or [heads, keys]", "required", "finite numbers"},
};

constexpr Card kCard{
    .title = "Forgetting bias (data-dependent ALiBi)",
    .summary =
        "Every position has a gate per head, made of its activations; a key fades by the product of the gates between it "
        "and "
        "the query. The gates are the caller's, the sums are done here.",
    .formula = "b[b, h, q, k] = Σ_{j = k + 1}^{q} g[b, h, j] for k ≤ q, 0 beyond (mask it)",
    .parameters = kParameters,
    .used_by = "x-transformers DataDependentAlibi; Forgetting Transformer (arXiv 2503.02130)",
    .pitfalls =
        "The key's own gate does not count, the query's does. Differences of float32 running sums lose digits at length: "
        "here "
        "the running sums are kept in two parts. Positions are indices into the gates.",
    .source = "Lin et al., arXiv 2503.02130; x-transformers DataDependentAlibi",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  const ForgettingBiasSpec& s = std::get<ForgettingBiasSpec>(canonical.spec);
  SpecChecker check(&canonical);
  const bool has_batch = s.gates && s.gates->shape.size() == 3;
  const bool good = has_batch
                        ? CheckWeight(check, "gates", s.gates, Need::kRequired, {{0, "batch"}, {0, "heads"}, {0, "keys"}})
                        : CheckWeight(check, "gates", s.gates, Need::kRequired, {{0, "heads"}, {0, "keys"}});
  if (good) {
    const size_t axis = has_batch ? 1 : 0;
    check.InRange(absl::StrCat("weights.gates.tensor.shape[", axis, "]"), s.gates->shape[axis], 1, kMaxHeads);
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const ForgettingBiasSpec& s = std::get<ForgettingBiasSpec>(canonical);
  Resolved resolved;
  resolved.plan = ForgettingBiasPlan{.logits = s.logits, .gates = s.gates};
  return resolved;
}

}  // namespace

constexpr Scheme kForgettingBias{"forgetting_bias", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
