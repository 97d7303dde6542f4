// Rows between which positions go up by one. Part of angle_estimate.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_STRETCH_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_STRETCH_H_

#include <cstdint>

#include "server/knowledge/angle_layout.h"

namespace phasor::server {

struct Stretch {
  int64_t first = 0, count = 0;
};

// The longest one found from the smoothest window of the table; count 0 where rows are equal or nothing turns evenly.
Stretch FindStretch(const PairTable& table);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_STRETCH_H_
