// Rotary position embedding: its schedules of frequencies and what goes with them. Part of spec.h.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_ROPE_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_ROPE_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/encodings/spec_axes.h"

namespace phasor {

// Which channels form the pair i of a rotation of width d.
enum class Pairing : uint8_t {
  kHalfSplit = 1,    // (i, i + d/2): LLaMA, Qwen, NeoX
  kInterleaved = 2,  // (2i, 2i + 1): GPT-J, Cohere, GLM
  // Read as (2i, 2i + 1), written as (i, i + d/2): DeepSeek-V3's rope_interleave. The inverse reads (i, i + d/2) and writes
  // (2i, 2i + 1).
  kInterleavedToHalf = 3,
};

// ---- RoPE frequency schedules. θ_i = base^(−2i/rotary_dim); every schedule gives inv_freq_i and the factor A on cos and
// sin.

// inv_freq = θ.
struct DefaultSchedule {
  friend bool operator==(const DefaultSchedule&, const DefaultSchedule&) = default;
};
// inv_freq = θ / factor. factor ≥ 1 is usual, any finite factor > 0 is taken.
struct LinearSchedule {
  double factor = 0;
  friend bool operator==(const LinearSchedule&, const LinearSchedule&) = default;
};
// base' = base · factor^(d/(d−2)); needs rotary_dim > 2.
struct NtkAwareSchedule {
  double factor = 0;
  friend bool operator==(const NtkAwareSchedule&, const NtkAwareSchedule&) = default;
};
// base' = base · (factor·L/M − (factor − 1))^(d/(d−2)), L = max(sequence_length, M), M = max_position.
struct DynamicNtkSchedule {
  double factor = 0;
  int64_t max_position = 0;
  friend bool operator==(const DynamicNtkSchedule&, const DynamicNtkSchedule&) = default;
};
// YaRN (arXiv 2309.00071). ramp_i = clamp((i − lo)/(hi − lo), 0, 1), inv_freq = θ·(1 − ramp) + θ/factor·ramp,
// lo, hi = d·ln(original_max_position/(β·2π))/(2·ln base) for β_fast, β_slow.
struct YarnSchedule {
  double factor = 0;
  int64_t original_max_position = 0;
  std::optional<double> beta_fast;  // default 32
  std::optional<double> beta_slow;  // default 1
  std::optional<bool> truncate;     // default true: floor(lo), ceil(hi)
  // DeepSeek form: A = g(factor, mscale)/g(factor, mscale_all_dim), and the softmax scale is multiplied by
  // g(factor, mscale_all_dim)², g(s, m) = 0.1·m·ln s + 1 for s > 1, else 1. Absent: see encodings.md §1D and §6.
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  std::optional<double> attention_coefficient;        // the 0.1 of A and g; 0 turns A off; default 0.1
  std::optional<bool> log_blend;                      // blend logarithms: θ/factor^ramp (Grok-1); default false
  std::optional<double> attention_factor_multiplier;  // on A; default 1
  std::optional<double> extrapolation_factor;         // ramp becomes 1 − (1 − ramp)·this; default 1
  friend bool operator==(const YarnSchedule&, const YarnSchedule&) = default;
};
// Llama 3.1: piecewise in the wavelength λ = 2π/θ.
struct Llama3Schedule {
  double factor = 0;
  double low_freq_factor = 0;
  double high_freq_factor = 0;
  int64_t original_max_position = 0;
  friend bool operator==(const Llama3Schedule&, const Llama3Schedule&) = default;
};
// LongRoPE (arXiv 2402.13753): inv_freq_i = θ_i / f_i, f = short_factor when L ≤ original_max_position, else long_factor.
// A = sqrt(1 + ln(factor)/ln(original_max_position)), 1 when factor ≤ 1.
struct LongRopeSchedule {
  std::vector<double> short_factor;  // rotary_dim/2 entries each
  std::vector<double> long_factor;
  int64_t original_max_position = 0;
  std::optional<double> factor;         // default max_position / original_max_position
  std::optional<int64_t> max_position;  // one of factor and max_position is needed unless attention_factor is given
  std::optional<double> short_mscale;   // PhiMoE: replace A for the short and for the long list
  std::optional<double> long_mscale;
  friend bool operator==(const LongRopeSchedule&, const LongRopeSchedule&) = default;
};
// Gemma-4 global layers: the first `live_pairs` frequencies are base^(−2i/head_dim)/factor, the rest are zero; the whole
// head rotates.
struct ProportionalSchedule {
  double partial_rotary_factor = 0;  // live_pairs = int(partial_rotary_factor·head_dim // 2), in IEEE double
  std::optional<double> factor;      // default 1
  friend bool operator==(const ProportionalSchedule&, const ProportionalSchedule&) = default;
};
// Qwen-1 remote code: α = max(1, 2^ceil(log2(L/M) + 1) − 1), base' = base·α^(d/(d−2)), M = training_length.
struct Qwen1NtkSchedule {
  int64_t training_length = 0;
  friend bool operator==(const Qwen1NtkSchedule&, const Qwen1NtkSchedule&) = default;
};

// Su's forms. Fixed: (factor·base)^(−2i/d)/factor^(2/d). Mixed, with b: θ_i·exp(−a·(i + 1)^b), a = ln(factor)/(d/2)^b.
struct NtkMixedSchedule {
  double factor = 0;
  std::optional<double> mixed_b;  // absent: the fixed form
  friend bool operator==(const NtkMixedSchedule&, const NtkMixedSchedule&) = default;
};
// inv_freq_i = θ_i / (factors_i·factor): ggml's rope_freqs and 1/freq_scale.
struct FreqFactorsSchedule {
  std::vector<double> factors;   // rotary_dim/2 entries
  std::optional<double> factor;  // default 1
  friend bool operator==(const FreqFactorsSchedule&, const FreqFactorsSchedule&) = default;
};
// Frequencies as given, radians per position. `base` has no effect.
struct InvFreqSchedule {
  std::vector<double> inv_freq;  // rotary_dim/2 entries, each 0 or > 0
  friend bool operator==(const InvFreqSchedule&, const InvFreqSchedule&) = default;
};
// inv_freq_i = π·(1 + i·(max_freq/2 − 1)/(n − 1)), n = rotary_dim/2, for coordinates in [−1, 1]. `base` has no effect.
struct PixelSchedule {
  std::optional<double> max_freq;  // default 10
  friend bool operator==(const PixelSchedule&, const PixelSchedule&) = default;
};

using RopeSchedule = std::variant<DefaultSchedule, LinearSchedule, NtkAwareSchedule, DynamicNtkSchedule, YarnSchedule,
                                  Llama3Schedule, LongRopeSchedule, ProportionalSchedule, Qwen1NtkSchedule, NtkMixedSchedule,
                                  FreqFactorsSchedule, InvFreqSchedule, PixelSchedule>;

// Factors on q and k that decay with the distance (xPos): q is multiplied by ζ_i^((m − center)/scale_base), k by its
// inverse, ζ_i = (2i + 0.4·d)/(1.4·d), d = rotary_dim.
struct XposScale {
  std::optional<double> scale_base;  // 1 … 1e15; default 512
  std::optional<int64_t> center;     // default: the sequence length of the request, halved
  friend bool operator==(const XposScale&, const XposScale&) = default;
};

// Rotary position embedding (arXiv 2104.09864). Channels [first_channel, first_channel +
// rotary_dim) of a head rotate, the others pass through.
struct RopeSpec {
  int64_t head_dim = 0;                    // even or odd, ≥ 2
  std::optional<int64_t> rotary_dim;       // even, 2 … head_dim; default head_dim, which must then be even
  std::optional<double> base;              // > 0, finite; default 10000
  std::optional<Pairing> pairing;          // default kHalfSplit
  std::optional<double> attention_factor;  // > 0; replaces the A of the schedule
  RopeSchedule schedule;
  std::optional<XposScale> xpos;
  std::optional<RopeAxes> axes{};  // default: one axis
  int64_t first_channel = 0;       // 0 … head_dim − rotary_dim
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_ROPE_H_
