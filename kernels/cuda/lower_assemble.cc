#include <algorithm>

#include "kernels/cuda/lower.h"
#include "kernels/cuda/lower_parts.h"
#include "kernels/cuda/table_span.h"

namespace phasor::cuda {
namespace {

bool HasTwoArrays(TableForm form) {
  return form == TableForm::kHalf || form == TableForm::kDuplicated || form == TableForm::kInterleavedDuplicated;
}
bool NeedsCos(const AssembleTask& task) { return !HasTwoArrays(task.form) || task.out != nullptr; }
bool NeedsSin(const AssembleTask& task) { return !HasTwoArrays(task.form) || task.out_sin != nullptr; }

class LoweredAssemble final : public Lowered {
 public:
  explicit LoweredAssemble(const AssembleTask& task) : task_(task), width_(std::min(task.pairs, task.columns)) {}

  absl::Status CheckRows(RowRange rows) const override {
    if (rows.begin < 0) return absl::InvalidArgumentError("assemble: rows must not be negative");
    if (task_.table_rows.empty() || rows.end <= static_cast<int64_t>(task_.table_rows.size())) return absl::OkStatus();
    return absl::InvalidArgumentError("assemble: rows beyond table_rows");
  }
  std::span<const Constant> constants() const override { return {}; }
  int64_t bytes_per_row() const override {
    const int64_t arrays = HasTwoArrays(task_.form) && task_.out != nullptr && task_.out_sin != nullptr ? 2 : 1;
    return std::max<int64_t>(1, (arrays * task_.columns + 2 * width_) * task_.element_size);
  }

  Transfers TransfersOf(RowRange rows) const override {
    const TableSpan span = SpanOf(rows);
    Transfers moves;
    const auto add_half = [&](const void* half) {
      const int64_t at = span.first * task_.table_stride * task_.element_size;
      moves.inputs.push_back(StripOf(static_cast<const std::byte*>(half) + at, width_ * task_.element_size, span.rows(),
                                     task_.table_stride * task_.element_size));
    };
    if (NeedsCos(task_)) add_half(task_.cos);
    if (NeedsSin(task_)) add_half(task_.sin);
    const int64_t count = rows.end - rows.begin, row_bytes = task_.columns * task_.element_size;
    if (!task_.table_rows.empty()) {
      moves.inputs.push_back(
          StripOf(&task_.table_rows[static_cast<size_t>(rows.begin)], sizeof(int32_t), count, sizeof(int32_t)));
    }
    const auto add_output = [&](void* out) {
      moves.outputs.push_back(StripOf(static_cast<std::byte*>(out) + rows.begin * row_bytes, row_bytes, count, row_bytes));
    };
    if (task_.out != nullptr) add_output(task_.out);
    if (task_.out_sin != nullptr && HasTwoArrays(task_.form)) add_output(task_.out_sin);
    return moves;
  }

  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    size_t input = 0, output = 0;
    const std::byte* const cos = NeedsCos(task_) ? at.inputs[input++] : nullptr;
    const std::byte* const sin = NeedsSin(task_) ? at.inputs[input++] : nullptr;
    AssembleParams p;
    p.element_size = static_cast<int32_t>(task_.element_size);
    p.interleaved = task_.form == TableForm::kInterleavedDuplicated || task_.form == TableForm::kSinCosInterleaved;
    p.rows = rows.end - rows.begin;
    p.columns = task_.columns;
    p.width = width_;
    p.first_columns = width_;
    p.second_columns = task_.form == TableForm::kHalf ? 0 : task_.columns - p.first_columns;
    if (task_.form == TableForm::kSinCosConcatenated) {
      p.first_columns = std::min(task_.pairs, (task_.columns + 1) / 2);
      p.second_columns = task_.columns / 2;
    }
    p.second_columns = std::min(p.second_columns, task_.pairs);
    if (!task_.table_rows.empty()) {
      p.table_rows = reinterpret_cast<const int32_t*>(at.inputs[input]);
      p.first_table_row = SpanOf(rows).first;
    }
    std::vector<KernelParams> launches;
    const auto add = [&](const void* first, const void* second) {
      p.first = first, p.second = second;
      p.out = at.outputs[output++];
      launches.emplace_back(p);
    };
    if (!HasTwoArrays(task_.form)) {
      const bool cos_first = task_.form == TableForm::kConcatenated;
      add(cos_first ? cos : sin, cos_first ? sin : cos);
    } else {
      if (task_.out != nullptr) add(cos, cos);
      if (task_.out_sin != nullptr) add(sin, sin);
    }
    return launches;
  }

 private:
  TableSpan SpanOf(RowRange rows) const {
    if (task_.table_rows.empty()) return {rows.begin, rows.end - 1};
    TableSpan span;
    for (int64_t r = rows.begin; r < rows.end; ++r) span.Add(task_.table_rows[static_cast<size_t>(r)]);
    return span;
  }

  const AssembleTask& task_;
  const int64_t width_;  // columns of a half that are moved
};

}  // namespace

LoweredOr LowerTask(const AssembleTask& task) {
  if (task.element_size != 2 && task.element_size != 4 && task.element_size != 8) {
    return absl::InvalidArgumentError("assemble: the element size must be 2, 4 or 8");
  }
  if (task.pairs < 0 || task.columns < 0) return absl::InvalidArgumentError("assemble: extents must be at least 0");
  if (task.out == nullptr && (task.out_sin == nullptr || !HasTwoArrays(task.form))) {
    return absl::InvalidArgumentError("assemble: out must not be null");
  }
  if ((NeedsCos(task) && task.cos == nullptr) || (NeedsSin(task) && task.sin == nullptr)) {
    return absl::InvalidArgumentError("assemble: cos and sin must not be null");
  }
  if (task.table_stride < task.pairs) return LeftToCpu("layout");
  const auto row = [&](int64_t r) { return task.table_rows[static_cast<size_t>(r)]; };
  const int64_t row_bytes = task.pairs * task.element_size;
  if (!IsDense(static_cast<int64_t>(task.table_rows.size()), row_bytes, row)) return LeftToCpu("layout");
  return std::make_unique<LoweredAssemble>(task);
}

}  // namespace phasor::cuda
