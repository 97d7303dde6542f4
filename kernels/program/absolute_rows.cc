#include "kernels/program/absolute_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/core/sincos.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/program/angle_rows.h"
#include "kernels/program/distilled_rows.h"
#include "kernels/program/grid_rows.h"

namespace phasor {
namespace {

constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;
constexpr int64_t kAlignment = 64;
constexpr int64_t kCheapRows = 8192;  // of a step that does next to nothing

int64_t AlignUp(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool IsList(const PositionSource& source) { return !source.ids.empty() || !source.fractional_ids.empty(); }

int64_t WholeAt(const PositionSource& source, int64_t row) {
  return source.ids.empty() ? source.start + row * source.stride : source.ids[static_cast<size_t>(row)];
}
double PositionAt(const PositionSource& source, int64_t row) {
  return source.fractional_ids.empty() ? static_cast<double>(WholeAt(source, row))
                                       : source.fractional_ids[static_cast<size_t>(row)];
}

// What positions become before they are turned into angles: sign·(position + offset).
struct Move {
  int64_t offset = 0;
  bool negate = false;

  bool is_nothing() const { return offset == 0 && !negate; }
  template <typename T>
  T operator()(T position) const {
    const T moved = position + static_cast<T>(offset);
    return negate ? -moved : moved;
  }
};

Move MoveOf(const EncodingSpec& spec) {
  if (const auto* s = std::get_if<SinusoidalSpec>(&spec)) return {.offset = *s->position_offset};
  if (const auto* s = std::get_if<TimestepSpec>(&spec)) return {.negate = *s->scale < 0};
  return {};
}

int64_t DistilledColumns(const DistilledSpec& spec) {
  const auto given = std::find_if(spec.w.rbegin(), spec.w.rend(), [](const WeightRef& w) { return static_cast<bool>(w); });
  return given == spec.w.rend() ? 0 : (*given)->shape[0];
}

// Halves and columns of the schemes that are tables of angles.
struct AngleShape {
  int64_t pairs = 0;
  int64_t columns = 0;
  TableForm form = TableForm::kSinCosConcatenated;
};

std::optional<AngleShape> ShapeOf(const EncodingSpec& spec) {
  if (const auto* s = std::get_if<SinusoidalSpec>(&spec)) {
    const bool endpoint = *s->spacing == SinusoidalSpacing::kEndpointInclusive;
    return AngleShape{
        endpoint ? s->dim / 2 : (s->dim + 1) / 2, s->dim,
        *s->layout == SinusoidalLayout::kConcatenated ? TableForm::kSinCosConcatenated : TableForm::kSinCosInterleaved};
  }
  if (const auto* s = std::get_if<TimestepSpec>(&spec)) {
    return AngleShape{s->dim / 2, s->dim, s->flip_sin_to_cos ? TableForm::kConcatenated : TableForm::kSinCosConcatenated};
  }
  return std::nullopt;
}

int64_t MovedBytes(const EncodingSpec& spec, const AbsolutePositions& positions) {
  return MoveOf(spec).is_nothing() || !IsList(positions.source) ? 0 : AlignUp(8 * positions.rows);
}

// Moved positions: of a range at once, of a list by a first step into `memory`.
PositionSource MovePositions(const Move& move, const AbsolutePositions& positions, std::byte* memory,
                             std::vector<ProgramStep>& steps) {
  const PositionSource& from = positions.source;
  if (move.is_nothing()) return from;
  PositionSource moved;
  if (!IsList(from)) {
    moved.start = move(from.start);
    moved.stride = move.negate ? -from.stride : from.stride;
    return moved;
  }
  const auto count = static_cast<size_t>(positions.rows);
  const auto add = [&]<typename T>(std::span<const T> list) {
    T* const to = reinterpret_cast<T*>(memory);
    const auto run = [move, list, to](RowRange rows, const CancelFlag*) {
      for (int64_t r = rows.begin; r < rows.end; ++r) to[r] = move(list[static_cast<size_t>(r)]);
      return absl::OkStatus();
    };
    steps.push_back(ProgramStep::Of(run, positions.rows, kCheapRows));
    return std::span<const T>(to, count);
  };
  if (from.ids.empty()) {
    moved.fractional_ids = add(from.fractional_ids);
  } else {
    moved.ids = add(from.ids);
  }
  return moved;
}

// Rows of a sinusoidal table that are its padding row are zeros.
void AddPaddingStep(const SinusoidalSpec& spec, const AbsoluteRows& table, std::vector<ProgramStep>& steps) {
  if (!spec.padding_row) return;
  const auto run = [padding = *spec.padding_row - *spec.position_offset, source = table.positions.source,
                    out = static_cast<std::byte*>(table.out),
                    bytes = spec.dim * SizeOf(table.dtype)](RowRange rows, const CancelFlag*) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if (PositionAt(source, r) == static_cast<double>(padding)) std::memset(out + r * bytes, 0, static_cast<size_t>(bytes));
    }
    return absl::OkStatus();
  };
  steps.push_back(ProgramStep::Of(run, table.positions.rows, kCheapRows));
}

std::vector<ProgramStep> SinusoidSteps(const AbsoluteRows& table, const AngleShape& shape) {
  std::vector<ProgramStep> steps;
  AngleRows angles;
  angles.plan = &std::get<AnglePlan>(*table.plan);
  angles.positions.axes[0] = MovePositions(MoveOf(*table.spec), table.positions, table.scratch, steps);
  angles.positions.rows = table.positions.rows;
  angles.form = shape.form;
  angles.columns = shape.columns;
  angles.dtype = table.dtype;
  angles.out = table.out;
  angles.scratch = table.scratch + MovedBytes(*table.spec, table.positions);
  for (ProgramStep& step : AngleSteps(angles)) steps.push_back(std::move(step));
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(table.spec)) AddPaddingStep(*sinusoidal, table, steps);
  return steps;
}

