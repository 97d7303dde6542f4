// What a caller asks for: one struct per scheme, in the field's own words. A spec is a plain value; Canonicalize
// (encoding.h) fills its defaults and checks it, Resolve turns it into the Plan that backends run.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/encodings/spec_bias.h"
#include "kernels/encodings/spec_polar.h"
#include "kernels/encodings/spec_rope.h"
#include "kernels/encodings/spec_tables.h"
#include "kernels/encodings/spec_terms.h"
#include "kernels/encodings/spec_window.h"

namespace phasor {

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
  std::optional<double> scale{};  // factor on every entry; default 1
  friend bool operator==(const SinusoidalSpec&, const SinusoidalSpec&) = default;
};

enum class AlibiForm : uint8_t {
  kCausal = 1,     // b = slope·(key − query), signed: keys after the query must be masked by the caller
  kSymmetric = 2,  // b = −slope·|key − query|
  kTwoSided = 3,   // causal up to the query, −slope·future_factor·(key − query) beyond it
};

// Attention with linear biases (arXiv 2108.12409).
struct AlibiSpec {
  int64_t num_heads = 0;  // the model's global head count; ≥ 1. May be 0 when slopes are given: their count is taken
  // Slopes for p = 2^floor(log2 num_heads): first p heads 2^(−max_bias·(h+1)/p), the rest 2^(−max_bias·(2k+1)/(2p)).
  // Default 8.
  std::optional<double> max_bias;
  std::optional<AlibiForm> form;             // default kCausal
  std::vector<double> slopes;                // replaces the rule: num_heads finite values, taken as the doubles they are
  std::optional<int64_t> biased_heads = {};  // only so many heads are biased, by the rule for that number; default num_heads
  std::optional<double> scale = {};          // 2^-64 … 2^64: factor on the bias; default 1
  std::optional<DType> slope_dtype = {};     // f32, f16 or bf16: slopes are rounded to it first; default not rounded
  std::optional<double> future_factor = {};  // 2^-64 … 2^64, two-sided form: for keys after the query; default 1
  std::vector<double> batch_slopes = {};     // in place of slopes: num_heads for each batch row
  friend bool operator==(const AlibiSpec&, const AlibiSpec&) = default;
};

using EncodingSpec =
    std::variant<RopeSpec, SinusoidalSpec, AlibiSpec, PopeSpec, FopeSpec, TimestepSpec, GaussianFourierSpec, LearnedSpec,
                 GridSinusoidalSpec, WindowBiasSpec, ContinuousWindowBiasSpec, FireSpec, DynamicPositionBiasSpec,
                 ForgettingBiasSpec, TupeSpec, T5BucketSpec, KerpleSpec, SandwichSpec, ShawSpec, DebertaSpec,
                 TransformerXlSpec, XlnetSpec, ConformerSpec, CopeSpec, DecomposedSpec, DistilledSpec>;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_H_
