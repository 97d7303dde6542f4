#include "server/window_layout.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"

namespace phasor::server {
namespace {

PlaceRows Range(int64_t first, int64_t count) {
  PlaceRows rows;
  rows.places.resize(static_cast<size_t>(count));
  std::iota(rows.places.begin(), rows.places.end(), first);
  return rows;
}

class Parser {
 public:
  Parser(const v1::PrecomputeItem& item, const std::string& scheme, const BiasTraits& traits, ParseContext& context)
      : item_(item), message_(item.bias()), scheme_(scheme), traits_(traits), context_(context) {}

  absl::StatusOr<WindowLayout> Parse() {
    absl::Status status = ParseForm();
    if (status.ok()) status = ParseType();
    if (status.ok()) status = ParseHeads(message_, traits_.heads, context_.limits, &layout_.request);
    if (status.ok()) status = traits_.tokens > 0 ? ParseTokens() : ParseQueries(message_, context_.limits, &layout_.request);
    if (status.ok()) status = ParseBatch();
    if (layout_.indices) layout_.request.heads = 1;
    if (status.ok()) status = ArrayOf(layout_, context_.limits).status();
    if (status.ok() && message_.has_masking()) status = ParseMasks();
    if (status.ok() && traits_.tokens == 0) status = SetPlaces();
    if (status.ok()) status = CheckPlaces("bias.query_positions", "query", layout_.queries, traits_.query_rows);
    if (status.ok()) status = CheckPlaces("bias.key_positions", "key", layout_.keys, traits_.key_rows);
    if (!status.ok()) return status;
    return std::move(layout_);
  }

 private:
  absl::Status ParseForm() {
    layout_.indices = message_.indices();
    if (layout_.indices && traits_.tokens == 0) {
      return InvalidField("bias.indices", absl::StrCat("indices of ", scheme_), "unset: the scheme reads no table by rows");
    }
    if (!layout_.indices && traits_.indices_only) {
      return InvalidField("spec.weights", "no table", "table, or bias.indices: without it there are only indices");
    }
    if (layout_.indices && message_.has_masking()) {
      return InvalidField("bias.masking", "masks for indices", "unset: masks are for values");
    }
    const auto form = ParseBiasForm(message_, traits_.by_distance ? BiasForm::kVector : BiasForm::kFull);
    if (!form.ok()) return form.status();
    layout_.request.form = *form;
    if (*form == BiasForm::kVector && !traits_.by_distance) {
      return InvalidField("bias.form", "BIAS_FORM_VECTOR",
                          absl::StrCat("BIAS_FORM_FULL", traits_.tokens > 0 ? "" : ", BIAS_FORM_ROW",
                                       ": the bias is no function of the distance"));
    }
    if (*form == BiasForm::kRow && traits_.tokens > 0) {
      return InvalidField("bias.form", "BIAS_FORM_ROW", "BIAS_FORM_FULL: every token of a window has its own row");
    }
    return absl::OkStatus();
  }

  absl::Status ParseType() {
    const auto dtype = layout_.indices ? ParseIndexType(item_.dtype()) : ParseValueType(item_.dtype());
    if (!dtype.ok()) return dtype.status();
    layout_.dtype = *dtype;
    return absl::OkStatus();
  }

  // Queries and keys are the tokens of the window.
  absl::Status ParseTokens() {
    BiasRequest& request = layout_.request;
    request.queries = request.keys = traits_.tokens;
    for (const auto& [field, given] :
         {std::pair("bias.queries", message_.queries()), std::pair("bias.keys", message_.keys())}) {
      if (given != traits_.tokens) {
        return InvalidField(field, given == 0 ? "nothing" : absl::StrCat(given),
                            absl::StrCat(traits_.tokens, ", the tokens of the window"));
      }
    }
    if (message_.query_offset() != 0) {
      return InvalidField("bias.query_offset", absl::StrCat(message_.query_offset()), "0: queries and keys are one window");
    }
    if (message_.has_query_positions() || message_.has_key_positions()) {
      return InvalidField(message_.has_query_positions() ? "bias.query_positions" : "bias.key_positions", "positions",
                          "unset: tokens of a window have their places");
    }
    return CheckLimit("bias.queries", request.queries, "max_positions", context_.limits.max_positions, "positions");
  }

  absl::Status ParseBatch() {
    absl::Status status;
    if (traits_.batch > 0) status = batch_.Join("spec.weights", traits_.batch);
    if (status.ok()) status = JoinBatchOf(message_.query_positions(), "bias.query_positions", batch_);
    if (status.ok()) status = JoinBatchOf(message_.key_positions(), "bias.key_positions", batch_);
    if (status.ok() && message_.has_masking()) status = JoinBatchOf(message_.masking(), "bias.masking", batch_);
    layout_.batch = batch_.set() ? batch_.extent() : 0;
    return status;
  }

