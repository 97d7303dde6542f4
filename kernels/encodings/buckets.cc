#include "kernels/encodings/buckets.h"

#include <algorithm>

#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

double RoundedLog(double x) { return ToDouble(Log(Wide(x))); }

}  // namespace

std::vector<int32_t> T5Buckets(int64_t reach, int64_t num_buckets, int64_t max_distance, bool bidirectional) {
  const int64_t half = bidirectional ? num_buckets / 2 : num_buckets;
  const int64_t exact = half / 2;
  const double e = static_cast<double>(exact);
  const double scale = RoundedLog(static_cast<double>(max_distance) / e);
  const auto bucket = [&](int64_t n) -> int64_t {
    if (n < exact) return n;
    const double share = RoundedLog(static_cast<double>(n) / e) / scale * static_cast<double>(half - exact);
    return std::min(half - 1, exact + static_cast<int64_t>(share));
  };
  // By magnitude: buckets never fall, so each one's end is found by bisection.
  std::vector<int32_t> of_magnitude(static_cast<size_t>(reach + 1));
  for (int64_t n = 0; n <= reach;) {
    const int64_t current = bucket(n);
    int64_t last = n, beyond = reach + 1;
    while (beyond - last > 1) {
      const int64_t middle = last + (beyond - last) / 2;
      (bucket(middle) == current ? last : beyond) = middle;
    }
    std::fill(of_magnitude.begin() + n, of_magnitude.begin() + beyond, static_cast<int32_t>(current));
    n = beyond;
  }
  std::vector<int32_t> buckets(static_cast<size_t>(2 * reach + 1));
  for (int64_t distance = -reach; distance <= reach; ++distance) {
    const int32_t before = of_magnitude[static_cast<size_t>(distance <= 0 ? -distance : bidirectional ? distance : 0)];
    buckets[static_cast<size_t>(distance + reach)] =
        before + (bidirectional && distance > 0 ? static_cast<int32_t>(half) : 0);
  }
  return buckets;
}

}  // namespace phasor
