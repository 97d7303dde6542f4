#include "server/knowledge/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phasor::server {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Every colour is said twice: programs that know no custom properties take the first.
constexpr std::string_view kLight =
    "svg{--paper:#ffffff;--ink:#1f2328;--soft:#57606a;--grid:#d8dee4}"
    "text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328;fill:var(--ink);font-size:12px}"
    ".title{font-size:16px;font-weight:600}.axis{font-size:13px}.note{fill:#57606a;fill:var(--soft)}"
    ".paper{fill:#ffffff;fill:var(--paper)}.frame{fill:none;stroke:#57606a;stroke:var(--soft);stroke-width:1}"
    ".tick{stroke:#57606a;stroke:var(--soft);stroke-width:1}.grid{stroke:#d8dee4;stroke:var(--grid);stroke-width:1}"
    ".curve{fill:none;stroke-width:1.6;stroke-linejoin:round}.mark{stroke-width:1.5;stroke-dasharray:6 4}";
constexpr std::string_view kDark = "svg{--paper:#0d1117;--ink:#e6edf3;--soft:#9198a1;--grid:#30363d}";

std::string_view Name(Anchor anchor) {
  constexpr std::array<std::string_view, 3> kNames{"start", "middle", "end"};
  return kNames[static_cast<size_t>(anchor)];
}

int Channel(double linear) {
  const double c = std::clamp(linear, 0.0, 1.0);
  const double encoded = c <= 0.0031308 ? 12.92 * c : 1.055 * std::pow(c, 1 / 2.4) - 0.055;
  return static_cast<int>(std::lround(255 * encoded));
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    // U+FFFE and U+FFFF are UTF-8, and no characters of XML.
    if (text.substr(i, 3) == "\xef\xbf\xbe" || text.substr(i, 3) == "\xef\xbf\xbf") {
      i += 2;
      continue;
    }
    const char c = text[i];
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  }
  return out;
}

std::string Pixel(double value) {
  std::string text = absl::StrFormat("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string OklchColour(double lightness, double chroma, double hue_degrees) {
  const double hue = hue_degrees * std::numbers::pi / 180;
  const double a = chroma * std::cos(hue), b = chroma * std::sin(hue);
  const auto cube = [](double x) { return x * x * x; };
  const double l = cube(lightness + 0.3963377774 * a + 0.2158037573 * b);
  const double m = cube(lightness - 0.1055613458 * a - 0.0638541728 * b);
  const double s = cube(lightness - 0.0894841775 * a - 1.2914855480 * b);
  return absl::StrFormat("#%02x%02x%02x", Channel(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                         Channel(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                         Channel(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s));
}

Svg::Svg(double width, double height, std::string_view title, std::string_view description)
    : width_(width), height_(height), title_(title), description_(description), light_(kLight), dark_(kDark) {
  Rectangle({0, 0}, width, height, "paper");
}

void Svg::Style(std::string_view light, std::string_view dark) {
  light_ += light;
  dark_ += dark;
}

void Svg::Text(Point at, std::string_view text, Anchor anchor, std::string_view css_class, double turn_degrees) {
  absl::StrAppend(&body_, "<text x=\"", Pixel(at.x), "\" y=\"", Pixel(at.y), "\" text-anchor=\"", Absl(Name(anchor)),
                  "\" class=\"", Absl(css_class), "\"");
  if (turn_degrees != 0) {
    absl::StrAppend(&body_, " transform=\"rotate(", Pixel(turn_degrees), " ", Pixel(at.x), " ", Pixel(at.y), ")\"");
  }
  absl::StrAppend(&body_, ">", Escaped(text), "</text>\n");
}

void Svg::Line(Point from, Point to, std::string_view css_class) {
  absl::StrAppend(&body_, "<line x1=\"", Pixel(from.x), "\" y1=\"", Pixel(from.y), "\" x2=\"", Pixel(to.x), "\" y2=\"",
                  Pixel(to.y), "\" class=\"", Absl(css_class), "\"/>\n");
}

void Svg::Rectangle(Point corner, double width, double height, std::string_view css_class) {
  absl::StrAppend(&body_, "<rect x=\"", Pixel(corner.x), "\" y=\"", Pixel(corner.y), "\" width=\"", Pixel(width),
                  "\" height=\"", Pixel(height), "\" class=\"", Absl(css_class), "\"/>\n");
}

void Svg::Circle(Point centre, double radius, std::string_view css_class) {
  absl::StrAppend(&body_, "<circle cx=\"", Pixel(centre.x), "\" cy=\"", Pixel(centre.y), "\" r=\"", Pixel(radius),
                  "\" class=\"", Absl(css_class), "\"/>\n");
}

void Svg::Polyline(const std::vector<Point>& points, std::string_view css_class) {
  absl::StrAppend(&body_, "<polyline class=\"", Absl(css_class), "\" points=\"");
  for (size_t i = 0; i < points.size(); ++i) {
    absl::StrAppend(&body_, i > 0 ? " " : "", Pixel(points[i].x), ",", Pixel(points[i].y));
  }
  absl::StrAppend(&body_, "\"/>\n");
}

std::string Svg::Finish() const {
  const std::string w = Pixel(width_), h = Pixel(height_);
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w,
                      "\" height=\"", h, "\" viewBox=\"0 0 ", w, " ", h,
                      "\" role=\"img\" aria-labelledby=\"title description\">\n<title id=\"title\">", Escaped(title_),
                      "</title>\n<desc id=\"description\">", Escaped(description_), "</desc>\n<style>", light_,
                      "@media (prefers-color-scheme:dark){", dark_, "}</style>\n", body_, "</svg>\n");
}

}  // namespace phasor::server
