#include "kernels/program/angle_rows.h"

namespace phasor {
namespace {

constexpr int64_t kAlignment = 64;

bool HasTwoArrays(TableForm form) {
  return form == TableForm::kHalf || form == TableForm::kDuplicated || form == TableForm::kInterleavedDuplicated;
}

// Forms whose columns are the halves themselves, where they fill the row exactly.
bool IsInPlace(int64_t pairs, TableForm form, int64_t columns) {
  switch (form) {
    case TableForm::kHalf:
      return columns == pairs;
    case TableForm::kConcatenated:
    case TableForm::kSinCosConcatenated:
      return columns == 2 * pairs;
    default:
      return false;
  }
}

int64_t HalfBytes(int64_t pairs, int64_t rows, DType dtype) {
  return (rows * pairs * SizeOf(dtype) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

bool PositionsFit(const AnglePlan& plan, const RowPositions& positions) {
  return positions.axis_count == 1 || positions.axis_count == plan.axes;
}

AngleTask AnglesAt(const AnglePlan& plan, const RowPositions& positions, DType dtype, void* cos, void* sin,
                   int64_t row_stride) {
  AngleTask task;
  task.plan = &plan;
  task.positions = positions.axes[0];
  for (size_t a = 1; a < static_cast<size_t>(plan.axes); ++a) {
    task.more_axes[a - 1] = positions.axes[positions.axis_count == 1 ? 0 : a];
  }
  task.dtype = dtype;
  task.cos = cos;
  task.sin = sin;
  task.row_stride = row_stride;
  return task;
}

int64_t AngleScratchBytes(int64_t pairs, TableForm form, int64_t columns, int64_t rows, DType dtype) {
  return IsInPlace(pairs, form, columns) ? 0 : 2 * HalfBytes(pairs, rows, dtype);
}

std::vector<ProgramStep> AngleSteps(const AngleRows& table) {
  const int64_t rows = table.positions.rows;
  if (rows == 0 || table.columns == 0) return {};
  const AnglePlan& plan = *table.plan;
  auto* out = static_cast<std::byte*>(table.out);
  const int64_t half_row = plan.pairs() * SizeOf(table.dtype);
  std::byte* cos = out;
  std::byte* sin = static_cast<std::byte*>(table.out_sin);
  const bool in_place = IsInPlace(plan.pairs(), table.form, table.columns);
  int64_t row_stride = table.columns;
  if (!in_place) {
    cos = table.scratch;
    sin = table.scratch + HalfBytes(plan.pairs(), rows, table.dtype);
    row_stride = plan.pairs();
  } else if (table.form == TableForm::kConcatenated) {
    sin = out + half_row;
  } else if (table.form == TableForm::kSinCosConcatenated) {
    sin = out;
    cos = out + half_row;
  }
  AngleTask angles = AnglesAt(plan, table.positions, table.dtype, cos, sin, row_stride);
  angles.inverse = table.inverse;
  angles.hint = StoreHint::kReadNext;
  std::vector<ProgramStep> steps = {ProgramStep::Of(angles, rows)};
  if (in_place) return steps;
  AssembleTask assemble;
  assemble.form = table.form;
  assemble.element_size = SizeOf(table.dtype);
  assemble.pairs = plan.pairs();
  assemble.columns = table.columns;
  assemble.cos = cos;
  assemble.sin = sin;
  assemble.table_stride = plan.pairs();
  assemble.out = table.out;
  assemble.out_sin = HasTwoArrays(table.form) ? table.out_sin : nullptr;
  assemble.hint = StoreHint::kReadNext;
  steps.push_back(ProgramStep::Of(assemble, rows));
  return steps;
}

}  // namespace phasor
