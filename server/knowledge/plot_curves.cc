#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "server/knowledge/plot.h"
#include "server/knowledge/plot_frame.h"

namespace phasor::server {
namespace {

constexpr double kLabelHeight = 14;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();

  void Add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Logarithmic axes end at powers of ten; others leave a little room. No values: 0 to 1.
Axis AxisOver(Range range, bool logarithmic, bool room, double from, double to) {
  if (range.low > range.high) range = logarithmic ? Range{1e-16, 1} : Range{0, 1};
  if (logarithmic && room) {
    return Axis(std::pow(10.0, std::floor(std::log10(range.low))), std::pow(10.0, std::ceil(std::log10(range.high))), true,
                from, to);
  }
  const double margin = room ? 0.04 * (range.high - range.low) : 0;
  return Axis(range.low - margin, range.high + margin, logarithmic, from, to);
}

bool Drawable(const CurveChart& chart, double x, double y) {
  return std::isfinite(y) && std::isfinite(x) && (!chart.log_x || x > 0) && (!chart.log_y || y > 0);
}

void AddColours(Svg* svg, const CurveChart& chart) {
  std::string light, dark;
  const size_t count = chart.curves.size();
  for (size_t i = 0; i < count; ++i) {
    const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
    const double hue = chart.ordered ? 265 - 225 * share : 255 + 137.5 * static_cast<double>(i);
    const std::string on_light = OklchColour(0.55, 0.15, hue), on_dark = OklchColour(0.76, 0.13, hue);
    absl::StrAppend(&light, ".k", i, "{stroke:", on_light, "}.l", i, "{fill:", on_light, "}");
    absl::StrAppend(&dark, ".k", i, "{stroke:", on_dark, "}.l", i, "{fill:", on_dark, "}");
  }
  absl::StrAppend(&light, ".mark{stroke:", OklchColour(0.55, 0.2, 25), "}.marked{fill:", OklchColour(0.5, 0.2, 25), "}");
  absl::StrAppend(&dark, ".mark{stroke:", OklchColour(0.72, 0.17, 25), "}.marked{fill:", OklchColour(0.75, 0.16, 25), "}");
  svg->Style(light, dark);
}

// Whether leaving out `b` between `a` and `c` cannot be seen.
bool OnTheWay(const Point& a, const Point& b, const Point& c) {
  if (c.x <= a.x || c.x - a.x > 64) return false;  // short steps, or small errors would add up
  return std::abs(a.y + (c.y - a.y) * (b.x - a.x) / (c.x - a.x) - b.y) < 0.01;
}

// Of many points one chart column each keeps its lowest and highest.
std::vector<std::vector<Point>> PointsOf(const CurveChart& chart, const Curve& curve, const Axis& x, const Axis& y) {
  std::vector<std::vector<Point>> parts(1);
  for (size_t i = 0; i < curve.x.size(); ++i) {
    if (!Drawable(chart, curve.x[i], curve.y[i])) {
      if (!parts.back().empty()) parts.emplace_back();
      continue;
    }
    const Point point{x.Pixel(curve.x[i]), y.Pixel(curve.y[i])};
    std::vector<Point>& part = parts.back();
    const size_t n = part.size();
    if (n >= 2 && OnTheWay(part[n - 2], part[n - 1], point)) {
      part[n - 1] = point;
      continue;
    }
    // Two points of this pixel column are there already, and this one goes on in their direction: it replaces the second.
    if (n >= 2 && std::floor(part[n - 1].x) == std::floor(point.x) && std::floor(part[n - 2].x) == std::floor(point.x) &&
        (part[n - 1].y - part[n - 2].y) * (point.y - part[n - 1].y) >= 0) {
      part[n - 1] = point;
    } else {
      part.push_back(point);
    }
  }
  return parts;
}

// Labels at the right end of each curve, moved apart where they would meet.
void DrawLabels(Svg* svg, const Frame& frame, const std::vector<std::string>& labels, const std::vector<double>& ends) {
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return ends[i] < ends[j]; });
  std::vector<double> at(labels.size());
  double next = frame.top + 4;
  for (const size_t i : order) {
    at[i] = std::max(ends[i] + 4, next);
    next = at[i] + kLabelHeight;
  }
  double limit = frame.bottom + 4;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    at[*i] = std::min(at[*i], limit);
    limit = at[*i] - kLabelHeight;
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    svg->Line({frame.right + 1, ends[i]}, {frame.right + 9, at[i] - 4}, absl::StrCat("curve k", i));
    svg->Text({frame.right + 12, at[i]}, labels[i], Anchor::kStart, absl::StrCat("label l", i));
  }
}

void DrawMarks(Svg* svg, const Frame& frame, const Axis& x, const std::vector<Mark>& marks) {
  double row = frame.top + 15;
  for (const Mark& mark : marks) {
    if (!x.Shows(mark.at)) continue;
    const double at = x.Pixel(mark.at);
    svg->Line({at, frame.top}, {at, frame.bottom}, "mark");
    const bool left = at > (frame.left + frame.right) / 2;
    svg->Text({at + (left ? -6 : 6), row}, mark.label, left ? Anchor::kEnd : Anchor::kStart, "marked");
    row += kLabelHeight + 2;
  }
}

}  // namespace

Picture DrawCurves(const CurveChart& chart, double width) {
  const double height = std::max(260.0, std::round(width * 0.6));
  Svg svg(width, height, chart.text.title, chart.text.description);
  AddColours(&svg, chart);
  const bool labelled = chart.curves.size() > 1;
  const Frame frame = FrameFor(width, height, labelled ? 110 : 24);
  Range xs, ys;
  for (const Curve& curve : chart.curves) {
    for (size_t i = 0; i < curve.x.size(); ++i) {
      if (std::isfinite(curve.x[i]) && (!chart.log_x || curve.x[i] > 0)) xs.Add(curve.x[i]);
      if (Drawable(chart, curve.x[i], curve.y[i])) ys.Add(curve.y[i]);
    }
  }
  const Axis x = AxisOver(xs, chart.log_x, false, frame.left, frame.right);
  const Axis y = AxisOver(ys, chart.log_y, true, frame.bottom, frame.top);
  DrawFrame(&svg, frame, x, y, chart.text, true);
  if (!chart.log_y && y.Shows(0)) svg.Line({frame.left, y.Pixel(0)}, {frame.right, y.Pixel(0)}, "tick");
  std::vector<double> ends;
  std::vector<std::string> labels;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    double end = frame.bottom;
    svg.Raw(absl::StrCat("<g class=\"series\" data-curve=\"", i, "\">\n"));
    for (const std::vector<Point>& part : PointsOf(chart, chart.curves[i], x, y)) {
      if (part.empty()) continue;
      if (part.size() == 1) svg.Circle(part[0], 2, absl::StrCat("l", i));
      if (part.size() > 1) svg.Polyline(part, absl::StrCat("curve k", i));
      end = part.back().y;
    }
    svg.Raw("</g>\n");
    ends.push_back(end);
    labels.push_back(Fitted(chart.curves[i].label, 96, 12));
  }
  const bool empty = ys.low > ys.high;
  if (labelled && !empty) DrawLabels(&svg, frame, labels, ends);
  if (empty) {
    svg.Text({(frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2}, "every value is 0", Anchor::kMiddle, "axis");
  }
  DrawMarks(&svg, frame, x, chart.marks);
  return {svg.Finish(), chart.text.description};
}

}  // namespace phasor::server
