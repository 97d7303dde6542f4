#include "client/cli/load_latency.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace phasor::cli {
namespace {

// Values below 2^8 have buckets of their own; every power of two above is cut in 2^7.
constexpr int kExactBits = 8;
constexpr size_t kExact = size_t{1} << kExactBits, kPerPower = kExact / 2;
constexpr size_t kBuckets = kExact + (63 - kExactBits) * kPerPower;

size_t BucketOf(uint64_t value) {
  if (value < kExact) return value;
  const int shift = std::bit_width(value) - kExactBits;  // ≥ 1; value >> shift lies in [128, 256)
  return kExact + static_cast<size_t>(shift - 1) * kPerPower + (value >> shift) - kPerPower;
}

// The largest value of the bucket.
int64_t EndOf(size_t bucket) {
  if (bucket < kExact) return static_cast<int64_t>(bucket);
  const size_t shift = (bucket - kExact) / kPerPower + 1, top = (bucket - kExact) % kPerPower + kPerPower;
  return static_cast<int64_t>(((top + 1) << shift) - 1);
}

}  // namespace

void LatencyHistogram::Add(int64_t ns) {
  ns = std::max<int64_t>(ns, 0);
  if (buckets_.empty()) buckets_.resize(kBuckets);
  ++buckets_[BucketOf(static_cast<uint64_t>(ns))];
  ++count_;
  max_ = std::max(max_, ns);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  if (other.count_ == 0) return;
  if (buckets_.empty()) buckets_.resize(kBuckets);
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

int64_t LatencyHistogram::Quantile(int64_t ten_thousandths) const {
  if (count_ == 0) return 0;
  // count · share, rounded up, without leaving 64 bits.
  const int64_t whole = count_ / 10000 * ten_thousandths, rest = (count_ % 10000 * ten_thousandths + 9999) / 10000;
  int64_t left = std::max<int64_t>(whole + rest, 1);
  for (size_t i = 0; i < kBuckets; ++i) {
    left -= buckets_[i];
    if (left <= 0) return std::min(EndOf(i), max_);
  }
  return max_;
}

}  // namespace phasor::cli
