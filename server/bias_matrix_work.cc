#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/work_bias.h"

namespace phasor::server {
namespace {

// The rule's place at the start of scratch; what follows keeps its alignment.
constexpr int64_t kRuleBytes = 512;
static_assert(sizeof(MaskRule) <= kRuleBytes && std::is_trivially_destructible_v<MaskRule>);

// A vector of so many distances is always made, however few of them occur.
constexpr int64_t kShortVector = 4096;

int64_t AlignLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }

void AppendPositions(const PositionRows& rows, KeyBytes& bytes) {
  bytes.Int(rows.batch_stride);
  bytes.Text(Sha256(std::string_view(reinterpret_cast<const char*>(rows.positions.data()),
                                     rows.positions.size() * sizeof(rows.positions[0]))));
}

// One row that goes up by 1 from its first entry on: the first entry.
std::optional<int64_t> Consecutive(const PositionRows& rows) {
  if (rows.positions.empty() || rows.batch_stride != 0) return std::nullopt;
  for (size_t i = 1; i < rows.positions.size(); ++i) {
    if (int64_t{rows.positions[i]} - rows.positions[i - 1] != 1) return std::nullopt;
  }
  return rows.positions.front();
}

struct Range {
  int64_t low;
  int64_t high;
};
Range RangeOf(const PositionRows& rows, int64_t first, int64_t count) {
  if (rows.positions.empty()) return {first, first + count - 1};
  const auto [low, high] = std::minmax_element(rows.positions.begin(), rows.positions.end());
  return {*low, *high};
}

}  // namespace

absl::Status BiasMatrixWork::Parse(const v1::BiasWindow& window, int64_t num_heads, DType dtype, bool indices,
                                   BiasForm fallback, int64_t value_batch, ParseContext& context) {
  layout_.dtype = dtype;
  layout_.value_batch = value_batch;
  BiasRequest& request = layout_.request;
  absl::Status status = ParseQueries(window, context.limits, &request);
  if (status.ok()) status = ParseHeads(window, num_heads, context.limits, &request);
  if (!status.ok()) return status;
  const auto form = ParseBiasForm(window, fallback);
  if (!form.ok()) return form.status();
  request.form = *form;
  layout_.bias_offset = request.query_offset;
  if (indices && window.has_masking()) {
    return InvalidField("bias.masking", "masks for indices", "unset: masks are for values");
  }
  BatchAxis batch;
  if (value_batch > 0) status = batch.Join("spec.alibi.batch_slopes", value_batch);
  if (status.ok()) status = JoinBatchOf(window.query_positions(), "bias.query_positions", batch);
  if (status.ok()) status = JoinBatchOf(window.key_positions(), "bias.key_positions", batch);
  if (status.ok() && window.has_masking()) status = JoinBatchOf(window.masking(), "bias.masking", batch);
  if (!status.ok()) return status;
  layout_.batch = batch.set() ? batch.extent() : 0;
  // Sizes first: nothing is expanded for an answer that is too large.
  if (status = SetOutputs(indices, context.limits); !status.ok()) return status;
  std::string masking_key;
  if (window.has_masking()) {
    const MaskedShape shape{
        .dtype = layout_.dtype, .heads = request.heads, .queries = request.queries, .keys = request.keys};
    auto masking = ParseMasking(window.masking(), "bias.masking", shape, context);
    if (!masking.ok()) return masking.status();
    masking_key = std::move(masking->key);
    layout_.masking = std::move(masking->masking);
    layout_.masked = !layout_.masking.empty();
    if (masking->additive) {
      additive_ = static_cast<int>(inputs.size());
      inputs.push_back(*std::move(masking->additive));
    }
    if (!layout_.masking.query_cu_seqlens.empty() && window.has_query_offset()) {
      return InvalidField("bias.query_offset", absl::StrCat(window.query_offset()),
                          "unset: masking.query_cu_seqlens aligns every sequence by itself");
    }
  }
  if (status = ParsePositions(window, batch, context); !status.ok()) return status;
  SetDistances();
  SetKey(indices, masking_key);
  return absl::OkStatus();
}

