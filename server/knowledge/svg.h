// A picture as text: plain SVG that needs nothing beside itself and can be read on light and dark backgrounds.
#ifndef PHASOR_SERVER_KNOWLEDGE_SVG_H_
#define PHASOR_SERVER_KNOWLEDGE_SVG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace phasor::server {

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };

struct Point {
  double x = 0, y = 0;  // pixels
};

// Text with <, >, &, quotes replaced, and characters that XML forbids left out.
std::string Escaped(std::string_view text);

// "12.5": at most two decimals, no exponent.
std::string Pixel(double value);

// Colours of a scale that is even to the eye, and of curves: OKLab turned into sRGB.
std::string OklchColour(double lightness, double chroma, double hue_degrees);  // "#rrggbb"

class Svg {
 public:
  // Sizes in pixels. `title` and `description` are for those who cannot see the picture.
  Svg(double width, double height, std::string_view title, std::string_view description);

  // Adds rules for a light and a dark background, such as ".a{fill:#000}".
  void Style(std::string_view light, std::string_view dark);

  void Text(Point at, std::string_view text, Anchor anchor, std::string_view css_class, double turn_degrees = 0);
  void Line(Point from, Point to, std::string_view css_class);
  void Rectangle(Point corner, double width, double height, std::string_view css_class);
  void Circle(Point centre, double radius, std::string_view css_class);
  void Polyline(const std::vector<Point>& points, std::string_view css_class);
  // Elements as they are.
  void Raw(std::string_view elements) { body_ += elements; }

  double width() const { return width_; }
  double height() const { return height_; }
  std::string Finish() const;

 private:
  double width_, height_;
  std::string title_, description_, light_, dark_, body_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SVG_H_
