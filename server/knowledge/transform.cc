// Whether one encoding can be made from another, and how.
#include "server/knowledge/transform.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "server/knowledge/compare.h"

namespace phasor::server {
namespace {

// What rounding alone may do to an entry of magnitude 1.
double StepOf(const Side& side) {
  if (side.table_type) return UlpOf(*side.table_type, 1);
  const bool compat = side.angles() != nullptr && side.angles()->precision == Precision::kCompatF32;
  return compat ? 0x1p-23 : 0x1p-51;
}

// The halves that both have, as one list of grids.
std::vector<std::pair<const Grid*, const Grid*>> Halves(const Entries& a, const Entries& b) {
  std::vector<std::pair<const Grid*, const Grid*>> halves;
  if (a.first.rows > 0 && b.first.rows > 0) halves.emplace_back(&a.first, &b.first);
  if (a.second.rows > 0 && b.second.rows > 0) halves.emplace_back(&a.second, &b.second);
  return halves;
}

// A power of two, about 1/size.
double UnitOf(double size) {
  int exponent = 0;
  std::frexp(size, &exponent);
  return size > 0 ? std::ldexp(1.0, std::clamp(-exponent, -1000, 1000)) : 1;
}

// Weights that tell columns apart by one number each.
std::vector<double> RowWeights(int64_t rows) {
  std::vector<double> weights(static_cast<size_t>(rows));
  uint64_t state = 1;
  for (double& weight : weights) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    weight = static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
  return weights;
}

std::vector<double> Signatures(const std::vector<const Grid*>& halves, double scale) {
  const int64_t rows = halves[0]->rows, columns = halves[0]->columns;
  const std::vector<double> weights = RowWeights(2 * rows);
  std::vector<double> signatures(static_cast<size_t>(columns), 0.0);
  for (size_t half = 0; half < halves.size(); ++half) {
    for (int64_t row = 0; row < rows; ++row) {
      const double weight = scale * weights[half * static_cast<size_t>(rows) + static_cast<size_t>(row)];
      for (int64_t column = 0; column < columns; ++column) {
        signatures[static_cast<size_t>(column)] += weight * halves[half]->at(row, column);
      }
    }
  }
  return signatures;
}

std::vector<int64_t> OrderOf(const std::vector<double>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t x, int64_t y) { return values[static_cast<size_t>(x)] < values[static_cast<size_t>(y)]; });
  return order;
}

}  // namespace

Closeness::Closeness(const Side& a, const Side& b, const Entries& ea, const Entries& eb) : halves_(Halves(ea, eb)) {
  double largest_a = 0, largest_b = 0;
  for (const auto& [x, y] : halves_) {
    for (const double value : x->values) largest_a = std::max(largest_a, std::abs(value));
    for (const double value : y->values) largest_b = std::max(largest_b, std::abs(value));
  }
  largest_ = std::max(largest_a, largest_b);
  tolerance_ = std::max(StepOf(a), StepOf(b)) * largest_;
  // Powers of two that bring both near 1, so that squares are numbers.
  const double unit_a = UnitOf(largest_a), unit_b = UnitOf(largest_b);
  double squares_a = 0, squares_b = 0, product = 0;
  for (const auto& [x, y] : halves_) {
    for (size_t i = 0; i < x->values.size(); ++i) {
      const double of_a = x->values[i] * unit_a, of_b = y->values[i] * unit_b;
      squares_a += of_a * of_a;
      squares_b += of_b * of_b;
      product += of_a * of_b;
    }
  }
  if (!(squares_a > 0)) return;
  best_scale_ = product / squares_a / unit_b * unit_a;
  norm_ratio_ = std::sqrt(squares_b / squares_a) / unit_b * unit_a;
}

bool Closeness::Equal(double scale, double steps) const {
  for (const auto& [x, y] : halves_) {
    for (size_t i = 0; i < x->values.size(); ++i) {
      if (!(std::abs(y->values[i] - scale * x->values[i]) <= steps * tolerance_)) return false;
    }
  }
  return true;
}

