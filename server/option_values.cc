// Values of flags that are no plain numbers.
#include <array>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

#include "server/options.h"
#include "server/text.h"

namespace phasor::server {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};
constexpr std::array kSizeUnits = {Unit{"TiB", 1099511627776.0}, Unit{"GiB", 1073741824.0}, Unit{"MiB", 1048576.0},
                                   Unit{"KiB", 1024.0}};
// "ms" stands before "m" and "s", which it ends and begins with.
constexpr std::array kTimeUnits = {Unit{"ms", 1.0}, Unit{"s", 1000.0}, Unit{"m", 60000.0}, Unit{"h", 3600000.0}};
constexpr double kYearMs = 365.0 * 24 * 3600 * 1000;

// `text` times the factor of its suffix; without one, times `plain`. Below 0 when it is no such number.
template <size_t N>
double WithUnit(std::string_view text, const std::array<Unit, N>& units, double plain) {
  double factor = plain;
  for (const Unit& unit : units) {
    if (text.ends_with(unit.suffix)) {
      text.remove_suffix(unit.suffix.size());
      factor = unit.factor;
      break;
    }
  }
  text = ToStd(absl::StripTrailingAsciiWhitespace(ToAbsl(text)));
  double number = -1;
  // Decimals only: no signs, exponents, hexadecimals or names.
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos ||
      !absl::SimpleAtod(ToAbsl(text), &number) || !std::isfinite(number)) {
    return -1;
  }
  return number * factor;
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  int64_t plain = 0;
  if (absl::SimpleAtoi(ToAbsl(text), &plain) && plain >= 0) return plain;
  const double bytes = WithUnit(text, kSizeUnits, 1);
  if (bytes < 0 || bytes >= 9.2e18 || bytes != std::floor(bytes)) {
    return absl::InvalidArgumentError(
        Cat("given \"", text, "\"; allowed: whole bytes, plain or with KiB, MiB, GiB, TiB: 4096, 64KiB, 1.5GiB"));
  }
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  const double ms = WithUnit(text, kTimeUnits, 1000);
  if (ms < 0 || ms > kYearMs) {
    return absl::InvalidArgumentError(
        Cat("given \"", text, "\"; allowed: seconds, or a number with ms, s, m, h: 5, 250ms, 1.5m"));
  }
  return std::chrono::milliseconds(std::llround(ms));
}

std::string FormatSize(int64_t bytes) {
  for (const Unit& unit : kSizeUnits) {
    const int64_t factor = static_cast<int64_t>(unit.factor);
    if (bytes >= factor && bytes % factor == 0) return Cat(bytes / factor, unit.suffix);
  }
  return Cat(bytes);
}

}  // namespace phasor::server
