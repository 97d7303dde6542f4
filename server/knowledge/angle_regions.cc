#include "server/knowledge/angle_regions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr int64_t kMostRows = 192;
constexpr double kUnits = 0.98;        // a value is off by up to one unit in the last place
constexpr double kFloat32Units = 1.6;  // what libraries compute in float32, before one more rounding

struct Arc {
  double low = 0, high = 0;  // beside what the estimate expects
};

// `arc` turned to lie nearest to 0.
Arc Nearest(Arc arc) {
  const double middle = (arc.low + arc.high) / 2, by = std::remainder(middle, kTwoPi) - middle;
  return {arc.low + by, arc.high + by};
}

double DistanceOf(const Arc& arc) { return std::max({0.0, arc.low, -arc.high}); }

// What value ± half leaves for the angle, nearest to `expected`, within whose `reach` both mirror images count.
Arc ArcOf(bool is_cos, double low, double high, double expected, double reach) {
  low = std::clamp(low, -1.0, 1.0), high = std::clamp(high, -1.0, 1.0);
  // A sine is a cosine a quarter turn on.
  const double shift = is_cos ? 0 : std::numbers::pi / 2, inner = std::acos(high), outer = std::acos(low);
  if (outer - inner > 3) return {-kTwoPi, kTwoPi};
  Arc a = Nearest({inner + shift - expected, outer + shift - expected});
  Arc b = Nearest({-outer + shift - expected, -inner + shift - expected});
  if (DistanceOf(b) < DistanceOf(a)) std::swap(a, b);
  if (DistanceOf(b) > reach) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

}  // namespace

TurnRegions::TurnRegions(const PairTable& table, const Estimates& estimates, bool float32)
    : table_(table), estimates_(estimates), float32_(float32), amplitude_(estimates.amplitude) {
  slack_ = 2 * estimates.amplitude_error / amplitude_ + 4e-16;
  if (std::fabs(amplitude_ - 1) <= 4 * estimates.amplitude_error + 1e-15) amplitude_ = 1, slack_ = 4e-16;
  if (float32) slack_ += amplitude_ != 1 ? 0x1p-23 : table.rounded_to == DType::kF32 ? 0 : 0x1.02p-24;
  std::vector<int64_t> known;
  for (int64_t pair = 0; pair < table.pairs; ++pair) {
    if (estimates.pairs[static_cast<size_t>(pair)].is_known()) known.push_back(pair);
  }
  // Spread ones first: neighbours say the same.
  const size_t step = std::max<size_t>(1, known.size() / 8);
  for (size_t first = 0; first < step; ++first) {
    for (size_t k = first; k < known.size(); k += step) order_.push_back(known[k]);
  }
  const size_t levels = float32 ? 20 : 1;
  levels_.assign(levels, std::vector<Region>(order_.size()));
  made_.assign(levels, std::vector<bool>(order_.size(), false));
}

// Cuts a convex polygon by low ≤ phase + x·frequency ≤ high. False: nothing is left.
bool TurnRegions::Clip(std::vector<Point>& corners, double x, double low, double high) const {
  for (double sign : {1.0, -1.0}) {
    const double limit = sign > 0 ? low : -high;
    const auto inside = [&](const Point& p) { return sign * (p.phase + x * p.frequency) - limit; };
    if (std::all_of(corners.begin(), corners.end(), [&](const Point& p) { return inside(p) >= 0; })) continue;
    std::vector<Point> cut;
    for (size_t k = 0; k < corners.size(); ++k) {
      const Point &a = corners[k], &b = corners[(k + 1) % corners.size()];
      const double at_a = inside(a), at_b = inside(b);
      if (at_a >= 0) cut.push_back(a);
      if ((at_a >= 0) == (at_b >= 0)) continue;
      const double t = at_a / (at_a - at_b);
      cut.push_back({a.frequency + t * (b.frequency - a.frequency), a.phase + t * (b.phase - a.phase)});
    }
    corners = std::move(cut);
    if (corners.empty()) return false;
  }
  return true;
}