std::vector<ProgramStep> FourierSteps(const GaussianFourierSpec& spec, const AbsoluteRows& table) {
  FourierRowsTask task;
  task.plan = &std::get<FourierPlan>(*table.plan);
  task.positions = table.positions.source;
  task.more_axes = table.positions.more_axes;
  task.dtype = table.dtype;
  auto* const first = static_cast<std::byte*>(table.out);
  std::byte* const second = first + task.plan->pairs() * SizeOf(table.dtype);
  task.cos = spec.flip_sin_to_cos ? first : second;
  task.sin = spec.flip_sin_to_cos ? second : first;
  task.row_stride = 2 * task.plan->pairs();
  return {ProgramStep::Of(task, table.positions.rows)};
}

std::vector<ProgramStep> GatherSteps(const LearnedSpec& spec, const AbsoluteRows& table) {
  GatherRowsTask task;
  task.plan = &std::get<GatherPlan>(*table.plan);
  task.positions = table.positions.source;
  task.offset = *spec.position_offset;
  if (spec.padding_row) {
    task.hidden = table.positions.hidden;
    task.hidden_row = *spec.padding_row;
  }
  task.dtype = table.dtype;
  task.out = table.out;
  task.row_stride = spec.dim;
  return {ProgramStep::Of(task, table.positions.rows)};
}

// ---- Checks.

std::string AxesText(int64_t axes) { return absl::StrCat(axes, axes == 1 ? " axis" : " axes"); }

absl::Status Refuse(const std::string& given, const std::string& allowed) { return MakeSpecError("", given, allowed); }

absl::Status CheckWhole(const AbsolutePositions& positions, std::string_view what) {
  if (positions.source.fractional_ids.empty()) return absl::OkStatus();
  return Refuse("fractional positions", absl::StrCat("whole positions: ", absl::string_view(what.data(), what.size())));
}

// Every row within [0, count), but those that a mask hides where they read another.
absl::Status CheckRows(const AbsolutePositions& positions, int64_t offset, int64_t count, bool hidden_read_another) {
  for (int64_t row = 0; row < positions.rows; ++row) {
    if (hidden_read_another && !positions.hidden.empty() && positions.hidden[static_cast<size_t>(row)] != 0) continue;
    const int64_t position = WholeAt(positions.source, row);
    if (position + offset >= 0 && position + offset < count) continue;
    return Refuse(absl::StrCat("position ", position, offset == 0 ? "" : absl::StrCat(" (row ", position + offset, ")"),
                               " of row ", row),
                  absl::StrCat("positions ", -offset, " … ", count - 1 - offset, ": the table has ", count, " rows"));
  }
  return absl::OkStatus();
}

absl::Status CheckPositive(const AbsolutePositions& positions) {
  for (int64_t row = 0; row < positions.rows; ++row) {
    const double position = PositionAt(positions.source, row);
    if (!(position > 0)) return Refuse(absl::StrCat("position ", position), "greater than 0: its logarithm is taken");
  }
  return absl::OkStatus();
}

absl::Status CheckOffset(const AbsolutePositions& positions, int64_t offset) {
  for (int64_t row = 0; row < (offset == 0 ? 0 : positions.rows); ++row) {
    const double moved = PositionAt(positions.source, row) + static_cast<double>(offset);
    if (std::fabs(moved) <= static_cast<double>(kLastPosition) && (moved == 0 || std::fabs(moved) >= kSmallestFraction)) {
      continue;
    }
    return Refuse(absl::StrCat("position ", PositionAt(positions.source, row), " with position_offset ", offset),
                  absl::StrCat("a sum within ±", kLastPosition));
  }
  return absl::OkStatus();
}

