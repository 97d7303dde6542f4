// What the RoPE schedules share: the fields of RopeSpec, the powers of the base, and the way from wide frequencies to a
// plan. Each schedule's own file holds its formula, its fields and its card.
#ifndef PHASOR_KERNELS_ENCODINGS_ROPE_H_
#define PHASOR_KERNELS_ENCODINGS_ROPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/wide.h"

namespace phasor {

// attention_factor and the A of any schedule stay within this range, so that no entry overflows a 16-bit float.
inline constexpr double kMinAttentionFactor = 1e-4;
inline constexpr double kMaxAttentionFactor = 1e4;

// Whether a schedule's frequencies come from the base. Where they do not, the canonical spec has none, and a given one is a
// warning.
enum class BaseUse : uint8_t { kPowers, kNone };

// Defaults and checks of RopeSpec's own fields, then those of the schedule, which `check_schedule` handles.
absl::StatusOr<CanonicalSpec> CanonicalizeRope(const EncodingSpec& spec,
                                               void (*check_schedule)(RopeSpec& rope, SpecChecker& check),
                                               BaseUse base_use = BaseUse::kPowers);

// "field[i]".
std::string IndexedField(std::string_view field, size_t i);

// Fails unless a list has one entry per pair.
void CheckPairCount(std::string_view field, const RopeSpec& rope, const std::vector<double>& list, SpecChecker& check);

// base^(−2i/dim) for i < count.
std::vector<Wide> RopeFrequencies(const Wide& base, int64_t dim, int64_t count);

// base·scale^(d/(d−2)), the change of base that leaves the first pair alone and divides the last one by `scale`. d > 2.
Wide NtkBase(const Wide& base, const Wide& scale, int64_t rotary_dim);

// Fails unless rotary_dim > 2, which NtkBase needs.
void CheckNtkWidth(const RopeSpec& rope, SpecChecker& check);

// The plan of a canonical RopeSpec: inv_freq and A as they are, or the spec's attention_factor in place of A. Refuses
// frequencies outside [2^-96, 2^63) turns per position (zero is allowed) and A outside its range; `blame` names the field
// that is at fault then.
absl::StatusOr<Resolved> ResolveRope(const RopeSpec& rope, const std::vector<Wide>& inv_freq, const Wide& attention_factor,
                                     Precision precision, std::string_view blame);

// The same for any angle table; used by sinusoids too.
absl::StatusOr<Resolved> ResolveAngles(const std::vector<Wide>& inv_freq, const Wide& attention_factor, Precision precision,
                                       std::string_view blame);

// Ranges of numbers that frequencies depend on, for cards.
inline constexpr std::string_view kBaseRange = "finite, > 0, every frequency within 2^-96 … 2^63 turns per position";
inline constexpr std::string_view kFactorRange =
    "finite, > 0 (≥ 1 is usual), every frequency within 2^-96 … 2^63 turns per position";

// Cards: the parameters that every RoPE schedule has, followed by its own.
inline constexpr std::array<ParameterCard, 7> kRopeParameters{{
    {"head_dim", "channels of one attention head", "required", "2 … 65536"},
    {"rotary_dim", "channels that rotate, from the first; the exponents run over this width", "head_dim",
     "even, 2 … head_dim"},
    {"base", "base of the geometric frequencies (rope_theta in configurations)", "10000", kBaseRange},
    {"pairing",
     "which channels form a pair: half_split (i, i + rotary_dim/2), interleaved (2i, 2i + 1), or interleaved_to_half: read "
     "as "
     "the second, written as the first",
     "half_split", "half_split, interleaved, interleaved_to_half"},
    {"attention_factor", "factor on cos and sin; replaces the schedule's own", "the schedule's own (1 for most)",
     "0.0001 … 10000"},
    {"xpos", "factors on q and k that decay with the distance: scale_base and center", "absent",
     "scale_base 1 … 1e15 (default 512); |center| < 2^31 (default: half the sequence length)"},
    {"first_channel", "first channel that rotates; those before it pass through", "0", "0 … head_dim − rotary_dim"},
}};
inline constexpr std::size_t kRopeParameterCount = kRopeParameters.size();

template <std::size_t N>
constexpr std::array<ParameterCard, kRopeParameterCount + N> WithRopeParameters(const std::array<ParameterCard, N>& own) {
  std::array<ParameterCard, kRopeParameterCount + N> all{};
  for (std::size_t i = 0; i < kRopeParameterCount; ++i) all[i] = kRopeParameters[i];
  for (std::size_t i = 0; i < N; ++i) all[kRopeParameterCount + i] = own[i];
  return all;
}

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_ROPE_H_
