// Distances as row numbers of a table: T5's buckets, DeBERTa's logarithmic buckets, Shaw's clipped distances. Decisions are
// exact: a distance belongs to the bucket that the formula gives in real numbers, where libraries take logarithms in f32.
#ifndef PHASOR_KERNELS_ENCODINGS_BUCKETS_H_
#define PHASOR_KERNELS_ENCODINGS_BUCKETS_H_

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

namespace phasor {

// T5 (arXiv 1910.10683). Of d = key − query. Bidirectional: N = num_buckets/2, N is added where d > 0, n = |d|; causal:
// N = num_buckets, n = max(−d, 0). With e = N/2: n where n < e, else min(N − 1, e + trunc(ln(n/e)/ln(max_distance/e)·(N −
// e))). With a divisor the distance is trunc(d/divisor).
class DistanceBuckets {
 public:
  DistanceBuckets() = default;
  // num_buckets ≥ 2 (bidirectional: even, ≥ 4), up to 65536; e < max_distance < 2^31. About 10 µs a bucket.
  // divisor ≥ 1.
  DistanceBuckets(int64_t num_buckets, int64_t max_distance, bool bidirectional, int64_t divisor = 1);

  int64_t at(int64_t distance) const {
    if (divisor_ != 1) distance /= divisor_;
    const int64_t n = bidirectional_ ? (distance < 0 ? -distance : distance) : std::max<int64_t>(-distance, 0);
    const auto side = static_cast<int64_t>(starts_.size());
    const int64_t bucket = std::upper_bound(starts_.begin(), starts_.end(), n) - starts_.begin() - 1;
    return bidirectional_ && distance > 0 ? bucket + side : bucket;
  }

 private:
  bool bidirectional_ = false;
  int64_t divisor_ = 1;
  std::vector<int64_t> starts_ = {
      0};  // of one side: the smallest n of each bucket; a bucket that is never used has the next
};

// DeBERTa v2 and v3. Of r = query − key: clamp(bucket(r) + span, 0, 2·span − 1). With position_buckets = 2·mid > 0: span =
// position_buckets, bucket r where |r| ≤ mid, else sign(r)·(ceil(ln(|r|/mid)/ln((max_relative_positions − 1)/mid)·(mid −
// 1)) + mid). Without: bucket r, span = max_relative_positions.
class LogBuckets {
 public:
  LogBuckets() = default;
  // position_buckets: 0, or even, 2 … 65536; max_relative_positions ≥ 1, and − 1 above mid. About 10 µs a bucket.
  LogBuckets(int64_t position_buckets, int64_t max_relative_positions);

  int64_t at(int64_t distance) const {
    const int64_t relative = -distance;
    const int64_t magnitude = relative < 0 ? distance : relative;
    int64_t bucket = relative;
    if (mid_ > 0 && magnitude > mid_) {
      const int64_t above = std::lower_bound(ends_.begin(), ends_.end(), magnitude) - ends_.begin();
      bucket = relative < 0 ? -(above + mid_) : above + mid_;
    }
    return std::clamp<int64_t>(bucket + span_, 0, 2 * span_ - 1);
  }
  int64_t rows() const { return 2 * span_; }

 private:
  int64_t mid_ = 0;
  int64_t span_ = 1;
  std::vector<int64_t> ends_;  // the largest |r| of mid + 0, mid + 1, …; ascending
};

// Shaw (arXiv 1803.02155). Of r = query − key, or key − query: clip(r) + clip.
struct ClippedDistances {
  int64_t clip = 0;
  bool key_minus_query = false;

  int64_t at(int64_t distance) const { return std::clamp(key_minus_query ? distance : -distance, -clip, clip) + clip; }
  int64_t rows() const { return 2 * clip + 1; }
};

// Any of them, by distance key − query.
using DistanceIndex = std::variant<DistanceBuckets, LogBuckets, ClippedDistances>;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_BUCKETS_H_