void TurnRegions::Meet(Region& region, int64_t row, int64_t pair, double more, double reach_frequency,
                       double reach_phase) const {
  const double x = static_cast<double>(row - estimates_.anchor), expected = region.phase + region.frequency * x;
  const double rounding = 0x1p-51 * (std::fabs(region.frequency * x) + 4) + more;
  const double reach = reach_phase + std::fabs(x) * reach_frequency + rounding;
  for (bool is_cos : {true, false}) {
    const std::vector<double>& kind = is_cos ? table_.cos : table_.sin;
    if (kind.empty()) continue;
    const double value = kind[static_cast<size_t>(row * table_.pairs + pair)];
    const double units = float32_ && table_.rounded_to == DType::kF32 ? kFloat32Units : kUnits;
    const double half = units * UlpOf(table_.rounded_to, value) + std::fabs(value) * slack_;
    const Arc arc = ArcOf(is_cos, (value - half) / amplitude_, (value + half) / amplitude_, expected, reach);
    if (!Clip(region.corners, x, arc.low - rounding, arc.high + rounding)) return;
  }
}

TurnRegions::Region TurnRegions::RegionOf(int64_t pair, double more) const {
  const PairEstimate& e = estimates_.pairs[static_cast<size_t>(pair)];
  const double noise = RoundingNoise(table_.rounded_to);
  // Slow pairs of coarse types stand still for rows on end: their estimates are off by more than deviations say.
  const double f = 8 * e.frequency_error + (8 * noise + 2 * more) / static_cast<double>(estimates_.count);
  const double p = 8 * e.phase_error + 4 * noise + 2 * more;
  Region region{false, e.frequency, e.phase, {{-f, -p}, {f, -p}, {f, p}, {-f, p}}};
  region.is_open = p > 1.5 || f * static_cast<double>(estimates_.count) > 3;
  if (region.is_open) return region;
  const int64_t count = std::min(estimates_.count, kMostRows);
  // The ends and the middle first: they cut most.
  for (int64_t step = std::bit_floor(static_cast<uint64_t>(count)), before = 0; step > 0; before = step, step /= 2) {
    for (int64_t k = 0; k < count; k += step) {
      if (before != 0 && k % before == 0) continue;
      const int64_t row = estimates_.first + (count == 1 ? 0 : k * (estimates_.count - 1) / (count - 1));
      Meet(region, row, pair, more, f, p);
      if (region.corners.empty()) return region;
    }
  }
  return region;
}

int TurnRegions::LevelOf(double position) const {
  if (!float32_) return 0;
  return std::clamp(std::ilogb(std::max(position, 1.0)), 0, static_cast<int>(levels_.size()) - 1);
}

const TurnRegions::Region& TurnRegions::At(size_t order, int level) {
  const auto l = static_cast<size_t>(level);
  if (!made_[l][order]) {
    const int64_t pair = order_[order];
    const double f = std::fabs(estimates_.pairs[static_cast<size_t>(pair)].frequency);
    levels_[l][order] = RegionOf(pair, float32_ ? std::ldexp(f, level + 1 - 24) : 0);
    made_[l][order] = true;
  }
  return levels_[l][order];
}

bool TurnRegions::Passes(const Region& region, double position) const {
  if (region.is_open) return true;
  if (region.corners.empty()) return false;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const Point& corner : region.corners) {
    const double off = position * corner.frequency - corner.phase;
    low = std::min(low, off), high = std::max(high, off);
  }
  const double turned = position * region.frequency, rounding = 0x1p-51 * std::fabs(turned) + 1e-15;
  // 2π as two doubles' worth: the first takes whole turns away without error.
  const double from = (turned - region.phase + low - rounding) / kTwoPi,
               to = (turned - region.phase + high + rounding) / kTwoPi;
  return std::floor(to) >= from;
}

bool TurnRegions::Allows(int64_t start) {
  const double position = static_cast<double>(start + estimates_.anchor);
  const int level = LevelOf(static_cast<double>(start + estimates_.first + estimates_.count));
  for (size_t k = 0; k < order_.size(); ++k) {
    if (!Passes(At(k, level), position)) return false;
  }
  return true;
}

std::vector<int64_t> TurnRegions::Starts(int64_t highest, size_t most) {
  std::vector<int64_t> all;
  for (int64_t start = 0; start <= highest; ++start) {
    if (Allows(start)) all.push_back(start);
  }
  if (all.size() <= most) return all;
  // Tables mostly start early; late starts leave the more frequencies.
  std::vector<int64_t> starts(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most / 2));
  const size_t left = all.size() - starts.size(), spread = most - starts.size();
  for (size_t k = spread; k > 0; --k) starts.push_back(all[all.size() - left + k * (left - 1) / spread]);
  return starts;
}

}  // namespace phasor::server
