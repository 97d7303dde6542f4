#include "server/knowledge/plot_subject.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/knowledge/axis.h"
#include "server/knowledge/plot_parts.h"
#include "server/knowledge/side_heads.h"

namespace phasor::server {
namespace {

// Both halves side by side.
Grid Joined(const Entries& e) {
  if (e.second.rows == 0) return e.first;
  if (e.first.rows == 0) return e.second;
  const int64_t n = e.first.columns;
  Grid all{e.first.rows, 2 * n, std::vector<double>(e.first.values.size() * 2)};
  for (int64_t row = 0; row < all.rows; ++row) {
    for (int64_t i = 0; i < n; ++i) {
      all.at(row, i) = e.first.at(row, i);
      all.at(row, n + i) = e.second.at(row, i);
    }
  }
  return all;
}

double LargestOf(const Grid& grid) {
  double largest = 0;
  for (const double value : grid.values) largest = std::max(largest, std::abs(value));
  return largest;
}

std::string BlocksOf(const Shrunk& shrunk, std::string_view row, std::string_view column) {
  if (shrunk.rows_per_cell == 1 && shrunk.columns_per_cell == 1) return "One cell is one value.";
  return absl::StrCat("One cell is the mean of ", shrunk.rows_per_cell, " ", std::string(row),
                      shrunk.rows_per_cell == 1 ? "" : "s", " by ", shrunk.columns_per_cell, " ", std::string(column),
                      shrunk.columns_per_cell == 1 ? "" : "s", ".");
}

// The last distance at which a curve is at least half of its first value before it first falls below.
int64_t HalfDistance(const Curve& curve) {
  for (size_t i = 0; i < curve.y.size(); ++i) {
    if (curve.y[i] < curve.y.front() / 2) return static_cast<int64_t>(curve.x[i]);
  }
  return -1;
}

const AnglePlan* FrequenciesOf(const Side& side) { return side.angles(); }

// "head", or "head (256 of 65536 are drawn, evenly spaced)".
std::string HeadAxis(int64_t drawn, int64_t heads) {
  return drawn == heads ? "head" : absl::StrCat("head (", drawn, " of ", heads, " are drawn, evenly spaced)");
}

}  // namespace

absl::StatusOr<Picture> PlotTable(const Backend& backend, const Side& side, const RowWindow& window,
                                  const PlotSettings& settings) {
  const bool bias = side.family == Family::kBias, window_bias = side.family == Family::kWindow;
  const bool sampled = bias && side.columns > kMaxCells;
  const auto entries = sampled ? Entries() : EntriesInBlocks(backend, side, window, settings);
  if (!entries.ok()) return entries.status();
  const auto heads = sampled ? EntriesOfHeads(backend, side, EvenIndices(side.columns, kMaxCells), window.first,
                                              window.count, settings.cancel)
                             : Joined(*entries);
  if (!heads.ok()) return heads.status();
  const Grid& all = *heads;
  Shrunk shrunk = Shrink(all);
  const bool both = all.columns == 2 * side.columns && side.family != Family::kTable;
  HeatMap map;
  map.first_y = static_cast<double>(window.first);
  map.step_x = sampled ? static_cast<double>(side.columns) / static_cast<double>(all.columns)
                       : static_cast<double>(shrunk.columns_per_cell);
  map.step_y = static_cast<double>(shrunk.rows_per_cell);
  map.range = LargestOf(shrunk.cells);
  if (map.range == 0) map.range = 1;
  map.legend = bias || window_bias ? "bias" : "value";
  map.text.title = TitleOf(settings, "Table", side);
  map.text.y_title = bias          ? "distance from key to query (positions)"
                     : window_bias ? "row of the window's table"
                                   : "position";
  map.text.x_title = bias ? HeadAxis(all.columns, side.columns) : std::string(ColumnName(side.family));
  if (both)
    map.text.x_title =
        absl::StrCat("column: cos of ", map.text.x_title, "s 0 to ", side.columns - 1, ", then sin of the same");
  if (both) map.dividers.push_back(static_cast<double>(side.columns));
  const double cells_high = *std::max_element(shrunk.cells.values.begin(), shrunk.cells.values.end());
  const double cells_low = *std::min_element(shrunk.cells.values.begin(), shrunk.cells.values.end());
  map.text.description =
      absl::StrCat("Heat map of ", NameWithWidth(side), ": ",
                   bias          ? "distances "
                   : window_bias ? "rows "
                                 : "positions ",
                   WindowText(window), " from top to bottom, ", all.columns,
                   sampled ? absl::StrCat(" of ", side.columns, " heads, evenly spaced,") : " columns",
                   " from left to right. Values from ", ShortNumber(cells_low), " to ", ShortNumber(cells_high), ". ",
                   BlocksOf(shrunk,
                            bias          ? "distance"
                            : window_bias ? "row"
                                          : "position",
                            "column"));
  map.cells = std::move(shrunk.cells);
  return DrawHeatMap(map, settings.width);
}

absl::StatusOr<Picture> PlotSimilarity(const Backend& backend, const Side& side, const RowWindow& window,
                                       const PlotSettings& settings) {
  if (side.family == Family::kBias || side.family == Family::kWindow)
    return MakeSpecError("", std::string(Name(side.family)), "a rotation or a table of rows");
  const auto entries = EntriesInBlocks(backend, side, window, settings);
  if (!entries.ok()) return entries.status();
  const Grid all = Joined(*entries);
  const int64_t step = (window.count + kMaxCells - 1) / kMaxCells, cells = (window.count + step - 1) / step;
  HeatMap map;
  map.cells = {cells, cells, std::vector<double>(static_cast<size_t>(cells * cells))};
  double apart = -1e300;  // largest product of two different rows
  for (int64_t i = 0; i < cells; ++i) {
    if (absl::Status status = CheckCancel(settings); !status.ok()) return status;
    for (int64_t j = 0; j <= i; ++j) {
      double product = 0;
      for (int64_t c = 0; c < all.columns; ++c) product += all.at(i * step, c) * all.at(j * step, c);
      map.cells.at(i, j) = map.cells.at(j, i) = product;
      if (i != j) apart = std::max(apart, product);
    }
  }
  map.first_x = map.first_y = static_cast<double>(window.first);
  map.step_x = map.step_y = static_cast<double>(step);
  map.range = std::max(LargestOf(map.cells), 1e-300);
  map.legend = "dot product of two rows";
  map.text.title = TitleOf(settings, "Similarity of positions", side);
  map.text.x_title = map.text.y_title = "position";
  map.text.description =
      absl::StrCat("Dot products of the rows of ", NameWithWidth(side), ", positions ", WindowText(window),
                   step > 1 ? absl::StrCat(", of which one in ", step, " is shown") : "",
                   ". A position with itself: ", ShortNumber(map.cells.at(0, 0)));
  if (cells > 1) absl::StrAppend(&map.text.description, "; two different ones: at most ", ShortNumber(apart));
  map.text.description += ".";
  return DrawHeatMap(map, settings.width);
}

absl::StatusOr<Picture> PlotWavelengths(const Side& side, const PlotSettings& settings) {
  const AnglePlan* plan = FrequenciesOf(side);
  if (plan == nullptr || side.family == Family::kBias) {
    return MakeSpecError("", side.from_spec ? std::string(SchemeOf(side.spec->spec).name) : "a table",
                         "an encoding with frequencies (rope_…, sinusoidal, timestep) or a table of INV_FREQ");
  }
  const std::string unit = side.family == Family::kPolar ? "channel" : "pair";
  WavelengthChart chart;
  for (const double inv_freq : plan->inv_freq)
    chart.wavelengths.push_back(inv_freq > 0 ? 2 * std::numbers::pi / inv_freq : HUGE_VAL);
  chart.trained = static_cast<double>(settings.trained_length);
  chart.wanted = static_cast<double>(settings.wanted_length);
  chart.text.title = TitleOf(settings, "Wavelengths", side);
  chart.text.x_title = unit;
  chart.text.y_title = "wavelength (positions per turn)";
  const auto [low, high] = std::minmax_element(chart.wavelengths.begin(), chart.wavelengths.end());
  std::string& text = chart.text.description;
  text = absl::StrCat(
      "Wavelength of each of the ", plan->pairs(), " ", unit, "s of ",
      std::string(side.from_spec ? SchemeOf(side.spec->spec).name : "the table"), " on a logarithmic axis: from ",
      ShortNumber(*low), " to ",
      std::isfinite(*high) ? absl::StrCat(ShortNumber(*high), " positions per turn.") : unit + "s that stand still.");
  for (const auto& [name, length] : {std::pair("trained", chart.trained), std::pair("wanted", chart.wanted)}) {
    if (length > 0) {
      absl::StrAppend(&text, " ", CountUnfinished(chart.wavelengths, length), " of them never complete a turn within the ",
                      name, " length of ", Label(length), " positions.");
    }
  }
  return DrawWavelengths(chart, settings.width);
}

absl::StatusOr<Picture> PlotDecay(const Backend& backend, const Side& side, const RowWindow& window,
                                  const PlotSettings& settings) {
  if (side.family == Family::kBias) return PlotBias(backend, side, window, settings);
  if (side.family != Family::kRotation || side.angles() == nullptr) {
    return MakeSpecError("", std::string(side.table_type ? "a table" : Name(side.family)), "a rotation's spec, or a bias");
  }
  const auto entries = EntriesInBlocks(backend, side, window, settings);
  if (!entries.ok()) return entries.status();
  CurveChart chart;
  Curve curve{"mean over pairs", {}, {}};
  double lowest = HUGE_VAL;
  int64_t lowest_at = 0;
  for (int64_t row = 0; row < window.count; ++row) {
    double sum = 0;  // of A·cos
    for (int64_t pair = 0; pair < side.columns; ++pair) sum += entries->first.at(row, pair);
    curve.x.push_back(static_cast<double>(window.first + row));
    curve.y.push_back(side.resolved->attention_factor * sum / static_cast<double>(side.columns));
    if (curve.y.back() < lowest) {
      lowest = curve.y.back();
      lowest_at = window.first + row;
    }
  }
  chart.marks = MarksOf(settings);
  chart.text.title = TitleOf(settings, "Score by distance", side);
  chart.text.x_title = "distance from key to query (positions)";
  chart.text.y_title = "mean over pairs of A²·cos(distance·inv_freq)";
  const int64_t half = HalfDistance(curve);
  chart.text.description =
      absl::StrCat("Score of a query and an equal key by their distance, ", WindowText(window), ", under ",
                   NameWithWidth(side), ": ", ShortNumber(curve.y.front()), " at ", window.first,
                   half >= 0 ? absl::StrCat(", less than half of it first at ", half) : "", ", lowest ", ShortNumber(lowest),
                   " at ", lowest_at, ", ", ShortNumber(curve.y.back()), " at the end.");
  chart.curves.push_back(std::move(curve));
  return DrawCurves(chart, settings.width);
}

}  // namespace phasor::server
