#include <algorithm>
#include <optional>

#include "kernels/cuda/lower.h"
#include "kernels/cuda/lower_mask.h"
#include "kernels/cuda/lower_parts.h"

namespace phasor::cuda {
namespace {

// The least and the greatest of some numbers.
struct Bounds {
  int64_t least = INT64_MAX;
  int64_t greatest = INT64_MIN;
  void Add(int64_t value) { least = std::min(least, value), greatest = std::max(greatest, value); }
};
Bounds BoundsOf(const int32_t* positions, int64_t count, int64_t first) {
  Bounds bounds;
  if (positions == nullptr) {
    bounds.Add(first);
    bounds.Add(first + count - 1);
  } else {
    for (int64_t i = 0; i < count; ++i) bounds.Add(positions[i]);
  }
  return bounds;
}

// The entries of the vectors that the task reads: from the first to the last.
Bounds EntriesOf(const BiasMatrixTask& task) {
  Bounds entries, queries, keys;
  const int64_t last_head = std::max<int64_t>(task.heads - 1, 0) * task.vector_head_stride;
  for (int64_t b = 0; b < task.batch; ++b) {
    if (b == 0 || (task.query_positions != nullptr && task.query_batch_stride != 0)) {
      const int32_t* const at =
          task.query_positions == nullptr ? nullptr : task.query_positions + b * task.query_batch_stride;
      queries = BoundsOf(at, task.queries, task.query_offset);
    }
    if (b == 0 || (task.key_positions != nullptr && task.key_batch_stride != 0)) {
      keys =
          BoundsOf(task.key_positions == nullptr ? nullptr : task.key_positions + b * task.key_batch_stride, task.keys, 0);
    }
    const int64_t vector = b * task.vector_batch_stride - task.first_distance;
    for (const int64_t head : {int64_t{0}, last_head}) {
      entries.Add(vector + head + keys.least - queries.greatest);
      entries.Add(vector + head + keys.greatest - queries.least);
    }
  }
  return entries;
}

class LoweredBiasMatrix final : public Lowered {
 public:
  explicit LoweredBiasMatrix(const BiasMatrixTask& task) : task_(task) {
    if (rows() > 0 && task.keys > 0) {
      const Bounds entries = EntriesOf(task);
      first_entry_ = entries.least;
      vector_ = constants_.Add(static_cast<const std::byte*>(task.vector) + first_entry_ * size(),
                               (entries.greatest - entries.least + 1) * size());
    }
    const auto positions = [&](const int32_t* from, int64_t count, int64_t batch_stride) {
      const int64_t all = rows() == 0 ? 0 : batch_stride == 0 ? count : (task.batch - 1) * batch_stride + count;
      return constants_.Add(from, all * static_cast<int64_t>(sizeof(int32_t)));
    };
    query_positions_ = positions(task.query_positions, task.queries, task.query_batch_stride);
    key_positions_ = positions(task.key_positions, task.keys, task.key_batch_stride);
    if (task.mask != nullptr) {
      mask_.emplace(*task.mask, task.dtype, task.batch, task.heads, task.queries, task.keys, constants_);
    }
  }

  bool movable() const { return !mask_ || mask_->movable(); }
  absl::Status CheckRows(RowRange range) const override {
    return RowsWithin(range, rows(), "bias matrix: rows outside [0, batch·heads·queries)");
  }
  std::span<const Constant> constants() const override { return constants_.all(); }
  int64_t bytes_per_row() const override { return std::max<int64_t>(1, row_bytes()) + (mask_ ? mask_->bytes_per_row() : 0); }
  Transfers TransfersOf(RowRange range) const override {
    Transfers moves;
    moves.outputs.push_back(
        {static_cast<std::byte*>(task_.out) + range.begin * row_bytes(), (range.end - range.begin) * row_bytes(), 1, 0});
    if (mask_) {
      mask_->AddInputs(range, moves.inputs);
      moves.outputs.push_back(mask_->Scratch(range));
    }
    return moves;
  }
  std::vector<KernelParams> Launches(RowRange range, const Addresses& at) const override {
    BiasMatrixParams p;
    p.element_size = static_cast<int32_t>(size());
    p.first_row = range.begin;
    p.rows = range.end - range.begin;
    p.heads = task_.heads;
    p.queries = task_.queries;
    p.keys = task_.keys;
    p.vector = ConstantList::At<std::byte>(at, vector_);
    p.vector_batch_stride = task_.vector_batch_stride;
    p.vector_head_stride = task_.vector_head_stride;
    p.first_distance = task_.first_distance + first_entry_;
    p.query_offset = task_.query_offset;
    p.query_positions = ConstantList::At<int32_t>(at, query_positions_);
    p.key_positions = ConstantList::At<int32_t>(at, key_positions_);
    p.query_batch_stride = task_.query_batch_stride;
    p.key_batch_stride = task_.key_batch_stride;
    p.out = at.outputs[0];
    std::vector<KernelParams> launches = {p};
    if (mask_) mask_->AddLaunches(range, at, 0, at.outputs[1], at.outputs[0], launches);
    return launches;
  }

 private:
  int64_t size() const { return SizeOf(task_.dtype); }
  int64_t rows() const { return task_.batch * task_.heads * task_.queries; }
  int64_t row_bytes() const { return task_.keys * size(); }

  const BiasMatrixTask& task_;
  ConstantList constants_;
  int64_t first_entry_ = 0;
  int vector_ = -1, query_positions_ = -1, key_positions_ = -1;
  std::optional<LoweredMask> mask_;
};

}  // namespace

LoweredOr LowerTask(const BiasMatrixTask& task) {
  const bool integers = task.dtype == DType::kI32 || task.dtype == DType::kI64;
  if (!IsFloat(task.dtype) && !(integers && task.mask == nullptr)) {
    return absl::InvalidArgumentError("bias matrix: the element type must be a float, or an integer without masks");
  }
  if (task.batch < 0 || task.heads < 0 || task.queries < 0 || task.keys < 0) {
    return absl::InvalidArgumentError("bias matrix: extents must be at least 0");
  }
  if (task.vector == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("bias matrix: vector and out must not be null");
  }
  if (task.mask != nullptr) {
    absl::Status status = CheckRule(*task.mask, task.dtype, task.batch, task.queries, task.keys);
    if (!status.ok()) return status;
    if (task.keys > kMaxMaskedKeys) return LeftToCpu("layout");
  }
  auto lowered = std::make_unique<LoweredBiasMatrix>(task);
  if (!lowered->movable()) return LeftToCpu("layout");
  return lowered;
}

}  // namespace phasor::cuda
