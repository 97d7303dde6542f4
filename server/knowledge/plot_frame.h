// The frame of a chart: title, axes, ticks, grid.
#ifndef PHASOR_SERVER_KNOWLEDGE_PLOT_FRAME_H_
#define PHASOR_SERVER_KNOWLEDGE_PLOT_FRAME_H_

#include <string_view>

#include "server/knowledge/axis.h"
#include "server/knowledge/plot.h"
#include "server/knowledge/svg.h"

namespace phasor::server {

// Inside of a chart, pixels.
struct Frame {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// Margins for ticks and titles; `right_margin` for what stands beside the chart.
Frame FrameFor(double width, double height, double right_margin);

// Ticks and grid lines of both axes, their titles and the picture's.
void DrawFrame(Svg* svg, const Frame& frame, const Axis& x, const Axis& y, const PictureText& text, bool grid);

// A title that does not fit is cut with an ellipsis.
std::string Fitted(std::string_view text, double pixels, double font_size);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_PLOT_FRAME_H_
