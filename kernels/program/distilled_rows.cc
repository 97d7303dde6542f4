#include "kernels/program/distilled_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace phasor {
namespace {

constexpr int64_t kMostRows = 256;                       // of a piece
constexpr int64_t kPieceBytes = int64_t{512} << 10;      // of inputs and outputs, about
constexpr int64_t kProductsPerSlice = int64_t{1} << 20;  // about a millisecond

// Rows whose inputs and outputs fit in a core's cache.
int64_t RowsOfPiece(const DistilledPlan& plan) {
  const int64_t row_bytes = 8 * (plan.perceptron.inputs() + plan.columns());
  return std::clamp<int64_t>(kPieceBytes / row_bytes, 1, kMostRows);
}

double PositionAt(const PositionSource& source, int64_t row) {
  if (!source.fractional_ids.empty()) return source.fractional_ids[static_cast<size_t>(row)];
  return static_cast<double>(source.ids.empty() ? source.start + row * source.stride : source.ids[static_cast<size_t>(row)]);
}

// The perceptron's outputs stand column by column.
struct Piece {
  const DistilledRows& rows;
  const std::byte* outputs;  // [columns, stride]
  int64_t stride, first, count;

  template <typename T>
  void CopyAs() const {
    const int64_t columns = rows.plan->columns();
    const int64_t width = rows.second == nullptr ? columns : columns / 2;
    const T* const from = reinterpret_cast<const T*>(outputs);
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        T* const half = static_cast<T*>(c < width ? rows.out : rows.second);
        std::memcpy(half + (first + r) * width + c % width, from + c * stride + r, sizeof(T));
      }
    }
  }
  void Copy() const {
    switch (SizeOf(rows.dtype)) {
      case 2:
        return CopyAs<uint16_t>();
      case 4:
        return CopyAs<uint32_t>();
      default:
        return CopyAs<uint64_t>();
    }
  }
};

}  // namespace

absl::Status DistilledInputs(const Backend& backend, const DistilledPlan& plan, std::span<const double> positions,
                             double* inputs, const CancelFlag* cancel) {
  const auto first = static_cast<double>(plan.first_position);
  if (plan.angles.pairs() == 0) {
    const auto last = static_cast<double>(plan.num_positions - 1);
    for (size_t r = 0; r < positions.size(); ++r) inputs[r] = 2 * ((positions[r] - first) / last) - 1;
    return absl::OkStatus();
  }
  std::vector<double> centres(positions.size());
  for (size_t r = 0; r < positions.size(); ++r) centres[r] = positions[r] - first + 0.5;
  AngleTask task;
  task.plan = &plan.angles;
  task.positions.fractional_ids = centres;
  task.dtype = DType::kF64;
  task.cos = inputs;
  task.row_stride = plan.angles.pairs();
  task.hint = StoreHint::kReadNext;
  return backend.Run(task, {0, static_cast<int64_t>(positions.size())}, cancel);
}

ProgramStep DistilledStep(const DistilledRows& rows, int64_t count) {
  const auto run = [rows](const Backend& backend, RowRange range, const CancelFlag* cancel) -> absl::Status {
    const DistilledPlan& plan = *rows.plan;
    const int64_t piece = std::min(RowsOfPiece(plan), range.end - range.begin);
    std::vector<double> positions(static_cast<size_t>(piece));
    std::vector<double> inputs(static_cast<size_t>(piece * plan.perceptron.inputs()));
    std::vector<std::byte> outputs(static_cast<size_t>(piece * plan.columns() * SizeOf(rows.dtype)));
    for (int64_t first = range.begin; first < range.end; first += piece) {
      const int64_t now = std::min(piece, range.end - first);
      for (int64_t r = 0; r < now; ++r) positions[static_cast<size_t>(r)] = PositionAt(rows.positions, first + r);
      const std::span<const double> at(positions.data(), static_cast<size_t>(now));
      if (auto status = DistilledInputs(backend, plan, at, inputs.data(), cancel); !status.ok()) return status;
      PerceptronTask task;
      task.perceptron = &plan.perceptron;
      task.dtype = rows.dtype;
      task.features = inputs.data();
      task.heads = plan.columns();
      task.out = outputs.data();
      task.head_stride = piece;
      if (auto status = backend.Run(task, {0, now}, cancel); !status.ok()) return status;
      Piece{rows, outputs.data(), piece, first, now}.Copy();
    }
    return absl::OkStatus();
  };
  const int64_t products = rows.plan->perceptron.products() + rows.plan->perceptron.inputs();
  const int64_t slice = std::max<int64_t>(kProductsPerSlice / std::max<int64_t>(products, 1), 1);
  return ProgramStep::Of(ProgramStep::BackendFunction(run), count, slice);
}

}  // namespace phasor
