// Pictures by structure and numbers: cells, curves, coordinates of known points, ticks, marks.
#include <algorithm>
#include <cmath>
#include <regex>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/axis.h"
#include "server/knowledge/plot_subject.h"
#include "server/knowledge/svg.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Side Of(const EncodingSpec& spec) { return *SideOfSpec(*Canonicalize(spec), std::nullopt, Precision::kExact); }

RopeSpec Rope(int64_t head_dim) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  return rope;
}

std::vector<std::string> LabelsOf(const std::vector<Tick>& ticks) {
  std::vector<std::string> labels;
  for (const Tick& tick : ticks) labels.push_back(tick.label);
  return labels;
}

// Texts of elements of that class.
std::vector<std::string> TextsOf(const std::string& svg, const std::string& css_class) {
  std::vector<std::string> texts;
  const std::regex pattern("<text [^>]*class=\"" + css_class + "\"[^>]*>([^<]*)</text>");
  for (std::sregex_iterator i(svg.begin(), svg.end(), pattern), end; i != end; ++i) texts.push_back((*i)[1]);
  return texts;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Elements close in their order, and no "<" or ">" stands in a text or an attribute.
void ExpectWellFormed(const std::string& svg) {
  std::vector<std::string> open;
  size_t at = svg.find("<svg");
  while (at < svg.size()) {
    if (svg[at] != '<') {
      ASSERT_NE(svg[at], '>') << svg.substr(at > 40 ? at - 40 : 0, 80);
      ++at;
      continue;
    }
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    ASSERT_EQ(tag.find('<'), std::string::npos) << tag.substr(0, 80);
    ASSERT_EQ(std::count(tag.begin(), tag.end(), '"') % 2, 0) << tag.substr(0, 80);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (name[0] == '/') {
      ASSERT_FALSE(open.empty());
      ASSERT_EQ(open.back(), name.substr(1));
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  EXPECT_TRUE(open.empty());
}

TEST(Axis, TicksAreRoundNumbers) {
  EXPECT_THAT(LabelsOf(Axis(0, 256, false, 0, 1).Ticks(6)), ElementsAre("0", "50", "100", "150", "200", "250"));
  EXPECT_THAT(LabelsOf(Axis(-1, 1, false, 0, 1).Ticks(6)), ElementsAre("−1", "−0.5", "0", "0.5", "1"));
  EXPECT_THAT(LabelsOf(Axis(1, 1e6, true, 0, 1).Ticks(8)), ElementsAre("1", "10", "100", "1000", "10000", "100000", "1e6"));
  EXPECT_THAT(LabelsOf(Axis(1, 10, true, 0, 1).Ticks(8)), ElementsAre("1", "2", "5", "10"));
  EXPECT_THAT(LabelsOf(Axis(1e-8, 1e-2, true, 0, 1).Ticks(3)), ElementsAre("1e-8", "1e-6", "1e-4", "0.01"));
}

TEST(Axis, PixelsOfValues) {
  EXPECT_DOUBLE_EQ(Axis(0, 4, false, 100, 500).Pixel(1), 200);
  EXPECT_DOUBLE_EQ(Axis(1, 10000, true, 400, 0).Pixel(100), 200);
  const Axis flat(3, 3, false, 0, 10);
  EXPECT_DOUBLE_EQ(flat.Pixel(3), 5);
}

TEST(Svg, TextIsEscapedAndColoursAreOfSrgb) {
  EXPECT_EQ(Escaped("<a href=\"x\">&'\x01"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
  EXPECT_EQ(Escaped("a\xef\xbf\xbe"
                    "b\xef\xbf\xbf"),
            "ab");  // U+FFFE and U+FFFF are no characters of XML
  EXPECT_EQ(Escaped("\xef\xbf\xbd\xef\xbf"), "\xef\xbf\xbd\xef\xbf");
  EXPECT_EQ(OklchColour(1, 0, 0), "#ffffff");
  EXPECT_EQ(OklchColour(0, 0, 0), "#000000");
  EXPECT_EQ(OklchColour(0.627955, 0.257683, 29.2339), "#ff0000");  // sRGB's red
  EXPECT_EQ(Pixel(12.50), "12.5");
  EXPECT_EQ(Pixel(-0.001), "0");
}

TEST(Plot, HeatMapHasEveryCellOnce) {
  const Side side = Of(Rope(8));
  const auto picture = PlotTable(*MakeCpuBackend(), side, {0, 10}, {});
  ASSERT_TRUE(picture.ok()) << picture.status();
  ExpectWellFormed(picture->svg);
  // Areas of the rectangles in cells add up to rows × columns.
  double area = 0;
  const std::regex run("M(\\d+) (\\d+)h(\\d+)v1h-(\\d+)z");
  for (std::sregex_iterator i(picture->svg.begin(), picture->svg.end(), run), end; i != end; ++i) {
    EXPECT_EQ((*i)[3], (*i)[4]);
    EXPECT_LE(std::stoi((*i)[1]) + std::stoi((*i)[3]), 8);
    EXPECT_LT(std::stoi((*i)[2]), 10);
    area += std::stod((*i)[3]);
  }
  EXPECT_EQ(area, 80);
  // Row 0: four cosines of 0 are the top colour, four sines the middle one; row 3, pair 0 is cos 3 = −0.99, the lowest.
  EXPECT_THAT(picture->svg, testing::ContainsRegex("class=\"c40\" d=\"M0 0h4v1h-4z"));
  EXPECT_THAT(picture->svg, testing::ContainsRegex("class=\"c20\" d=\"M4 0h4v1h-4z"));
  EXPECT_THAT(picture->svg, testing::ContainsRegex("class=\"c0\" d=\"[^\"]*M0 3h1v1h-1z"));
  EXPECT_THAT(TextsOf(picture->svg, "ltick"), ElementsAre("−1", "−0.5", "0", "0.5", "1"));
  EXPECT_THAT(TextsOf(picture->svg, "axis"), testing::Contains("position"));
  EXPECT_THAT(picture->description, HasSubstr("Values from -0.99 to 1"));
  EXPECT_THAT(picture->svg, HasSubstr("prefers-color-scheme:dark"));
}

TEST(Plot, LargeTablesAreAveraged) {
  Grid grid{600, 3, {}};
  for (int64_t row = 0; row < 600; ++row) grid.values.insert(grid.values.end(), {static_cast<double>(row), 1, -1});
  const Shrunk shrunk = Shrink(grid);
  EXPECT_EQ(shrunk.rows_per_cell, 3);
  EXPECT_EQ(shrunk.columns_per_cell, 1);
  EXPECT_EQ(shrunk.cells.rows, 200);
  EXPECT_NEAR(shrunk.cells.at(1, 0), 4, 1e-12);
  EXPECT_NEAR(shrunk.cells.at(199, 1), 1, 1e-12);
}

TEST(Plot, WavelengthsCountPairsThatNeverTurn) {
  PlotSettings settings;
  settings.trained_length = 8192;
  settings.wanted_length = 32768;
  const auto picture = PlotWavelengths(Of(Rope(128)), settings);
  ASSERT_TRUE(picture.ok());
  ExpectWellFormed(picture->svg);
  // 2π·10000^(i/64) > 8192 from i = 49.8 on: pairs 50 … 63.
  EXPECT_EQ(Count(picture->svg, "class=\"unseen\""), 14u);
  EXPECT_EQ(Count(picture->svg, "class=\"seen\""), 50u);
  EXPECT_THAT(picture->svg, HasSubstr("14 of 64 pairs never complete a turn within the trained length"));
  EXPECT_THAT(picture->description, HasSubstr("from 6.283 to 5.441e+04 positions per turn"));
  EXPECT_THAT(TextsOf(picture->svg, "marked"), ElementsAre("trained length 8192", "wanted length 32768"));
  EXPECT_THAT(TextsOf(picture->svg, "ytick"), ElementsAre("1", "10", "100", "1000", "10000", "100000"));
  // Pair 0 lies at log10(2π)/5 of the height.
  const double bottom = 480 - 56, top = 44, left = 84, right = 800 - 24;
  const std::string centre = "<circle cx=\"" + Pixel(left + 0.5 * (right - left) / 64) + "\" cy=\"" +
                             Pixel(bottom - std::log10(2 * M_PI) / 5 * (bottom - top)) + "\"";
  EXPECT_THAT(picture->svg, HasSubstr(centre));
}

TEST(Plot, DecayBeginsAtOneAndMarksLengths) {
  PlotSettings settings;
  settings.trained_length = 100;
  const auto picture = PlotDecay(*MakeCpuBackend(), Of(Rope(128)), {0, 200}, settings);
  ASSERT_TRUE(picture.ok());
  ExpectWellFormed(picture->svg);
  EXPECT_THAT(picture->description, HasSubstr(": 1 at 0, less than half of it first at 46"));
  EXPECT_EQ(Count(picture->svg, "<polyline"), 1u);
  EXPECT_EQ(Count(picture->svg, "class=\"mark\""), 1u);
  RopeSpec twice = Rope(128);
  twice.attention_factor = 2;
  EXPECT_THAT(PlotDecay(*MakeCpuBackend(), Of(twice), {0, 200}, {})->description, HasSubstr(": 4 at 0"));
}

TEST(Plot, BiasHasACurvePerHeadUpToSixteen) {
  AlibiSpec alibi;
  alibi.num_heads = 8;
  const auto picture = PlotBias(*MakeCpuBackend(), Of(alibi), {0, 101}, {});
  ASSERT_TRUE(picture.ok());
  ExpectWellFormed(picture->svg);
  EXPECT_EQ(Count(picture->svg, "data-curve="), 8u);
  EXPECT_THAT(picture->svg, HasSubstr(">head 7</text>"));
  EXPECT_THAT(picture->description, HasSubstr("-50 for head 0, -0.3906 for head 7"));
  // The curve of head 0 runs from 0 to the lowest value, which has 4 % of room below.
  const double bottom = 480 - 56, top = 44, low = bottom - 0.04 / 1.08 * (bottom - top),
               high = bottom - 1.04 / 1.08 * (bottom - top);
  EXPECT_THAT(picture->svg, HasSubstr("points=\"84," + Pixel(high)));
  EXPECT_THAT(picture->svg, HasSubstr(Pixel(800 - 110) + "," + Pixel(low) + "\""));
  alibi.num_heads = 40;
  const auto many = PlotBias(*MakeCpuBackend(), Of(alibi), {0, 101}, {});
  EXPECT_EQ(Count(many->svg, "data-curve="), 16u);
  EXPECT_THAT(many->svg, HasSubstr(">head 39</text>"));
}

TEST(Plot, DifferenceOnTwoLogarithmicAxes) {
  RopeSpec linear = Rope(128);
  linear.schedule = LinearSchedule{4};
  const auto picture = PlotDifference(*MakeCpuBackend(), Of(Rope(128)), Of(linear), {0, 4096}, {});
  ASSERT_TRUE(picture.ok());
  ExpectWellFormed(picture->svg);
  EXPECT_EQ(Count(picture->svg, "data-curve="), 2u);
  EXPECT_THAT(TextsOf(picture->svg, "xtick"), ElementsAre("1", "10", "100", "1000"));
  const auto none = PlotDifference(*MakeCpuBackend(), Of(Rope(8)), Of(Rope(8)), {0, 100}, {});
  ExpectWellFormed(none->svg);
  EXPECT_THAT(none->svg, HasSubstr("every value is 0"));
  EXPECT_THAT(none->description, HasSubstr("every bit of every result is equal"));
}

TEST(Plot, SimilarityIsSymmetricWithTheWidthOnItsDiagonal) {
  SinusoidalSpec sinusoidal;
  sinusoidal.dim = 64;
  const auto picture = PlotSimilarity(*MakeCpuBackend(), Of(sinusoidal), {0, 600}, {});
  ASSERT_TRUE(picture.ok());
  ExpectWellFormed(picture->svg);
  EXPECT_THAT(picture->description, HasSubstr("A position with itself: 32;"));
  EXPECT_THAT(picture->description, HasSubstr("one in 3 is shown"));
}

TEST(Plot, TitlesOfCallersDoNoHarm) {
  PlotSettings settings;
  settings.title = "</title><script>alert(1)</script> & \"quotes\"";
  const auto picture = PlotTable(*MakeCpuBackend(), Of(Rope(8)), {0, 4}, settings);
  ExpectWellFormed(picture->svg);
  EXPECT_THAT(picture->svg, Not(HasSubstr("<script")));
}

TEST(Plot, RefusesSubjectsThatDoNotFit) {
  AlibiSpec alibi;
  alibi.num_heads = 8;
  const Side bias = Of(alibi), rope = Of(Rope(8));
  EXPECT_FALSE(PlotWavelengths(bias, {}).ok());
  EXPECT_FALSE(PlotSimilarity(*MakeCpuBackend(), bias, {0, 4}, {}).ok());
  EXPECT_FALSE(PlotBias(*MakeCpuBackend(), rope, {0, 4}, {}).ok());
  // Pairs that stand still lie on the upper edge.
  RopeSpec still = Rope(8);
  still.schedule = InvFreqSchedule{{1, 0.1, 0, 0}};
  const auto picture = PlotWavelengths(Of(still), {});
  EXPECT_THAT(picture->description, HasSubstr("stand still"));
  EXPECT_EQ(Count(picture->svg, "cy=\"44\""), 2u);
}

}  // namespace
}  // namespace phasor::server
