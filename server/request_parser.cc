#include "server/request_parser.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "proto/raw/payload_cutter.h"
#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/item_parser.h"
#include "server/spec_parser.h"
#include "server/weight_parser.h"

namespace phasor::server {
namespace {

// What the plan of a spec costs: each pair or slope takes a few hundred nanoseconds of wide arithmetic and some dozens of
// bytes.
int64_t PairsOf(const EncodingSpec& spec) {
  if (const auto* rope = std::get_if<RopeSpec>(&spec)) return rope->rotary_dim.value_or(rope->head_dim) / 2;
  if (const auto* pope = std::get_if<PopeSpec>(&spec)) return pope->head_dim;
  if (const auto* fope = std::get_if<FopeSpec>(&spec)) return fope->head_dim / 2;
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&spec)) return (sinusoidal->dim + 1) / 2;
  if (const auto* alibi = std::get_if<AlibiSpec>(&spec)) {
    return std::max(alibi->num_heads, static_cast<int64_t>(alibi->batch_slopes.size()));
  }
  // Buckets take twenty times as long as a slope.
  if (const auto* buckets = std::get_if<T5BucketSpec>(&spec)) return 20 * buckets->num_buckets.value_or(0);
  if (const auto* kerple = std::get_if<KerpleSpec>(&spec)) return kerple->num_heads;
  if (const auto* deberta = std::get_if<DebertaSpec>(&spec)) return 20 * deberta->position_buckets.value_or(0);
  if (const auto* term = std::get_if<TransformerXlSpec>(&spec)) return term->dim / 2;
  if (const auto* term = std::get_if<XlnetSpec>(&spec)) return term->dim / 2;
  if (const auto* term = std::get_if<ConformerSpec>(&spec)) return term->dim / 2;
  if (const auto* sandwich = std::get_if<SandwichSpec>(&spec)) return sandwich->num_heads + sandwich->dim.value_or(0) / 2;
  if (const auto* timestep = std::get_if<TimestepSpec>(&spec)) return timestep->dim / 2;
  if (const auto* grid = std::get_if<GridSinusoidalSpec>(&spec)) return grid->dim / 2;
  return 0;
}

// Sub-messages that carry payloads or lead to one, per item at most: the item, its window or positions, and its tensors with
// their data. Twice that, because messages may be split.
int64_t PartsPerItem(const Limits& limits) { return 2 * (2 * limits.max_tensors_per_item + 16); }

// A message whose unread parts would take more memory than any valid one is refused while it is being read.
raw::CutLimits CutLimitsFor(const Limits& limits) {
  // The longest that one item can usefully be is a list of negative positions, ten bytes each.
  const int64_t longest_list = std::min(10 * limits.max_positions, limits.max_request_bytes);
  return {.max_skeleton_bytes = static_cast<size_t>(longest_list + (int64_t{16} << 20)),
          .max_parts = static_cast<size_t>(limits.max_batch_items * PartsPerItem(limits))};
}

template <typename M>
absl::Status Read(const grpc::ByteBuffer& buffer, const raw::Node& schema, const Limits& limits, M* message,
                  raw::Payloads* payloads) {
  const absl::Status status = raw::Cut(buffer, schema, CutLimitsFor(limits), message, payloads);
  if (status.ok()) return status;
  const std::string type(M::descriptor()->full_name());
  if (status.code() != absl::StatusCode::kResourceExhausted) return MalformedMessage(type);
  return InvalidField("items", "more parts beside payloads than any valid request has",
                      absl::StrCat("up to ", limits.max_batch_items, " items (the server's max_batch_items)"));
}

int64_t PositionBytes(const PrecomputeItem& item) {
  const auto* table = std::get_if<TableRequest>(&item.window);
  return table == nullptr ? 0 : table->positions.bytes();
}
int64_t PositionBytes(const ScoresItem&) { return 0; }
int64_t PositionBytes(const ApplyItem& item) { return item.positions.bytes(); }

