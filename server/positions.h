// Positions of table rows or tokens, after parsing.
#ifndef PHASOR_SERVER_POSITIONS_H_
#define PHASOR_SERVER_POSITIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/program/absolute_rows.h"

namespace phasor::server {

// Coordinates of rows along one axis: an arithmetic sequence, ids, or fractional ids (at most one list is not empty, and
// has as many entries as there are rows).
struct AxisPositions {
  int64_t start = 0;
  int64_t stride = 1;
  std::vector<int64_t> ids = {};
  std::vector<double> fractional = {};  // each 0 or of magnitude 2^-64 at least

  // Those of rows [first_row, …), as tasks take them; points into this object.
  PositionSource Source(int64_t first_row) const;
};

// Positions of `count` rows: an arithmetic sequence, or ids. All |position| ≤ the limit.
struct PositionSet {
  int64_t start = 0;
  int64_t stride = 1;
  int64_t count = 0;
  std::vector<int64_t> ids;  // when not empty: `count` of them, and start and stride do not count
  int64_t largest = 0;       // the largest position, a fractional one rounded up; −1 when count is 0
  // What plain windows and rotations do not have: fractional ids in place of `ids`, and coordinates along axes 1, 2 …
  // (the members above are axis 0's then).
  std::vector<double> fractional = {};
  std::vector<AxisPositions> more_axes = {};
  // Rows that a mask hides: 1 where hidden; empty unless the positions come from a mask.
  std::vector<uint8_t> hidden = {};
  // The largest position itself, where `largest` is it rounded up.
  std::optional<double> largest_fraction = {};

  // For the warning beyond the model's maximum.
  double last() const { return largest < 0 ? -1 : largest_fraction.value_or(static_cast<double>(largest)); }

  int64_t axes() const { return 1 + static_cast<int64_t>(more_axes.size()); }
  bool is_plain() const { return fractional.empty() && more_axes.empty(); }
  // Of a plain set.
  int64_t at(int64_t row) const { return ids.empty() ? start + row * stride : ids[static_cast<size_t>(row)]; }
  // Coordinates of rows [first_row, …) along axis 0 … axes() − 1; points into this object.
  PositionSource Source(int64_t axis, int64_t first_row = 0) const;
  // Rows [first, first + n) alone; the largest stays that of all.
  PositionSet Rows(int64_t first, int64_t n) const;
  // Memory of the lists.
  int64_t bytes() const;
};

// All axes of the set, as absolute encodings take them; points into it.
AbsolutePositions AbsoluteOf(const PositionSet& positions);

// Whether the positions of a plain set go up (or down) by the same step, and that step; 1 where there are fewer than two.
bool EvenlySpaced(const PositionSet& positions, int64_t* stride);

// Canonical bytes of all positions, for the keys of works: evenly spaced ones as a range, other lists by their SHA-256.
std::string KeyOf(const PositionSet& positions);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_POSITIONS_H_
