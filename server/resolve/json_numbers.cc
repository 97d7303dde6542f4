#include "server/resolve/json_numbers.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "absl/strings/charconv.h"

namespace phasor::server {
namespace {

constexpr size_t kLongest = 24;  // what prints a double needs no more

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

size_t SkipDigits(std::string_view text, size_t at) {
  while (at < text.size() && IsDigit(text[at])) ++at;
  return at;
}

// Behind the number of JSON's grammar that begins at `begin`; `begin` where none does.
size_t EndOfNumber(std::string_view text, size_t begin) {
  size_t at = begin;
  if (at < text.size() && text[at] == '-') ++at;
  const size_t whole = at;
  at = at < text.size() && text[at] == '0' ? at + 1 : SkipDigits(text, at);
  if (at == whole) return begin;
  if (at < text.size() && text[at] == '.') {
    const size_t end = SkipDigits(text, at + 1);
    if (end == at + 1) return at;
    at = end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    size_t digits = at + 1;
    if (digits < text.size() && (text[digits] == '+' || text[digits] == '-')) ++digits;
    const size_t end = SkipDigits(text, digits);
    if (end > digits) at = end;
  }
  return at;
}

size_t EndOfString(std::string_view text, size_t quote) {
  size_t at = quote + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at < text.size() ? at + 1 : text.size();
}

std::string Shortened(std::string_view number) {
  double value = 0;
  const auto read = absl::from_chars(number.data(), number.data() + number.size(), value);
  if (read.ec == std::errc::result_out_of_range && std::fabs(value) > 1) return std::string(number);
  std::array<char, 32> shortest;
  const auto end = std::to_chars(shortest.data(), shortest.data() + shortest.size(), value).ptr;
  std::string text(shortest.data(), end);
  // It stays a number with a fraction.
  if (text.find_first_of(".eE") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string WithShortNumbers(std::string_view json) {
  std::string out;
  size_t copied = 0;
  for (size_t at = 0; at < json.size();) {
    if (json[at] == '"') {
      at = EndOfString(json, at);
      continue;
    }
    const size_t end = json[at] == '-' || IsDigit(json[at]) ? EndOfNumber(json, at) : at;
    if (end - at > kLongest) {
      out.append(json.substr(copied, at - copied)).append(Shortened(json.substr(at, end - at)));
      copied = end;
    }
    at = end > at ? end : at + 1;
  }
  return out.append(json.substr(copied));
}

}  // namespace phasor::server
