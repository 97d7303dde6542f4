// What a caller asks for: one struct per scheme, in the field's own words. A spec is a plain value; Canonicalize
// (encoding.h) fills its defaults and checks it, Resolve turns it into the Plan that backends run.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_H_

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

using RopeSchedule = std::variant<DefaultSchedule, LinearSchedule, NtkAwareSchedule, DynamicNtkSchedule, YarnSchedule,
                                  Llama3Schedule, LongRopeSchedule, ProportionalSchedule, Qwen1NtkSchedule>;

// Rotary position embedding (arXiv 2104.09864). Channels [0, rotary_dim) of a head rotate, the others pass through.
struct RopeSpec {
  int64_t head_dim = 0;                    // even or odd, ≥ 2
  std::optional<int64_t> rotary_dim;       // even, 2 … head_dim; default head_dim, which must then be even
  std::optional<double> base;              // > 0, finite; default 10000
  std::optional<Pairing> pairing;          // default kHalfSplit
  std::optional<double> attention_factor;  // > 0; replaces the A of the schedule
  RopeSchedule schedule;
  std::optional<RopeAxes> axes{};  // default: one axis
  friend bool operator==(const RopeSpec&, const RopeSpec&) = default;
};

enum class SinusoidalLayout : uint8_t {
  kInterleaved = 1,   // column 2i = sin, column 2i+1 = cos
  kConcatenated = 2,  // [sin_0 … sin_{n−1}, cos_0 … cos_{n−1}]
};
enum class SinusoidalSpacing : uint8_t {
  kPaper = 1,              // θ_i = base^(−2i/dim)
  kEndpointInclusive = 2,  // θ_i = base^(−i/(dim/2 − 1)): the last one is exactly 1/base
};

// Absolute sinusoidal table (Vaswani et al. 2017; fairseq's and Whisper's spacing). Odd dim: interleaved has ceil(dim/2)
// sines and floor(dim/2) cosines; concatenated with the paper spacing likewise (Marian); concatenated with
// endpoint-inclusive spacing has floor(dim/2) of each and a last column of zeros (fairseq).
struct SinusoidalSpec {
  int64_t dim = 0;                           // ≥ 1 (endpoint-inclusive: ≥ 4)
  std::optional<double> base;                // default 10000
  std::optional<SinusoidalLayout> layout;    // default kInterleaved
  std::optional<SinusoidalSpacing> spacing;  // default kPaper
  // Position m reads row m + position_offset of the library's table (fairseq: padding_idx + 1); the angle is row · θ.
  // Default 0.
  std::optional<int64_t> position_offset;
  // This row of the library's table is all zeros (fairseq's padding_idx). Absent: no such row.
  std::optional<int64_t> padding_row;
  friend bool operator==(const SinusoidalSpec&, const SinusoidalSpec&) = default;
};

enum class AlibiForm : uint8_t {
  kCausal = 1,     // b = slope·(key − query), signed: keys after the query must be masked by the caller
  kSymmetric = 2,  // b = −slope·|key − query|
};

// Attention with linear biases (arXiv 2108.12409).
struct AlibiSpec {
  int64_t num_heads = 0;  // the model's global head count; ≥ 1. May be 0 when slopes are given: their count is taken
  // Slopes for p = 2^floor(log2 num_heads): first p heads 2^(−max_bias·(h+1)/p), the rest 2^(−max_bias·(2k+1)/(2p)).
  // Default 8.
  std::optional<double> max_bias;
  std::optional<AlibiForm> form;  // default kCausal
  std::vector<double> slopes;     // replaces the rule: num_heads finite values, taken as the doubles they are
  friend bool operator==(const AlibiSpec&, const AlibiSpec&) = default;
};

using EncodingSpec = std::variant<RopeSpec, SinusoidalSpec, AlibiSpec>;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_H_
