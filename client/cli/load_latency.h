// Latencies of any number of calls in little memory, and their percentiles.
#ifndef PHASOR_CLIENT_CLI_LOAD_LATENCY_H_
#define PHASOR_CLIENT_CLI_LOAD_LATENCY_H_

#include <cstdint>
#include <vector>

namespace phasor::cli {

// Counts nanoseconds by buckets whose width is at most 1/128 of their values. Not thread-safe: one per thread, then Merge.
class LatencyHistogram {
 public:
  // Negative values count as 0.
  void Add(int64_t ns);
  void Merge(const LatencyHistogram& other);

  int64_t count() const { return count_; }
  // Exact; 0 without values.
  int64_t max() const { return max_; }
  // The smallest value that at least `ten_thousandths` (1 to 10000: 9990 is p99.9) of all are at or below, rounded up to its
  // bucket's end, by 1/128 at most, and never above max(). 0 without values.
  int64_t Quantile(int64_t ten_thousandths) const;

 private:
  std::vector<int64_t> buckets_;  // empty until the first value
  int64_t count_ = 0, max_ = 0;
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_LOAD_LATENCY_H_
