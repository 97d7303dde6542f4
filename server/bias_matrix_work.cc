#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/describe.h"
#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/work_bias.h"

namespace phasor::server {
namespace {

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

}  // namespace

absl::Status BiasMatrixWork::Parse(const v1::BiasWindow& window, int64_t num_heads, DType dtype, bool indices,
                                   BiasForm fallback, int64_t value_batch, ParseContext& context) {
  BiasLayout& layout = *layout_;
  layout.dtype = dtype;
  layout.value_batch = value_batch;
  BiasRequest& request = layout.request;
  absl::Status status = ParseQueries(window, context.limits, &request);
  if (status.ok()) status = ParseHeads(window, num_heads, context.limits, &request);
  if (!status.ok()) return status;
  const auto form = ParseBiasForm(window, fallback);
  if (!form.ok()) return form.status();
  request.form = *form;
  layout.bias_offset = request.query_offset;
  if (indices && window.has_masking()) {
    return InvalidField("bias.masking", "masks for indices", "unset: masks are for values");
  }
  BatchAxis batch;
  if (value_batch > 0) status = batch.Join("spec.alibi.batch_slopes", value_batch);
  if (status.ok()) status = JoinBatchOf(window.query_positions(), "bias.query_positions", batch);
  if (status.ok()) status = JoinBatchOf(window.key_positions(), "bias.key_positions", batch);
  if (status.ok() && window.has_masking()) status = JoinBatchOf(window.masking(), "bias.masking", batch);
  if (!status.ok()) return status;
  layout.batch = batch.set() ? batch.extent() : 0;
  // Sizes first: nothing is expanded for an answer that is too large.
  if (status = SetOutputs(indices, context.limits); !status.ok()) return status;
  std::string masking_key;
  if (window.has_masking()) {
    const MaskedShape shape{.dtype = layout.dtype, .heads = request.heads, .queries = request.queries, .keys = request.keys};
    auto masking = ParseMasking(window.masking(), "bias.masking", shape, context);
    if (!masking.ok()) return masking.status();
    masking_key = std::move(masking->key);
    layout.masking = std::move(masking->masking);
    layout.masked = !layout.masking.empty();
    if (masking->additive) {
      layout.additive.emplace(masking->additive->payload);
      additive_ = true;
      inputs = {*std::move(masking->additive)};
    }
    if (!layout.masking.query_cu_seqlens.empty() && window.has_query_offset()) {
      return InvalidField("bias.query_offset", absl::StrCat(window.query_offset()),
                          "unset: masking.query_cu_seqlens aligns every sequence by itself");
    }
  }
  if (status = ParsePositions(window, batch, context); !status.ok()) return status;
  SetLast();
  SetRows({{0, 0, 0}, layout.rows()}, /*piece=*/false);
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
  const BiasRequest& request = layout_->request;
  absl::Status status;
  if (window.has_query_positions()) {
    status = read(window.query_positions(), "bias.query_positions", request.queries, &layout_->query_positions);
  }
  if (status.ok() && window.has_key_positions()) {
    status = read(window.key_positions(), "bias.key_positions", request.keys, &layout_->key_positions);
  }
  if (!status.ok()) return status;
  if (!layout_->masking.query_cu_seqlens.empty()) {
    status = ChargePositions("bias.masking.query_cu_seqlens", request.queries + request.keys, context);
    if (!status.ok()) return status;
    SetPackedPositions();
  }
  // Consecutive positions are the plain window that they spell: the same bits and the same fingerprint.
  if (const auto first = Consecutive(layout_->key_positions); first == 0) layout_->key_positions = {};
  if (const auto first = Consecutive(layout_->query_positions)) {
    layout_->bias_offset = *first;
    layout_->query_positions = {};
  }
  return absl::OkStatus();
}

void BiasMatrixWork::SetLast() {
  const auto use = [this](const PositionRows& rows, int64_t otherwise, int64_t* last) {
    *last = rows.positions.empty() ? otherwise : *std::max_element(rows.positions.begin(), rows.positions.end());
    position_bytes += static_cast<int64_t>(rows.positions.size() * sizeof(rows.positions[0]));
  };
  use(layout_->query_positions, layout_->bias_offset + layout_->request.queries - 1, &layout_->last_query);
  use(layout_->key_positions, layout_->request.keys - 1, &layout_->last_key);
}

void BiasMatrixWork::SetPackedPositions() {
  const std::vector<int64_t>& queries = layout_->masking.query_cu_seqlens;
  const std::vector<int64_t>& keys = layout_->masking.key_cu_seqlens;
  const auto set = [](const std::vector<int64_t>& places, PositionRows* rows) {
    if (rows->positions.empty()) rows->positions.assign(places.begin(), places.end());
  };
  set(PackedPlaces(queries, keys), &layout_->query_positions);
  set(PackedPlaces(keys, keys), &layout_->key_positions);
}

absl::Status BiasMatrixWork::SetOutputs(bool indices, const Limits& limits) {
  const BiasRequest& request = layout_->request;
  WorkArray array;
  array.slot = Slot::kBias;
  array.dtype = layout_->dtype;
  if (layout_->batch > 0) array.shape.push_back(layout_->batch);
  if (!indices) array.shape.push_back(request.heads);
  const int64_t row = request.form == BiasForm::kVector ? request.queries + request.keys - 1 : request.keys;
  if (request.form == BiasForm::kFull) array.shape.push_back(request.queries);
  array.shape.push_back(row);
  const int64_t rows = request.form == BiasForm::kFull ? request.queries : 1;
  const auto elements = CountElements("bias", {layout_->batch_rows(), request.heads, rows, row}, limits);
  if (!elements.ok()) return elements.status();
  array.bytes = *elements * SizeOf(layout_->dtype);
  if (auto status = CheckLimit("bias", array.bytes, "max_item_bytes", limits.max_item_bytes, "bytes of answer");
      !status.ok()) {
    return status;
  }
  outputs.push_back(std::move(array));
  return absl::OkStatus();
}

void BiasMatrixWork::SetKey(bool indices, const std::string& masking_key) {
  const BiasRequest& request = layout_->request;
  KeyBytes bytes;
  bytes.Text(indices ? "index" : "bias");
  for (int64_t value : {static_cast<int64_t>(request.form), request.first_head, request.heads, request.queries, request.keys,
                        layout_->bias_offset, layout_->batch, layout_->value_batch}) {
    bytes.Int(value);
  }
  AppendPositions(layout_->query_positions, bytes);
  AppendPositions(layout_->key_positions, bytes);
  bytes.Byte(layout_->masked ? 1 : 0);
  if (layout_->masked) {
    bytes.Int(request.query_offset);
    bytes.Text(masking_key);
  }
  key = std::move(bytes).Take();
}

}  // namespace phasor::server
