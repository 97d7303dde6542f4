#include "server/knowledge/interval.h"

#include "server/knowledge/round_numbers.h"

namespace phasor::server {

double Simplest(const Interval& interval) {
  if (interval.low <= 0 && interval.high >= 0) return 0;
  const double middle = interval.middle();
  for (int digits = 1; digits <= 17; ++digits) {
    const double rounded = WithDigits(middle, digits);
    if (interval.contains(rounded)) return rounded;
  }
  return middle;
}

}  // namespace phasor::server
