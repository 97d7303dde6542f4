#include "server/knowledge/interval.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace phasor::server {

double Simplest(const Interval& interval) {
  if (interval.low <= 0 && interval.high >= 0) return 0;
  const double middle = interval.middle();
  for (int digits = 1; digits <= 17; ++digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*e", digits - 1, middle);
    const double rounded = std::strtod(text, nullptr);
    if (interval.contains(rounded)) return rounded;
  }
  return middle;
}

}  // namespace phasor::server
