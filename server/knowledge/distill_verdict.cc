#include "server/knowledge/distill_verdict.h"

#include <algorithm>
#include <numeric>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phasor::server {
namespace {

constexpr size_t kColumnsNamed = 6;

std::string Short(double value) { return absl::StrFormat("%.2g", value); }
std::string Minus(int64_t number) { return number < 0 ? absl::StrCat("−", -number) : absl::StrCat(number); }
std::string Percent(double share) { return absl::StrCat(absl::StrFormat("%.2g", 100 * share), " %"); }

std::string Where(const Side& side, int64_t first, int64_t count) {
  const bool bias = side.family == Family::kBias;
  return absl::StrCat(bias ? "distances " : "positions ", Minus(bias ? -first : first), " to ",
                      Minus(bias ? -(first + count - 1) : first + count - 1));
}

std::string Column(const Side& side, int64_t column) {
  if (side.family != Family::kRotation || column < 0) return absl::StrCat(std::string(ColumnName(side.family)), " ", column);
  if (!side.table_type || (side.given.first.rows > 0 && side.given.second.rows > 0)) {
    return column < side.columns ? absl::StrCat("the cosine of pair ", column)
                                 : absl::StrCat("the sine of pair ", column - side.columns);
  }
  return absl::StrCat("pair ", column);
}

// Numbers that the closed form keeps; 0: it is not known here.
int64_t NumbersOf(const Side& side) {
  if (!side.resolved) return 0;
  const Plan& plan = side.resolved->plan;
  if (const auto* angles = std::get_if<AnglePlan>(&plan)) return angles->pairs();
  if (const auto* fourier = std::get_if<FourierPlan>(&plan)) return fourier->pairs();
  if (const auto* lines = std::get_if<BiasPlan>(&plan)) return lines->vectors();
  if (const auto* kerple = std::get_if<KerplePlan>(&plan)) return 2 * kerple->heads();
  return 0;
}

std::string ClosedForm(const Side& side) {
  const absl::string_view name{SchemeOf(side.spec->spec).name.data(), SchemeOf(side.spec->spec).name.size()};
  const int64_t numbers = NumbersOf(side);
  return absl::StrCat(
      "The source has a closed form (", name, ")",
      numbers > 0 ? absl::StrCat(" of ", numbers, numbers == 1 ? " number" : " numbers") : "",
      ", which is exact at every position, in the fitted range and beyond it, and costs no more: take that.");
}

std::string Size(const Distilled& d) {
  const double share = static_cast<double>(d.parameters) / static_cast<double>(d.table_numbers);
  if (share >= 1) {
    return absl::StrCat("It has ", d.parameters, " parameters, no fewer than the ", d.table_numbers,
                        " numbers of the table: it saves nothing.");
  }
  return absl::StrCat("It has ", d.parameters, " parameters in place of ", d.table_numbers, " numbers (", Percent(share),
                      ").");
}

std::string Error(const Side& side, const DistillSamples& samples, const DistillErrors& e) {
  if (e.max_error == 0) {
    return absl::StrCat("It makes every value again over ", Where(side, samples.first, samples.values.rows), ".");
  }
  std::string text = absl::StrCat("Over ", Where(side, samples.first, samples.values.rows), " it is off by up to ",
                                  Short(e.max_error), " (", Column(side, e.max_column), " at ", Minus(e.max_position), "), ",
                                  Short(e.rms_error), " in the root mean square");
  if (e.rms_value > 0) absl::StrAppend(&text, ", which is ", Percent(e.rms_error / e.rms_value), " of the values'");
  return absl::StrCat(text, ".");
}

// Columns that stand out: those whose error is a tenth of the largest or more, where most others' is less than that.
std::string WorstColumns(const Side& side, const Distilled& d) {
  const std::vector<double>& errors = d.errors.by_column;
  if (errors.size() < 2 || d.errors.max_error == 0 || d.errors.rms_error < 0.01 * d.errors.rms_value) return "";
  std::vector<int64_t> order(errors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return errors[a] > errors[b]; });
  const auto poor = static_cast<size_t>(
      std::count_if(errors.begin(), errors.end(), [&](double e) { return e >= 0.1 * d.errors.max_error; }));
  if (poor == errors.size()) {
    return absl::StrCat(" No ", std::string(ColumnName(side.family)),
                        " is followed well: they change faster than this function can.");
  }
  order.resize(std::min(poor, kColumnsNamed));
  const std::string named =
      absl::StrJoin(order, ", ", [&](std::string* out, int64_t column) { absl::StrAppend(out, Column(side, column)); });
  const size_t others = poor - order.size();
  return absl::StrCat(" The largest errors are in ", named, others > 0 ? absl::StrCat(" and ", others, " more") : "",
                      ", which change faster than this function can: do not use it for them.");
}

std::string Beyond(const Side& side, const DistillSamples& samples, const Distilled& d) {
  const bool series = d.form == DistillForm::kCosineSeries;
  if (!d.errors.max_beyond) {
    return absl::StrCat("Beyond that nothing is known of the source, and this function ",
                        series ? "repeats the range backwards" : "runs off in straight lines", ": do not use it there.");
  }
  const double beyond = *d.errors.max_beyond;
  const std::string where = Where(side, samples.first + samples.values.rows, samples.beyond.rows);
  if (beyond > 2 * d.errors.max_error) {
    return absl::StrCat("Do not use it beyond: over ", where, " it is off by up to ", Short(beyond), ".");
  }
  return absl::StrCat("Over ", where, " it is off by up to ", Short(beyond), "; further out nothing was looked at.");
}

}  // namespace

bool HasClosedForm(const Side& side) {
  if (!side.resolved || !side.spec) return false;
  const EncodingSpec& spec = side.spec->spec;
  return !std::holds_alternative<LearnedSpec>(spec) && !std::holds_alternative<T5BucketSpec>(spec) &&
         !std::holds_alternative<DistilledSpec>(spec);
}

std::string VerdictOf(const Side& side, const DistillSamples& samples, const Distilled& distilled) {
  std::string text = distilled.closed_form_is_better ? absl::StrCat(ClosedForm(side), " ") : "";
  absl::StrAppend(&text, Size(distilled), " ", Error(side, samples, distilled.errors), WorstColumns(side, distilled), " ",
                  Beyond(side, samples, distilled));
  return text;
}

}  // namespace phasor::server
