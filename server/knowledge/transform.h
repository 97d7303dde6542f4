// Entries of two sides, held against each other up to rounding.
#ifndef PHASOR_SERVER_KNOWLEDGE_TRANSFORM_H_
#define PHASOR_SERVER_KNOWLEDGE_TRANSFORM_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/knowledge/side.h"

namespace phasor::server {

// Equal: within a step of the coarser side's type at the largest magnitude there is. The entries must outlive it.
class Closeness {
 public:
  Closeness(const Side& a, const Side& b, const Entries& ea, const Entries& eb);

  // b = scale·a everywhere, within `steps` steps.
  bool Equal(double scale, double steps) const;
  // Column j of b is scale times column match[j] of a.
  std::optional<std::vector<int64_t>> MatchColumns(double scale) const;
  // Row m of b is row m + shift of a in at least half of the rows, shift ≠ 0.
  std::optional<int64_t> FindShift() const;
  // The same, of rows that are scale times those of a; the scale is not 1.
  struct ScaledShift {
    int64_t shift = 0;
    double scale = 1;
  };
  std::optional<ScaledShift> FindScaledShift() const;

  double best_scale() const { return best_scale_; }  // least squares
  double norm_ratio() const { return norm_ratio_; }  // ‖b‖/‖a‖, which no permutation changes
  double largest() const { return largest_; }
  double tolerance() const { return tolerance_; }
  bool coarse() const { return tolerance_ > 0x1p-40 * largest_; }  // some side is rounded to a narrow type

 private:
  bool ColumnsEqual(int64_t of_a, int64_t of_b, double scale) const;
  bool RowsEqual(int64_t of_a, int64_t of_b, double scale) const;
  double RowScale(int64_t of_a, int64_t of_b) const;

  std::vector<std::pair<const Grid*, const Grid*>> halves_;
  double largest_ = 0, tolerance_ = 0, best_scale_ = 0, norm_ratio_ = 0;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_TRANSFORM_H_
