#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/core/checked_math.h"
#include "kernels/core/sincos.h"
#include "kernels/encodings/rope.h"
#include "kernels/encodings/schemes.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"dim", "width of a row", "required", "a multiple of 4 (two axes) or 16 (three), up to 2^20"},
    ParameterCard{"grid", "points per axis, [height, width] or [time, height, width]",
                  "none: positions are coordinates, one per axis, which may be fractional", "each ≥ 1, product below 2^31"},
    ParameterCard{"base", "base of the geometric frequencies", "10000", kBaseRange},
    ParameterCard{"axis_bases", "a base for each axis in place of base", "absent", "one per axis, as base"},
    ParameterCard{"order", "width_first (two axes: the last, then the first; three: time, width, height) or as_listed",
                  "width_first", "width_first, as_listed"},
    ParameterCard{"layout", "concatenated (of an axis all sines, then all cosines) or interleaved", "concatenated",
                  "concatenated, interleaved"},
    ParameterCard{"start", "coordinate of the first point, before it is divided", "0", "within ±2^31"},
    ParameterCard{"base_size", "coordinates of an axis of N points are divided by N/base_size", "absent",
                  "one per axis, 1 … 2^31 − 1"},
    ParameterCard{"extent_epsilon", "coordinates of an axis of N points are divided by N + extent_epsilon", "absent",
                  "0 … 2^31; not with base_size"},
    ParameterCard{"interpolation_scale", "divisor of the coordinates", "1 for every axis", "one per axis, finite, > 0"},
    ParameterCard{"scale", "factor on the divided coordinates", "1", "finite, > 0"},
    ParameterCard{"extra_rows", "rows of zeros before the grid (class tokens)", "0", "0 … 65536"},
    ParameterCard{"columns", "columns of each axis", "halves; of three axes a quarter, and three eighths each",
                  "one per axis, even, sum dim"},
};

constexpr Card kCard{
    .title = "Sinusoids over a grid",
    .summary =
        "Every axis of a grid of patches has its part of the columns, filled as a sinusoidal table of its coordinate. Rows "
        "run over the grid with the last axis fastest.",
    .formula =
        "part of an axis with n pairs: [sin, cos](c·base^(−i/n)), c = (g + start)/(N/base_size or N + "
        "extent_epsilon)/interpolation_scale·scale",
    .parameters = kParameters,
    .used_by =
        "ViT-MAE, DiT, PixArt (two axes; base_size, interpolation_scale), CogVideoX (three axes), DETR and its kin "
        "(interleaved, as_listed, normalised), RT-DETR (as_listed)",
    .pitfalls =
        "The first half encodes the width, although the libraries' variable says height; DETR's encodes the height. The "
        "class token's row is zeros. DETR counts from 1 and divides by N + 1e-6, so that the last point is at 2π; "
        "Deformable DETR counts from ½. Where a mask hides part of an image, the extent is that of what is seen, row by row "
        "and column by column: leave out the grid and give coordinates. Libraries hold scaled coordinates in float32; here "
        "they are doubles.",
    .source =
        "He et al., arXiv 2111.06377; diffusers embeddings.py get_2d_sincos_pos_embed, get_3d_sincos_pos_embed; Carion et "
        "al., arXiv 2005.12872; transformers DetrSinePositionEmbedding",
};

constexpr int64_t kMaxPoints = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxExtraRows = 65536;

std::string Text(const std::vector<int64_t>& numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]"); }

// Axes of the grid, or of coordinates: as many as have columns, by default 2.
size_t AxesOf(const GridSinusoidalSpec& s) {
  if (!s.grid.empty()) return s.grid.size();
  return s.columns.empty() ? 2 : s.columns.size();
}

void CheckGrid(const GridSinusoidalSpec& s, SpecChecker& check) {
  const size_t axes = AxesOf(s);
  if (s.grid.empty()) {
    if (axes < 2 || axes > static_cast<size_t>(kMaxAxes)) {
      check.Fail("grid_sinusoidal.columns", Text(s.columns), "2 to 4 axes without a grid");
    }
    if (s.extra_rows != 0) {
      check.Fail("grid_sinusoidal.extra_rows", absl::StrCat(s.extra_rows), "0 without a grid that they stand before");
    }
    return;
  }
  if (axes != 2 && axes != 3) return check.Fail("grid_sinusoidal.grid", absl::StrCat(axes, " axes"), "2 or 3 axes");
  for (size_t a = 0; a < axes; ++a) {
    check.InRange(absl::StrCat("grid_sinusoidal.grid[", a, "]"), s.grid[a], 1, kMaxPoints);
  }
  if (!check.ok()) return;
  const auto points = CheckedElements(s.grid);
  if (!points || *points > kMaxPoints) check.Fail("grid_sinusoidal.grid", Text(s.grid), "a product below 2^31");
}

