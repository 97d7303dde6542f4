#include "server/bias_parser.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/program/window_bias.h"
#include "server/grpc_status.h"
#include "server/positions_parser.h"

namespace phasor::server {
namespace {

std::string At(std::string_view path, std::string_view field) { return std::string(path).append(".").append(field); }

absl::Status CheckAxis(std::string_view field, int64_t extent, const Limits& limits) {
  if (extent < 1) return InvalidField(field, extent == 0 ? "nothing" : absl::StrCat(extent), "1 or more");
  return CheckLimit(field, extent, "max_positions", limits.max_positions, "positions");
}

std::string NameOf(v1::Dtype dtype) {
  return v1::Dtype_IsValid(dtype) ? v1::Dtype_Name(dtype) : absl::StrCat(static_cast<int>(dtype));
}

struct DistanceHeads {
  std::optional<int64_t> operator()(const AlibiSpec& s) const { return s.num_heads; }
  std::optional<int64_t> operator()(const T5BucketSpec& s) const {
    return s.table ? std::optional<int64_t>(s.num_heads) : std::nullopt;
  }
  std::optional<int64_t> operator()(const KerpleSpec& s) const { return s.num_heads; }
  std::optional<int64_t> operator()(const SandwichSpec& s) const { return s.num_heads; }
  template <typename Other>
  std::optional<int64_t> operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<int64_t> DistanceHeadsOf(const EncodingSpec& spec) { return std::visit(DistanceHeads{}, spec); }

absl::Status ParseHeads(const v1::BiasWindow& window, int64_t num_heads, const Limits& limits, BiasRequest* bias) {
  bias->first_head = window.first_head();
  if (bias->first_head < 0 || bias->first_head >= num_heads) {
    return InvalidField("bias.first_head", absl::StrCat(bias->first_head), absl::StrCat("0 … ", num_heads - 1));
  }
  const int64_t left = num_heads - bias->first_head;
  bias->heads = window.has_head_count() ? window.head_count() : left;
  if (bias->heads < 1 || bias->heads > left) {
    return InvalidField("bias.head_count", absl::StrCat(bias->heads), absl::StrCat("1 … ", left));
  }
  return CheckLimit("bias.head_count", bias->heads, "max_heads", limits.max_heads, "heads");
}

absl::Status ParseQueries(const v1::BiasWindow& window, const Limits& limits, BiasRequest* bias) {
  bias->queries = window.queries();
  bias->keys = window.keys();
  if (auto status = CheckAxis("bias.queries", bias->queries, limits); !status.ok()) return status;
  if (auto status = CheckAxis("bias.keys", bias->keys, limits); !status.ok()) return status;
  if (bias->keys - 1 > limits.max_position) {
    return OverLimit("bias.keys", bias->keys - 1, "max_position", limits.max_position, "as the last key's position");
  }
  bias->query_offset = window.has_query_offset() ? window.query_offset() : bias->keys - bias->queries;
  const int64_t lowest = -limits.max_position;
  const int64_t highest = limits.max_position - (bias->queries - 1);
  if (bias->query_offset < lowest || bias->query_offset > highest) {
    return InvalidField("bias.query_offset", absl::StrCat(bias->query_offset),
                        absl::StrCat(lowest, " … ", highest, " (the server's max_position)"));
  }
  return absl::OkStatus();
}

bool IsComposed(const v1::BiasWindow& window) {
  return window.has_query_positions() || window.has_key_positions() || window.has_masking();
}

LastPosition LastOf(const v1::BiasWindow& window, int64_t query, int64_t key) {
  const bool packed = window.masking().query_cu_seqlens_size() > 0;
  if (query <= key) {
    return {key, window.has_key_positions() ? "bias.key_positions" : packed ? "bias.masking.key_cu_seqlens" : "bias.keys"};
  }
  return {query, window.has_query_positions() ? "bias.query_positions"
                 : packed                     ? "bias.masking.query_cu_seqlens"
                 : window.has_query_offset()  ? "bias.query_offset"
                                              : "bias.queries"};
}

absl::StatusOr<BiasForm> ParseBiasForm(const v1::BiasWindow& window, BiasForm fallback) {
  if (auto status = CheckEnum("bias.form", window.form(), v1::BiasForm_descriptor()); !status.ok()) return status;
  const bool unset = window.form() == v1::BIAS_FORM_UNSPECIFIED;
  if (!IsComposed(window)) return unset ? fallback : static_cast<BiasForm>(window.form());
  if (unset || window.form() == v1::BIAS_FORM_FULL) return BiasForm::kFull;
  return InvalidField("bias.form", v1::BiasForm_Name(window.form()), "BIAS_FORM_FULL, as there are positions or masks");
}

absl::Status CheckFunctionProducts(std::string_view field, const EncodingSpec& spec, int64_t batch, int64_t queries,
                                   int64_t keys, bool consecutive, const Limits& limits) {
  const double products = static_cast<double>(batch) * LearnedProducts(spec, queries, keys, consecutive);
  const int64_t counted = products < 0x1p62 ? static_cast<int64_t>(products) : int64_t{1} << 62;
  return CheckLimit(field, counted, "max_function_products", limits.max_function_products,
                    "products of the spec's learned function");
}

absl::StatusOr<DType> ParseValueType(v1::Dtype dtype) {
  if (dtype == v1::DTYPE_UNSPECIFIED) return DType::kF32;
  if (dtype < v1::DTYPE_F64 || dtype > v1::DTYPE_BF16) {
    return InvalidField("dtype", NameOf(dtype), "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
  }
  return static_cast<DType>(dtype);
}

absl::StatusOr<DType> ParseIndexType(v1::Dtype dtype) {
  if (dtype == v1::DTYPE_UNSPECIFIED) return DType::kI64;
  if (dtype != v1::DTYPE_I64 && dtype != v1::DTYPE_I32) {
    return InvalidField("dtype", NameOf(dtype), "DTYPE_I64, DTYPE_I32, as indices are asked for");
  }
  return static_cast<DType>(dtype);
}

absl::Status ChargePositions(std::string_view field, int64_t count, ParseContext& context) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
  if (bytes > context.ids_left) {
    const int64_t limit = context.limits.max_request_bytes;
    return OverLimit(field, limit - context.ids_left + bytes, "max_request_bytes", limit,
                     "bytes of position ids in this call");
  }
  context.ids_left -= bytes;
  return absl::OkStatus();
}

absl::Status JoinBatchOf(const v1::Positions& message, std::string_view path, BatchAxis& batch) {
  absl::Status status;
  if (message.ids().shape_size() == 2) status = batch.Join(At(path, "ids.shape[0]"), message.ids().shape(0));
  if (status.ok() && message.mask().mask().shape_size() == 2) {
    status = batch.Join(At(path, "mask.mask.shape[0]"), message.mask().mask().shape(0));
  }
  if (status.ok() && message.sequence_offsets_size() > 1 && !message.has_packed()) {
    status = batch.Join(At(path, "sequence_offsets"), message.sequence_offsets_size());
  }
  return status;
}

absl::StatusOr<PositionRows> ParsePositionRows(const v1::Positions& message, std::string_view path, int64_t count,
                                               const BatchAxis& batch, ParseContext& context) {
  // A mask without a batch axis is a row for every batch row; the rule wants to hear of no tokens then.
  const bool one_row = message.mask().mask().shape_size() == 1;
  std::optional<Tokens> tokens;
  if (!one_row) tokens = Tokens{.batch = batch.extent(), .sequence = count};
  absl::StatusOr<ParsedPositions> parsed = ParsePositions(message, path, tokens, context);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->set.is_plain()) {
    return InvalidField(path, "fractional positions, or several axes", "whole positions of one axis");
  }
  if (one_row && parsed->set.count != count) {
    return InvalidField(At(path, "mask.mask.shape"), absl::StrCat(parsed->set.count, " positions"), absl::StrCat(count));
  }
  if (parsed->set.ids.empty()) {
    if (auto status = ChargePositions(path, parsed->set.count, context); !status.ok()) return status;
  }
  PositionRows rows;
  rows.batch_stride = parsed->per_batch ? count : 0;
  rows.positions.reserve(static_cast<size_t>(parsed->set.count));
  for (int64_t i = 0; i < parsed->set.count; ++i) rows.positions.push_back(static_cast<int32_t>(parsed->set.at(i)));
  return rows;
}

}  // namespace phasor::server
