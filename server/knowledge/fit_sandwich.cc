#include <array>
#include <cmath>

#include "server/knowledge/bias_fit.h"
#include "server/knowledge/interval.h"

namespace phasor::server {
namespace {

constexpr std::array<double, 6> kBases{10000, 1000, 100, 500000, 1e6, 1e5};
constexpr std::array<int64_t, 24> kWidths{128, 64,  256, 512,  768,  1024, 32,   96,   80,   160,  192,  384,
                                          48,  112, 16,  1280, 1536, 2048, 2560, 3072, 4096, 5120, 8192, 12288};
constexpr int64_t kMostWidth = 16384;

// Σ (cos(n·base^(−2k/dim)) − 1), k = first … first + dim/2 − 1.
double SumAt(int64_t dim, double base, double n, int64_t first) {
  double sum = 0;
  for (int64_t k = first; k < first + dim / 2; ++k) {
    const double half = std::sin(0.5 * n * std::pow(base, -2.0 * static_cast<double>(k) / static_cast<double>(dim)));
    sum -= 2 * half * half;
  }
  return sum;
}

// The values of one head without its factor, at distances n ≥ 1.
struct Target {
  std::vector<double> n, value, tolerance;
};

bool Explains(const Target& target, int64_t dim, double base, int64_t first) {
  for (size_t i = 0; i < target.n.size(); ++i) {
    if (!(std::fabs(SumAt(dim, base, target.n[i], first) - target.value[i]) <= target.tolerance[i])) return false;
  }
  return true;
}

// The width for which the value at the first distance is right: the sum falls steadily as terms are added.
int64_t WidthFor(const Target& target, double base, int64_t first) {
  int64_t low = 1, high = kMostWidth / 2;  // of pairs
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (SumAt(2 * middle, base, target.n[0], first) > target.value[0] + target.tolerance[0]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return 2 * low;
}

// The base for a width, by the value at the first distance, which rises with the base; 0: none.
double BaseFor(const Target& target, int64_t dim, int64_t first) {
  Interval log_base;
  for (size_t i = 0; i < target.n.size() && target.n[i] <= 2; ++i) {  // beyond, the sum is not monotone in the base
    if (SumAt(dim, std::exp(1.0), target.n[i], first) > target.value[i] ||
        SumAt(dim, 1e10, target.n[i], first) < target.value[i]) {
      return 0;
    }
    const auto bound = [&](double wanted) {
      double low = 1, high = 25;  // ln base
      for (int step = 0; step < 60; ++step) {
        const double middle = (low + high) / 2;
        (SumAt(dim, std::exp(middle), target.n[i], first) < wanted ? low : high) = middle;
      }
      return low;
    };
    log_base.Clip(bound(target.value[i] - target.tolerance[i]), bound(target.value[i] + target.tolerance[i]));
  }
  if (!log_base.seen() || log_base.empty()) return 0;
  return Simplest({std::exp(log_base.low), std::exp(log_base.high)});
}

// Heads first … of `all`, from the ratio of the first two values: (first + 2)/(first + 1). One head: unknown, taken as
// alone.
int64_t FirstHead(const BiasCurve& curve, int64_t column) {
  if (curve.heads < 2) return 0;
  const double a = curve.middle(0, column), b = curve.middle(1, column);
  const double first = b / (a - b) - 1;
  return std::isfinite(first) && first > -0.5 && first < 65536 ? static_cast<int64_t>(std::llround(first)) : -1;
}

// Every value is that of the first head times (first + 1)/(first + 1 + h): no head is steeper than the one before it, and
// each keeps its ratio to the first head.
bool FallsWithHead(const BiasCurve& curve) {
  for (int64_t head = 1; head < curve.heads; ++head) {
    Interval ratio;
    const int64_t step = std::max<int64_t>(curve.count / 64, 1);
    for (int64_t i = 0; i < curve.count; i += step) {
      if (!curve.has(head, i) || !curve.has(0, i) || !(curve.middle(0, i) < 0)) continue;
      const double slack = 1.5 * curve.ulp(head, i), first = curve.middle(0, i);
      const double unsure = 1 + 1.5 * curve.ulp(0, i) / -first;
      ratio.Clip((-curve.middle(head, i) - slack) / -first / unsure, (-curve.middle(head, i) + slack) / -first * unsure);
    }
    if (ratio.empty() || ratio.low > 1) return false;
  }
  return true;
}

std::optional<Target> TargetOf(const BiasCurve& curve, int64_t origin, int64_t first_head, double heads) {
  Target target;
  const double factor = heads / (8 * static_cast<double>(first_head + 1));
  for (int64_t n = 1; n < (int64_t{1} << 40); n = n < 8 ? n + 1 : n * 3 / 2) {
    int64_t column = origin - n - curve.first;
    if (column < 0 || column >= curve.count || !curve.has(0, column)) column = origin + n - curve.first;
    if (column < 0 || column >= curve.count) {
      if (n > std::max(std::abs(curve.first - origin), std::abs(curve.first + curve.count - origin))) break;
      continue;
    }
    if (!curve.has(0, column)) continue;
    target.n.push_back(static_cast<double>(n));
    target.value.push_back(curve.middle(0, column) / factor);
    // A sum of sines loses some digits in double.
    target.tolerance.push_back(curve.ulp(0, column) / factor + 1e-13 * (1 + std::fabs(target.value.back())));
  }
  if (target.n.size() < 3) return std::nullopt;
  return target;
}

std::optional<SandwichFit> FitTarget(const Target& target, int64_t heads, int64_t first_head) {
  for (const int64_t first : {int64_t{1}, int64_t{0}}) {
    const auto found = [&](int64_t dim, double base) {
      SandwichFit fit;
      fit.spec.num_heads = heads;
      fit.spec.dim = dim;
      fit.spec.base = base;
      fit.first_head = first_head;
      fit.from_zero = first == 0;
      return fit;
    };
    for (const double base : kBases) {
      // Narrow types leave a few widths open.
      const int64_t least = WidthFor(target, base, first);
      for (int64_t dim = least; dim <= least + least / 32 + 2; dim += 2) {
        if (Explains(target, dim, base, first)) return found(dim, base);
      }
    }
    for (const int64_t dim : kWidths) {
      const double base = BaseFor(target, dim, first);
      if (base > 0 && Explains(target, dim, base, first)) return found(dim, base);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<SandwichFit> FitSandwich(const BiasCurve& curve, int64_t origin) {
  const int64_t zero = origin - curve.first;
  if (zero < 0 || zero >= curve.count) return std::nullopt;
  int64_t column = zero > 0 ? zero - 1 : zero + 1;
  if (column >= curve.count || !curve.has(0, column)) return std::nullopt;
  for (int64_t head = 0; head < curve.heads; ++head) {
    if (!curve.has(head, column) || !(curve.middle(head, column) < 0)) return std::nullopt;
    if (curve.has(head, zero) && curve.middle(head, zero) != 0) return std::nullopt;
  }
  if (!FallsWithHead(curve)) return std::nullopt;
  const int64_t first_head = FirstHead(curve, column);
  if (first_head < 0) return std::nullopt;
  // The whole model's heads: these, or a multiple for a shard.
  for (int64_t ranks = 1; ranks <= 16; ranks *= 2) {
    const int64_t heads = curve.heads * ranks;
    if (heads > 65536 || first_head + curve.heads > heads) continue;
    const auto target = TargetOf(curve, origin, first_head, static_cast<double>(heads));
    if (!target) return std::nullopt;
    if (auto fit = FitTarget(*target, heads, first_head)) return fit;
  }
  return std::nullopt;
}

}  // namespace phasor::server
