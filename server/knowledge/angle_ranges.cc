#include "server/knowledge/angle_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

using Real = long double;  // frequencies of f64 tables are wanted to the last bit of a double

constexpr Real kPi = std::numbers::pi_v<Real>;
constexpr size_t kMostRanges = 6000;
constexpr int64_t kMostRows = 1024;

struct Range {
  Real low = 0, high = 0;
};

// One pair's frequency at known positions.
class PairRanges {
 public:
  PairRanges(const PairTable& table, const Estimates& estimates, int64_t pair, bool float32, double units)
      : table_(table), pair_(pair), float32_(float32), units_(units) {
    // Of f64 tables the estimates themselves are rounded.
    amplitude_ = estimates.amplitude;
    slack_ = 2 * estimates.amplitude_error / amplitude_ + 3e-16;
    if (std::fabs(amplitude_ - 1) <= 4 * estimates.amplitude_error + 1e-15) amplitude_ = 1, slack_ = 0;
    // A cosine in float32 is rounded once more unless the table is of that type, and by the factor's product.
    float32_slack_ = amplitude_ == 1 ? (table.rounded_to == DType::kF32 ? 0 : 0x1.02p-24) : 0x1p-23;
  }

  void Begin(Real low, Real high) { ranges_ = {{std::max<Real>(low, 0), high}}; }
  const std::vector<Range>& ranges() const { return ranges_; }

  // False where nothing is left, or too much to follow.
  bool Meet(int64_t row, int64_t position) {
    if (position <= 0) return true;
    if (!table_.cos.empty() && !MeetArc(table_.cos_at(row, pair_), true, static_cast<Real>(position))) return false;
    return table_.sin.empty() || MeetArc(table_.sin_at(row, pair_), false, static_cast<Real>(position));
  }

 private:
  // Angles in −π … π whose cosine (sine) is `value` once rounded lie in [a, b] and in its mirror image.
  bool MeetArc(double value, bool is_cos, Real position) {
    Real half = units_ * UlpOf(table_.rounded_to, std::fabs(value));
    if (float32_) half += static_cast<Real>(std::fabs(value)) * float32_slack_;
    half += static_cast<Real>(std::fabs(value)) * slack_;
    const Real low = std::clamp<Real>((static_cast<Real>(value) - half) / amplitude_, -1, 1);
    const Real high = std::clamp<Real>((static_cast<Real>(value) + half) / amplitude_, -1, 1);
    std::array<Range, 2> arcs;
    if (is_cos) {
      arcs = {Range{acosl(high), acosl(low)}, Range{-acosl(low), -acosl(high)}};
    } else {
      arcs = {Range{asinl(low), asinl(high)}, Range{kPi - asinl(high), kPi - asinl(low)}};
    }
    std::vector<Range> met;
    for (const Range& range : ranges_) {
      // Rounding the angle to float32 moves it by half a unit.
      const Real slack = range.high * position * (float32_ ? 0x1p-24L * 1.01L : 0x1p-62L);
      for (const Range& arc : arcs) {
        const Real first = ceill((range.low * position - arc.high - slack) / (2 * kPi));
        const Real last = floorl((range.high * position - arc.low + slack) / (2 * kPi));
        for (Real turn = first; turn <= last; ++turn) {
          const Range both{std::max(range.low, (arc.low + 2 * kPi * turn - slack) / position),
                           std::min(range.high, (arc.high + 2 * kPi * turn + slack) / position)};
          if (both.low <= both.high) met.push_back(both);
          if (met.size() > kMostRanges) return false;
        }
      }
    }
    Merge(met);
    return !ranges_.empty();
  }

