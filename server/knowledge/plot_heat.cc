#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/knowledge/plot.h"
#include "server/knowledge/plot_frame.h"

namespace phasor::server {
namespace {

constexpr int kColours = 41;  // odd: the middle one is 0
constexpr double kBarWidth = 16;

// One class per colour, blue for negative and orange for positive: lightness and chroma run evenly from the background.
void AddColours(Svg* svg) {
  std::string light, dark;
  for (int i = 0; i < kColours; ++i) {
    const double share = 2.0 * i / (kColours - 1) - 1, strength = std::abs(share);
    const double hue = share < 0 ? 255 : 50;
    absl::StrAppend(&light, ".c", i, "{fill:", OklchColour(0.97 - 0.47 * strength, 0.15 * strength, hue), "}");
    absl::StrAppend(&dark, ".c", i, "{fill:", OklchColour(0.22 + 0.58 * strength, 0.14 * strength, hue), "}");
  }
  svg->Style(light, dark);
}

int ColourOf(double value, double range) {
  const double share = std::isfinite(value) && range > 0 ? std::clamp(value / range, -1.0, 1.0) : 0;
  return static_cast<int>(std::lround((share + 1) / 2 * (kColours - 1)));
}

// All cells of one colour are one path; neighbours in a row are one rectangle. Coordinates are cells.
void DrawCells(Svg* svg, const Grid& cells, double range, const Frame& frame) {
  std::vector<std::string> paths(kColours);
  for (int64_t row = 0; row < cells.rows; ++row) {
    for (int64_t column = 0; column < cells.columns;) {
      const int colour = ColourOf(cells.at(row, column), range);
      int64_t end = column + 1;
      while (end < cells.columns && ColourOf(cells.at(row, end), range) == colour) ++end;
      absl::StrAppend(&paths[static_cast<size_t>(colour)], "M", column, " ", row, "h", end - column, "v1h-", end - column,
                      "z");
      column = end;
    }
  }
  const double sx = (frame.right - frame.left) / static_cast<double>(cells.columns);
  const double sy = (frame.bottom - frame.top) / static_cast<double>(cells.rows);
  svg->Raw(absl::StrCat("<g class=\"cells\" shape-rendering=\"crispEdges\" transform=\"translate(", Pixel(frame.left), " ",
                        Pixel(frame.top), ") scale(", sx, " ", sy, ")\">\n"));
  for (int i = 0; i < kColours; ++i) {
    if (!paths[static_cast<size_t>(i)].empty()) {
      svg->Raw(absl::StrCat("<path class=\"c", i, "\" d=\"", paths[static_cast<size_t>(i)], "\"/>\n"));
    }
  }
  svg->Raw("</g>\n");
}

void DrawLegend(Svg* svg, const HeatMap& map, const Frame& frame) {
  const double left = frame.right + 18, height = std::min(frame.bottom - frame.top, 260.0);
  const double top = (frame.top + frame.bottom - height) / 2, step = height / kColours;
  svg->Raw("<g class=\"legend\" shape-rendering=\"crispEdges\">\n");
  for (int i = 0; i < kColours; ++i) {
    svg->Rectangle({left, top + (kColours - 1 - i) * step}, kBarWidth, step + 0.5, absl::StrCat("c", i));
  }
  svg->Raw("</g>\n");
  svg->Rectangle({left, top}, kBarWidth, height, "frame");
  const Axis scale(-map.range, map.range, false, top + height, top);
  for (const Tick& tick : scale.Ticks(6)) {
    const double at = scale.Pixel(tick.value);
    svg->Line({left + kBarWidth, at}, {left + kBarWidth + 4, at}, "tick");
    svg->Text({left + kBarWidth + 8, at + 4}, tick.label, Anchor::kStart, "ltick");
  }
  svg->Text({svg->width() - 8, (frame.top + frame.bottom) / 2}, Fitted(map.legend, frame.bottom - frame.top, 13),
            Anchor::kMiddle, "axis", -90);
}

}  // namespace

Shrunk Shrink(const Grid& grid) {
  Shrunk shrunk;
  shrunk.rows_per_cell = (grid.rows + kMaxCells - 1) / kMaxCells;
  shrunk.columns_per_cell = (grid.columns + kMaxCells - 1) / kMaxCells;
  const int64_t rows = (grid.rows + shrunk.rows_per_cell - 1) / shrunk.rows_per_cell;
  const int64_t columns = (grid.columns + shrunk.columns_per_cell - 1) / shrunk.columns_per_cell;
  shrunk.cells = {rows, columns, std::vector<double>(static_cast<size_t>(rows * columns), 0.0)};
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t column = 0; column < grid.columns; ++column) {
      const int64_t r = row / shrunk.rows_per_cell, c = column / shrunk.columns_per_cell;
      const int64_t height = std::min(shrunk.rows_per_cell, grid.rows - r * shrunk.rows_per_cell);
      const int64_t width = std::min(shrunk.columns_per_cell, grid.columns - c * shrunk.columns_per_cell);
      shrunk.cells.at(r, c) += grid.at(row, column) / static_cast<double>(height * width);
    }
  }
  return shrunk;
}

Picture DrawHeatMap(const HeatMap& map, double width) {
  const double height = std::max(280.0, std::round(width * 0.75));
  Svg svg(width, height, map.text.title, map.text.description);
  AddColours(&svg);
  const Frame frame = FrameFor(width, height, 118);
  const double rows = static_cast<double>(map.cells.rows), columns = static_cast<double>(map.cells.columns);
  const Axis x(map.first_x, map.first_x + columns * map.step_x, false, frame.left, frame.right);
  const Axis y(map.first_y, map.first_y + rows * map.step_y, false, frame.top, frame.bottom);
  DrawCells(&svg, map.cells, map.range, frame);
  DrawFrame(&svg, frame, x, y, map.text, false);
  for (const double at : map.dividers) svg.Line({x.Pixel(at), frame.top}, {x.Pixel(at), frame.bottom}, "tick");
  DrawLegend(&svg, map, frame);
  return {svg.Finish(), map.text.description};
}

}  // namespace phasor::server
