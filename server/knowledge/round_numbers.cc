#include "server/knowledge/round_numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace phasor::server {
namespace {

constexpr std::array kBases{10000.0, 500000.0, 1000000.0, 1e7,   150000.0,      160000.0, 5e6,        2e6,  8e6,       1e8,
                            100.0,   50000.0,  25000.0,   4e6,   600000.0,      300000.0, 1e5,        4e5,  7e6,       1.5e6,
                            1000.0,  5000.0,   20000.0,   2.5e6, 10000000000.0, 1e9,      11158840.0, 1e11, 50000000.0};

}  // namespace

double WithDigits(double value, int digits) {
  std::array<char, 40> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific, digits - 1);
  double rounded = value;
  std::from_chars(text.data(), end.ptr, rounded);
  return rounded;
}

double Roundest(double value, double error) {
  if (!std::isfinite(value) || value == 0) return value;
  for (int digits = 1; digits <= 15; ++digits) {
    const double rounded = WithDigits(value, digits);
    if (std::fabs(rounded - value) <= error) return rounded;
  }
  return value;
}

int DigitsOf(double value) {
  if (!std::isfinite(value) || value == 0) return 1;
  for (int digits = 1; digits < 17; ++digits) {
    if (WithDigits(value, digits) == value) return digits;
  }
  return 17;
}

std::span<const double> KnownBases() { return kBases; }

std::vector<double> Candidates(double value, double error, std::span<const double> known) {
  std::vector<double> found;
  const auto add = [&](double candidate) {
    if (std::find(found.begin(), found.end(), candidate) == found.end()) found.push_back(candidate);
  };
  for (double number : known) {
    if (std::fabs(number - value) <= error) add(number);
  }
  add(Roundest(value, error));
  add(Roundest(value, error / 8));
  add(value);
  return found;
}

}  // namespace phasor::server
