#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "server/knowledge/bias_fit.h"
#include "server/knowledge/interval.h"

namespace phasor::server {
namespace {

using Real = long double;  // f64 tables need more than a double for a fit within half an ulp

struct Point {
  Real n;          // distance
  Real low, high;  // of −b
  Real ulp;
};

struct Parameters {
  Real r1 = 1, r2 = 1, p = 1;
};

// g of b = −r1·g, and its derivatives by ln r2 and ln p.
struct Shape {
  Real g, by_r2, by_p;
};
Shape ShapeAt(KerpleForm form, const Parameters& at, Real n) {
  if (form == KerpleForm::kPower) {
    const Real g = powl(n, at.r2);
    return {g, g * at.r2 * logl(n), 0};
  }
  const Real t = at.r2 * (at.p == 1 ? n : powl(n, at.p));
  return {log1pl(t), t / (1 + t), at.p * logl(n) * t / (1 + t)};
}

constexpr int kMostPoints = 96;

// Up to kMostPoints distances, all of the small ones. None: not even, not 0 at 0, not negative elsewhere.
std::optional<std::vector<Point>> PointsOf(const BiasCurve& curve, int64_t head, int64_t origin) {
  std::vector<Point> points;
  const int64_t reach = std::max(std::abs(curve.first - origin), std::abs(curve.first + curve.count - 1 - origin));
  const Real growth = powl(static_cast<Real>(reach + 1), Real{1} / kMostPoints);
  Real next = 1;
  for (int64_t n = 0; n <= reach; ++n) {
    if (n > 32 && n < reach && static_cast<Real>(n) < next) continue;
    next = static_cast<Real>(n) * growth;
    Interval values;
    double ulp = 0;
    for (const int64_t x : {-n, n}) {
      const int64_t column = origin + x - curve.first;
      if (column < 0 || column >= curve.count || !curve.has(head, column)) continue;
      const size_t at = curve.index(head, column);
      values = values.seen() ? Interval{std::min(values.low, curve.low[at]), std::max(values.high, curve.high[at])}
                             : Interval{curve.low[at], curve.high[at]};
      ulp = curve.ulp(head, column);
    }
    if (!values.seen()) continue;
    if (n == 0 && (values.low != 0 || values.high != 0)) return std::nullopt;
    if (n == 0) continue;
    if (values.high >= 0 || values.high - values.low > 2 * ulp) return std::nullopt;
    points.push_back({static_cast<Real>(n), -values.high, -values.low, ulp});
  }
  if (points.size() < 3) return std::nullopt;
  return points;
}

Real MiddleOf(const Point& point) { return (point.low + point.high) / 2; }

// r2 from the ratio of the last value to the first, which falls as r2 grows. r1 follows.
void Start(KerpleForm form, const std::vector<Point>& points, Parameters& at) {
  const Point &near = points.front(), &far = points.back();
  const Real ratio = MiddleOf(far) / MiddleOf(near);
  if (form == KerpleForm::kPower) {
    at.r2 = std::max<Real>(logl(ratio) / logl(far.n / near.n), 1e-6L);
  } else {
    Real low = -170, high = 60;  // log2 r2
    for (int i = 0; i < 80; ++i) {
      at.r2 = exp2l((low + high) / 2);
      (ShapeAt(form, at, far.n).g / ShapeAt(form, at, near.n).g > ratio ? low : high) = (low + high) / 2;
    }
  }
  at.r1 = MiddleOf(far) / ShapeAt(form, at, far.n).g;
}

Real SumOfSquares(KerpleForm form, const std::vector<Point>& points, const Parameters& at) {
  Real sum = 0;
  for (const Point& point : points) {
    const Real off = (at.r1 * ShapeAt(form, at, point.n).g - MiddleOf(point)) / point.ulp;
    sum += off * off;
  }
  return std::isfinite(sum) ? sum : HUGE_VALL;
}

// One damped step of least squares in the logarithms; the last `fixed` of r1, r2, p stay.
Parameters Step(KerpleForm form, const std::vector<Point>& points, const Parameters& at, Real damping, int free) {
  std::array<std::array<Real, 4>, 3> m{};
  for (const Point& point : points) {
    const Shape shape = ShapeAt(form, at, point.n);
    const std::array<Real, 3> by{at.r1 * shape.g / point.ulp, at.r1 * shape.by_r2 / point.ulp,
                                 at.r1 * shape.by_p / point.ulp};
    const Real off = (MiddleOf(point) - at.r1 * shape.g) / point.ulp;
    for (int i = 0; i < free; ++i) {
      for (int j = 0; j < free; ++j) m[i][j] += by[i] * by[j];
      m[i][3] += by[i] * off;
    }
  }
  for (int i = 0; i < free; ++i) m[i][i] *= 1 + damping;
  for (int i = 0; i < free; ++i) {
    for (int k = i + 1; k < free; ++k) {
      const Real factor = m[k][i] / m[i][i];
      for (int j = i; j < free; ++j) m[k][j] -= factor * m[i][j];
      m[k][3] -= factor * m[i][3];
    }
  }
  std::array<Real, 3> step{};
  for (int i = free - 1; i >= 0; --i) {
    Real sum = m[i][3];
    for (int j = i + 1; j < free; ++j) sum -= m[i][j] * step[j];
    step[i] = std::clamp<Real>(sum / m[i][i], -2, 2);
    if (!(step[i] == step[i])) step[i] = 0;
  }
  return {at.r1 * expl(step[0]), at.r2 * expl(step[1]), at.p * expl(step[2])};
}

void Refine(KerpleForm form, const std::vector<Point>& points, Parameters& at, int free) {
  Real best = SumOfSquares(form, points, at), damping = 1e-3L;
  for (int i = 0; i < 60 && damping < 1e12L; ++i) {
    const Parameters next = Step(form, points, at, damping, free);
    const Real sum = SumOfSquares(form, points, next);
    if (sum < best) {
      // Far from a fit, slow progress is none.
      const Real enough = best > 100 * static_cast<Real>(points.size()) ? 1e-3L : 1e-12L;
      const bool settled = best - sum <= best * enough;
      at = next;
      best = sum;
      damping *= 0.1L;
      if (settled) return;
    } else {
      damping *= 10;
    }
  }
}

// r1 that brings every point within `ulps`, given the shape.
Interval FirstOf(KerpleForm form, const std::vector<Point>& points, const Parameters& at, Real ulps) {
  Interval r1;
  for (const Point& point : points) {
    const Real g = ShapeAt(form, at, point.n).g;
    r1.Clip(static_cast<double>((point.high - ulps * point.ulp) / g),
            static_cast<double>((point.low + ulps * point.ulp) / g));
  }
  return r1;
}

Real Shortened(Real value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*Le", digits - 1, value);
  return std::strtod(text, nullptr);
}

// Short decimals near the fit that still bring every point within about half an ulp; up to 1.5 the nearest value of the
// type is a neighbour at most.
std::optional<Parameters> Rounded(KerpleForm form, const std::vector<Point>& points, const Parameters& fit) {
  for (const Real ulps : {0.5001L, 0.7L, 1.0L, 1.4L}) {
    for (int digits = 1; digits <= 17; ++digits) {
      Parameters at = fit;
      at.r2 = Shortened(fit.r2, digits);
      const Interval r1 = FirstOf(form, points, at, ulps);
      if (r1.empty() || !(r1.high > 0)) continue;
      at.r1 = Simplest(r1);
      return at;
    }
  }
  return std::nullopt;
}

std::optional<Parameters> FitHead(KerpleForm form, const std::vector<Point>& points) {
  Parameters at;
  if (form != KerpleForm::kNemo) {
    Start(form, points, at);
    Refine(form, points, at, 2);
    return Rounded(form, points, at);
  }
  Real best = HUGE_VALL;
  for (const Real p : {0.25L, 0.5L, 0.75L, 1.25L, 1.5L, 1.75L, 2.0L}) {
    Parameters start{.p = p};
    Start(form, points, start);
    Refine(form, points, start, 3);
    const Real sum = SumOfSquares(form, points, start);
    if (sum < best) at = start;
    best = std::min(best, sum);
  }
  for (const int digits : {1, 2, 3, 4, 6, 9, 17}) {
    Parameters near = at;
    near.p = std::min<Real>(Shortened(at.p, digits), 2);
    Refine(form, points, near, 2);
    if (auto rounded = Rounded(form, points, near)) return rounded;
  }
  return std::nullopt;
}

std::optional<KerpleSpec> FitForm(KerpleForm form, const std::vector<std::vector<Point>>& heads) {
  KerpleSpec spec;
  spec.form = form;
  for (const auto& points : heads) {
    const auto fit = FitHead(form, points);
    if (!fit) return std::nullopt;
    spec.r1.push_back(static_cast<double>(fit->r1));
    spec.r2.push_back(static_cast<double>(fit->r2));
    if (form == KerpleForm::kNemo) spec.p.push_back(static_cast<double>(fit->p));
  }
  return spec;
}

}  // namespace

std::optional<KerpleSpec> FitKerple(const BiasCurve& curve, int64_t origin) {
  std::vector<std::vector<Point>> heads;
  for (int64_t head = 0; head < curve.heads; ++head) {
    auto points = PointsOf(curve, head, origin);
    if (!points) return std::nullopt;
    heads.push_back(*std::move(points));
  }
  for (const KerpleForm form : {KerpleForm::kLog, KerpleForm::kPower, KerpleForm::kNemo}) {
    if (auto spec = FitForm(form, heads)) return spec;
  }
  return std::nullopt;
}

}  // namespace phasor::server
