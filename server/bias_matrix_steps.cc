// What a bias by distance is made in: values, then a matrix of them. Of the whole, or of some rows.
#include <algorithm>
#include <new>
#include <utility>

#include "server/work_bias.h"

namespace phasor::server {
namespace {

// The rule's place at the start of scratch; what follows keeps its alignment.
constexpr int64_t kRuleBytes = 512;
static_assert(sizeof(MaskRule) <= kRuleBytes && std::is_trivially_destructible_v<MaskRule>);

// The whole makes a vector of so many distances however few of them occur.
constexpr int64_t kShortVector = 4096;

int64_t AlignLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Range {
  int64_t low;
  int64_t high;
};

// Of columns [first, first + count) in batch rows [batch, batch + batch_count).
Range RangeOf(const PositionRows& rows, int64_t start, int64_t batch, int64_t batch_count, int64_t first, int64_t count) {
  if (rows.positions.empty()) return {start + first, start + first + count - 1};
  Range all{rows.positions[static_cast<size_t>(batch * rows.batch_stride + first)], 0};
  all.high = all.low;
  for (int64_t b = batch; b < batch + (rows.batch_stride == 0 ? 1 : batch_count); ++b) {
    const auto begin = rows.positions.begin() + b * rows.batch_stride + first;
    const auto [low, high] = std::minmax_element(begin, begin + count);
    all = {std::min<int64_t>(all.low, *low), std::max<int64_t>(all.high, *high)};
  }
  return all;
}

}  // namespace

void BiasMatrixWork::SetRows(const ContiguousBox& rows, bool piece) {
  const BiasLayout& l = *layout_;
  const BiasRequest& request = l.request;
  rows_ = rows;
  const int64_t first_query = l.full() ? rows.first[2] : 0, query_count = l.full() ? rows.count[2] : request.queries;
  const Range queries = RangeOf(l.query_positions, l.bias_offset, rows.first[0], rows.count[0], first_query, query_count);
  const Range keys = RangeOf(l.key_positions, 0, rows.first[0], rows.count[0], 0, request.keys);
  first_distance_ = keys.low - queries.high;
  distances_ = keys.high - queries.low - first_distance_ + 1;
  if (request.form == BiasForm::kRow) distances_ = request.keys;
  if (l.masked) {
    masked_.emplace(l.masking, request.query_offset, rows, request.queries, request.keys,
                    piece ? MaskPiece::Additive::kGathered : MaskPiece::Additive::kAsItCame);
  }
  scratch_bytes = kRuleBytes;
  if (!l.full()) return;
  const int64_t entries = rows.count[0] * rows.count[2] * request.keys;
  scattered_ = distances_ > std::max(piece ? 0 : kShortVector, entries / value_rows());
  scratch_bytes += scattered_ ? entries * static_cast<int64_t>(sizeof(int64_t))
                              : AlignLine(value_rows() * rows.count[1] * distances_ * SizeOf(l.dtype));
}

WorkPiece BiasMatrixWork::PieceAt(int64_t row, int64_t most, const Bytes&) const {
  const std::shared_ptr<BiasMatrixWork> piece = Blank();
  piece->sources = sources;
  piece->layout_ = layout_;
  if (layout_->additive) most = std::min(most, kMostGatheredRows);
  piece->SetRows(BoxAt(layout_->rows(), row, most), /*piece=*/true);
  const int64_t rows = piece->rows_.size(), columns = outputs[0].shape.back();
  WorkArray array = outputs[0];
  array.shape = {rows, columns};
  array.bytes = rows * columns * SizeOf(layout_->dtype);
  piece->outputs = {std::move(array)};
  if (layout_->additive) {
    piece->additive_ = true;
    piece->inputs = {layout_->additive->Of(piece->rows_, layout_->request.keys, layout_->masking)};
  }
  return {piece, rows};
}

// A piece takes the vector only where that is not longer than its rows.
int64_t BiasMatrixWork::PieceBytes(int64_t bytes) const {
  const int64_t size = SizeOf(layout_->dtype), entries = std::max(bytes / size, outputs[0].shape.back());
  const int64_t additive = layout_->additive ? SizeOf(*layout_->masking.additive) : 0;
  const int64_t scratch = layout_->full() ? std::max<int64_t>(size, sizeof(int64_t)) : 0;
  return kRuleBytes + 64 + entries * (size + scratch + additive);
}

BiasMatrixWork::Values BiasMatrixWork::ValuesOf(int64_t b) const {
  Values values;
  values.row = layout_->value_batch > 0 ? rows_.first[0] + b : 0;
  values.first_head = layout_->request.first_head + rows_.first[1];
  values.heads = rows_.count[1];
  return values;
}

ProgramStep BiasMatrixWork::DistancesStep(int64_t* distances) const {
  const auto write = [this, distances](RowRange rows, const CancelFlag*) {
    const BiasLayout& l = *layout_;
    const int64_t queries = rows_.count[2], keys = l.request.keys;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t b = rows_.first[0] + row / queries, q = rows_.first[2] + row % queries;
      const PositionRows& from = l.query_positions;
      const int64_t query =
          from.positions.empty() ? l.bias_offset + q : from.positions[static_cast<size_t>(b * from.batch_stride + q)];
      const PositionRows& to = l.key_positions;
      for (int64_t k = 0; k < keys; ++k) {
        const int64_t key_position = to.positions.empty() ? k : to.positions[static_cast<size_t>(b * to.batch_stride + k)];
        distances[row * keys + k] = key_position - query;
      }
    }
    return absl::OkStatus();
  };
  return ProgramStep::Of(write, rows_.count[0] * rows_.count[2], std::max<int64_t>(1, 500000 / layout_->request.keys));
}

