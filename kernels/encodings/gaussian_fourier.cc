#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/core/sincos.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"log", "take the natural logarithm of the position first", "true", "true, false"},
    ParameterCard{"flip_sin_to_cos", "cosines first", "false", "true, false"},
};

constexpr Card kCard{
    .title = "Gaussian Fourier features",
    .summary =
        "Sinusoids of a noise level with random frequencies that were drawn once and stored with the model: the caller "
        "uploads them as the weight \"weight\" [dim/2].",
    .formula = "[sin, cos](2π·w_i·ln t), or of 2π·w_i·t",
    .parameters = kParameters,
    .used_by = "diffusers GaussianFourierProjection: score SDE models, AudioDiffusion",
    .pitfalls =
        "With the logarithm the position must be greater than 0. In the library's default order the sines come first, "
        "but UNet2DModel flips them.",
    .source = "Song et al., arXiv 2011.13456; diffusers embeddings.py GaussianFourierProjection",
};

constexpr double kLargestWeight = 0x1p31;

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  GaussianFourierSpec& s = std::get<GaussianFourierSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("gaussian_fourier.log", s.log, true, "true");
  if (!s.weight) {
    check.Fail("weights", "nothing", "\"weight\" [dim/2]");
  } else if (s.weight->shape.size() != 1 || s.weight->shape[0] > kMaxDim / 2) {
    check.Fail("weights",
               absl::StrCat("\"weight\" of ", s.weight->shape.size(), " axes and ", s.weight->elements(), " elements"),
               absl::StrCat("[dim/2], up to ", kMaxDim / 2));
  }
  if (!check.ok()) return check.status();
  for (int64_t i = 0; i < s.weight->elements() && check.ok(); ++i) {
    const double magnitude = std::fabs(s.weight->at(i));
    if (magnitude == 0 || (magnitude >= kSmallestFraction && magnitude < kLargestWeight)) continue;
    check.Fail("weights", absl::StrCat("\"weight\"[", i, "] = ", FormatNumber(s.weight->at(i))),
               "0, or a magnitude of 2^-64 … 2^31");
  }
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const GaussianFourierSpec& s = std::get<GaussianFourierSpec>(canonical);
  FourierPlan plan{.precision = precision, .log = *s.log, .weights = s.weight->values()};
  for (double& weight : plan.weights) weight += 0.0;  // −0
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kGaussianFourier{"gaussian_fourier", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
