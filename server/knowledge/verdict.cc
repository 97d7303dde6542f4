// A comparison in a sentence or two.
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/knowledge/compare.h"

namespace phasor::server {
namespace {

std::string Short(double value) { return absl::StrFormat("%.3g", value); }

std::string Minus(int64_t number) { return number < 0 ? absl::StrCat("−", -number) : absl::StrCat(number); }

std::string RoundedSentence(const Side& a, const Comparison& comparison) {
  const FirstDifference& half = comparison.first_differences[1];  // bf16
  const std::string_view unit = RowName(a.family);
  if (!half.position) return "Rounded to bf16 they are equal.";
  return absl::StrCat("In bf16 they part at ", std::string(unit), " ", Minus(*half.position), " (", Short(100 * half.share),
                      " % of all entries).");
}

// Whether a permutation is one of heads: of biases, and of tables that every head has of its own.
bool OfHeads(const Side& a) { return a.family == Family::kBias || a.family == Family::kWindow || a.heads > 1; }

std::string KindSentence(const Side& a, const Comparison& comparison) {
  const Transformation& t = comparison.transformation;
  const std::string moved = OfHeads(a) ? "heads" : "channels";
  if (t.kind == "permuted_channels") return absl::StrCat("One is the other with its ", moved, " in another order.");
  if (t.kind == "scaled_and_permuted")
    return absl::StrCat("b is a times ", Short(t.scale), " with ", moved, " in another order.");
  if (t.kind == "scaled") return absl::StrCat("b is a times ", Short(t.scale), ".");
  if (t.constant_per_head) return "b is a plus one number per head, which the softmax removes.";
  const std::string times = t.scale == 0 ? "" : absl::StrCat(" times ", Short(t.scale));
  if (t.kind == "shifted_positions") return absl::StrCat("b is a", times, ", shifted by ", Minus(t.shift), " positions.");
  if (t.kind == "scaled_positions") {
    return absl::StrCat("b is a", times, " at positions times ", Short(t.position_factor),
                        t.permutation.empty() ? "" : ", with channels in another order", ".");
  }
  return "Neither can be made from the other.";
}

// "position 7", "distance −3", "the offset of −1 rows and 2 columns".
std::string PlaceOf(const Side& side, int64_t index) {
  if (!side.window) return absl::StrCat(std::string(RowName(side.family)), " ", Minus(index));
  const TokenWindow& window = *side.window;
  if (index >= window.offsets()) {
    constexpr std::string_view kKinds[] = {"class token to token", "token to class token", "class token to itself"};
    return std::string(kKinds[index - window.offsets()]);
  }
  const int64_t columns = 2 * window.width - 1;
  return absl::StrCat("the offset of ", Minus(index / columns - window.height + 1), " rows and ",
                      Minus(index % columns - window.width + 1), " columns");
}

std::string Where(const Side& a, const Side& b, const RowWindow& window) {
  const int64_t last = window.first + window.count - 1;
  if (a.window) return absl::StrCat("rows ", window.first, " to ", last, " of the window's table");
  if (a.family != Family::kBias) return absl::StrCat("positions ", window.first, " to ", last);
  std::string where = absl::StrCat("distances ", Minus(-window.first), " to ", Minus(-last));
  if (a.by_query || b.by_query)
    absl::StrAppend(&where, " of the query at position ", a.query.value_or(b.query.value_or(last)));
  return where;
}

std::string OtherQueriesSentence(const Comparison& comparison) {
  if (comparison.other_queries_difference == 0) return "";
  return absl::StrCat(" Of other queries biases differ by up to ", Short(comparison.other_queries_difference), ".");
}

}  // namespace

std::string Verdict(const Side& a, const Side& b, const RowWindow& window, const Comparison& comparison) {
  if (comparison.same_bits) {
    return comparison.same_spec ? "One spec: every bit of every result is equal."
                                : "Two spellings of one plan: every bit of every result is equal.";
  }
  const std::string where = Where(a, b, window);
  if (comparison.transformation.kind == "identical") {
    if (comparison.max_difference == 0) return absl::StrCat("Equal numbers over ", where, ".");
    return absl::StrCat("Equal over ", where, " up to rounding: at most ", Short(comparison.max_difference), " apart.");
  }
  const std::string others = OtherQueriesSentence(comparison);
  if (comparison.max_difference == 0) {
    return absl::StrCat("Equal numbers over ", where, ", but not equal encodings. ", comparison.transformation.how);
  }
  return absl::StrCat("They differ by up to ", Short(comparison.max_difference), " over ", where, " (",
                      PlaceOf(a, comparison.max_position), ", ", std::string(ColumnName(a.family)), " ",
                      comparison.max_column, "), ", Short(comparison.rms_difference), " in the root mean square. ",
                      RoundedSentence(a, comparison), " ", KindSentence(a, comparison), others);
}

}  // namespace phasor::server
