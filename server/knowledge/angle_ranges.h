// Frequencies from what every single value allows.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_RANGES_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_RANGES_H_

#include <cstdint>
#include <vector>

#include "server/knowledge/angle_check.h"
#include "server/knowledge/angle_estimate.h"

namespace phasor::server {

// Of one pair: radians per position.
struct TurnRange {
  double frequency = 0;  // in the middle of what is allowed; as estimated where nothing is
  double width = 0;      // of the range
  bool is_allowed = false;
  std::vector<double> others{};  // middles of other ranges, nearest first; at most 24
};

// Every value was rounded once, so it leaves arcs for the angle of its pair, and those leave ranges for the frequency, which
// rows intersect. `nearest` are estimates, one per pair; `float32`: the angle and the cosine were rounded to float32 first.
// Work is rows times pairs; at most 1024 rows are looked at.
std::vector<TurnRange> RangesAt(const PairTable& table, const Estimates& estimates, const std::vector<double>& nearest,
                                int64_t start, bool float32);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_RANGES_H_