// What the plans of an item cost.
template <typename Item>
int64_t PairsOf(const Item& item) {
  int64_t pairs = 0;
  if (item.work != nullptr) {
    for (const TableSource& source : item.work->sources) pairs += PairsOf(source.spec.spec);
  } else if constexpr (requires { item.source; }) {
    pairs = PairsOf(item.source.spec.spec);
  }
  return pairs;
}

// Parses every item of `request` in place and returns what admission charges.
template <typename Request, typename Item>
absl::StatusOr<int64_t> ParseBatch(const Request& request, const raw::Payloads& payloads, const Limits& limits,
                                   UploadStore* uploads, Batch<Item>* batch) {
  if (request.items().empty()) {
    return InvalidField("items", "nothing", absl::StrCat("1 … ", limits.max_batch_items, " items"));
  }
  if (request.items_size() > limits.max_batch_items) {
    return OverLimit("items", request.items_size(), "max_batch_items", limits.max_batch_items, "items");
  }
  if (payloads.total_bytes() > limits.max_request_bytes) {
    return OverLimit("items", payloads.total_bytes(), "max_request_bytes", limits.max_request_bytes, "bytes of payload");
  }
  int64_t uploaded = 0;
  ParseContext context{limits, payloads, request.validate_only(), limits.max_request_bytes, uploads, &uploaded};
  batch->reserve(static_cast<size_t>(request.items_size()));
  int64_t answer = 0;
  int64_t ids = 0;
  int64_t pairs = 0;
  for (int i = 0; i < request.items_size(); ++i) {
    absl::StatusOr<Item> item = ParseItem(request.items(i), context);
    if (!item.ok()) {
      batch->push_back(AtPath(absl::StrCat("items[", i, "]."), item.status()));
      continue;
    }
    pairs += PairsOf(*item);
    if (pairs > limits.max_call_pairs) {
      return OverLimit("items", pairs, "max_call_pairs", limits.max_call_pairs,
                       absl::StrCat("pairs and slopes up to items[", i, "]"));
    }
    answer += item->payload_bytes;  // each is within max_item_bytes, and the sum so far within max_total_bytes
    if (answer > limits.max_total_bytes) {
      return OverLimit("items", answer, "max_total_bytes", limits.max_total_bytes,
                       absl::StrCat("bytes of answer up to items[", i, "]"));
    }
    ids += item->work != nullptr ? item->work->position_bytes : PositionBytes(*item);
    batch->push_back(std::move(item));
  }
  return payloads.total_bytes() + uploaded + answer + ids;
}

// Errors of a spec, whether the kernels library's or the wire's, below the spec's path.
absl::Status AtSpecPath(std::string_view path, const absl::Status& status) {
  const std::string prefix = std::string(path) + ".";
  const auto error = SpecErrorOf(status);
  if (!error) return AtPath(prefix, status);
  if (error->field == "sequence_length") return InvalidField(error->field, error->given, error->allowed);
  return InvalidField(error->field.empty() ? std::string(path) : prefix + error->field, error->given, error->allowed);
}

}  // namespace

absl::StatusOr<ValidatedPrecompute> RequestParser::ParsePrecompute(const grpc::ByteBuffer& request) const {
  v1::PrecomputeRequest message;
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kPrecomputeRequest, limits_, &message, &payloads); !status.ok()) return status;
  return ParsePrecompute(message, payloads);
}

absl::StatusOr<ValidatedApply> RequestParser::ParseApply(const grpc::ByteBuffer& request) const {
  v1::ApplyRequest message;
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kApplyRequest, limits_, &message, &payloads); !status.ok()) return status;
  return ParseApply(message, payloads);
}

absl::StatusOr<ValidatedPrecompute> RequestParser::ParsePrecompute(const v1::PrecomputeRequest& request,
                                                                   const raw::Payloads& payloads) const {
  ValidatedPrecompute validated;
  const auto charged = ParseBatch(request, payloads, limits_, uploads_, &validated.items_);
  if (!charged.ok()) return charged.status();
  validated.validate_only_ = request.validate_only();
  validated.charged_bytes_ = *charged;
  return validated;
}

