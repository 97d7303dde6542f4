// How fast the pairs of a table turn, and where they stand, without any idea of the schedule.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_ESTIMATE_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_ESTIMATE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "server/knowledge/angle_layout.h"

namespace phasor::server {

struct PairEstimate {
  double frequency = 0;                                              // radians per row, −π … π
  double frequency_error = std::numeric_limits<double>::infinity();  // one standard deviation
  double phase = 0;                                                  // the angle at the anchor row, −π … π
  double phase_error = std::numeric_limits<double>::infinity();
  double highest = 3.2;  // no more radians per row than this, where the frequency is not known

  bool is_known() const { return frequency_error < 1; }
};

struct Estimates {
  // The longest stretch of rows in which all pairs turn evenly; count < 3: there is none, and no pair is known.
  int64_t first = 0, count = 0;
  int64_t anchor = 0;  // a row in the middle of it
  double amplitude = 1, amplitude_error = 0;
  std::vector<PairEstimate> pairs;
};

// One standard deviation of a value near 1 rounded to `dtype`.
double RoundingNoise(DType dtype);

// Both kinds, or one: of one alone slow pairs stay unknown. Values that are not finite end a stretch.
Estimates EstimatePairs(const PairTable& table);

// Whether the pairs turn backwards: what is called cosine is a sine.
bool TurnsBackwards(const Estimates& estimates);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_ESTIMATE_H_
