#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"dim", "width of a row", "required", "2 … 2^20"},
    ParameterCard{"max_period", "longest period, over 2π", "10000", kBaseRange},
    ParameterCard{"downscale_freq_shift", "taken from dim/2 in the exponent's divisor", "1 (most pipelines use 0)",
                  "finite, < floor(dim/2)"},
    ParameterCard{"flip_sin_to_cos", "cosines first", "false (most pipelines use true)", "true, false"},
    ParameterCard{"scale", "factor on the step", "1", "finite, not 0"},
};

constexpr Card kCard{
    .title = "Diffusion timestep",
    .summary =
        "Sinusoids of a diffusion step, which may be fractional. The frequencies fall from scale to scale/max_period "
        "(shift 1) or to just above it (shift 0).",
    .formula = "scale·t·max_period^(−i/(dim/2 − downscale_freq_shift)): [sin, cos], or [cos, sin] when flipped",
    .parameters = kParameters,
    .used_by = "diffusers get_timestep_embedding and Timesteps (flip_sin_to_cos, freq_shift): Stable Diffusion, DiT, Flux",
    .pitfalls =
        "The library's defaults (shift 1, sines first) are not those of its pipelines (shift 0, cosines first). With "
        "shift 1 a width of 2 or 3 divides by zero. An odd width ends in a column of zeros.",
    .source = "Ho et al., arXiv 2006.11239; diffusers embeddings.py get_timestep_embedding",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  TimestepSpec& s = std::get<TimestepSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("timestep.max_period", s.max_period, 10000.0, "10000");
  check.Default("timestep.downscale_freq_shift", s.downscale_freq_shift, 1.0, "1");
  check.Default("timestep.scale", s.scale, 1.0, "1");
  check.InRange("timestep.dim", s.dim, 2, kMaxDim);
  check.Positive("timestep.max_period", *s.max_period);
  double& shift = *s.downscale_freq_shift;
  if (!std::isfinite(shift) || shift >= static_cast<double>(s.dim / 2)) {
    check.Fail("timestep.downscale_freq_shift", FormatNumber(shift),
               absl::StrCat("less than floor(dim/2) = ", s.dim / 2, ", by which the exponent is divided"));
  }
  if (shift == 0) shift = 0;  // −0
  if (!std::isfinite(*s.scale) || *s.scale == 0) check.Fail("timestep.scale", FormatNumber(*s.scale), "finite, not 0");
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const TimestepSpec& s = std::get<TimestepSpec>(canonical);
  const int64_t pairs = s.dim / 2;
  const Wide ratio = Pow(*s.max_period, Wide(-1.0) / (Wide::FromInt(pairs) - Wide(*s.downscale_freq_shift)));
  std::vector<Wide> frequencies;
  frequencies.reserve(static_cast<size_t>(pairs));
  // A negative scale turns the other way: the sign belongs to the position.
  Wide frequency = std::fabs(*s.scale);
  for (int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(frequency);
    frequency = frequency * ratio;
  }
  return ResolveAngles(frequencies, 1.0, precision, "timestep.max_period");
}

}  // namespace

constexpr Scheme kTimestep{"timestep", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
