// Absolute encodings that are no table of angles of whole positions: gathered rows, given frequencies of a logarithm, grids.
// Part of plan.h.
#ifndef PHASOR_KERNELS_ENCODINGS_PLAN_TABLES_H_
#define PHASOR_KERNELS_ENCODINGS_PLAN_TABLES_H_

#include <cstdint>
#include <vector>

#include "kernels/encodings/perceptron.h"
#include "kernels/encodings/plan_angle.h"
#include "kernels/encodings/weight.h"

namespace phasor {

// Row r of a learned table, times a factor: RN(scale·table[r, c]), one rounding of the exact product. With l2_normalize
// RN(scale·(table[r, c] / max(norm, 1e-12))) with the norm, the quotient and the product in f64: norm = Sqrt of the row's
// sums::Dot with itself.
struct GatherPlan {
  int64_t rows = 0;
  int64_t dim = 0;
  WeightRef table;  // none: only row numbers are known
  double scale = 1;
  bool l2_normalize = false;
};

// cos and sin of 2π·w_i·ln p, or of 2π·w_i·p, or of 2π·Σ_a w[a, i]·p_a with an exact sum; in radians without 2π. kCompatF32:
// the angle is ((fl32(ln fl32(p))·fl32(w))·2)·fl32(π) in f32; of several axes or in radians fl32(2π)·s, or s, where s adds
// the rounded products fl32(p_a)·fl32(w[a, i]) in the order of the axes.
struct FourierPlan {
  Precision precision = Precision::kExact;
  bool log = true;
  std::vector<double> weights;  // [axes, pairs], each 0 or 2^-64 ≤ |w| < 2^31
  int64_t axes = 1;             // up to kMaxAxes; 1 with log
  bool radians = false;         // not with log

  int64_t pairs() const { return static_cast<int64_t>(weights.size()) / axes; }
  // Of one axis, in turns: what a product of a position and a weight is.
  bool is_plain() const { return axes == 1 && !radians; }
};

// One axis of a grid: its columns [first_column, first_column + 2·pairs) are the sines, then the cosines of its coordinate.
struct GridPart {
  AnglePlan angles;
  int64_t axis = 0;
  int64_t first_column = 0;
  double start = 0;  // coordinate of point g: (g + start) / divisor / scale · factor, in IEEE double in this order
  double divisor = 1;
  double scale = 1;
  double factor = 1;
  bool interleaved = false;  // sine, cosine, sine … instead

  double coordinate(int64_t point) const { return (static_cast<double>(point) + start) / divisor / scale * factor; }
  bool is_scaled() const { return start != 0 || divisor != 1 || scale != 1 || factor != 1; }
  // Whether fields beside divisor and scale say something.
  bool is_extended() const { return start != 0 || factor != 1 || interleaved; }
};

// Sinusoids over the points of a grid, the last axis fastest, after rows of zeros; or at coordinates that are given, where
// there is no grid.
struct GridPlan {
  std::vector<int64_t> grid;  // empty: none
  int64_t extra_rows = 0;
  int64_t columns = 0;
  std::vector<GridPart> parts;  // in the order of their columns

  int64_t rows() const {
    int64_t count = 1;
    for (int64_t points : grid) count *= points;
    return extra_rows + count;
  }
};

// A function of the position m: a perceptron of one input, 2·((m − first_position)/(num_positions − 1)) − 1 in IEEE double
// in this order; or of the cosines of `angles` at m − first_position + ½.
struct DistilledPlan {
  int64_t first_position = 0;
  int64_t num_positions = 0;
  AnglePlan angles;                // frequencies k/(2·num_positions) turns, k = 0 …; none: of one input
  Perceptron perceptron;           // SiLU
  std::vector<WeightRef> weights;  // what it was made of

  int64_t columns() const { return perceptron.outputs(); }
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_PLAN_TABLES_H_