// The middle of the position's cell, which cosines are taken at, is a position too.
absl::Status CheckDistilled(const AbsolutePositions& positions, int64_t first) {
  for (int64_t row = 0; row < positions.rows; ++row) {
    const double distance = PositionAt(positions.source, row) - static_cast<double>(first);
    if (std::fabs(distance) < static_cast<double>(kLastPosition)) continue;
    return Refuse(absl::StrCat("position ", FormatNumber(PositionAt(positions.source, row)), ", first_position ", first),
                  absl::StrCat("positions less than ", kLastPosition, " from it"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsAbsolute(const EncodingSpec& spec) {
  return std::holds_alternative<SinusoidalSpec>(spec) || std::holds_alternative<TimestepSpec>(spec) ||
         std::holds_alternative<GaussianFourierSpec>(spec) || std::holds_alternative<LearnedSpec>(spec) ||
         std::holds_alternative<GridSinusoidalSpec>(spec) || std::holds_alternative<DistilledSpec>(spec);
}

int64_t AbsoluteColumns(const EncodingSpec& canonical) {
  if (const auto shape = ShapeOf(canonical)) return shape->columns;
  if (const auto* s = std::get_if<GaussianFourierSpec>(&canonical)) return 2 * s->weight->shape.back();
  if (const auto* s = std::get_if<LearnedSpec>(&canonical)) return s->dim;
  if (const auto* s = std::get_if<GridSinusoidalSpec>(&canonical)) return s->dim;
  if (const auto* s = std::get_if<DistilledSpec>(&canonical)) return DistilledColumns(*s);
  return 0;
}

int64_t AbsoluteAxes(const EncodingSpec& canonical) {
  if (const auto* s = std::get_if<GaussianFourierSpec>(&canonical)) return FourierAxes(*s);
  const auto* s = std::get_if<GridSinusoidalSpec>(&canonical);
  return s != nullptr && s->grid.empty() ? static_cast<int64_t>(s->columns.size()) : 1;
}

absl::Status CheckAbsolute(const EncodingSpec& canonical, const AbsolutePositions& positions) {
  if (const int64_t axes = AbsoluteAxes(canonical); positions.axis_count != axes) {
    return Refuse(AxesText(positions.axis_count), absl::StrCat(axes, ", as the spec has"));
  }
  if (const auto* s = std::get_if<LearnedSpec>(&canonical)) {
    if (auto status = CheckWhole(positions, "rows of a table"); !status.ok()) return status;
    return CheckRows(positions, *s->position_offset, s->num_positions, s->padding_row.has_value());
  }
  if (const auto* s = std::get_if<GridSinusoidalSpec>(&canonical)) {
    if (s->grid.empty()) return absl::OkStatus();
    if (auto status = CheckWhole(positions, "points of a grid"); !status.ok()) return status;
    int64_t count = 1;
    for (int64_t points : s->grid) count *= points;
    return CheckRows(positions, 0, s->extra_rows + count, false);
  }
  if (const auto* s = std::get_if<GaussianFourierSpec>(&canonical)) {
    return *s->log ? CheckPositive(positions) : absl::OkStatus();
  }
  if (const auto* s = std::get_if<DistilledSpec>(&canonical)) return CheckDistilled(positions, *s->first_position);
  return CheckOffset(positions, MoveOf(canonical).offset);
}

int64_t LearnedRow(const LearnedSpec& canonical, const AbsolutePositions& positions, int64_t row) {
  const bool hidden = !positions.hidden.empty() && positions.hidden[static_cast<size_t>(row)] != 0;
  if (hidden && canonical.padding_row) return *canonical.padding_row;
  return WholeAt(positions.source, row) + *canonical.position_offset;
}

int64_t AbsoluteScratchBytes(const EncodingSpec& canonical, const AbsolutePositions& positions, DType dtype) {
  if (const auto shape = ShapeOf(canonical)) {
    return MovedBytes(canonical, positions) +
           AngleScratchBytes(shape->pairs, shape->form, shape->columns, positions.rows, dtype);
  }
  if (const auto* grid = std::get_if<GridSinusoidalSpec>(&canonical)) {
    return GridScratchBytes(*grid, positions.rows, dtype);
  }
  return 0;
}

absl::StatusOr<std::vector<ProgramStep>> AbsoluteSteps(const AbsoluteRows& table) {
  if (table.positions.rows == 0) return std::vector<ProgramStep>();
  if (const auto shape = ShapeOf(*table.spec)) return SinusoidSteps(table, *shape);
  if (const auto* s = std::get_if<GaussianFourierSpec>(table.spec)) return FourierSteps(*s, table);
  if (const auto* s = std::get_if<LearnedSpec>(table.spec)) {
    if (!s->table) return MakeSpecError("weights", "nothing", "\"table\" [rows, dim]: the rows are asked for");
    return GatherSteps(*s, table);
  }
  if (std::holds_alternative<GridSinusoidalSpec>(*table.spec)) {
    RowPositions at{.axes = {}, .axis_count = table.positions.axis_count, .rows = table.positions.rows};
    at.axes[0] = table.positions.source;
    std::copy(table.positions.more_axes.begin(), table.positions.more_axes.end(), at.axes.begin() + 1);
    return GridSteps(std::get<GridPlan>(*table.plan), at, table.dtype, table.out, table.scratch);
  }
  if (std::holds_alternative<DistilledSpec>(*table.spec)) {
    DistilledRows rows;
    rows.plan = &std::get<DistilledPlan>(*table.plan);
    rows.positions = table.positions.source;
    rows.dtype = table.dtype;
    rows.out = table.out;
    return std::vector<ProgramStep>{DistilledStep(rows, table.positions.rows)};
  }
  return absl::InternalError("a spec without absolute rows");
}

}  // namespace phasor