  absl::Status ParseMasks() {
    const BiasRequest& request = layout_.request;
    const MaskedShape shape{
        .dtype = layout_.dtype, .heads = request.heads, .queries = request.queries, .keys = request.keys};
    auto masking = ParseMasking(message_.masking(), "bias.masking", shape, context_);
    if (!masking.ok()) return masking.status();
    layout_.masking = std::move(masking->masking);
    layout_.masked = !layout_.masking.empty();
    layout_.additive = std::move(masking->additive);
    layout_.masking_key = std::move(masking->key);
    if (!layout_.masking.query_cu_seqlens.empty() && message_.has_query_offset() && traits_.tokens == 0) {
      return InvalidField("bias.query_offset", absl::StrCat(message_.query_offset()),
                          "unset: masking.query_cu_seqlens aligns every sequence by itself");
    }
    return absl::OkStatus();
  }

  absl::Status SetPlaces() {
    const BiasRequest& request = layout_.request;
    layout_.first_distance = -(request.query_offset + request.queries - 1);
    if (request.form == BiasForm::kVector) return absl::OkStatus();
    const bool row = request.form == BiasForm::kRow;
    layout_.queries = Range(request.query_offset + (row ? request.queries - 1 : 0), layout_.rows());
    layout_.keys = Range(0, request.keys);
    const std::vector<int64_t>& ends = layout_.masking.query_cu_seqlens;
    if (!ends.empty()) {
      // Weights that have a number for every key of the pack are read where the keys lie in it.
      layout_.queries.places = PackedPlaces(ends, layout_.masking.key_cu_seqlens, traits_.places_are_keys);
      layout_.queries.stride = 0;
      layout_.keys.places =
          PackedPlaces(layout_.masking.key_cu_seqlens, layout_.masking.key_cu_seqlens, traits_.places_are_keys);
      layout_.keys.stride = 0;
    }
    absl::Status status;
    if (message_.has_query_positions()) {
      status = Read(message_.query_positions(), "bias.query_positions", request.queries, &layout_.queries);
    }
    if (status.ok() && message_.has_key_positions()) {
      status = Read(message_.key_positions(), "bias.key_positions", request.keys, &layout_.keys);
    }
    const bool gates_differ = traits_.sums_gates && layout_.masking.key_padding_batch_stride > 0;
    layout_.rows_differ = traits_.batch > 0 || layout_.queries.stride > 0 || layout_.keys.stride > 0 || gates_differ;
    return status;
  }

  absl::Status Read(const v1::Positions& message, std::string_view path, int64_t count, PlaceRows* out) {
    const auto rows = ParsePositionRows(message, path, count, batch_, context_);
    if (!rows.ok()) return rows.status();
    out->places.assign(rows->positions.begin(), rows->positions.end());
    out->stride = rows->batch_stride;
    return absl::OkStatus();
  }

  // Where positions are rows of a weight, they must be there.
  absl::Status CheckPlaces(const std::string& given_field, const std::string& what, const PlaceRows& rows,
                           int64_t limit) const {
    if (limit == 0) return absl::OkStatus();
    for (int64_t place : rows.places) {
      if (place >= 0 && place < limit) continue;
      const bool given = what == "query" ? message_.has_query_positions() : message_.has_key_positions();
      const std::string field = given ? given_field : what == "query" ? "bias.query_offset" : "bias.keys";
      return InvalidField(field, absl::StrCat("a ", what, " at position ", place),
                          absl::StrCat("0 … ", limit - 1, ", the positions that the weights have"));
    }
    return absl::OkStatus();
  }

  const v1::PrecomputeItem& item_;
  const v1::BiasWindow& message_;
  const std::string& scheme_;
  const BiasTraits& traits_;
  ParseContext& context_;
  BatchAxis batch_;
  WindowLayout layout_;
};

}  // namespace

bool WindowLayout::Consecutive() const {
  const auto follow = [](const std::vector<int64_t>& places) {
    for (size_t i = 1; i < places.size(); ++i) {
      if (places[i] != places[i - 1] + 1) return false;
    }
    return true;
  };
  return follow(queries.places) && follow(keys.places);
}

absl::StatusOr<WindowLayout> ParseWindowLayout(const v1::PrecomputeItem& message, const std::string& scheme,
                                               const BiasTraits& traits, ParseContext& context) {
  return Parser(message, scheme, traits, context).Parse();
}

absl::StatusOr<WorkArray> ArrayOf(const WindowLayout& layout, const Limits& limits) {
  const BiasRequest& request = layout.request;
  WorkArray array;
  array.slot = Slot::kBias;
  array.dtype = layout.dtype;
  if (layout.batch > 0) array.shape.push_back(layout.batch);
  if (!layout.indices) array.shape.push_back(request.heads);
  const bool vector = request.form == BiasForm::kVector;
  if (request.form == BiasForm::kFull) array.shape.push_back(request.queries);
  array.shape.push_back(vector ? request.queries + request.keys - 1 : request.keys);
  const int64_t rows = request.form == BiasForm::kFull ? request.queries : 1;
  const auto elements = CountElements("bias", {layout.batch_rows(), request.heads, rows, array.shape.back()}, limits);
  if (!elements.ok()) return elements.status();
  array.bytes = *elements * SizeOf(layout.dtype);
  if (auto status = CheckLimit("bias", array.bytes, "max_item_bytes", limits.max_item_bytes, "bytes of answer");
      !status.ok()) {
    return status;
  }
  return array;
}

}  // namespace phasor::server
