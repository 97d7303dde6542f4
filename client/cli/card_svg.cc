#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/card_pictures.h"

namespace phasor::cli {
namespace {

using Kind = PictureNumbers::Kind;

constexpr double kWidth = 220, kHeight = 110;

std::string Begin(const PictureNumbers& numbers) {
  return absl::StrFormat("<svg class=\"spark\" viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\"><title>%s</title>",
                         kWidth, kHeight, numbers.caption, numbers.caption);
}

struct Range {
  double low = 0, high = 1;
  double Share(double value) const { return (value - low) / (high - low); }
};

Range RangeOf(const std::vector<std::vector<double>>& rows) {
  Range range{HUGE_VAL, -HUGE_VAL};
  for (const std::vector<double>& row : rows) {
    for (const double value : row) {
      if (!std::isfinite(value)) continue;
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  if (range.low > range.high) return {};
  if (range.low == range.high) range.high = range.low + 1;
  return range;
}

std::string Label(double x, double y, std::string_view anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.4g\" y=\"%.4g\" text-anchor=\"%s\">%s</text>", x, y, std::string(anchor), text);
}

// Curves over the whole width, with the range at the left and what the ends of the axis are.
std::string Curves(const PictureNumbers& numbers, const std::vector<std::vector<double>>& rows, const Range& range,
                   const std::string& low, const std::string& high, const std::string& left, const std::string& right) {
  constexpr double kLeft = 56, kTop = 10, kBottom = 92;
  std::string svg = Begin(numbers);
  absl::StrAppendFormat(&svg, "<path class=\"axis\" d=\"M%g %gV%gH%g\"/>", kLeft, kTop, kBottom, kWidth - 4);
  for (size_t curve = 0; curve < rows.size(); ++curve) {
    const std::vector<double>& row = rows[curve];
    const double step = (kWidth - 4 - kLeft) / static_cast<double>(std::max<size_t>(row.size() - 1, 1));
    std::string path;
    for (size_t i = 0; i < row.size(); ++i) {
      if (!std::isfinite(row[i])) continue;
      absl::StrAppendFormat(&path, "%s%.2f %.2f", path.empty() ? "M" : "L", kLeft + step * static_cast<double>(i),
                            kBottom - (kBottom - kTop) * range.Share(row[i]));
    }
    absl::StrAppendFormat(&svg, "<path class=\"curve\" style=\"opacity:%.2g\" d=\"%s\"/>",
                          1 - 0.2 * static_cast<double>(curve), path);
  }
  return absl::StrCat(svg, Label(kLeft - 4, kBottom, "end", low), Label(kLeft - 4, kTop + 6, "end", high),
                      Label(kLeft, kHeight - 5, "start", left), Label(kWidth - 4, kHeight - 5, "end", right), "</svg>");
}

std::string WavelengthSvg(const PictureNumbers& numbers) {
  std::vector<std::vector<double>> logs(1);
  for (const double length : numbers.rows[0]) logs[0].push_back(std::log10(length));
  const Range range = RangeOf(logs);
  return Curves(numbers, logs, range, absl::StrFormat("%.3g", std::pow(10, range.low)),
                absl::StrFormat("%.3g", std::pow(10, range.high)), "pair 0", absl::StrCat("pair ", logs[0].size() - 1));
}

std::string CurveSvg(const PictureNumbers& numbers) {
  const Range range = RangeOf(numbers.rows);
  const double last = numbers.first + static_cast<double>(numbers.rows[0].size()) - 1;
  return Curves(numbers, numbers.rows, range, absl::StrFormat("%.3g", range.low), absl::StrFormat("%.3g", range.high),
                absl::StrFormat("%g", numbers.first), absl::StrFormat("%g", last));
}

// Positive cells in one colour, negative ones in another, as strong as their share of the largest magnitude.
std::string HeatMapSvg(const PictureNumbers& numbers) {
  double largest = 0;
  for (const std::vector<double>& row : numbers.rows) {
    for (const double value : row) {
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    }
  }
  if (largest == 0) largest = 1;
  const double height = kHeight / static_cast<double>(numbers.rows.size());
  std::string svg = Begin(numbers);
  for (size_t r = 0; r < numbers.rows.size(); ++r) {
    const std::vector<double>& row = numbers.rows[r];
    const double width = kWidth / static_cast<double>(row.size());
    for (size_t c = 0; c < row.size(); ++c) {
      if (!std::isfinite(row[c]) || row[c] == 0) continue;
      absl::StrAppendFormat(&svg,
                            "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" opacity=\"%.2f\"/>",
                            row[c] > 0 ? "hot" : "cold", width * static_cast<double>(c), height * static_cast<double>(r),
                            width, height, std::fabs(row[c]) / largest);
    }
  }
  return absl::StrCat(svg, absl::StrFormat("<path class=\"axis\" d=\"M0 0H%gV%gH0Z\"/></svg>", kWidth, kHeight));
}

}  // namespace

std::string Svg(const PictureNumbers& numbers) {
  if (numbers.rows.empty() || numbers.rows[0].empty()) return "";
  switch (numbers.kind) {
    case Kind::kWavelengths:
      return WavelengthSvg(numbers);
    case Kind::kCurves:
      return CurveSvg(numbers);
    case Kind::kHeatMap:
      return HeatMapSvg(numbers);
    case Kind::kNone:
      break;
  }
  return "";
}

}  // namespace phasor::cli
