#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/encodings/buckets.h"
#include "server/knowledge/bias_fit.h"
#include "server/knowledge/interval.h"

namespace phasor::server {
namespace {

constexpr int64_t kMostBuckets = 8192;
constexpr std::array<int64_t, 12> kUsualDistances{128, 256, 64, 512, 32, 1024, 800, 2048, 20, 100, 200, 4096};

// Distances n on one side at which a value begins, ascending; the range that was seen.
struct Side {
  std::vector<int64_t> starts;
  int64_t reach = 0;  // the largest n seen
};

// Distances (from the origin) n > 0 where n differs from n − 1. `sign` −1: the past.
Side SideOf(const std::vector<int64_t>& steps, const BiasCurve& curve, int64_t origin, int sign) {
  Side side;
  const int64_t zero = origin - curve.first;
  side.reach = std::max<int64_t>(sign < 0 ? zero : curve.count - 1 - zero, 0);
  for (const int64_t step : steps) {  // column `step` differs from step − 1
    const int64_t n = sign < 0 ? zero - step + 1 : step - zero;
    if (n > 0 && n <= side.reach) side.starts.push_back(n);
  }
  if (sign < 0) std::reverse(side.starts.begin(), side.starts.end());
  return side;
}

// max_distance for which `buckets` of one side have every one of these starts; nothing where none has. A start that is not
// seen may be two buckets with one value, so starts may be missing but not be too many.
std::optional<int64_t> MaxDistanceFor(const Side& side, int64_t buckets) {
  const int64_t exact = buckets / 2, shared = buckets - exact;
  const double e = static_cast<double>(exact);
  Interval distance{e, 0x1p31};
  int64_t bucket = exact;
  bool beyond = false;
  for (const int64_t start : side.starts) {
    if (start <= exact) continue;
    if (++bucket >= buckets) return std::nullopt;
    // The smallest n with ln(n/e)/ln(D/e)·shared ≥ k is `start`.
    const double power = static_cast<double>(shared) / static_cast<double>(bucket - exact);
    distance.Clip(e * std::pow(static_cast<double>(start - 1) / e, power),
                  e * std::pow(static_cast<double>(start) / e, power));
    beyond = true;
  }
  if (bucket + 1 < buckets) {  // the next bucket begins beyond what was seen
    const double power = static_cast<double>(shared) / static_cast<double>(bucket + 1 - exact);
    distance.Clip(e * std::pow(std::max(static_cast<double>(side.reach) / e, 1.0), power), 0x1p31);
  }
  if (distance.empty()) return std::nullopt;
  const auto inside = [&](int64_t d) {
    const auto value = static_cast<double>(d);
    return d > exact && value > distance.low + 1e-9 * value && value <= distance.high + 1e-9 * value;
  };
  for (const int64_t usual : kUsualDistances) {
    if (inside(usual)) return usual;
  }
  const double low = std::floor(distance.low) + 1;
  const auto simple = static_cast<int64_t>(beyond ? Simplest({low, std::max(distance.high, low)}) : std::max(low, 2 * e));
  if (inside(simple)) return simple;
  return inside(static_cast<int64_t>(low)) ? std::optional(static_cast<int64_t>(low)) : std::nullopt;
}

// Fills the table from the curve. Fails where a bucket has two values.
template <typename Index>
bool FillTable(const BiasCurve& curve, int64_t origin, const Index& index, int64_t rows, std::vector<double>* table) {
  std::vector<double> low(static_cast<size_t>(rows * curve.heads), NAN), high(low);
  for (int64_t i = 0; i < curve.count; ++i) {
    const int64_t row = index.at(curve.first + i - origin);
    for (int64_t head = 0; head < curve.heads; ++head) {
      if (!curve.has(head, i)) continue;
      const size_t at = static_cast<size_t>(row * curve.heads + head);
      low[at] = std::fmin(low[at], curve.low[curve.index(head, i)]);
      high[at] = std::fmax(high[at], curve.high[curve.index(head, i)]);
      if (high[at] - low[at] > 2 * UlpOf(curve.dtype, high[at])) return false;
    }
  }
  table->assign(low.size(), 0);
  for (size_t i = 0; i < low.size(); ++i) {
    if (low[i] == low[i]) (*table)[i] = RoundTo(curve.dtype, low[i] + (high[i] - low[i]) / 2);
  }
  return true;
}

T5BucketSpec SpecOf(const BiasCurve& curve, int64_t buckets, int64_t distance, bool both, const std::vector<double>& table) {
  T5BucketSpec spec;
  spec.num_buckets = buckets;
  spec.max_distance = distance;
  spec.bidirectional = both;
  spec.num_heads = curve.heads;
  spec.table = MakeWeight({buckets, curve.heads}, table);
  return spec;
}

std::optional<BucketFit> TryBuckets(const BiasCurve& curve, int64_t origin, const Side& past, const Side& future, bool both,
                                    int64_t side_buckets) {
  // The side with more to see decides.
  const Side& seen = both && future.starts.size() > past.starts.size() ? future : past;
  const auto distance = MaxDistanceFor(seen, side_buckets);
  if (!distance) return std::nullopt;
  const int64_t buckets = both ? 2 * side_buckets : side_buckets;
  std::vector<double> table;
  if (!FillTable(curve, origin, DistanceBuckets(buckets, *distance, both), buckets, &table)) return std::nullopt;
  BucketFit fit;
  fit.spec = SpecOf(curve, buckets, *distance, both, table);
  fit.all_seen = static_cast<int64_t>(seen.starts.size()) == side_buckets - 1;
  return fit;
}

// Where the unit steps from 0 end: distances with a value each.
int64_t SinglesOf(const Side& side) {
  int64_t singles = 0;
  while (singles < static_cast<int64_t>(side.starts.size()) && side.starts[static_cast<size_t>(singles)] == singles + 1)
    ++singles;
  return singles;
}

}  // namespace

std::vector<int64_t> Steps(const BiasCurve& curve) {
  std::vector<int64_t> steps;
  for (int64_t i = 1; i < curve.count; ++i) {
    for (int64_t head = 0; head < curve.heads; ++head) {
      if (!curve.has(head, i) || !curve.has(head, i - 1)) continue;
      if (curve.low[curve.index(head, i)] <= curve.high[curve.index(head, i - 1)] &&
          curve.low[curve.index(head, i - 1)] <= curve.high[curve.index(head, i)]) {
        continue;
      }
      steps.push_back(i);
      break;
    }
  }
  return steps;
}

std::optional<BucketFit> FitBuckets(const BiasCurve& curve, int64_t origin) {
  const int64_t zero = origin - curve.first;
  if (zero < 0 || zero >= curve.count) return std::nullopt;
  const std::vector<int64_t> steps = Steps(curve);
  const Side past = SideOf(steps, curve, origin, -1), future = SideOf(steps, curve, origin, 1);
  for (const bool both : {false, true}) {
    if (!both && !future.starts.empty()) continue;
    const Side& seen = both && future.starts.size() > past.starts.size() ? future : past;
    const int64_t least = std::max<int64_t>(static_cast<int64_t>(seen.starts.size()) + 1, 2);
    // 32 and 16 a side first; then as many as were seen, and up.
    std::vector<int64_t> sizes{both ? 16 : 32, both ? 32 : 64, both ? 8 : 16};
    for (int64_t size = least; size <= std::min(2 * least + 64, kMostBuckets); ++size) sizes.push_back(size);
    for (const int64_t size : sizes) {
      if (size < least || size / 2 > SinglesOf(seen) + 1) continue;
      if (auto fit = TryBuckets(curve, origin, past, future, both, size)) return fit;
    }
  }
  return std::nullopt;
}

std::optional<DebertaBuckets> FitDebertaBuckets(const BiasCurve& curve) {
  const auto steps = static_cast<int64_t>(Steps(curve).size());
  const int64_t reach = std::max(-curve.first, curve.first + curve.count - 1);
  for (const int64_t buckets : {256, 128, 64, 32, 512, 16}) {
    // Enough distances that share a value, else any bias would do.
    if (reach < buckets / 2 + buckets / 4) continue;
    for (const int64_t most : {512, 256, 128, 1024, 2048, 4096}) {
      if (most - 1 <= buckets / 2) continue;
      const LogBuckets index(buckets, most);
      std::vector<double> table;
      if (!FillTable(curve, 0, index, index.rows(), &table)) continue;
      // A flat end fits any buckets: most of their boundaries must be there.
      int64_t boundaries = 0;
      for (int64_t i = 1; i < curve.count; ++i)
        boundaries += index.at(curve.first + i) != index.at(curve.first + i - 1) ? 1 : 0;
      if (10 * steps >= 9 * boundaries) return DebertaBuckets{buckets, most};
    }
  }
  return std::nullopt;
}

std::optional<BucketFit> OneBucketEach(const BiasCurve& curve, int64_t origin) {
  const int64_t reach = std::max(origin - curve.first, curve.first + curve.count - 1 - origin);
  const int64_t buckets = 4 * (reach + 1);
  if (origin < curve.first || origin >= curve.first + curve.count || buckets > kMostBuckets || reach < 1)
    return std::nullopt;
  std::vector<double> table;
  if (!FillTable(curve, origin, DistanceBuckets(buckets, reach + 2, true), buckets, &table)) return std::nullopt;
  BucketFit fit;
  fit.spec = SpecOf(curve, buckets, reach + 2, true, table);
  return fit;
}

}  // namespace phasor::server