void CheckColumns(GridSinusoidalSpec& s, SpecChecker& check) {
  const size_t axes = AxesOf(s);
  if (s.columns.empty()) {
    const int64_t multiple = axes == 2 ? 4 : 16;
    if (s.dim % multiple != 0) {
      return check.Fail("grid_sinusoidal.dim", absl::StrCat(s.dim), absl::StrCat("a multiple of ", multiple));
    }
    s.columns = axes == 2 ? std::vector<int64_t>{s.dim / 2, s.dim / 2}
                          : std::vector<int64_t>{s.dim / 4, 3 * s.dim / 8, 3 * s.dim / 8};
    return;
  }
  int64_t sum = 0;
  bool sound = s.columns.size() == axes;
  for (int64_t part : s.columns) {
    sound = sound && part >= 0 && part <= s.dim && part % 2 == 0;
    if (sound) sum += part;
  }
  if (!sound || sum != s.dim) {
    check.Fail("grid_sinusoidal.columns", Text(s.columns), absl::StrCat("one per axis, even, sum dim = ", s.dim));
  }
}

// A part of the axis without its columns and angles.
GridPart PartOf(const GridSinusoidalSpec& s, size_t axis) {
  GridPart part;
  part.axis = static_cast<int64_t>(axis);
  part.interleaved = *s.layout == GridLayout::kInterleaved;
  if (s.grid.empty()) return part;
  const auto points = static_cast<double>(s.grid[axis]);
  if (!s.base_size.empty()) part.divisor = points / static_cast<double>(s.base_size[axis]);
  if (s.extent_epsilon) part.divisor = points + *s.extent_epsilon;
  part.start = *s.start;
  part.scale = s.interpolation_scale[axis];
  part.factor = *s.scale;
  return part;
}

// Whether every coordinate of the axis is 0 or within the bounds of fractional positions: they grow, so that those at the
// ends and beside 0 tell.
bool Fits(const GridPart& part, int64_t points) {
  const auto fits = [&](int64_t point) {
    if (static_cast<double>(point) + part.start == 0) return true;
    const double magnitude = std::fabs(part.coordinate(point));
    return magnitude >= kSmallestFraction && magnitude < 0x1p31;
  };
  const auto zero = static_cast<int64_t>(std::floor(-part.start));
  return fits(0) && fits(1) && fits(points) && fits(std::clamp<int64_t>(zero, 0, points)) &&
         fits(std::clamp<int64_t>(zero + 1, 0, points));
}

void CheckRule(GridSinusoidalSpec& s, SpecChecker& check) {
  check.Default("grid_sinusoidal.layout", s.layout, GridLayout::kConcatenated, "concatenated");
  if (*s.layout != GridLayout::kConcatenated && *s.layout != GridLayout::kInterleaved) {
    check.Fail("grid_sinusoidal.layout", absl::StrCat(static_cast<int>(*s.layout)), "concatenated, interleaved");
  }
  check.Default("grid_sinusoidal.start", s.start, 0.0, "0");
  *s.start += 0.0;  // one zero
  check.InRange("grid_sinusoidal.start", *s.start, -0x1p31, 0x1p31);
  check.Default("grid_sinusoidal.scale", s.scale, 1.0, "1");
  check.Positive("grid_sinusoidal.scale", *s.scale);
  if (s.extent_epsilon) check.InRange("grid_sinusoidal.extent_epsilon", *s.extent_epsilon, 0, 0x1p31);
  if (s.extent_epsilon && !s.base_size.empty()) {
    check.Fail("grid_sinusoidal.extent_epsilon", absl::StrCat(FormatNumber(*s.extent_epsilon), " with base_size"),
               "one of the two: both say what coordinates are divided by");
  }
}

