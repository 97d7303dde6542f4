#include "kernels/cpu/angle_axes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/cpu/angle_table.h"

namespace phasor {
namespace {

// Rows that are computed apart at a time.
constexpr int64_t kBlock = 64;

// The pairs of one axis as a plan of their own.
struct AxisPlan {
  AnglePlan plan;
  std::vector<int64_t> columns;  // ascending

  bool contiguous() const { return columns.back() - columns.front() + 1 == static_cast<int64_t>(columns.size()); }
};

AxisPlan PlanOfAxis(const AnglePlan& whole, int64_t axis) {
  AxisPlan part;
  part.plan.precision = whole.precision;
  part.plan.attention_factor = whole.attention_factor;
  part.plan.attention_factor_f32 = whole.attention_factor_f32;
  for (size_t i = 0; i < whole.axis_of_pair.size(); ++i) {
    if (whole.axis_of_pair[i] != axis) continue;
    part.columns.push_back(static_cast<int64_t>(i));
    part.plan.frequencies.push_back(whole.frequencies[i]);
    part.plan.inv_freq.push_back(whole.inv_freq[i]);
    part.plan.inv_freq_f32.push_back(whole.inv_freq_f32[i]);
  }
  return part;
}

// Positions of rows [begin, begin + count).
PositionSource Part(const PositionSource& source, int64_t begin, int64_t count) {
  PositionSource part = source;
  const auto first = static_cast<size_t>(begin), size = static_cast<size_t>(count);
  if (!source.fractional_ids.empty()) {
    part.fractional_ids = source.fractional_ids.subspan(first, size);
  } else if (!source.ids.empty()) {
    part.ids = source.ids.subspan(first, size);
  } else {
    part.start += begin * source.stride;
  }
  return part;
}

std::byte* At(void* base, int64_t element, int64_t size) {
  return base == nullptr ? nullptr : static_cast<std::byte*>(base) + element * size;
}

// Element c of every row of `from` ([rows, columns]) to column columns[c] of `to`.
void Scatter(const std::vector<std::byte>& from, const std::vector<int64_t>& columns, int64_t rows, int64_t row_stride,
             int64_t size, std::byte* to) {
  const std::byte* next = from.data();
  for (int64_t row = 0; row < rows; ++row, to += row_stride * size) {
    for (int64_t column : columns) {
      std::memcpy(to + column * size, next, static_cast<size_t>(size));
      next += size;
    }
  }
}

absl::Status RunScattered(const AngleTask& task, const AxisPlan& part, const PositionSource& positions, RowRange rows,
                          const CancelFlag* cancel, AngleSetupCache& setups) {
  const int64_t size = SizeOf(task.dtype);
  const auto width = static_cast<int64_t>(part.columns.size());
  const auto bytes = static_cast<size_t>(std::min(kBlock, rows.end - rows.begin) * width * size);
  std::vector<std::byte> cos(task.cos == nullptr ? 0 : bytes), sin(task.sin == nullptr ? 0 : bytes);
  AngleTask block;
  block.plan = &part.plan;
  block.dtype = task.dtype;
  block.inverse = task.inverse;
  block.cos = task.cos == nullptr ? nullptr : cos.data();
  block.sin = task.sin == nullptr ? nullptr : sin.data();
  block.row_stride = width;
  block.hint = StoreHint::kReadNext;
  for (int64_t row = rows.begin; row < rows.end; row += kBlock) {
    const int64_t count = std::min(kBlock, rows.end - row);
    block.positions = Part(positions, row, count);
    if (auto status = RunAngleTask(block, {0, count}, cancel, setups); !status.ok()) return status;
    if (task.cos != nullptr) {
      Scatter(cos, part.columns, count, task.row_stride, size, At(task.cos, row * task.row_stride, size));
    }
    if (task.sin != nullptr) {
      Scatter(sin, part.columns, count, task.row_stride, size, At(task.sin, row * task.row_stride, size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunAngleAxes(const AngleTask& task, RowRange rows, const CancelFlag* cancel, AngleSetupCache& setups) {
  for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
    const AxisPlan part = PlanOfAxis(*task.plan, axis);
    if (part.columns.empty()) continue;
    absl::Status status;
    if (part.contiguous()) {
      AngleTask direct = task;
      direct.plan = &part.plan;
      direct.positions = task.axis(axis);
      direct.cos = At(task.cos, part.columns.front(), SizeOf(task.dtype));
      direct.sin = At(task.sin, part.columns.front(), SizeOf(task.dtype));
      status = RunAngleTask(direct, rows, cancel, setups);
    } else {
      status = RunScattered(task, part, task.axis(axis), rows, cancel, setups);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace phasor