absl::Status BiasMatrixWork::ParsePositions(const v1::BiasWindow& window, BatchAxis& batch, ParseContext& context) {
  const auto read = [&](const v1::Positions& message, std::string_view path, int64_t count, PositionRows* out) {
    auto rows = ParsePositionRows(message, path, count, batch, context);
    if (!rows.ok()) return rows.status();
    *out = *std::move(rows);
    return absl::OkStatus();
  };
  const BiasRequest& request = layout_.request;
  absl::Status status;
  if (window.has_query_positions()) {
    status = read(window.query_positions(), "bias.query_positions", request.queries, &layout_.query_positions);
  }
  if (status.ok() && window.has_key_positions()) {
    status = read(window.key_positions(), "bias.key_positions", request.keys, &layout_.key_positions);
  }
  if (!status.ok()) return status;
  if (!layout_.masking.query_cu_seqlens.empty()) {
    status = ChargePositions("bias.masking.query_cu_seqlens", request.queries + request.keys, context);
    if (!status.ok()) return status;
    SetPackedPositions();
  }
  // Consecutive positions are the plain window that they spell: the same bits and the same fingerprint.
  if (const auto first = Consecutive(layout_.key_positions); first == 0) layout_.key_positions = {};
  if (const auto first = Consecutive(layout_.query_positions)) {
    layout_.bias_offset = *first;
    layout_.query_positions = {};
  }
  return absl::OkStatus();
}

void BiasMatrixWork::SetPackedPositions() {
  const std::vector<int64_t>& queries = layout_.masking.query_cu_seqlens;
  const std::vector<int64_t>& keys = layout_.masking.key_cu_seqlens;
  const auto set = [](const std::vector<int64_t>& places, PositionRows* rows) {
    if (rows->positions.empty()) rows->positions.assign(places.begin(), places.end());
  };
  set(PackedPlaces(queries, keys), &layout_.query_positions);
  set(PackedPlaces(keys, keys), &layout_.key_positions);
}

void BiasMatrixWork::SetDistances() {
  const BiasRequest& request = layout_.request;
  const Range queries = RangeOf(layout_.query_positions, layout_.bias_offset, request.queries);
  const Range keys = RangeOf(layout_.key_positions, 0, request.keys);
  layout_.last_query = queries.high;
  layout_.last_key = keys.high;
  layout_.first_distance = keys.low - queries.high;
  layout_.distances = keys.high - queries.low - layout_.first_distance + 1;
  if (request.form == BiasForm::kRow) layout_.distances = request.keys;
  scratch_bytes = kRuleBytes;
  if (request.form != BiasForm::kFull) return;
  const int64_t entries = layout_.batch_rows() * request.queries * request.keys;
  scattered_ = layout_.distances > std::max(kShortVector, entries / layout_.value_rows());
  if (scattered_) {
    scratch_bytes += entries * static_cast<int64_t>(sizeof(int64_t));
  } else {
    vector_bytes_ = layout_.value_rows() * request.heads * layout_.distances * SizeOf(layout_.dtype);
    scratch_bytes += AlignLine(vector_bytes_);
  }
}

absl::Status BiasMatrixWork::SetOutputs(bool indices, const Limits& limits) {
  const BiasRequest& request = layout_.request;
  WorkArray array;
  array.slot = Slot::kBias;
  array.dtype = layout_.dtype;
  if (layout_.batch > 0) array.shape.push_back(layout_.batch);
  if (!indices) array.shape.push_back(request.heads);
  const int64_t row = request.form == BiasForm::kVector ? request.queries + request.keys - 1 : request.keys;
  if (request.form == BiasForm::kFull) array.shape.push_back(request.queries);
  array.shape.push_back(row);
  const int64_t rows = request.form == BiasForm::kFull ? request.queries : 1;
  const auto elements = CountElements("bias", {layout_.batch_rows(), request.heads, rows, row}, limits);
  if (!elements.ok()) return elements.status();
  array.bytes = *elements * SizeOf(layout_.dtype);
  if (auto status = CheckLimit("bias", array.bytes, "max_item_bytes", limits.max_item_bytes, "bytes of answer");
      !status.ok()) {
    return status;
  }
  outputs.push_back(std::move(array));
  return absl::OkStatus();
}

void BiasMatrixWork::SetKey(bool indices, const std::string& masking_key) {
  const BiasRequest& request = layout_.request;
  KeyBytes bytes;
  bytes.Text(indices ? "index" : "bias");
  for (int64_t value : {static_cast<int64_t>(request.form), request.first_head, request.heads, request.queries, request.keys,
                        layout_.bias_offset, layout_.batch, layout_.value_batch}) {
    bytes.Int(value);
  }
  AppendPositions(layout_.query_positions, bytes);
  AppendPositions(layout_.key_positions, bytes);
  bytes.Byte(layout_.masked ? 1 : 0);
  if (layout_.masked) {
    bytes.Int(request.query_offset);
    bytes.Text(masking_key);
  }
  key = std::move(bytes).Take();
}

