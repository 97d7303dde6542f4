// What the parsers of items share. Private to request_parser_*.cc and the parsers that they use.
#ifndef PHASOR_SERVER_ITEM_PARSER_H_
#define PHASOR_SERVER_ITEM_PARSER_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "proto/raw/payloads.h"
#include "server/limits.h"
#include "server/request.h"

namespace phasor::server {

class UploadStore;
struct RegionAccess;
struct ParseBudget;

struct ParseContext {
  const Limits& limits;
  const raw::Payloads& payloads;
  bool validate_only = false;
  // Bytes that position ids of the whole call may still take once they are expanded to 64 bits (a mask takes one byte on the
  // wire and eight here, cu_seqlens next to nothing). Starts at max_request_bytes.
  int64_t ids_left = 0;
  // Content that tensors name by its hash. Null: there is none.
  UploadStore* uploads = nullptr;
  // Where the sizes of such content are added up: what it comes to when it is worked on. May be null.
  int64_t* uploaded_bytes = nullptr;
  // Shared memory that items may name. Null: there is none.
  const RegionAccess* regions = nullptr;
  // Null: the caller has time.
  ParseBudget* budget = nullptr;
};

// Paths in errors are relative to the item.
absl::StatusOr<PrecomputeItem> ParseItem(const v1::PrecomputeItem& message, ParseContext& context);
absl::StatusOr<ApplyItem> ParseItem(const v1::ApplyItem& message, ParseContext& context);
absl::StatusOr<ScoresItem> ParseItem(const v1::ScoresItem& message, ParseContext& context);

// Spec (below `path`), precision, sequence length (of the field `length_field`) and the model's own maximum.
absl::StatusOr<TableSource> ParseSource(const v1::EncodingSpec& spec, std::string_view path, v1::Precision precision,
                                        std::optional<int64_t> sequence_length, std::optional<int64_t> max_position,
                                        const ParseContext& context, std::string_view length_field = "sequence_length");

// The same of an item, either kind.
template <typename Item>
absl::StatusOr<TableSource> ParseSourceOf(const Item& message, const ParseContext& context) {
  std::optional<int64_t> sequence_length, max_position;
  if (message.has_sequence_length()) sequence_length = message.sequence_length();
  if (message.has_max_position()) max_position = message.max_position();
  return ParseSource(message.spec(), "spec", message.precision(), sequence_length, max_position, context);
}

// What an item says of its plans beside their specs, each in its range.
absl::Status CheckPlanFields(v1::Precision precision, std::optional<int64_t> sequence_length,
                             std::optional<int64_t> max_position, std::string_view length_field = "sequence_length");

// OK, or InvalidField listing the values that `number`, an open enum of the wire, may have.
absl::Status CheckEnum(std::string_view field, int number, const google::protobuf::EnumDescriptor* type);

// extents multiplied, or OverLimit("max_item_elements") at `field`; each must be ≥ 0.
absl::StatusOr<int64_t> CountElements(std::string_view field, std::initializer_list<int64_t> extents, const Limits& limits);

// OK, or OverLimit of the named limit.
absl::Status CheckLimit(std::string_view field, int64_t given, std::string_view limit_name, int64_t limit,
                        std::string_view unit);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ITEM_PARSER_H_