void CheckBases(GridSinusoidalSpec& s, SpecChecker& check) {
  if (s.axis_bases.empty()) {
    check.Default("grid_sinusoidal.base", s.base, 10000.0, "10000");
    return check.Positive("grid_sinusoidal.base", *s.base);
  }
  if (s.base) {
    return check.Fail("grid_sinusoidal.axis_bases", absl::StrCat("with base ", FormatNumber(*s.base)), "one of the two");
  }
  if (s.axis_bases.size() != AxesOf(s)) {
    return check.Fail("grid_sinusoidal.axis_bases", absl::StrCat(s.axis_bases.size(), " entries"),
                      absl::StrCat("none, or ", AxesOf(s), ", one per axis"));
  }
  for (size_t a = 0; a < s.axis_bases.size(); ++a) {
    check.Positive(absl::StrCat("grid_sinusoidal.axis_bases[", a, "]"), s.axis_bases[a]);
  }
}

void CheckCoordinates(GridSinusoidalSpec& s, SpecChecker& check) {
  const size_t axes = AxesOf(s);
  if (!s.base_size.empty() && s.base_size.size() != axes) {
    return check.Fail("grid_sinusoidal.base_size", absl::StrCat(s.base_size.size(), " entries"),
                      absl::StrCat("none, or ", axes, ", one per axis"));
  }
  for (size_t a = 0; a < s.base_size.size(); ++a) {
    check.InRange(absl::StrCat("grid_sinusoidal.base_size[", a, "]"), s.base_size[a], 1, kMaxPoints);
  }
  if (s.interpolation_scale.empty()) s.interpolation_scale.assign(axes, 1.0);
  if (s.interpolation_scale.size() != axes) {
    return check.Fail("grid_sinusoidal.interpolation_scale", absl::StrCat(s.interpolation_scale.size(), " entries"),
                      absl::StrCat("none, or ", axes, ", one per axis"));
  }
  for (size_t a = 0; a < axes && check.ok(); ++a) {
    const std::string field = absl::StrCat("grid_sinusoidal.interpolation_scale[", a, "]");
    check.Positive(field, s.interpolation_scale[a]);
    if (!check.ok() || s.grid.empty() || Fits(PartOf(s, a), s.grid[a])) continue;
    if (*s.start != 0 || *s.scale != 1 || s.extent_epsilon) {
      check.Fail("grid_sinusoidal.scale", FormatNumber(*s.scale),
                 "a start and a scale with coordinates of 0 or 2^-64 … 2^31");
    } else {
      check.Fail(field, FormatNumber(s.interpolation_scale[a]), "a scale with coordinates of 2^-64 … 2^31");
    }
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  GridSinusoidalSpec& s = std::get<GridSinusoidalSpec>(canonical.spec);
  SpecChecker check(&canonical);
  CheckBases(s, check);
  check.Default("grid_sinusoidal.order", s.order, GridOrder::kWidthFirst, "width_first");
  check.InRange("grid_sinusoidal.dim", s.dim, 4, kMaxDim);
  if (*s.order != GridOrder::kWidthFirst && *s.order != GridOrder::kAsListed) {
    check.Fail("grid_sinusoidal.order", absl::StrCat(static_cast<int>(*s.order)), "width_first, as_listed");
  }
  check.InRange("grid_sinusoidal.extra_rows", s.extra_rows, 0, kMaxExtraRows);
  CheckRule(s, check);
  CheckGrid(s, check);
  if (check.ok()) CheckColumns(s, check);
  if (check.ok()) CheckCoordinates(s, check);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const GridSinusoidalSpec& s = std::get<GridSinusoidalSpec>(canonical);
  std::vector<size_t> order(AxesOf(s));
  std::iota(order.begin(), order.end(), size_t{0});
  if (*s.order == GridOrder::kWidthFirst) std::reverse(order.end() - 2, order.end());
  GridPlan plan{.grid = s.grid, .extra_rows = s.extra_rows, .columns = s.dim, .parts = {}};
  int64_t column = 0;
  for (size_t axis : order) {
    GridPart part = PartOf(s, axis);
    part.first_column = column;
    const int64_t width = s.columns[axis];
    if (width == 0) continue;
    const double base = s.axis_bases.empty() ? *s.base : s.axis_bases[axis];
    auto angles = ResolveAngles(RopeFrequencies(base, width, width / 2), 1.0, precision,
                                s.axis_bases.empty() ? "grid_sinusoidal.base" : "grid_sinusoidal.axis_bases");
    if (!angles.ok()) return angles;
    part.angles = std::get<AnglePlan>(std::move(angles->plan));
    plan.parts.push_back(std::move(part));
    column += width;
  }
  Resolved resolved;
  resolved.plan = std::move(plan);
  return resolved;
}

}  // namespace

constexpr Scheme kGridSinusoidal{"grid_sinusoidal", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
