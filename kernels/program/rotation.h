// Tables of rotations that a plain angle table cannot give: scaled by the position, decaying with it, between two schedules,
// with phases of their own. And the steps that rotate by them.
#ifndef PHASOR_KERNELS_PROGRAM_ROTATION_H_
#define PHASOR_KERNELS_PROGRAM_ROTATION_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "kernels/core/sincos.h"
#include "kernels/encodings/plan.h"
#include "kernels/program.h"

namespace phasor {

// A factor on queries by position. Positions below 0 count as 0.
struct PositionScale {
  enum class Rule : uint8_t {
    kConstant = 1,  // `constant`
    kLogN = 2,      // max(1, ln(m + 1)/ln(training_length))
    kFloor = 3,     // 1 + coefficient·ln(1 + floor((m + shift)/period))
  };
  Rule rule = Rule::kConstant;
  double constant = 1;          // finite
  int64_t training_length = 2;  // ≥ 2
  double coefficient = 0;       // finite, ≥ 0
  int64_t period = 1;           // ≥ 1
  int64_t shift = 0;            // 0 or 1
};

// The factor at a position, whole or not, correctly rounded. About 0.1 ms where a logarithm is needed.
double ScaleAt(const PositionScale& scale, double position);

// Coordinates of table rows along up to kMaxAxes axes.
struct RotationPositions {
  std::array<PositionSource, kMaxAxes> axes{};

  // Rows from `first` on.
  RotationPositions From(int64_t first) const;
};
// Of one row, along one axis.
struct Coordinate {
  bool is_whole = true;
  int64_t whole = 0;
  double value = 0;  // the same, or the fractional one
};
Coordinate CoordinateOf(const PositionSource& source, int64_t row);

// xPos: the factor ζ_i^((m − center)/scale_base) on queries, its inverse on keys, ζ_i = (2i + 0.4·d)/(1.4·d), d = 2·pairs.
class Decay {
 public:
  // 1 ≤ scale_base.
  Decay(int64_t pairs, double scale_base, int64_t center);
  // Computes what At needs of pairs [begin, end); the constructor does not.
  void Prepare(RowRange pairs);

  // ζ_i^(sign·(position − center)/scale_base), good to about 2^-90 for what a double can hold. The position is whole, and
  // |position − center|·BitsPerPosition below 2^20.
  Real128 At(int64_t pair, int64_t position, int sign) const;

  int64_t center() const { return center_; }
  // The largest factor, or its inverse, that any pair has at a position is 2^(this·|position − center|).
  static double BitsPerPosition(double scale_base);

 private:
  std::vector<Real128> steps_;    // ζ_i^(1/scale_base)
  std::vector<Real128> inverse_;  // of them
  double scale_base_;
  int64_t center_;
};

// What a table of cos and sin is made of. Row r, pair i: cos = F·cos(±position_r·inv_freq_i), sin likewise, where F is the
// product of all factors; one rounding of the exact product. In kCompatF32: the plain table's f32 entries times each factor,
// rounded to f32, one after the other.
struct RotationTable {
  AnglePlan plan;                      // frequencies and A
  std::vector<uint8_t> backwards;      // per pair: 1 turns the other way; empty: none does
  std::optional<PositionScale> scale;  // joins F
  std::shared_ptr<const Decay> decay;  // joins F; may be null; whole positions of one axis only
  int decay_sign = 1;                  // 1: queries, −1: keys
  bool inverse = false;                // 1/F instead of F
};

// The rotation from `source` to `target`: frequencies are the differences, A is the quotient. Differences below 2^-96 turns
// per position count as none. Both exact, of as many pairs and the same axes.
RotationTable BetweenSchedules(const AnglePlan& source, const AnglePlan& target);

// Fills rows of a table, [rows, pairs] with row_stride. 0.1 to 0.2 µs per pair.
struct RotationRows {
  const RotationTable* table = nullptr;
  RotationPositions positions;
  DType dtype = DType::kF32;  // IsFloat
  void* cos = nullptr;
  void* sin = nullptr;
  int64_t row_stride = 0;

  absl::Status Fill(RowRange rows, const CancelFlag* cancel) const;
};

// The steps that fill `count` rows of a table, by the backend's angle tables where they serve (f32 without a decay, a factor
// that is the same for many rows), else by RotationRows. Bits are the same either way. `table` and what `positions` points
// at must outlive the steps.
std::vector<ProgramStep> TableSteps(std::shared_ptr<const RotationTable> table, const RotationPositions& positions,
                                    int64_t count, DType dtype, void* cos, void* sin);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_ROTATION_H_
