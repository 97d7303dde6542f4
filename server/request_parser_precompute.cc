// Items of Precompute: tables and biases.
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "server/bias_parser.h"
#include "server/grpc_status.h"
#include "server/item_parser.h"
#include "server/positions_parser.h"
#include "server/region_access.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

constexpr size_t kFingerprintBytes = 32;

// Columns of a table, and how many arrays of that width the form has.
struct Columns {
  int64_t pairs = 0;
  int64_t width = 0;
  int64_t arrays = 1;
};

Columns ColumnsOf(const EncodingSpec& spec, TableForm form) {
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&spec)) {
    const bool endpoint = sinusoidal->spacing == SinusoidalSpacing::kEndpointInclusive;
    return {.pairs = endpoint ? sinusoidal->dim / 2 : (sinusoidal->dim + 1) / 2, .width = sinusoidal->dim};
  }
  const int64_t pairs = *std::get<RopeSpec>(spec).rotary_dim / 2;
  switch (form) {
    case TableForm::kHalf:
      return {.pairs = pairs, .width = pairs, .arrays = 2};
    case TableForm::kDuplicated:
    case TableForm::kInterleavedDuplicated:
      return {.pairs = pairs, .width = 2 * pairs, .arrays = 2};
    default:
      return {.pairs = pairs, .width = 2 * pairs};
  }
}

absl::StatusOr<TableForm> ParseForm(v1::TableForm form, const EncodingSpec& spec) {
  if (auto status = CheckEnum("table.form", form, v1::TableForm_descriptor()); !status.ok()) return status;
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&spec)) {
    if (form != v1::TABLE_FORM_UNSPECIFIED) {
      return InvalidField("table.form", v1::TableForm_Name(form), "unset: the layout of sinusoids is part of their spec");
    }
    return sinusoidal->layout == SinusoidalLayout::kConcatenated ? TableForm::kSinCosConcatenated
                                                                 : TableForm::kSinCosInterleaved;
  }
  return form == v1::TABLE_FORM_UNSPECIFIED ? TableForm::kHalf : static_cast<TableForm>(form);
}