ProgramStep BiasMatrixWork::DistancesStep(int64_t* distances) const {
  const BiasRequest& request = layout_.request;
  const auto write = [this, distances](RowRange rows, const CancelFlag*) {
    const int64_t queries = layout_.request.queries, keys = layout_.request.keys;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t b = row / queries, q = row % queries;
      const PositionRows& from = layout_.query_positions;
      const int64_t query =
          from.positions.empty() ? layout_.bias_offset + q : from.positions[static_cast<size_t>(b * from.batch_stride + q)];
      const PositionRows& to = layout_.key_positions;
      for (int64_t k = 0; k < keys; ++k) {
        const int64_t key_position = to.positions.empty() ? k : to.positions[static_cast<size_t>(b * to.batch_stride + k)];
        distances[row * keys + k] = key_position - query;
      }
    }
    return absl::OkStatus();
  };
  return ProgramStep::Of(write, layout_.batch_rows() * request.queries, std::max<int64_t>(1, 500000 / request.keys));
}

absl::StatusOr<std::vector<ProgramStep>> BiasMatrixWork::Steps(std::span<const Resolved* const> plans,
                                                               const WorkMemory& memory) const {
  const BiasRequest& request = layout_.request;
  const int64_t size = SizeOf(layout_.dtype), per_row = request.queries * request.keys;
  std::byte* const out = memory.outputs[0];
  std::vector<ProgramStep> steps;
  absl::Status status;
  const auto add_values = [&](const Values& values) {
    if (!status.ok()) return;
    auto step = ValueStep(plans, values);
    if (step.ok()) steps.push_back(*std::move(step));
    status = step.status();
  };
  const MaskRule* rule = nullptr;
  if (layout_.masked) {
    const void* additive = additive_ >= 0 ? memory.inputs[static_cast<size_t>(additive_)] : nullptr;
    rule = new (memory.scratch) MaskRule(RuleOf(layout_.masking, request.query_offset, additive));
  }
  if (scattered_) {
    auto* distances = reinterpret_cast<int64_t*>(memory.scratch + kRuleBytes);
    steps.push_back(DistancesStep(distances));
    for (int64_t b = 0; b < layout_.batch_rows(); ++b) {
      const std::span<const int64_t> those(distances + b * per_row, static_cast<size_t>(per_row));
      add_values({.row = layout_.value_batch > 0 ? b : 0,
                  .first = 0,
                  .count = per_row,
                  .distances = those,
                  .out = out + b * request.heads * per_row * size,
                  .head_stride = per_row});
    }
    if (rule != nullptr) {
      steps.push_back(
          MaskStep(*rule, layout_.dtype, layout_.batch_rows(), request.heads, request.queries, request.keys, out));
    }
    if (!status.ok()) return status;
    return steps;
  }
  const bool full = request.form == BiasForm::kFull;
  std::byte* const vector = full ? memory.scratch + kRuleBytes : out;
  const int64_t row_bytes = request.heads * layout_.distances * size;
  for (int64_t b = 0; b < layout_.value_rows(); ++b) {
    add_values({.row = b,
                .first = layout_.first_distance,
                .count = layout_.distances,
                .distances = {},
                .out = vector + b * row_bytes,
                .head_stride = layout_.distances});
  }
  if (!status.ok()) return status;
  if (!full) return steps;
  BiasMatrixTask task;
  task.dtype = layout_.dtype;
  task.batch = layout_.batch_rows();
  task.heads = request.heads;
  task.queries = request.queries;
  task.keys = request.keys;
  task.vector = vector;
  task.vector_batch_stride = layout_.value_batch > 0 ? request.heads * layout_.distances : 0;
  task.vector_head_stride = layout_.distances;
  task.first_distance = layout_.first_distance;
  task.query_offset = layout_.bias_offset;
  if (!layout_.query_positions.positions.empty()) task.query_positions = layout_.query_positions.positions.data();
  if (!layout_.key_positions.positions.empty()) task.key_positions = layout_.key_positions.positions.data();
  task.query_batch_stride = layout_.query_positions.batch_stride;
  task.key_batch_stride = layout_.key_positions.batch_stride;
  task.mask = rule;
  task.out = out;
  steps.push_back(ProgramStep::Of(task, task.batch * task.heads * task.queries));
  return steps;
}

}  // namespace phasor::server
