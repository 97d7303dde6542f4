#include "kernels/encodings/buckets.h"

#include <cmath>
#include <utility>

#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

// Exponent of the prime p in n > 0.
int64_t Valuation(int64_t n, int64_t p) {
  int64_t count = 0;
  for (; n % p == 0; n /= p) ++count;
  return count;
}

// Whether r^m = e^(m − k)·d^k, by the primes of the three.
bool IsExact(int64_t r, int64_t e, int64_t d, int64_t k, int64_t m) {
  const auto balanced = [&](int64_t p) { return m * Valuation(r, p) == (m - k) * Valuation(e, p) + k * Valuation(d, p); };
  int64_t rest[] = {r, e, d};
  for (int64_t p = 2; p * p <= std::max({rest[0], rest[1], rest[2]}); ++p) {
    bool divides = false;
    for (int64_t& n : rest) {
      while (n % p == 0) {
        n /= p;
        divides = true;
      }
    }
    if (divides && !balanced(p)) return false;
  }
  for (int64_t p : rest) {
    if (p > 1 && !balanced(p)) return false;
  }
  return true;
}

// e·(d/e)^(k/m) as the whole number that it is, or as the two that it lies between (low + 1 = high).
struct Between {
  int64_t low;
  int64_t high;
};
Between GeometricStep(int64_t e, int64_t d, int64_t k, int64_t m, const Wide& log_ratio) {
  const Wide value = Wide::FromInt(e) * Exp(log_ratio * Wide::FromInt(k) / Wide::FromInt(m));
  const Wide nearest = Floor(value + Wide(0.5));
  const auto whole = static_cast<int64_t>(ToDouble(nearest));
  const Wide distance = value < nearest ? nearest - value : value - nearest;
  if (distance < ScaleByPowerOfTwo(value, -200) && IsExact(whole, e, d, k, m)) return {whole, whole};
  const auto low = static_cast<int64_t>(ToDouble(Floor(value)));
  return {low, low + 1};
}

Wide LogRatio(int64_t d, int64_t e) { return Log(Wide::FromInt(d) / Wide::FromInt(e)); }

}  // namespace

DistanceBuckets::DistanceBuckets(int64_t num_buckets, int64_t max_distance, bool bidirectional, int64_t divisor)
    : bidirectional_(bidirectional), divisor_(divisor) {
  const int64_t side = bidirectional ? num_buckets / 2 : num_buckets;
  const int64_t exact = side / 2;
  starts_.clear();
  for (int64_t n = 0; n < exact; ++n) starts_.push_back(n);
  const Wide log_ratio = LogRatio(max_distance, exact);
  // Bucket e + k begins at the smallest n with ln(n/e)/ln(max_distance/e)·(side − e) ≥ k.
  const int64_t steps = side - exact;
  for (int64_t k = 0; k < steps; ++k) {
    starts_.push_back(k == 0 ? exact : GeometricStep(exact, max_distance, k, steps, log_ratio).high);
  }
}

LogBuckets::LogBuckets(int64_t position_buckets, int64_t max_relative_positions)
    : mid_(position_buckets / 2), span_(position_buckets > 0 ? position_buckets : max_relative_positions) {
  const int64_t steps = mid_ - 1;
  if (steps < 1) {
    // ceil(… · 0) is 0 at every distance.
    if (mid_ > 0) ends_.push_back(INT64_MAX);
    return;
  }
  const Wide log_ratio = LogRatio(max_relative_positions - 1, mid_);
  // mid + k ends at the largest n with ln(n/mid)/ln((max − 1)/mid)·(mid − 1) ≤ k. Beyond mid + mid − 1 all clamp to one row
  // on the far side of a query, and after mid + mid to one on the near side.
  for (int64_t k = 0; k <= mid_; ++k) {
    const int64_t end = k == 0 ? mid_ : GeometricStep(mid_, max_relative_positions - 1, k, steps, log_ratio).low;
    ends_.push_back(end);
  }
}

}  // namespace phasor
