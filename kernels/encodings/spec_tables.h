// Absolute encodings beside the sinusoidal table: diffusion steps, random frequencies, learned rows, grids.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_TABLES_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/encodings/weight.h"

namespace phasor {

// Sinusoids of a diffusion step t, which may be fractional (diffusers get_timestep_embedding): angle
// scale·t·max_period^(−i/(dim/2 − downscale_freq_shift)), i = 0 … floor(dim/2) − 1; all sines, then all cosines; odd dim: a
// last column of zeros.
struct TimestepSpec {
  int64_t dim = 0;                             // 2 … kMaxDim
  std::optional<double> max_period;            // > 0; default 10000
  std::optional<double> downscale_freq_shift;  // < floor(dim/2); default 1
  bool flip_sin_to_cos = false;                // cosines first
  std::optional<double> scale;                 // not 0; default 1
  friend bool operator==(const TimestepSpec&, const TimestepSpec&) = default;
};

// [sin, cos](2π·w_i·ln t), or of 2π·w_i·t without the logarithm (diffusers GaussianFourierProjection). A matrix makes angles
// of 2π·Σ_a w[a, i]·t_a from positions of as many axes (SAM's prompts).
struct GaussianFourierSpec {
  std::optional<bool> log;       // default true, of a matrix false; positions must then be > 0
  bool flip_sin_to_cos = false;  // cosines first
  bool radians = false;          // angles without the factor 2π; not with log
  WeightRef weight;              // [dim/2], or [axes, dim/2]; required; each 0 or of magnitude 2^-64 … 2^31
  friend bool operator==(const GaussianFourierSpec&, const GaussianFourierSpec&) = default;
};

// Coordinates of a position that the spec's weight takes; 1 without a weight.
inline int64_t FourierAxes(const GaussianFourierSpec& spec) {
  return spec.weight && spec.weight->shape.size() == 2 ? spec.weight->shape[0] : 1;
}

// Rows of a learned table: position m reads row m + position_offset.
struct LearnedSpec {
  int64_t num_positions = 0;               // rows; default the table's
  int64_t dim = 0;                         // columns; default the table's
  std::optional<int64_t> position_offset;  // OPT, BART: 2; RoBERTa: padding index + 1. Default 0
  std::optional<int64_t> padding_row;      // row of tokens that a mask hides; default that of their position
  std::optional<double> scale;             // factor on every entry; default 1
  bool l2_normalize = false;               // rows are divided by their Euclidean norm first
  WeightRef table;                         // [num_positions, dim]; without it only row numbers can be asked for
  friend bool operator==(const LearnedSpec&, const LearnedSpec&) = default;
};

// In which order the parts of a grid's columns stand.
enum class GridOrder : uint8_t {
  kWidthFirst = 1,  // two axes: the last, then the first; three: time, then width, then height
  kAsListed = 2,
};

// How sines and cosines stand in an axis's part of the columns.
enum class GridLayout : uint8_t {
  kConcatenated = 1,  // all sines, then all cosines
  kInterleaved = 2,   // sine, cosine, sine … (DETR)
};

// Sinusoids over a grid, rows with the last axis fastest; every axis has its part of the columns, with frequencies
// base^(−i/(part/2)). Point g of an axis of N points has the coordinate (g + start) / divisor / interpolation_scale · scale,
// with divisor N / base_size, or N + extent_epsilon, or 1. Without a grid positions are coordinates themselves, one for each
// axis, which may be fractional and of which nothing is made.
struct GridSinusoidalSpec {
  int64_t dim = 0;
  std::vector<int64_t> grid;                // [height, width] or [time, height, width], or none
  std::optional<double> base;               // default 10000
  std::optional<GridOrder> order;           // default kWidthFirst
  std::vector<int64_t> base_size;           // one per axis, or none
  std::vector<double> interpolation_scale;  // default 1 each
  int64_t extra_rows = 0;                   // rows of zeros before the grid
  std::vector<int64_t> columns;             // per axis; default halves, or a quarter and twice three eighths
  std::optional<GridLayout> layout;         // default kConcatenated
  std::optional<double> start;              // default 0
  std::optional<double> extent_epsilon;     // ≥ 0; not with base_size
  std::optional<double> scale;              // > 0; default 1
  std::vector<double> axis_bases;           // one per axis in place of base, or none
  friend bool operator==(const GridSinusoidalSpec&, const GridSinusoidalSpec&) = default;
};

// A small function of the position in place of a table: linear layers with SiLU between, none after the last, fed with
// x = 2·(m − first_position)/(num_positions − 1) − 1, or, where cosine_terms is given, with the cosines
// cos(π·k·(m − first_position + ½)/num_positions), k = 0 … cosine_terms − 1. One layer of cosines is a cosine series.
struct DistilledSpec {
  static constexpr size_t kMaxLayers = 8;

  int64_t num_positions = 0;               // that it was fitted to: 2 … 2^31 − 1
  std::optional<int64_t> first_position;   // the first of them, |…| < 2^31; default 0
  int64_t cosine_terms = 0;                // 0 … 65536
  std::array<WeightRef, kMaxLayers> w, b;  // [outputs, inputs], [outputs]; the last outputs are the row's columns
  friend bool operator==(const DistilledSpec&, const DistilledSpec&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_TABLES_H_
