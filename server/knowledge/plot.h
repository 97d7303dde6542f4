// Pictures of encodings, as SVG.
#ifndef PHASOR_SERVER_KNOWLEDGE_PLOT_H_
#define PHASOR_SERVER_KNOWLEDGE_PLOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/knowledge/numbers.h"

namespace phasor::server {

inline constexpr int64_t kMinPlotWidth = 320, kMaxPlotWidth = 4096, kDefaultPlotWidth = 800;
inline constexpr int64_t kMaxCells = 256;  // of a heat map, either way
inline constexpr int64_t kMaxCurves = 16;

struct Picture {
  std::string svg;
  std::string description;  // what it shows, with its numbers
};

// What every picture has.
struct PictureText {
  std::string title;
  std::string x_title, y_title;  // with units
  std::string description;
};

// Values in cells: row 0 is at the top. At most kMaxCells either way.
struct HeatMap {
  PictureText text;
  Grid cells;
  double first_x = 0, step_x = 1;  // of the columns' left edges, in units of the axis
  double first_y = 0, step_y = 1;  // of the rows' upper edges
  std::vector<double> dividers;    // vertical lines at these x
  std::string legend;              // what the colours are
  double range = 1;                // colours run from −range to range
};

// The mean of blocks of rows and columns, so that there are at most kMaxCells either way; how many went into a cell.
struct Shrunk {
  Grid cells;
  int64_t rows_per_cell = 1, columns_per_cell = 1;
};
Shrunk Shrink(const Grid& grid);

struct Curve {
  std::string label;
  std::vector<double> x, y;  // y may be NaN: a gap
};
struct Mark {
  double at = 0;
  std::string label;
};

struct CurveChart {
  PictureText text;
  std::vector<Curve> curves;  // 1 … kMaxCurves
  bool log_x = false, log_y = false;
  std::vector<Mark> marks;  // vertical lines, where the axis has them
  bool ordered = false;     // colours follow the order of the curves (heads)
};

struct WavelengthChart {
  PictureText text;
  std::vector<double> wavelengths;  // positions per turn, by pair; infinity: a pair that stands still
  double trained = 0, wanted = 0;   // lengths in positions; 0: not marked
};

// `width` in pixels, kMinPlotWidth … kMaxPlotWidth; the height follows.
Picture DrawHeatMap(const HeatMap& map, double width);
Picture DrawCurves(const CurveChart& chart, double width);
Picture DrawWavelengths(const WavelengthChart& chart, double width);

// Pairs whose wavelength is longer than `length`: they do not complete a turn within it.
int64_t CountUnfinished(const std::vector<double>& wavelengths, double length);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_PLOT_H_
