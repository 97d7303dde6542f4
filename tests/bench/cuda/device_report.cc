#include "tests/bench/cuda/device_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phasor::cuda {
namespace {

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted.push_back(' ');
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + '"';
}

// JSON has no other numbers.
std::string Number(double value) { return std::isfinite(value) ? absl::StrFormat("%.6g", value) : "null"; }

// Columns, not bytes: names are UTF-8.
std::string Padded(std::string_view text, size_t columns) {
  const auto width = static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  return std::string(text) + std::string(width < columns ? columns - width : 1, ' ');
}

}  // namespace

bool ReportRow::holds() const {
  if (!error.empty() || !std::isfinite(value)) return false;
  return kind == RowKind::kFigure || (kind == RowKind::kAtLeast ? value >= limit : value <= limit);
}

std::string TextOf(const ReportRow& row) {
  const std::string name = Padded(row.name, 56);
  if (!row.error.empty()) return absl::StrCat(name, "  FAILED: ", row.error);
  if (row.kind == RowKind::kFigure) return absl::StrFormat("%s %9.3f", name, row.value);
  return absl::StrFormat("%s %9.3f  %s %.2f  %s", name, row.value, row.kind == RowKind::kAtLeast ? "≥" : "≤", row.limit,
                         row.holds() ? "holds" : "MISSED");
}

std::string JsonOf(const ReportRow& row) {
  const bool is_gate = row.kind != RowKind::kFigure;
  std::string json = absl::StrCat("{\"", is_gate ? "gate" : "figure", "\": ", Quoted(row.name));
  if (row.error.empty()) absl::StrAppend(&json, ", \"", is_gate ? "ratio" : "value", "\": ", Number(row.value));
  if (!row.error.empty()) absl::StrAppend(&json, ", \"error\": ", Quoted(row.error));
  if (is_gate) {
    absl::StrAppend(&json, ", \"limit\": ", Number(row.limit),
                    ", \"at_least\": ", row.kind == RowKind::kAtLeast ? "true" : "false",
                    ", \"holds\": ", row.holds() ? "true" : "false");
  }
  return json + "}";
}

void Report(const ReportRow& row, std::string_view json_file) {
  std::printf("%s\n", TextOf(row).c_str());
  std::fflush(stdout);
  if (json_file.empty()) return;
  if (std::FILE* const file = std::fopen(std::string(json_file).c_str(), "a"); file != nullptr) {
    std::fprintf(file, "%s\n", JsonOf(row).c_str());
    std::fclose(file);
  }
}

bool HasFastDoubles(int major, int minor) { return minor == 0 && (major == 8 || major == 9 || major == 10); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace phasor::cuda
