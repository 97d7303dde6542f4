// A comparison in a sentence or two.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/knowledge/compare.h"

namespace phasor::server {
namespace {

std::string Short(double value) { return absl::StrFormat("%.3g", value); }

std::string Minus(int64_t number) { return number < 0 ? absl::StrCat("−", -number) : absl::StrCat(number); }

std::string RoundedSentence(const Side& a, const Comparison& comparison) {
  const FirstDifference& half = comparison.first_differences[1];  // bf16
  const std::string_view unit = a.family == Family::kBias ? "distance" : "position";
  if (!half.position) return "Rounded to bf16 they are equal.";
  return absl::StrCat("In bf16 they part at ", std::string(unit), " ", Minus(*half.position), " (", Short(100 * half.share),
                      " % of all entries).");
}

std::string KindSentence(const Comparison& comparison) {
  const Transformation& t = comparison.transformation;
  if (t.kind == "permuted_channels") return "One is the other with its channels in another order.";
  if (t.kind == "scaled_and_permuted")
    return absl::StrCat("b is a times ", Short(t.scale), " with channels in another order.");
  if (t.kind == "scaled") return absl::StrCat("b is a times ", Short(t.scale), ".");
  if (t.kind == "shifted_positions") return absl::StrCat("b is a, shifted by ", Minus(t.shift), " positions.");
  if (t.kind == "scaled_positions") return absl::StrCat("b is a at positions times ", Short(t.position_factor), ".");
  return "Neither can be made from the other.";
}

}  // namespace

std::string Verdict(const Side& a, const Side& b, const RowWindow& window, const Comparison& comparison) {
  const bool bias = a.family == Family::kBias;
  if (comparison.same_bits) {
    return comparison.same_spec ? "One spec: every bit of every result is equal."
                                : "Two spellings of one plan: every bit of every result is equal.";
  }
  const std::string where =
      absl::StrCat(bias ? "distances " : "positions ", Minus(bias ? -window.first : window.first), " to ",
                   Minus(bias ? -(window.first + window.count - 1) : window.first + window.count - 1));
  if (comparison.transformation.kind == "identical") {
    if (comparison.max_difference == 0) return absl::StrCat("Equal numbers over ", where, ".");
    return absl::StrCat("Equal over ", where, " up to rounding: at most ", Short(comparison.max_difference), " apart.");
  }
  if (comparison.max_difference == 0) {
    return absl::StrCat("Equal numbers over ", where, ", but not equal encodings. ", comparison.transformation.how);
  }
  return absl::StrCat("They differ by up to ", Short(comparison.max_difference), " over ", where, " (",
                      bias ? "distance " : "position ", Minus(comparison.max_position), ", ",
                      std::string(ColumnName(a.family)), " ", comparison.max_column, "), ", Short(comparison.rms_difference),
                      " in the root mean square. ", RoundedSentence(a, comparison), " ", KindSentence(comparison));
}

}  // namespace phasor::server
