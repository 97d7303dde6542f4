// Rotation by several coordinates per token (M-RoPE, grids of patches, videos).
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_AXES_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_AXES_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace phasor {

// Coordinates that a position may have at most.
inline constexpr int64_t kMaxAxes = 4;

// Which axis's coordinate turns pair i.
enum class AxisLayout : uint8_t {
  kChunked = 1,           // the first sections[0] pairs axis 0, the next sections[1] axis 1 … (Qwen2-VL)
  kInterleaved = 2,       // axis 0, but a ≥ 1 where i mod axes = a and i < axes·sections[a] (Qwen3-VL)
  kAlternating = 3,       // sections [h, w, t]: 2·h pairs alternate axes 1 and 2, then t pairs of axis 0 (ERNIE-4.5-VL)
  kReset = 4,             // as chunked, and the schedule starts anew in every section, over its own width
  kSplitFrequencies = 5,  // axis 0 takes θ_0, θ_2 …, then axis 1 θ_1, θ_3 … (Pixtral)
};

struct RopeAxes {
  std::vector<int64_t> sections;  // pairs per axis, 2 … kMaxAxes of them; their sum is rotary_dim/2 (interleaved: at most)
  std::optional<AxisLayout> layout;  // default kChunked
  friend bool operator==(const RopeAxes&, const RopeAxes&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_AXES_H_
