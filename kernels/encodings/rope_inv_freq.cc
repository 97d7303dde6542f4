#include <cmath>

#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr auto kParameters = WithRopeParameters(std::array{
    ParameterCard{"inv_freq", "frequencies in radians per position, one per pair", "required",
                  "rotary_dim/2 numbers, each 0 or within 2^-96 … 2^63 turns per position"},
});

constexpr Card kCard{
    .title = "RoPE with given frequencies",
    .summary =
        "Takes the frequencies themselves, such as the inv_freq buffer of another library. With compat_f32 precision that "
        "gives that library's own table, whatever its rounding on the way to inv_freq was.",
    .formula = "angle = position · inv_freq_i",
    .parameters = kParameters,
    .used_by = "checkpoints that store rotary_emb.inv_freq; schedules that no list has",
    .pitfalls =
        "A buffer that was cast with the model to bfloat16 or float16 is wrong by up to 0.4 %, and so are its angles. base "
        "has no effect.",
    .source = "the inv_freq buffer of transformers' rotary modules",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  return CanonicalizeRope(
      spec,
      [](RopeSpec& rope, SpecChecker& check) {
        InvFreqSchedule& s = std::get<InvFreqSchedule>(rope.schedule);
        CheckPairCount("rope.inv_freq.inv_freq", rope, s.inv_freq, check);
        for (size_t i = 0; i < s.inv_freq.size() && check.ok(); ++i) {
          double& f = s.inv_freq[i];
          if (!(std::isfinite(f) && f >= 0)) {
            check.Fail(IndexedField("rope.inv_freq.inv_freq", i), FormatNumber(f), "a finite number ≥ 0");
          }
          f += 0.0;  // −0 is 0
        }
      },
      BaseUse::kNone);
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const RopeSpec& rope = std::get<RopeSpec>(canonical);
  const std::vector<double>& given = std::get<InvFreqSchedule>(rope.schedule).inv_freq;
  return ResolveRope(rope, {given.begin(), given.end()}, 1.0, precision, "rope.inv_freq.inv_freq");
}

}  // namespace

constexpr Scheme kRopeInvFreq{"rope_inv_freq", "angle", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
