// What every scheme's canonicalize uses: checks that remember the first violation, and notes on what was filled in.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_CHECK_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_CHECK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "kernels/encodings/encoding.h"

namespace phasor {

// The shortest decimal that reads back as the same double: "32", "500000", "0.1", "1e+30".
std::string FormatNumber(double value);

// "[2, 64]".
std::string ShapeText(const std::vector<int64_t>& shape);

// Longest model length, training length or sequence that any field takes: positions are below 2^31.
inline constexpr int64_t kMaxLength = int64_t{1} << 31;

// Collects notes into a CanonicalSpec and keeps the first violation. Every check may be called after a failure: it then
// changes nothing, so a scheme lists its checks one per line and asks for status() once.
class SpecChecker {
 public:
  // `out` must outlive the checker.
  explicit SpecChecker(CanonicalSpec* out) : out_(out) {}

  void Fail(std::string_view field, std::string_view given, std::string_view allowed);
  void Warn(std::string_view field, std::string sentence);

  // Fills an absent value and notes it as "TEXT (default)".
  template <typename T>
  void Default(std::string_view field, std::optional<T>& value, T fallback, std::string_view text) {
    if (value) return;
    value = fallback;
    NoteDefault(field, text);
  }

  // Finite and > 0.
  void Positive(std::string_view field, double value);
  // The same of every value; the path of value i is "field[i]".
  void EachPositive(std::string_view field, std::span<const double> values);
  // Finite, low ≤ value ≤ high. Turns −0 into 0.
  void InRange(std::string_view field, double& value, double low, double high);
  void InRange(std::string_view field, int64_t value, int64_t low, int64_t high);
  // Positive, and a warning below 1.
  void ScalingFactor(std::string_view field, double value);

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  void NoteDefault(std::string_view field, std::string_view text);

  CanonicalSpec* out_;
  absl::Status status_;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_CHECK_H_
