#include "server/knowledge/alibi_lines.h"

#include <array>
#include <cmath>

namespace phasor::server {
namespace {

constexpr double kSlack = 1e-15;  // relative: the divisions' own rounding

struct Sides {
  Interval past, future;
  bool past_zero = true, future_zero = true;
};

// Slopes that bring every value of a head within `ulps`; nothing when a value at x = 0 is not 0.
std::optional<Sides> SidesOf(const BiasCurve& curve, int64_t head, int64_t origin, double ulps,
                             std::optional<DType> rounded) {
  Sides sides;
  for (int64_t i = 0; i < curve.count; ++i) {
    if (!curve.has(head, i)) continue;
    double x = static_cast<double>(curve.first + i - origin);
    if (rounded) x = RoundTo(*rounded, x);
    const size_t at = curve.index(head, i);
    const double low = curve.low[at], high = curve.high[at];
    if (x == 0) {
      if (low != 0 || high != 0) return std::nullopt;
      continue;
    }
    const double slack = ulps * curve.ulp(head, i);
    double from = (high - slack) / x, to = (low + slack) / x;
    if (x < 0) std::swap(from, to);
    Interval& side = x < 0 ? sides.past : sides.future;
    side.Clip(from - kSlack * std::fabs(from), to + kSlack * std::fabs(to));
    if (side.empty()) return std::nullopt;
    if (low != 0 || high != 0) (x < 0 ? sides.past_zero : sides.future_zero) = false;
  }
  return sides;
}

// The form that all heads share. Slopes of `lines` become those of the past, or of the future where only that was seen.
bool ChooseForm(const std::vector<Sides>& heads, AlibiLines& lines) {
  bool causal = true, symmetric = true, past_seen = false;
  lines.future_zero = true;
  for (const Sides& side : heads) {
    past_seen = past_seen || side.past.seen();
    lines.future_seen = lines.future_seen || side.future.seen();
    lines.future_zero = lines.future_zero && side.future_zero;
    causal = causal && !side.past.And(side.future).empty();
    symmetric = symmetric && !side.past.And(side.future.Negated()).empty();
  }
  for (const Sides& side : heads) {
    if (!lines.future_seen || (lines.future_zero && past_seen)) {
      lines.slopes.push_back(side.past);
    } else if (!past_seen) {
      lines.slopes.push_back(side.future_zero || side.future.low > 0 ? side.future : side.future.Negated());
    } else if (causal || symmetric) {
      lines.slopes.push_back(side.past.And(causal ? side.future : side.future.Negated()));
    } else {
      lines.slopes.push_back(side.past);
      if (side.past.low <= 0 && side.past.high >= 0) {
        if (!side.future_zero) return false;
        continue;
      }
      const std::array corners{-side.future.low / side.past.low, -side.future.low / side.past.high,
                               -side.future.high / side.past.low, -side.future.high / side.past.high};
      lines.future_factor.Clip(*std::min_element(corners.begin(), corners.end()),
                               *std::max_element(corners.begin(), corners.end()));
    }
  }
  if (!lines.future_seen || lines.future_zero || (past_seen && causal)) return true;
  if (!past_seen) {
    const bool falling = heads.front().future.high < 0;
    lines.form = falling ? AlibiForm::kSymmetric : AlibiForm::kCausal;
    for (const Sides& side : heads) {
      if (!side.future_zero && (side.future.high < 0) != falling) return false;
    }
    return true;
  }
  lines.form = symmetric ? AlibiForm::kSymmetric : AlibiForm::kTwoSided;
  return symmetric || (!lines.future_factor.empty() && lines.future_factor.low > 0);
}

// The head whose values are largest: its origin is the surest.
int64_t SteepestHead(const BiasCurve& curve) {
  int64_t best = -1;
  double largest = 0;
  for (int64_t head = 0; head < curve.heads; ++head) {
    for (int64_t i = 0; i < curve.count; ++i) {
      if (!curve.has(head, i) || !(std::fabs(curve.middle(head, i)) > largest)) continue;
      largest = std::fabs(curve.middle(head, i));
      best = head;
    }
  }
  return best;
}

// Where the values of a head are 0, or where the line through its ends would be.
std::vector<int64_t> OriginsOf(const BiasCurve& curve, int64_t head) {
  std::vector<int64_t> origins;
  int64_t begin = -1, end = -1, zero = -1, top = -1;
  for (int64_t i = 0; i < curve.count; ++i) {
    if (!curve.has(head, i)) continue;
    if (begin < 0) begin = i;
    end = i;
    if (zero < 0 && curve.low[curve.index(head, i)] == 0) zero = i;
    if (top < 0 || curve.middle(head, i) > curve.middle(head, top)) top = i;
  }
  if (zero >= 0) return {curve.first + zero};
  if (begin < 0 || begin == end) return {};
  // One straight piece: of slices away from 0, rounding leaves the place open by a few.
  const double rise = curve.middle(head, end) - curve.middle(head, begin);
  const double slope = rise / static_cast<double>(end - begin);
  if (slope == 0) return {};
  const double estimate = static_cast<double>(curve.first + end) - curve.middle(head, end) / slope;
  if (!(std::fabs(estimate) < 0x1p40)) return {};
  const double doubt =
      2 * curve.ulp(head, end) / std::fabs(slope) * (1 + std::fabs(curve.middle(head, end)) / std::fabs(rise));
  const auto reach = static_cast<int64_t>(std::min(doubt + 1, 4096.0));
  const auto middle = static_cast<int64_t>(std::llround(estimate));
  for (int64_t off = 0; off <= reach; ++off) {
    origins.push_back(middle + off);
    if (off > 0) origins.push_back(middle - off);
  }
  return origins;
}

}  // namespace

std::optional<AlibiLines> LinesAt(const BiasCurve& curve, int64_t origin, double ulps, std::optional<DType> rounded) {
  AlibiLines lines{.origin = origin, .rounded_distances = rounded};
  std::vector<Sides> heads;
  bool zero = true;
  for (int64_t head = 0; head < curve.heads; ++head) {
    const auto sides = SidesOf(curve, head, origin, ulps, rounded);
    if (!sides) return std::nullopt;
    zero = zero && sides->past_zero && sides->future_zero;
    heads.push_back(*sides);
  }
  if (zero || !ChooseForm(heads, lines)) return std::nullopt;
  for (const Interval& slope : lines.slopes) {
    if (slope.empty()) return std::nullopt;
  }
  return lines;
}

std::optional<AlibiLines> FindLines(const BiasCurve& curve) {
  const int64_t head = SteepestHead(curve);
  if (head < 0) return std::nullopt;
  for (const double ulps : {0.5001, 1.0}) {
    if (auto lines = LinesAt(curve, 0, ulps)) return lines;
  }
  const std::vector<int64_t> origins = OriginsOf(curve, head);
  for (const double ulps : {0.5001, 1.0}) {
    for (const int64_t origin : origins) {
      if (auto lines = LinesAt(curve, origin, ulps)) return lines;
    }
  }
  return std::nullopt;
}

}  // namespace phasor::server
