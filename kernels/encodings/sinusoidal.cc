#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"dim", "width of the table (the model's)", "required", "1 … 2^20; endpoint-inclusive: 4 … 2^20"},
    ParameterCard{"base", "base of the geometric frequencies", "10000", kBaseRange},
    ParameterCard{"layout", "interleaved (sin, cos, sin, cos, …) or concatenated (all sines, then all cosines)",
                  "interleaved", "interleaved, concatenated"},
    ParameterCard{"spacing", "paper: exponents −2i/dim; endpoint_inclusive: −i/(dim/2 − 1), so that the last is 1/base",
                  "paper", "paper, endpoint_inclusive"},
    ParameterCard{"position_offset", "position m reads row m + position_offset of the library's table", "0",
                  "−2^30 + 1 … 2^30 − 1"},
    ParameterCard{"padding_row", "this row of the library's table is zeros", "absent", "0 … 2^30 − 1"},
    ParameterCard{"scale", "factor on every entry (x-transformers' learned one)", "1", "0.0001 … 10000"},
};

constexpr Card kCard{
    .title = "Sinusoidal table",
    .summary =
        "Absolute positions as sines and cosines of geometrically falling frequencies, added to the embeddings. "
        "Libraries differ in the order of the columns and in the spacing of the frequencies.",
    .formula =
        "θ_i = base^(−2i/dim) (paper) or base^(−i/(dim/2 − 1)) (endpoint-inclusive); columns sin(row·θ_i), "
        "cos(row·θ_i)",
    .parameters = kParameters,
    .used_by =
        "The original Transformer; Marian (concatenated); Whisper, M2M100, fairseq (concatenated, "
        "endpoint-inclusive; fairseq's rows start at padding_idx + 1)",
    .pitfalls =
        "The two spacings differ at every pair but the first. Odd widths are cut differently by each library. "
        "Tables that a library made in float32 are up to 1·10^-4 off.",
    .source = "Vaswani et al., arXiv 1706.03762, §3.5; fairseq sinusoidal_positional_embedding; Whisper model.py",
};

// An offset only shifts rows, which have the limit of positions (2^31) themselves.
constexpr int64_t kMaxRow = (int64_t{1} << 30) - 1;

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  SinusoidalSpec& s = std::get<SinusoidalSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("sinusoidal.base", s.base, 10000.0, "10000");
  check.Default("sinusoidal.layout", s.layout, SinusoidalLayout::kInterleaved, "interleaved");
  check.Default("sinusoidal.spacing", s.spacing, SinusoidalSpacing::kPaper, "paper");
  check.Default("sinusoidal.position_offset", s.position_offset, int64_t{0}, "0");
  check.Default("sinusoidal.scale", s.scale, 1.0, "1");
  check.InRange("sinusoidal.scale", *s.scale, kMinAttentionFactor, kMaxAttentionFactor);
  const bool endpoint = *s.spacing == SinusoidalSpacing::kEndpointInclusive;
  check.InRange("sinusoidal.dim", s.dim, endpoint ? 4 : 1, kMaxDim);
  check.Positive("sinusoidal.base", *s.base);
  if (*s.layout != SinusoidalLayout::kInterleaved && *s.layout != SinusoidalLayout::kConcatenated) {
    check.Fail("sinusoidal.layout", absl::StrCat(static_cast<int>(*s.layout)), "interleaved, concatenated");
  }
  if (!endpoint && *s.spacing != SinusoidalSpacing::kPaper) {
    check.Fail("sinusoidal.spacing", absl::StrCat(static_cast<int>(*s.spacing)), "paper, endpoint_inclusive");
  }
  check.InRange("sinusoidal.position_offset", *s.position_offset, -kMaxRow, kMaxRow);
  if (s.padding_row) check.InRange("sinusoidal.padding_row", *s.padding_row, 0, kMaxRow);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const SinusoidalSpec& s = std::get<SinusoidalSpec>(canonical);
  // −i/(dim/2 − 1) is −2i/(2·(dim/2 − 1)): the same powers over another width.
  const bool endpoint = *s.spacing == SinusoidalSpacing::kEndpointInclusive;
  const int64_t pairs = endpoint ? s.dim / 2 : (s.dim + 1) / 2;
  const int64_t width = endpoint ? 2 * (s.dim / 2 - 1) : s.dim;
  return ResolveAngles(RopeFrequencies(*s.base, width, pairs), *s.scale, precision, "sinusoidal.base");
}

}  // namespace

constexpr Scheme kSinusoidal{"sinusoidal", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
