#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/cuda/lower.h"
#include "kernels/cuda/lower_parts.h"
#include "kernels/cuda/table_span.h"

namespace phasor::cuda {
namespace {

class LoweredGather final : public Lowered {
 public:
  explicit LoweredGather(const GatherRowsTask& task) : task_(task), plan_(*task.plan) {}

  absl::Status CheckRows(RowRange rows) const override {
    const auto ids = static_cast<int64_t>(task_.positions.ids.size());
    if (ids > 0 && rows.end > ids) {
      return absl::InvalidArgumentError(absl::StrCat("row ", rows.end - 1, " has no position: there are ", ids, " ids"));
    }
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const std::optional<int64_t> from = TableRow(row);
      if (!from || *from < 0 || *from >= plan_.rows) {
        return absl::InvalidArgumentError(
            absl::StrCat("row ", row, " reads a row that the table of ", plan_.rows, " does not have"));
      }
    }
    return absl::OkStatus();
  }
  // Whether any range of rows reads about as much as it moves.
  bool movable() const {
    const int64_t row_bytes = plan_.dim * SizeOf(plan_.table->dtype);
    if (plan_.rows <= kSmallTableBytes / std::max<int64_t>(1, row_bytes)) return true;
    const auto count = static_cast<int64_t>(task_.positions.ids.empty() ? task_.hidden.size() : task_.positions.ids.size());
    if (count == 0) return task_.positions.stride >= -2 && task_.positions.stride <= 2;
    return IsDense(count, row_bytes, [&](int64_t row) { return TableRow(row).value_or(0); });
  }

  std::span<const Constant> constants() const override { return {}; }
  int64_t bytes_per_row() const override {
    return std::max<int64_t>(1, plan_.dim * (SizeOf(task_.dtype) + SizeOf(plan_.table->dtype)));
  }

  Transfers TransfersOf(RowRange rows) const override {
    const TableSpan span = SpanOf(rows);
    const int64_t count = rows.end - rows.begin;
    const int64_t table_row = plan_.dim * SizeOf(plan_.table->dtype), size = SizeOf(task_.dtype);
    Transfers moves;
    moves.inputs.push_back(StripOf(plan_.table->data.get() + span.first * table_row, table_row, span.rows(), table_row));
    if (!task_.positions.ids.empty()) {
      moves.inputs.push_back(StripOf(task_.positions.ids.data() + rows.begin, sizeof(int64_t), count, sizeof(int64_t)));
    }
    if (!task_.hidden.empty()) moves.inputs.push_back(StripOf(task_.hidden.data() + rows.begin, 1, count, 1));
    moves.outputs.push_back(StripOf(static_cast<std::byte*>(task_.out) + rows.begin * task_.row_stride * size,
                                    plan_.dim * size, count, task_.row_stride * size));
    if (plan_.l2_normalize)
      moves.outputs.push_back(ScratchOf(count * (1 + kPartialSums) * static_cast<int64_t>(sizeof(double))));
    return moves;
  }

  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    size_t input = 0;
    GatherSource source;
    source.rows = rows.end - rows.begin;
    source.dim = plan_.dim;
    source.table = at.inputs[input++];
    source.first_table_row = SpanOf(rows).first;
    if (!task_.positions.ids.empty()) source.ids = reinterpret_cast<const int64_t*>(at.inputs[input++]);
    if (!task_.hidden.empty()) source.hidden = reinterpret_cast<const uint8_t*>(at.inputs[input++]);
    source.stride = task_.positions.stride;
    // A row's position may be out of range where it is hidden, and its product with the stride then too.
    source.start = static_cast<int64_t>(static_cast<uint64_t>(task_.positions.start) +
                                        static_cast<uint64_t>(rows.begin) * static_cast<uint64_t>(source.stride));
    source.offset = task_.offset;
    source.hidden_row = task_.hidden_row;
    std::vector<KernelParams> launches;
    GatherParams gather{source, plan_.table->dtype, task_.dtype, plan_.scale, nullptr, at.outputs[0]};
    if (plan_.l2_normalize) {
      auto* const norms = reinterpret_cast<double*>(at.outputs[1]);
      gather.norms = norms;
      launches.emplace_back(SquarePartialsParams{source, plan_.table->dtype, norms + source.rows});
      launches.emplace_back(NormsParams{source.rows, norms + source.rows, norms});
    }
    launches.emplace_back(gather);
    return launches;
  }

 private:
  // The row of the table that a row reads; none where its number is no int64_t.
  std::optional<int64_t> TableRow(int64_t row) const {
    const auto index = static_cast<size_t>(row);
    if (!task_.hidden.empty() && task_.hidden[index] != 0) return task_.hidden_row;
    std::optional<int64_t> position;
    if (!task_.positions.ids.empty()) {
      position = task_.positions.ids[index];
    } else if (const auto distance = CheckedMul(row, task_.positions.stride)) {
      position = CheckedAdd(task_.positions.start, *distance);
    }
    return position ? CheckedAdd(*position, task_.offset) : std::nullopt;
  }
  TableSpan SpanOf(RowRange rows) const {
    TableSpan span;
    const bool any = !task_.positions.ids.empty() || !task_.hidden.empty();
    const int64_t step = any ? 1 : std::max<int64_t>(1, rows.end - 1 - rows.begin);  // the ends of a range will do
    for (int64_t row = rows.begin; row < rows.end; row += step) span.Add(TableRow(row).value_or(0));
    return span;
  }

  const GatherRowsTask& task_;
  const GatherPlan& plan_;
};

}  // namespace

LoweredOr LowerTask(const GatherRowsTask& task) {
  if (!task.plan->table || task.out == nullptr) return absl::InvalidArgumentError("rows of a table that is not there");
  if (!task.positions.fractional_ids.empty()) return absl::InvalidArgumentError("rows of a table at fractional positions");
  auto lowered = std::make_unique<LoweredGather>(task);
  if (!lowered->movable()) return LeftToCpu("positions");
  return lowered;
}

}  // namespace phasor::cuda