bool Closeness::ColumnsEqual(int64_t of_a, int64_t of_b, double scale) const {
  for (const auto& [x, y] : halves_) {
    for (int64_t row = 0; row < x->rows; ++row) {
      if (!(std::abs(y->at(row, of_b) - scale * x->at(row, of_a)) <= 4 * tolerance_)) return false;
    }
  }
  return true;
}

std::optional<std::vector<int64_t>> Closeness::MatchColumns(double scale) const {
  constexpr int64_t kReach = 3;  // rounding may swap neighbours in the order of signatures
  std::vector<const Grid*> of_a, of_b;
  for (const auto& [x, y] : halves_) {
    of_a.push_back(x);
    of_b.push_back(y);
  }
  const double unit = UnitOf(largest_);
  const std::vector<int64_t> order_a = OrderOf(Signatures(of_a, scale * unit)), order_b = OrderOf(Signatures(of_b, unit));
  const int64_t count = static_cast<int64_t>(order_a.size());
  std::vector<int64_t> match(order_a.size());
  std::vector<char> taken(order_a.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = order_b[static_cast<size_t>(i)];
    bool found = false;
    for (int64_t j = std::max<int64_t>(0, i - kReach); j < std::min(count, i + kReach + 1) && !found; ++j) {
      const int64_t candidate = order_a[static_cast<size_t>(j)];
      if (taken[static_cast<size_t>(candidate)] || !ColumnsEqual(candidate, column, scale)) continue;
      taken[static_cast<size_t>(candidate)] = 1;
      match[static_cast<size_t>(column)] = candidate;
      found = true;
    }
    if (!found) return std::nullopt;
  }
  return match;
}

bool Closeness::RowsEqual(int64_t of_a, int64_t of_b, double scale) const {
  for (const auto& [x, y] : halves_) {
    for (int64_t column = 0; column < x->columns; ++column) {
      if (!(std::abs(y->at(of_b, column) - scale * x->at(of_a, column)) <= 4 * tolerance_)) return false;
    }
  }
  return true;
}

std::optional<int64_t> Closeness::FindShift() const {
  if (halves_.empty()) return std::nullopt;
  const int64_t rows = halves_[0].first->rows;
  for (int64_t distance = 1; distance <= rows / 2; ++distance) {
    for (const bool forward : {true, false}) {
      bool equal = rows - distance >= 2;
      for (int64_t row = 0; equal && row + distance < rows; ++row) {
        equal = forward ? RowsEqual(row + distance, row, 1) : RowsEqual(row, row + distance, 1);
      }
      if (equal) return forward ? distance : -distance;
    }
  }
  return std::nullopt;
}

// What brings a row of a nearest to one of b, by least squares; 0 where a's is zero.
double Closeness::RowScale(int64_t of_a, int64_t of_b) const {
  const double unit = UnitOf(largest_);
  double squares = 0, product = 0;
  for (const auto& [x, y] : halves_) {
    for (int64_t column = 0; column < x->columns; ++column) {
      const double value = x->at(of_a, column) * unit;
      squares += value * value;
      product += value * (y->at(of_b, column) * unit);
    }
  }
  return squares > 0 ? product / squares : 0;
}

std::optional<Closeness::ScaledShift> Closeness::FindScaledShift() const {
  constexpr int64_t kLeastRows = 3;  // one row gives the scale
  if (halves_.empty()) return std::nullopt;
  const int64_t rows = halves_[0].first->rows;
  for (int64_t distance = 1; distance <= rows / 2 && rows - distance >= kLeastRows; ++distance) {
    for (const bool forward : {true, false}) {
      const int64_t first_a = forward ? distance : 0, first_b = forward ? 0 : distance;
      const double scale = RowScale(first_a, first_b);
      bool equal = scale != 0 && std::isfinite(scale) && std::abs(scale - 1) > 1e-12;
      for (int64_t row = 0; equal && row + distance < rows; ++row) equal = RowsEqual(first_a + row, first_b + row, scale);
      if (equal) return ScaledShift{forward ? distance : -distance, scale};
    }
  }
  return std::nullopt;
}

}  // namespace phasor::server
