#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/knowledge/plot.h"
#include "server/knowledge/plot_frame.h"

namespace phasor::server {
namespace {

void AddColours(Svg* svg) {
  svg->Style(
      absl::StrCat(".seen{fill:", OklchColour(0.55, 0.15, 255), "}.unseen{fill:", OklchColour(0.6, 0.19, 45),
                   "}.mark{stroke:", OklchColour(0.55, 0.2, 25), "}.marked{fill:", OklchColour(0.5, 0.2, 25), "}"),
      absl::StrCat(".seen{fill:", OklchColour(0.72, 0.13, 255), "}.unseen{fill:", OklchColour(0.78, 0.15, 60),
                   "}.mark{stroke:", OklchColour(0.72, 0.17, 25), "}.marked{fill:", OklchColour(0.75, 0.16, 25), "}"));
}

void DrawLength(Svg* svg, const Frame& frame, const Axis& y, double length, const std::string& label, bool above) {
  if (length <= 0 || !y.Shows(length)) return;
  const double at = y.Pixel(length);
  svg->Line({frame.left, at}, {frame.right, at}, "mark");
  svg->Text({frame.left + 8, at + (above ? -6 : 15)}, label, Anchor::kStart, "marked");
}

}  // namespace

int64_t CountUnfinished(const std::vector<double>& wavelengths, double length) {
  return std::count_if(wavelengths.begin(), wavelengths.end(), [&](double wavelength) { return wavelength > length; });
}

Picture DrawWavelengths(const WavelengthChart& chart, double width) {
  const double height = std::max(260.0, std::round(width * 0.6));
  Svg svg(width, height, chart.text.title, chart.text.description);
  AddColours(&svg);
  const Frame frame = FrameFor(width, height, 24);
  double low = 1e300, high = 0;
  const auto include = [&](double value) {
    if (!std::isfinite(value) || value <= 0) return;
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const double wavelength : chart.wavelengths) include(wavelength);
  include(chart.trained);
  include(chart.wanted);
  if (low > high) low = high = 1;
  const Axis y(std::pow(10.0, std::floor(std::log10(low))), std::pow(10.0, std::ceil(std::log10(high * 1.05))), true,
               frame.bottom, frame.top);
  const double pairs = static_cast<double>(chart.wavelengths.size());
  const Axis x(-0.5, pairs - 0.5, false, frame.left, frame.right);
  DrawFrame(&svg, frame, x, y, chart.text, true);
  const bool trained_above = chart.trained >= chart.wanted;
  DrawLength(&svg, frame, y, chart.trained, absl::StrCat("trained length ", Label(chart.trained)), trained_above);
  DrawLength(&svg, frame, y, chart.wanted, absl::StrCat("wanted length ", Label(chart.wanted)),
             !trained_above || chart.trained <= 0);
  const double radius = std::clamp(0.4 * (frame.right - frame.left) / pairs, 1.0, 4.0);
  for (size_t i = 0; i < chart.wavelengths.size(); ++i) {
    const double wavelength = chart.wavelengths[i];
    const bool unseen = chart.trained > 0 && wavelength > chart.trained;
    // A pair that stands still lies on the upper edge.
    const double at = std::isfinite(wavelength) ? y.Pixel(wavelength) : frame.top;
    svg.Circle({x.Pixel(static_cast<double>(i)), at}, radius, unseen ? "unseen" : "seen");
  }
  if (chart.trained > 0) {
    const int64_t unseen = CountUnfinished(chart.wavelengths, chart.trained);
    svg.Text(
        {frame.right - 8, frame.bottom - 10},
        absl::StrCat(unseen, " of ", chart.wavelengths.size(), " pairs never complete a turn within the trained length"),
        Anchor::kEnd, "axis");
  }
  return {svg.Finish(), chart.text.description};
}

}  // namespace phasor::server
