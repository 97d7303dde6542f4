// Numbers between two bounds: what rounded values leave open about the number behind them.
#ifndef PHASOR_SERVER_KNOWLEDGE_INTERVAL_H_
#define PHASOR_SERVER_KNOWLEDGE_INTERVAL_H_

#include <algorithm>
#include <limits>

namespace phasor::server {

struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  bool empty() const { return !(low <= high); }
  bool seen() const { return high < std::numeric_limits<double>::infinity(); }
  bool contains(double x) const { return low <= x && x <= high; }
  double middle() const { return low + (high - low) / 2; }
  void Clip(double from, double to) {
    low = std::max(low, from);
    high = std::min(high, to);
  }
  Interval And(const Interval& other) const { return {std::max(low, other.low), std::min(high, other.high)}; }
  Interval Negated() const { return {-high, -low}; }
};

// The shortest decimal number in a non-empty interval; the middle, where none of up to 17 digits is.
double Simplest(const Interval& interval);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_INTERVAL_H_
