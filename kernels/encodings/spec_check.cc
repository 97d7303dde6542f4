#include "kernels/encodings/spec_check.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phasor {
namespace {

constexpr char kSpecErrorUrl[] = "phasor.kernels.SpecError";

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Payload: the three strings, each after its length as eight hexadecimal digits; any byte may occur in them.
void AppendField(std::string& payload, std::string_view text) {
  absl::StrAppend(&payload, absl::Hex(text.size(), absl::kZeroPad8), Absl(text));
}

std::optional<std::string> TakeField(std::string_view& payload) {
  uint64_t size = 0;
  if (payload.size() < 8) return std::nullopt;
  const auto [end, error] = std::from_chars(payload.data(), payload.data() + 8, size, 16);
  if (error != std::errc() || end != payload.data() + 8 || size > payload.size() - 8) return std::nullopt;
  std::string text(payload.substr(8, size));
  payload.remove_prefix(8 + size);
  return text;
}

}  // namespace

absl::Status MakeSpecError(std::string_view field, std::string_view given, std::string_view allowed) {
  absl::Status status = absl::InvalidArgumentError(
      absl::StrCat(Absl(field), field.empty() ? "" : ": ", "given ", Absl(given), "; allowed: ", Absl(allowed)));
  std::string payload;
  AppendField(payload, field);
  AppendField(payload, given);
  AppendField(payload, allowed);
  status.SetPayload(kSpecErrorUrl, absl::Cord(payload));
  return status;
}

std::optional<SpecError> SpecErrorOf(const absl::Status& status) {
  const auto cord = status.GetPayload(kSpecErrorUrl);
  if (!cord) return std::nullopt;
  const std::string payload(*cord);
  std::string_view rest = payload;
  auto field = TakeField(rest);
  auto given = TakeField(rest);
  auto allowed = TakeField(rest);
  if (!field || !given || !allowed) return std::nullopt;
  return SpecError{*std::move(field), *std::move(given), *std::move(allowed)};
}

std::string ShapeText(const std::vector<int64_t>& shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::string FormatNumber(double value) {
  char buffer[64];
  const double magnitude = std::fabs(value);
  const bool plain = magnitude >= 1e-4 && magnitude < 1e15;  // to_chars alone would write 500000 as 5e+05
  const auto result = plain ? std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed)
                            : std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

void SpecChecker::Fail(std::string_view field, std::string_view given, std::string_view allowed) {
  if (status_.ok()) status_ = MakeSpecError(field, given, allowed);
}

void SpecChecker::Warn(std::string_view field, std::string sentence) {
  out_->warnings.push_back({std::string(field), std::move(sentence)});
}

void SpecChecker::NoteDefault(std::string_view field, std::string_view text) {
  out_->defaults.push_back({std::string(field), absl::StrCat(Absl(text), " (default)")});
}

void SpecChecker::Positive(std::string_view field, double value) {
  if (!(std::isfinite(value) && value > 0)) Fail(field, FormatNumber(value), "a finite number > 0");
}

void SpecChecker::EachPositive(std::string_view field, std::span<const double> values) {
  for (size_t i = 0; i < values.size() && ok(); ++i) {
    // Paths are made only for who needs one: a list of hundreds is checked in every call.
    if (!(std::isfinite(values[i]) && values[i] > 0)) Positive(absl::StrCat(Absl(field), "[", i, "]"), values[i]);
  }
}

void SpecChecker::InRange(std::string_view field, double& value, double low, double high) {
  if (!(value >= low && value <= high)) {
    return Fail(field, FormatNumber(value), absl::StrCat(FormatNumber(low), " … ", FormatNumber(high)));
  }
  value += 0.0;  // −0 → 0
}

void SpecChecker::InRange(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) Fail(field, absl::StrCat(value), absl::StrCat(low, " … ", high));
}

void SpecChecker::ScalingFactor(std::string_view field, double value) {
  Positive(field, value);
  if (ok() && value < 1) {
    Warn(field, absl::StrCat("factor ", FormatNumber(value),
                             " is below 1: it shortens the model's range instead of "
                             "stretching it (some files give the inverse)"));
  }
}

}  // namespace phasor