ProgramStep BiasMatrixWork::LayOutStep(const std::byte* vector, const MaskPiece* mask, const MaskRule* rule,
                                       std::byte* out) const {
  const BiasLayout& l = *layout_;
  const auto row_of = [this](const PositionRows& rows, int64_t column) {
    return rows.positions.empty() ? nullptr : rows.positions.data() + rows_.first[0] * rows.batch_stride + column;
  };
  BiasMatrixTask task;
  task.dtype = l.dtype;
  task.batch = rows_.count[0];
  task.heads = rows_.count[1];
  task.queries = mask != nullptr ? mask->queries() : rows_.count[2];
  task.keys = l.request.keys;
  task.vector = vector;
  task.vector_batch_stride = l.value_batch > 0 ? task.heads * distances_ : 0;
  task.vector_head_stride = distances_;
  task.first_distance = first_distance_;
  task.query_offset = l.bias_offset + rows_.first[2];
  task.query_positions = row_of(l.query_positions, rows_.first[2]);
  task.key_positions = row_of(l.key_positions, 0);
  task.query_batch_stride = l.query_positions.batch_stride;
  task.key_batch_stride = l.key_positions.batch_stride;
  task.mask = rule;
  task.out = out;
  return ProgramStep::Of(task, rows_.size());
}

absl::StatusOr<std::vector<ProgramStep>> BiasMatrixWork::StepsOf(int64_t part, std::span<const Resolved* const> plans,
                                                                 const WorkMemory& memory) const {
  const int64_t size = SizeOf(layout_->dtype), keys = layout_->request.keys, per_row = rows_.count[2] * keys;
  std::byte* const out = memory.outputs[0];
  auto* const distances = reinterpret_cast<int64_t*>(memory.scratch + kRuleBytes);
  std::byte* const vector = layout_->full() ? memory.scratch + kRuleBytes : out;
  std::vector<ProgramStep> steps;
  if (scattered_ && part == 0) steps.push_back(DistancesStep(distances));
  const RowRange batch = RowsOfPart(part, value_parts());
  for (int64_t b = batch.begin; b < batch.end; ++b) {
    Values values = ValuesOf(b);
    values.count = values.head_stride = scattered_ ? per_row : distances_;
    if (scattered_) {
      values.distances = std::span<const int64_t>(distances + b * per_row, static_cast<size_t>(per_row));
    } else {
      values.first = first_distance_;
    }
    values.out = (scattered_ ? out : vector) + b * values.heads * values.count * size;
    auto step = ValueStep(plans, values);
    if (!step.ok()) return step.status();
    steps.push_back(*std::move(step));
  }
  if (part < parts() - 1) return steps;
  const MaskPiece* const mask = masked_ ? &*masked_ : nullptr;
  const MaskRule* rule = nullptr;
  if (mask != nullptr) rule = new (memory.scratch) MaskRule(mask->Rule(additive_ ? memory.inputs[0] : nullptr));
  if (scattered_) {
    if (rule != nullptr) steps.push_back(MaskStep(*mask, *rule, layout_->dtype, rows_, keys, out));
  } else if (layout_->full()) {
    steps.push_back(LayOutStep(vector, mask, rule, out));
  }
  return steps;
}

}  // namespace phasor::server