  // Arcs that touch near an extreme would double the ranges row by row.
  void Merge(std::vector<Range>& met) {
    std::sort(met.begin(), met.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
    ranges_.clear();
    for (const Range& range : met) {
      if (!ranges_.empty() && range.low <= ranges_.back().high) {
        ranges_.back().high = std::max(ranges_.back().high, range.high);
      } else {
        ranges_.push_back(range);
      }
    }
  }

  const PairTable& table_;
  int64_t pair_;
  bool float32_;
  double units_, amplitude_ = 1, slack_ = 0, float32_slack_ = 0;
  std::vector<Range> ranges_;
};

// Rows of the stretch: those beside the anchor first, then ever farther ones, so that turns are counted early.
std::vector<int64_t> RowsInOrder(const Estimates& e) {
  std::vector<int64_t> rows;
  for (int64_t step = 0; static_cast<int64_t>(rows.size()) < std::min(e.count, kMostRows / 2); ++step) {
    if (e.anchor + step < e.first + e.count) rows.push_back(e.anchor + step);
    if (step > 0 && e.anchor - step >= e.first) rows.push_back(e.anchor - step);
  }
  for (int64_t k = 0; k < kMostRows / 2 && e.count > kMostRows / 2; ++k) {
    rows.push_back(e.first + k * (e.count - 1) / (kMostRows / 2 - 1));
  }
  return rows;
}

TurnRange RangeOf(PairRanges& pair, const std::vector<int64_t>& rows, int64_t start, Real low, Real high, double expected) {
  pair.Begin(low, high);
  for (int64_t row : rows) {
    if (!pair.Meet(row, start + row)) return {expected, 0, false, {}};
  }
  constexpr size_t kMostOthers = 24;
  std::vector<Range> ranges = pair.ranges();
  const auto middle = [](const Range& range) { return static_cast<double>((range.low + range.high) / 2); };
  const auto distance = [&](const Range& range) { return std::fabs(middle(range) - expected); };
  std::sort(ranges.begin(), ranges.end(), [&](const Range& a, const Range& b) { return distance(a) < distance(b); });
  if (ranges.empty()) return {expected, 0, false, {}};
  TurnRange best{middle(ranges[0]), static_cast<double>(ranges[0].high - ranges[0].low), true, {}};
  for (size_t k = 1; k < std::min(ranges.size(), kMostOthers + 1); ++k) best.others.push_back(middle(ranges[k]));
  return best;
}

}  // namespace

std::vector<TurnRange> RangesAt(const PairTable& table, const Estimates& estimates, const std::vector<double>& nearest,
                                int64_t start, bool float32) {
  const std::vector<int64_t> rows = RowsInOrder(estimates);
  // Angles rounded to float32 over a few rows pretend another frequency.
  const double farthest = static_cast<double>(start + estimates.first + estimates.count);
  const Real rounding = 0x1p-23L * farthest / static_cast<Real>(std::max<int64_t>(estimates.count, 1));
  std::vector<TurnRange> found;
  for (int64_t pair = 0; pair < table.pairs; ++pair) {
    const auto i = static_cast<size_t>(pair);
    const PairEstimate& e = estimates.pairs[i];
    TurnRange best{nearest[i], 0, false, {}};
    // Values are off by half a unit; where that leaves nothing, by nearly one.
    for (double units : {0.502, 0.98, 1.6}) {  // the last one: cosines of float32 libraries are off by as much
      if (units > 1 && !float32) continue;
      PairRanges ranges(table, estimates, pair, float32, units);
      if (e.is_known()) {
        const Real middle = e.frequency < 0 && -e.frequency > 6 * e.frequency_error ? e.frequency + 2 * kPi : e.frequency;
        const Real reach = 8 * static_cast<Real>(e.frequency_error) + 1e-12L + (float32 ? middle * rounding : 0);
        best = RangeOf(ranges, rows, start, middle - reach, middle + reach, nearest[i]);
      } else {
        // A few turns beside what continues the rows before, then all.
        const double highest = std::min(e.highest, i > 0 ? 1.2 * found[i - 1].frequency : 3.2);
        const Real few = 24 / static_cast<Real>(std::max<int64_t>(start + estimates.anchor, 1));
        best = RangeOf(ranges, rows, start, nearest[i] - few, std::min<Real>(nearest[i] + few, highest), nearest[i]);
        if (!best.is_allowed) best = RangeOf(ranges, rows, start, 0, highest, nearest[i]);
      }
      if (best.is_allowed) break;
    }
    // Slow pairs of coarse types stand still for rows on end, which spoils their estimates.
    if (!best.is_allowed) {
      PairRanges ranges(table, estimates, pair, float32, 0.98);
      best = RangeOf(ranges, rows, start, 0, i > 0 ? 1.2 * found[i - 1].frequency : 3.2, nearest[i]);
    }
    found.push_back(best);
  }
  return found;
}

}  // namespace phasor::server
