// Pictures over the heads of biases, and of two encodings.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/plot_parts.h"
#include "server/knowledge/side_heads.h"
#include "server/knowledge/sums.h"

namespace phasor::server {

absl::StatusOr<Picture> PlotBias(const Backend& backend, const Side& side, const RowWindow& window,
                                 const PlotSettings& settings) {
  if (side.family != Family::kBias) return MakeSpecError("", std::string(Name(side.family)), "a bias by distance");
  const std::vector<int64_t> heads = EvenIndices(side.columns, kMaxCurves);
  const auto rows = EntriesOfHeads(backend, side, heads, window.first, window.count, settings.cancel);
  if (!rows.ok()) return rows.status();
  CurveChart chart;
  chart.ordered = true;
  const auto shown = static_cast<int64_t>(heads.size());
  for (int64_t i = 0; i < shown; ++i) {
    Curve curve{absl::StrCat("head ", heads[static_cast<size_t>(i)]), {}, {}};
    for (int64_t row = 0; row < window.count; ++row) {
      curve.x.push_back(static_cast<double>(window.first + row));
      curve.y.push_back(rows->at(row, i));
    }
    chart.curves.push_back(std::move(curve));
  }
  chart.marks = MarksOf(settings);
  chart.text.title = TitleOf(settings, "Bias by distance", side);
  chart.text.x_title = "distance from key back to query (positions)";
  chart.text.y_title = shown < side.columns
                           ? absl::StrCat("bias added to the score, ", shown, " of ", side.columns, " heads")
                           : "bias added to the score";
  const auto last = [&](const Curve& curve) { return absl::StrCat(ShortNumber(curve.y.back()), " for ", curve.label); };
  chart.text.description =
      absl::StrCat("Bias of ", NameWithWidth(side), " by distance, ", WindowText(window), ", a curve for ",
                   shown < side.columns ? absl::StrCat(shown, " of ", side.columns) : "each",
                   shown < side.columns ? " heads" : " head", ". At the end: ", last(chart.curves.front()));
  if (shown > 1) absl::StrAppend(&chart.text.description, ", ", last(chart.curves.back()));
  chart.text.description += ".";
  return DrawCurves(chart, settings.width);
}

namespace {

// What PlotDifference draws of a Comparison, and its verdict, over kMaxCells heads.
absl::StatusOr<Comparison> CompareSomeHeads(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                            const PlotSettings& settings) {
  const std::vector<int64_t> heads = EvenIndices(a.columns, kMaxCells);
  const auto of_a = EntriesOfHeads(backend, a, heads, window.first, window.count, settings.cancel);
  if (!of_a.ok()) return of_a.status();
  const auto of_b = EntriesOfHeads(backend, b, heads, window.first, window.count, settings.cancel);
  if (!of_b.ok()) return of_b.status();
  Comparison out;
  int64_t at = window.first;
  for (int64_t row = 0; row < window.count; ++row) {
    Sums sums;
    for (int64_t i = 0; i < of_a->columns; ++i) sums.Add(of_b->at(row, i) - of_a->at(row, i));
    if (sums.max > out.max_difference) at = window.first + row;
    out.max_difference = std::max(out.max_difference, sums.max);
    out.by_position.push_back({window.first + row, sums.max, sums.rms()});
  }
  out.verdict = absl::StrCat("Largest difference and root mean square of ", NameWithWidth(a), " by distance, ",
                             WindowText(window), ", over ", heads.size(), " of them, evenly spaced: at most ",
                             ShortNumber(out.max_difference), " (at ", at, "). CompareSpecs looks at all heads.");
  return out;
}

}  // namespace

absl::StatusOr<Picture> PlotDifference(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                       const PlotSettings& settings) {
  const bool sampled = a.family == Family::kBias && a.columns > kMaxHeadsCompared;
  const auto comparison =
      sampled ? CompareSomeHeads(backend, a, b, window, settings) : Compare(backend, a, b, window, 0, settings.cancel);
  if (!comparison.ok()) return comparison.status();
  CurveChart chart;
  chart.log_x = window.count > 64;
  chart.log_y = true;
  Curve largest{"largest", {}, {}}, rms{"root mean square", {}, {}};
  for (const DifferenceAt& at : comparison->by_position) {
    const double x = std::abs(static_cast<double>(at.index));
    largest.x.push_back(x);
    largest.y.push_back(at.max > 0 ? at.max : std::nan(""));
    rms.x.push_back(x);
    rms.y.push_back(at.rms > 0 ? at.rms : std::nan(""));
  }
  rms.label = "rms";
  chart.curves = {std::move(largest), std::move(rms)};
  chart.marks = MarksOf(settings);
  chart.text.title =
      settings.title.empty() ? absl::StrCat("Difference: ", NameWithWidth(a), " and ", NameWithWidth(b)) : settings.title;
  chart.text.x_title = a.family == Family::kBias     ? "distance from key to query (positions)"
                       : a.family == Family::kWindow ? "row of the window's table"
                                                     : "position";
  chart.text.y_title = sampled ? absl::StrCat("difference over ", kMaxCells, " of ", a.columns, " heads")
                               : absl::StrCat("difference over all ", std::string(ColumnName(a.family)), "s");
  chart.text.description = comparison->verdict;
  return DrawCurves(chart, settings.width);
}

}  // namespace phasor::server
