#include "server/knowledge/axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phasor::server {
namespace {

std::vector<Tick> LogarithmicTicks(double low, double high, int most) {
  const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9)),
            last = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
  const int decades = std::max(1, last - first);
  const int step = (decades + most - 1) / most;
  std::vector<double> factors{1};
  if (3 * decades <= most) factors = {1, 2, 5};
  std::vector<Tick> ticks;
  for (int decade = first; decade <= last; ++decade) {
    if ((decade - first) % step != 0) continue;
    for (const double factor : factors) {
      const double value = factor * std::pow(10.0, decade);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push_back({value, Label(value)});
    }
  }
  return ticks;
}

}  // namespace

std::string Label(double value) {
  if (value == 0) return "0";
  const double magnitude = std::abs(value);
  std::string text;
  if (magnitude >= 1e6 || magnitude < 1e-3) {
    const int exponent = static_cast<int>(std::floor(std::log10(magnitude) + 1e-9));
    const double mantissa = magnitude / std::pow(10.0, exponent);
    text = absl::StrFormat("%.3ge%d", mantissa, exponent);
  } else {
    text = absl::StrFormat("%.6g", magnitude);
  }
  return absl::StrCat(value < 0 ? "−" : "", text);
}

Axis::Axis(double low, double high, bool logarithmic, double pixel_low, double pixel_high)
    : low_(low), high_(high), logarithmic_(logarithmic), pixel_low_(pixel_low), pixel_high_(pixel_high) {
  if (low_ < high_) return;
  const double reach = logarithmic_ ? 0 : std::max(1.0, std::abs(low_)) / 2;
  low_ = logarithmic_ ? low_ / 2 : low_ - reach;
  high_ = logarithmic_ ? low_ * 4 : low_ + 2 * reach;
}

double Axis::Pixel(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return pixel_low_ + share * (pixel_high_ - pixel_low_);
}

std::vector<Tick> Axis::Ticks(int most) const {
  if (logarithmic_) return LogarithmicTicks(low_, high_, most);
  const double raw = (high_ - low_) / most;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * (1 - 1e-9)) {
      step = factor * power;
      break;
    }
  }
  std::vector<Tick> ticks;
  const double first = std::ceil(low_ / step - 1e-9);
  for (double i = first; i * step <= high_ + 1e-9 * step; ++i) ticks.push_back({i * step, Label(i * step)});
  return ticks;
}

}  // namespace phasor::server
