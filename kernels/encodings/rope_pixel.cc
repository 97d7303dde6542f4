#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"max_freq", "twice the half turns that the last pair makes per unit of the coordinate", "10",
                  "finite, > 0, every frequency within 2^-96 … 2^63 turns per position"},
});

constexpr Card kCard{
    .title = "RoPE for pixel coordinates",
    .summary =
        "Frequencies in even steps from π to π·max_freq/2, for coordinates between −1 and 1 rather than for counted "
        "positions. Positions are therefore fractional.",
    .formula = "inv_freq_i = π·(1 + i·(max_freq/2 − 1)/(n − 1)), n = rotary_dim/2; n = 1: π",
    .parameters = kParameters,
    .used_by = "rotary-embedding-torch (freqs_for=\"pixel\"), EVA-02 and timm's rotary vision models",
    .pitfalls =
        "Not powers of a base, so base has no effect. At whole positions all cosines of the first pair are ±1: the "
        "coordinates have to be scaled.",
    .source = "rotary-embedding-torch, freqs_for=\"pixel\"",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(
      spec,
      [](RopeSpec& rope, SpecChecker& check) {
        PixelSchedule& s = std::get<PixelSchedule>(rope.schedule);
        check.Default("rope.pixel.max_freq", s.max_freq, 10.0, "10");
        check.Positive("rope.pixel.max_freq", *s.max_freq);
      },
      BaseUse::kNone);
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const int64_t pairs = *rope.rotary_dim / 2;
  const Wide last = Wide(*std::get<PixelSchedule>(rope.schedule).max_freq) / 2.0;
  std::vector<Wide> inv_freq(static_cast<size_t>(pairs), Pi());
  for (int64_t i = 1; i < pairs; ++i) {
    inv_freq[static_cast<size_t>(i)] = Pi() * (Wide(1.0) + Wide::FromInt(i) * (last - 1.0) / Wide::FromInt(pairs - 1));
  }
  return ResolveRope(rope, inv_freq, 1.0, precision, "rope.pixel.max_freq");
}

}  // namespace

constexpr Scheme kRopePixel{"rope_pixel", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
