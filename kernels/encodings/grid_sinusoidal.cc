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
    ParameterCard{"grid", "points per axis, [height, width] or [time, height, width]", "required",
                  "each ≥ 1, product below 2^31"},
    ParameterCard{"base", "base of the geometric frequencies", "10000", kBaseRange},
    ParameterCard{"order", "width_first (two axes: the last, then the first; three: time, width, height) or as_listed",
                  "width_first", "width_first, as_listed"},
    ParameterCard{"base_size", "coordinate g of an axis of N points is g/(N/base_size)/interpolation_scale", "absent",
                  "one per axis, 1 … 2^31 − 1"},
    ParameterCard{"interpolation_scale", "divisor of the coordinates", "1 for every axis", "one per axis, finite, > 0"},
    ParameterCard{"extra_rows", "rows of zeros before the grid (class tokens)", "0", "0 … 65536"},
    ParameterCard{"columns", "columns of each axis", "halves; of three axes a quarter, and three eighths each",
                  "one per axis, even, sum dim"},
};

constexpr Card kCard{
    .title = "Sinusoids over a grid",
    .summary =
        "Every axis of a grid of patches has its part of the columns, filled as a sinusoidal table of its coordinate. Rows "
        "run over the grid with the last axis fastest.",
    .formula = "part of an axis with n pairs: [sin, cos](c·base^(−i/n)), c = g/(N/base_size)/interpolation_scale",
    .parameters = kParameters,
    .used_by = "ViT-MAE, DiT, PixArt (two axes; base_size, interpolation_scale), CogVideoX (three axes)",
    .pitfalls =
        "The first half encodes the width, although the libraries' variable says height. The class token's row is zeros. "
        "Libraries hold scaled coordinates in float32; here they are doubles.",
    .source = "He et al., arXiv 2111.06377; diffusers embeddings.py get_2d_sincos_pos_embed, get_3d_sincos_pos_embed",
};

constexpr int64_t kMaxPoints = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxExtraRows = 65536;

std::string Text(const std::vector<int64_t>& numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ", "), "]"); }

void CheckGrid(const GridSinusoidalSpec& s, SpecChecker& check) {
  const size_t axes = s.grid.size();
  if (axes != 2 && axes != 3) {
    return check.Fail("grid_sinusoidal.grid", axes == 0 ? "nothing" : absl::StrCat(axes, " axes"), "2 or 3 axes");
  }
  for (size_t a = 0; a < axes; ++a) {
    check.InRange(absl::StrCat("grid_sinusoidal.grid[", a, "]"), s.grid[a], 1, kMaxPoints);
  }
  if (!check.ok()) return;
  const auto points = CheckedElements(s.grid);
  if (!points || *points > kMaxPoints) check.Fail("grid_sinusoidal.grid", Text(s.grid), "a product below 2^31");
}

void CheckColumns(GridSinusoidalSpec& s, SpecChecker& check) {
  const size_t axes = s.grid.size();
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

// Coordinates of the axes: each 0 or within the bounds of fractional positions.
void CheckCoordinates(GridSinusoidalSpec& s, SpecChecker& check) {
  const size_t axes = s.grid.size();
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
    if (!check.ok()) return;
    GridPart part;
    if (!s.base_size.empty()) part.divisor = static_cast<double>(s.grid[a]) / static_cast<double>(s.base_size[a]);
    part.scale = s.interpolation_scale[a];
    const bool fits = part.coordinate(1) >= kSmallestFraction && part.coordinate(s.grid[a]) < 0x1p31;
    if (!fits) check.Fail(field, FormatNumber(part.scale), "a scale with coordinates of 2^-64 … 2^31");
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  GridSinusoidalSpec& s = std::get<GridSinusoidalSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.Default("grid_sinusoidal.base", s.base, 10000.0, "10000");
  check.Default("grid_sinusoidal.order", s.order, GridOrder::kWidthFirst, "width_first");
  check.InRange("grid_sinusoidal.dim", s.dim, 4, kMaxDim);
  check.Positive("grid_sinusoidal.base", *s.base);
  if (*s.order != GridOrder::kWidthFirst && *s.order != GridOrder::kAsListed) {
    check.Fail("grid_sinusoidal.order", absl::StrCat(static_cast<int>(*s.order)), "width_first, as_listed");
  }
  check.InRange("grid_sinusoidal.extra_rows", s.extra_rows, 0, kMaxExtraRows);
  CheckGrid(s, check);
  if (check.ok()) CheckColumns(s, check);
  if (check.ok()) CheckCoordinates(s, check);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision precision) {
  const GridSinusoidalSpec& s = std::get<GridSinusoidalSpec>(canonical);
  std::vector<size_t> order(s.grid.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (*s.order == GridOrder::kWidthFirst) std::reverse(order.end() - 2, order.end());
  GridPlan plan{.grid = s.grid, .extra_rows = s.extra_rows, .columns = s.dim, .parts = {}};
  int64_t column = 0;
  for (size_t axis : order) {
    GridPart part;
    part.axis = static_cast<int64_t>(axis);
    part.first_column = column;
    if (!s.base_size.empty()) part.divisor = static_cast<double>(s.grid[axis]) / static_cast<double>(s.base_size[axis]);
    part.scale = s.interpolation_scale[axis];
    const int64_t width = s.columns[axis];
    if (width == 0) continue;
    auto angles = ResolveAngles(RopeFrequencies(*s.base, width, width / 2), 1.0, precision, "grid_sinusoidal.base");
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
