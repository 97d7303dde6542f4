#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/core/math.h"
#include "kernels/core/sum.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

// The whole position of a row.
std::optional<int64_t> WholePosition(const PositionSource& positions, int64_t row) {
  if (!positions.fractional_ids.empty()) return std::nullopt;
  if (!positions.ids.empty()) {
    if (row >= static_cast<int64_t>(positions.ids.size())) return std::nullopt;
    return positions.ids[static_cast<size_t>(row)];
  }
  const auto distance = CheckedMul(row, positions.stride);
  return distance ? CheckedAdd(positions.start, *distance) : std::nullopt;
}

double AnyPosition(const PositionSource& positions, int64_t row) {
  if (!positions.fractional_ids.empty()) return positions.fractional_ids[static_cast<size_t>(row)];
  return static_cast<double>(WholePosition(positions, row).value_or(0));
}

// Entry i of a row of the table, by the rule of GatherPlan.
uint64_t Entry(const GatherPlan& plan, int64_t row, int64_t column, double norm, const BinaryFormat& format, DType dtype) {
  const int64_t index = row * plan.dim + column;
  if (!plan.l2_normalize && plan.scale == 1 && plan.table->dtype == dtype) {
    return LoadBits(plan.table->data.get(), index, SizeOf(dtype));
  }
  const double value = plan.table->at(index);
  const bool exact = !plan.l2_normalize && std::isfinite(value) && value != 0 && plan.scale != 0;
  if (exact) return RoundToBits(Wide(value) * Wide(plan.scale), format);
  const double product = plan.l2_normalize ? plan.scale * (value / norm) : plan.scale * value;
  return VisitFloat(dtype, [&](auto tag) -> uint64_t { return BitsOf(Narrow<typename decltype(tag)::type>(product)); });
}

}  // namespace

absl::Status RunRow(const GatherRowsTask& task, int64_t row) {
  const GatherPlan& plan = *task.plan;
  if (!plan.table) return absl::InvalidArgumentError("a learned table without its numbers");
  std::optional<int64_t> from = WholePosition(task.positions, row);
  if (from) from = CheckedAdd(*from, task.offset);
  if (!task.hidden.empty() && task.hidden[static_cast<size_t>(row)] != 0) from = task.hidden_row;
  if (!from || *from < 0 || *from >= plan.rows) {
    return absl::InvalidArgumentError(absl::StrCat("row ", row, " reads a row that the table does not have"));
  }
  double norm = 1;
  if (plan.l2_normalize) {
    sums::PartialSums<double> squares;
    for (int64_t c = 0; c < plan.dim; ++c) {
      const double value = plan.table->at(*from * plan.dim + c);
      squares.AddProduct(c, value, value);
    }
    norm = math::Sqrt(squares.Total());
    if (norm < 1e-12) norm = 1e-12;
  }
  for (int64_t c = 0; c < plan.dim; ++c) {
    StoreBits(task.out, row * task.row_stride + c, SizeOf(task.dtype),
              Entry(plan, *from, c, norm, FormatOf(task.dtype), task.dtype));
  }
  return absl::OkStatus();
}

namespace {

// Sums over several axes, or radians.
absl::Status RunSumRow(const FourierRowsTask& task, int64_t row) {
  const FourierPlan& plan = *task.plan;
  const BinaryFormat& format = FormatOf(task.dtype);
  for (int64_t i = 0; i < plan.pairs(); ++i) {
    Wide exact = 0.0;
    float narrow = 0;
    for (int64_t a = 0; a < plan.axes; ++a) {
      const double position = AnyPosition(task.axis(a), row);
      const double weight = plan.weights[static_cast<size_t>(a * plan.pairs() + i)];
      exact = exact + Wide(position) * Wide(weight);
      const float product = static_cast<float>(position) * static_cast<float>(weight);
      narrow = a == 0 ? product : narrow + product;
    }
    WideSinCos angle;
    if (plan.precision == Precision::kExact) {
      angle = SinCosOfTurns(plan.radians ? exact / (Wide(2.0) * Pi()) : exact);
    } else {
      const float radians = plan.radians ? narrow : 6.28318548202514648f * narrow;
      const WideSinCos wide = SinCosOfTurns(Wide(radians) / (Wide(2.0) * Pi()));
      angle = {ToFloat(wide.sin), ToFloat(wide.cos)};
    }
    const int64_t index = row * task.row_stride + i;
    StoreBits(task.cos, index, SizeOf(task.dtype), RoundToBits(angle.cos, format));
    StoreBits(task.sin, index, SizeOf(task.dtype), RoundToBits(angle.sin, format));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunRow(const FourierRowsTask& task, int64_t row) {
  const FourierPlan& plan = *task.plan;
  if (!plan.is_plain()) return RunSumRow(task, row);
  const double position = AnyPosition(task.positions, row);
  if (plan.log && position <= 0) return absl::InvalidArgumentError("the logarithm of a position that is not positive");
  const BinaryFormat& format = FormatOf(task.dtype);
  const Wide exact = !plan.log ? Wide(position) : position == 1 ? Wide(0.0) : Log(position);
  const float narrow = plan.log ? ToFloat(static_cast<float>(position) == 1 ? Wide(0.0) : Log(static_cast<float>(position)))
                                : static_cast<float>(position);
  for (int64_t i = 0; i < plan.pairs(); ++i) {
    const double weight = plan.weights[static_cast<size_t>(i)];
    WideSinCos angle;
    if (plan.precision == Precision::kExact) {
      angle = SinCosOfTurns(Wide(weight) * exact);
    } else {
      const float radians = ((narrow * static_cast<float>(weight)) * 2.0f) * 3.14159274101257324f;
      const WideSinCos wide = SinCosOfTurns(Wide(radians) / (Wide(2.0) * Pi()));
      angle = {ToFloat(wide.sin), ToFloat(wide.cos)};
    }
    const int64_t index = row * task.row_stride + i;
    StoreBits(task.cos, index, SizeOf(task.dtype), RoundToBits(angle.cos, format));
    StoreBits(task.sin, index, SizeOf(task.dtype), RoundToBits(angle.sin, format));
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