// Positions of sinusoids are rows of the library's table after position_offset is added: those must be in range too.
absl::Status CheckRows(const EncodingSpec& spec, const ParsedPositions& positions, const Limits& limits) {
  const auto* sinusoidal = std::get_if<SinusoidalSpec>(&spec);
  if (sinusoidal == nullptr || positions.set.count == 0) return absl::OkStatus();
  const int64_t offset = sinusoidal->position_offset.value_or(0);
  for (int64_t position : {positions.smallest, positions.set.largest}) {
    if (position + offset < -limits.max_position || position + offset > limits.max_position) {
      return InvalidField(
          "table.positions", absl::StrCat("position ", position, " with position_offset ", offset),
          absl::StrCat("a sum within ", -limits.max_position, " … ", limits.max_position, " (the server's max_position)"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TableRequest> ParseTable(const v1::TableWindow& window, PrecomputeItem* item, ParseContext& context) {
  const EncodingSpec& spec = item->source.spec.spec;
  TableRequest table;
  table.include_inv_freq = window.include_inv_freq();
  table.inverse = window.inverse();
  if (table.inverse && std::holds_alternative<SinusoidalSpec>(spec)) {
    return InvalidField("table.inverse", "true", "unset: only rotations have an inverse");
  }
  const auto form = ParseForm(window.form(), spec);
  if (!form.ok()) return form.status();
  table.form = *form;
  absl::StatusOr<ParsedPositions> positions = ParsePositions(window.positions(), "table.positions", std::nullopt, context);
  if (!positions.ok()) return positions.status();
  if (!positions->set.is_plain()) {
    return InvalidField("table.positions", "fractional positions or several axes",
                        "whole numbers on one axis for this spec");
  }
  if (auto status = CheckRows(spec, *positions, context.limits); !status.ok()) return status;
  if (auto status =
          CheckLimit("table.positions", positions->set.count, "max_positions", context.limits.max_positions, "positions");
      !status.ok()) {
    return status;
  }
  const Columns columns = ColumnsOf(spec, table.form);
  const auto elements = CountElements("table", {positions->set.count, columns.width}, context.limits);
  if (!elements.ok()) return elements.status();
  item->payload_bytes = *elements * columns.arrays * SizeOf(item->dtype);
  if (table.include_inv_freq) item->inv_freq_bytes = columns.pairs * SizeOf(DType::kF64);
  item->payload_bytes += item->inv_freq_bytes;
  table.positions = std::move(positions->set);
  return table;
}

absl::StatusOr<BiasRequest> ParseBias(const v1::BiasWindow& window, PrecomputeItem* item, const Limits& limits) {
  const std::optional<int64_t> num_heads = DistanceHeadsOf(item->source.spec.spec);
  if (!num_heads) return absl::InternalError("a bias that has neither work nor a vector");
  BiasRequest bias;
  if (auto status = ParseQueries(window, limits, &bias); !status.ok()) return status;
  if (auto status = ParseHeads(window, *num_heads, limits, &bias); !status.ok()) return status;
  const auto form = ParseBiasForm(window, BiasForm::kVector);
  if (!form.ok()) return form.status();
  bias.form = *form;
  absl::StatusOr<int64_t> elements = 0;
  switch (bias.form) {
    case BiasForm::kFull:
      elements = CountElements("bias", {bias.heads, bias.queries, bias.keys}, limits);
      break;
    case BiasForm::kVector:
      elements = CountElements("bias", {bias.heads, bias.queries + bias.keys - 1}, limits);
      break;
    case BiasForm::kRow:
      elements = CountElements("bias", {bias.heads, bias.keys}, limits);
      break;
  }
  if (!elements.ok()) return elements.status();
  item->payload_bytes = *elements * SizeOf(item->dtype);
  return bias;
}

// "spec.alibi".
std::string Name(const v1::EncodingSpec& spec) {
  return absl::StrCat("spec.", v1::EncodingSpec::descriptor()->FindFieldByNumber(spec.scheme_case())->name());
}

// The window must be of the scheme's kind.
absl::Status CheckWindow(const v1::PrecomputeItem& message, const EncodingSpec& spec) {
  const std::string_view family = SchemeOf(spec).family;
  const bool is_table = family == "angle" || family == "table";
  switch (message.window_case()) {
    case v1::PrecomputeItem::kTable:
      if (is_table) return absl::OkStatus();
      return InvalidField("table", absl::StrCat("a table for ", Name(message.spec())), "bias: the scheme has no table");
    case v1::PrecomputeItem::kBias:
      if (!is_table) return absl::OkStatus();
      return InvalidField("bias", absl::StrCat("a bias for ", Name(message.spec())), "table");
    case v1::PrecomputeItem::WINDOW_NOT_SET:
      break;
  }
  return InvalidField("window", "nothing", is_table ? "table" : "bias");
}

}  // namespace

absl::StatusOr<PrecomputeItem> ParseItem(const v1::PrecomputeItem& message, ParseContext& context) {
  absl::StatusOr<TableSource> source = ParseSourceOf(message, context);
  if (!source.ok()) return source.status();
  PrecomputeItem item;
  item.source = *std::move(source);
  item.if_fingerprint_not = message.if_fingerprint_not();
  if (!item.if_fingerprint_not.empty() && item.if_fingerprint_not.size() != kFingerprintBytes) {
    return InvalidField("if_fingerprint_not", absl::StrCat(item.if_fingerprint_not.size(), " bytes"),
                        absl::StrCat("none, or ", kFingerprintBytes, " bytes"));
  }
  if (auto status = CheckWindow(message, item.source.spec.spec); !status.ok()) return status;
  ParsedWork work =
      message.has_table() ? ParseTableWork(message, item.source, context) : ParseBiasWork(message, item.source, context);
  if (!work.ok()) return work.status();
  std::string_view window = message.has_table() ? "table" : "bias";
  if (*work != nullptr) {
    item.work = *std::move(work);
    item.payload_bytes = item.work->output_bytes();
    if (auto status =
            CheckLimit(window, item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of answer");
        !status.ok()) {
      return status;
    }
    if (auto status = ParsePlacement(message, context.regions, &item); !status.ok()) return status;
    return item;
  }
  const auto dtype = ParseValueType(message.dtype());
  if (!dtype.ok()) return dtype.status();
  item.dtype = *dtype;
  switch (message.window_case()) {
    case v1::PrecomputeItem::kTable: {
      absl::StatusOr<TableRequest> table = ParseTable(message.table(), &item, context);
      if (!table.ok()) return table.status();
      item.window = *std::move(table);
      break;
    }
    case v1::PrecomputeItem::kBias: {
      const absl::StatusOr<BiasRequest> bias = ParseBias(message.bias(), &item, context.limits);
      if (!bias.ok()) return bias.status();
      item.window = *bias;
      break;
    }
    case v1::PrecomputeItem::WINDOW_NOT_SET:
      break;
  }
  if (auto status =
          CheckLimit(window, item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of answer");
      !status.ok()) {
    return status;
  }
  if (auto status = ParsePlacement(message, context.regions, &item); !status.ok()) return status;
  return item;
}

}  // namespace phasor::server
