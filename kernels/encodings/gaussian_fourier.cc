#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/core/sincos.h"
#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"log", "take the natural logarithm of the position first",
                  "true; false with radians or with weights of several axes", "true, false"},
    ParameterCard{"flip_sin_to_cos", "cosines first", "false", "true, false"},
    ParameterCard{"radians", "angles without the factor 2π", "false", "true, false; not with log"},
};

constexpr Card kCard{
    .title = "Gaussian Fourier features",
    .summary =
        "Sinusoids of a noise level with random frequencies that were drawn once and stored with the model: the caller "
        "uploads them as the weight \"weight\" [dim/2], or [axes, dim/2] where positions are points with several "
        "coordinates.",
    .formula = "[sin, cos](2π·w_i·ln t), or of 2π·w_i·t, or of 2π·Σ_a w[a, i]·t_a; in radians without 2π",
    .parameters = kParameters,
    .used_by =
        "diffusers GaussianFourierProjection: score SDE models, AudioDiffusion; SAM 1 to 3, EdgeTAM (points of prompts and "
        "of the image, two axes), LightGlue (radians, two axes)",
    .pitfalls =
        "With the logarithm the position must be greater than 0. In the library's default order the sines come first, "
        "but UNet2DModel flips them. SAM's coordinates are [x, y], x first, and the matrix takes 2c − 1 of a c in [0, 1]: "
        "positions are given as that.",
    .source =
        "Song et al., arXiv 2011.13456; diffusers embeddings.py GaussianFourierProjection; transformers "
        "SamPositionalEmbedding; Tancik et al., arXiv 2006.10739",
};

constexpr double kLargestWeight = 0x1p31;

void CheckShape(const WeightRef& weight, SpecChecker& check) {
  constexpr std::string_view kAllowed = "\"weight\" [dim/2], or [axes, dim/2] with up to 4 axes";
  if (!weight) return check.Fail("weights", "nothing", kAllowed);
  const std::vector<int64_t>& shape = weight->shape;
  const bool sound = shape.size() == 1 || (shape.size() == 2 && shape[0] <= kMaxAxes);
  if (sound && shape.back() <= kMaxDim / 2) return;
  check.Fail("weights", absl::StrCat("\"weight\" ", ShapeText(shape)),
             absl::StrCat(absl::string_view(kAllowed.data(), kAllowed.size()), ", dim/2 up to ", kMaxDim / 2));
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  GaussianFourierSpec& s = std::get<GaussianFourierSpec>(canonical.spec);
  SpecChecker check(&canonical);
  CheckShape(s.weight, check);
  if (!check.ok()) return check.status();
  const bool plain = FourierAxes(s) == 1 && !s.radians;
  check.Default("gaussian_fourier.log", s.log, plain, plain ? "true" : "false");
  if (*s.log && s.radians) check.Fail("gaussian_fourier.radians", "true with log", "false, or log = false");
  if (*s.log && !plain) check.Fail("gaussian_fourier.log", "true with weights of several axes", "false");
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
  FourierPlan plan{
      .precision = precision, .log = *s.log, .weights = s.weight->values(), .axes = FourierAxes(s), .radians = s.radians};
  for (double& weight : plan.weights) weight += 0.0;  // −0
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kGaussianFourier{"gaussian_fourier", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