absl::StatusOr<ValidatedApply> RequestParser::ParseApply(const v1::ApplyRequest& request,
                                                         const raw::Payloads& payloads) const {
  ValidatedApply validated;
  const auto charged = ParseBatch(request, payloads, limits_, uploads_, &validated.items_);
  if (!charged.ok()) return charged.status();
  validated.validate_only_ = request.validate_only();
  validated.charged_bytes_ = *charged;
  return validated;
}

absl::StatusOr<ValidatedScores> RequestParser::ParseScores(const grpc::ByteBuffer& request) const {
  v1::ScoresRequest message;
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kScoresRequest, limits_, &message, &payloads); !status.ok()) return status;
  ValidatedScores validated;
  const auto charged = ParseBatch(message, payloads, limits_, uploads_, &validated.items_);
  if (!charged.ok()) return charged.status();
  validated.validate_only_ = message.validate_only();
  validated.charged_bytes_ = *charged;
  return validated;
}

absl::Status CheckEnum(std::string_view field, int number, const google::protobuf::EnumDescriptor* type) {
  if (type->FindValueByNumber(number) != nullptr) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(number), AllowedValues(type));
}

absl::Status CheckLimit(std::string_view field, int64_t given, std::string_view limit_name, int64_t limit,
                        std::string_view unit) {
  return given <= limit ? absl::OkStatus() : OverLimit(field, given, limit_name, limit, unit);
}

absl::StatusOr<int64_t> CountElements(std::string_view field, std::initializer_list<int64_t> extents, const Limits& limits) {
  const auto count = CheckedElements(std::span<const int64_t>(extents.begin(), extents.size()));
  if (!count) {
    return InvalidField(field, "a size that does not fit in 63 bits",
                        absl::StrCat("up to ", limits.max_item_elements, " elements (the server's max_item_elements)"));
  }
  if (auto status = CheckLimit(field, *count, "max_item_elements", limits.max_item_elements, "elements"); !status.ok()) {
    return status;
  }
  return *count;
}

absl::Status CheckPlanFields(v1::Precision precision, std::optional<int64_t> sequence_length,
                             std::optional<int64_t> max_position) {
  if (auto status = CheckEnum("precision", precision, v1::Precision_descriptor()); !status.ok()) return status;
  if (sequence_length && (*sequence_length < 1 || *sequence_length > kMaxSequenceLength)) {
    return InvalidField("sequence_length", absl::StrCat(*sequence_length), absl::StrCat("1 … ", kMaxSequenceLength));
  }
  if (max_position && *max_position < 1) return InvalidField("max_position", absl::StrCat(*max_position), "at least 1");
  return absl::OkStatus();
}

absl::StatusOr<TableSource> ParseSource(const v1::EncodingSpec& message, std::string_view path, v1::Precision precision,
                                        std::optional<int64_t> sequence_length, std::optional<int64_t> max_position,
                                        const ParseContext& context) {
  const RequestWeightReader weights(context);
  absl::StatusOr<CanonicalSpec> canonical = CanonicalFromProto(message, &weights);
  if (!canonical.ok()) return AtSpecPath(path, canonical.status());
  TableSource source;
  source.path = std::string(path);
  source.spec = *std::move(canonical);
  source.weight_bytes = weights.bytes();
  if (auto status = CheckPlanFields(precision, sequence_length, max_position); !status.ok()) return status;
  if (precision == v1::PRECISION_COMPAT_F32) source.precision = Precision::kCompatF32;
  source.max_position = max_position;
  const Scheme& scheme = SchemeOf(source.spec.spec);
  if (scheme.needs_sequence_length) {
    if (!sequence_length) {
      return InvalidField("sequence_length", "nothing",
                          absl::StrCat("1 … ", kMaxSequenceLength, ": the frequencies of ",
                                       absl::string_view(scheme.name.data(), scheme.name.size()), " depend on it"));
    }
    source.sequence_length = sequence_length;
  }
  return source;
}

}  // namespace phasor::server
