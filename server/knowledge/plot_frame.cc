#include "server/knowledge/plot_frame.h"

#include <algorithm>

namespace phasor::server {
namespace {

constexpr double kTickLength = 5;
constexpr double kNarrow = 480;  // pictures in which a title needs the whole width
constexpr double kPixelsPerTickX = 80, kPixelsPerTickY = 45;

}  // namespace

std::string Fitted(std::string_view text, double pixels, double font_size) {
  // Letters are about half as wide as high; bytes that go on a UTF-8 character count nothing.
  const int64_t most = std::max<int64_t>(4, static_cast<int64_t>(pixels / (0.56 * font_size)));
  int64_t letters = 0;
  size_t cut = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) continue;
    if (letters == most - 1) cut = i;
    ++letters;
  }
  if (letters <= most) return std::string(text);
  return std::string(text.substr(0, cut)) + "…";
}

Frame FrameFor(double width, double height, double right_margin) { return {84, 44, width - right_margin, height - 56}; }

void DrawFrame(Svg* svg, const Frame& frame, const Axis& x, const Axis& y, const PictureText& text, bool grid) {
  for (const Tick& tick : x.Ticks(std::max(2, static_cast<int>((frame.right - frame.left) / kPixelsPerTickX)))) {
    const double at = x.Pixel(tick.value);
    if (grid) svg->Line({at, frame.top}, {at, frame.bottom}, "grid");
    svg->Line({at, frame.bottom}, {at, frame.bottom + kTickLength}, "tick");
    svg->Text({at, frame.bottom + 19}, tick.label, Anchor::kMiddle, "xtick");
  }
  for (const Tick& tick : y.Ticks(std::max(2, static_cast<int>((frame.bottom - frame.top) / kPixelsPerTickY)))) {
    const double at = y.Pixel(tick.value);
    if (grid) svg->Line({frame.left, at}, {frame.right, at}, "grid");
    svg->Line({frame.left - kTickLength, at}, {frame.left, at}, "tick");
    svg->Text({frame.left - 9, at + 4}, tick.label, Anchor::kEnd, "ytick");
  }
  svg->Rectangle({frame.left, frame.top}, frame.right - frame.left, frame.bottom - frame.top, "frame");
  const double middle_x = (frame.left + frame.right) / 2, middle_y = (frame.top + frame.bottom) / 2;
  svg->Text({middle_x, svg->height() - 14}, Fitted(text.x_title, frame.right - frame.left, 13), Anchor::kMiddle, "axis");
  svg->Text({18, middle_y}, Fitted(text.y_title, frame.bottom - frame.top, 13), Anchor::kMiddle, "axis", -90);
  const double title_left = svg->width() < kNarrow ? 12 : frame.left;
  svg->Text({title_left, 26}, Fitted(text.title, svg->width() - title_left - 12, 16), Anchor::kStart, "title");
}

}  // namespace phasor::server
