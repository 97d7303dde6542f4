#include "server/request_parser.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "proto/raw/payload_cutter.h"
#include "server/apply_pieces.h"
#include "server/bias_parser.h"
#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/header_arena.h"
#include "server/item_parser.h"
#include "server/region_access.h"
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
  if (const auto* distilled = std::get_if<DistilledSpec>(&spec)) return distilled->cosine_terms;
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

absl::Status TooLongForNow() { return absl::ResourceExhaustedError("a request that takes a while to parse"); }

template <typename M>
absl::Status Read(const grpc::ByteBuffer& buffer, const raw::Node& schema, const Limits& limits, M* message,
                  raw::Payloads* payloads, ParseBudget* budget = nullptr) {
  raw::CutLimits cut = CutLimitsFor(limits);
  if (budget != nullptr) cut.max_skeleton_bytes = static_cast<size_t>(budget->message_bytes);
  const absl::Status status = raw::Cut(buffer, schema, cut, message, payloads);
  if (status.ok()) return status;
  if (budget != nullptr && status.code() == absl::StatusCode::kResourceExhausted) {
    budget->exceeded = true;
    return TooLongForNow();
  }
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

struct BatchSizes {
  int64_t answer = 0;  // payload of all items
  int64_t held = 0;    // of the request, as it is kept
};

// Parses every item of `request` in place, each with parse(message, context).
template <typename Request, typename Item, typename Parse>
absl::StatusOr<BatchSizes> ParseBatch(const Request& request, bool validate_only, const raw::Payloads& payloads,
                                      const Limits& limits, UploadStore* uploads, const RegionAccess* regions,
                                      ParseBudget* budget, const Parse& parse, Batch<Item>* batch) {
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
  ParseContext context{limits, payloads, validate_only, limits.max_request_bytes, uploads, &uploaded, regions, budget};
  batch->reserve(static_cast<size_t>(request.items_size()));
  int64_t answer = 0;
  int64_t ids = 0;
  int64_t pairs = 0;
  for (int i = 0; i < request.items_size(); ++i) {
    absl::StatusOr<Item> item = parse(request.items(i), context);
    if (budget != nullptr && budget->exceeded) return TooLongForNow();
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
  if (absl::Status status = CheckOverlaps(*batch); !status.ok()) return status;
  return BatchSizes{answer, payloads.total_bytes() + uploaded + ids};
}

template <typename Item, typename Request>
absl::StatusOr<int64_t> ParseUnary(const Request& request, const raw::Payloads& payloads, const Limits& limits,
                                   UploadStore* uploads, const RegionAccess* regions, ParseBudget* budget,
                                   Batch<Item>* batch) {
  const auto parse = [](const auto& message, ParseContext& context) { return ParseItem(message, context); };
  const auto sizes = ParseBatch(request, request.validate_only(), payloads, limits, uploads, regions, budget, parse, batch);
  if (!sizes.ok()) return sizes.status();
  return sizes->held + sizes->answer;
}

// What is made in pieces is held against max_stream_bytes; these only keep products from overflowing, and are above all that
// max_stream_bytes may be.
constexpr int64_t kStreamElements = int64_t{1} << 55;

Limits StreamLimits(const Limits& given) {
  Limits limits = given;
  limits.max_item_elements = kStreamElements;
  limits.max_item_bytes = int64_t{1} << 60;
  limits.max_total_bytes = std::numeric_limits<int64_t>::max() - limits.max_item_bytes;
  limits.max_function_products = std::numeric_limits<int64_t>::max();
  return limits;
}

// The same for windows that hold nothing for each of their positions: rows of a range, and biases that tiles serve.
Limits RangeLimits(const Limits& given) {
  Limits limits = StreamLimits(given);
  limits.max_positions = std::numeric_limits<int32_t>::max();
  return limits;
}

// Whether the positions are one range for all batch rows, however many there are: different offsets make ids of it.
bool IsRange(const v1::Positions& positions) {
  const auto& offsets = positions.sequence_offsets();
  return positions.rule_case() == v1::Positions::kRange &&
         std::all_of(offsets.begin(), offsets.end(), [&](int64_t offset) { return offset == offsets[0]; });
}

bool HoldsNoPositions(const v1::PrecomputeItem& message) {
  if (message.has_table()) return IsRange(message.table().positions());
  const v1::BiasWindow& bias = message.bias();
  const v1::EncodingSpec& spec = message.spec();
  const bool by_distance = (spec.has_alibi() && spec.alibi().batch_slopes().empty()) || spec.has_t5_bucket() ||
                           spec.has_kerple() || spec.has_sandwich();
  return by_distance && !bias.indices() && !IsComposed(bias);
}

// What an item costs that is made in pieces of `chunk_bytes`.
absl::Status CheckPieces(const PrecomputeItem& item, std::string_view window, int64_t chunk_bytes, const Limits& limits) {
  absl::Status status =
      CheckLimit(window, item.payload_bytes, "max_stream_bytes", limits.max_stream_bytes, "bytes of answer");
  if (!status.ok() || item.work == nullptr) return status;
  status = CheckLimit(window, item.work->PieceProducts(chunk_bytes), "max_function_products", limits.max_function_products,
                      "products of the spec's learned function for a piece");
  if (!status.ok()) return status;
  const std::shared_ptr<const Work> shared = item.work->Preparation();
  return shared == nullptr ? status
                           : CheckLimit(window, shared->output_bytes(), "max_item_bytes", limits.max_item_bytes,
                                        "bytes of values that all pieces share");
}

// An item that can be made in pieces, or another within the limits `given`.
absl::StatusOr<PrecomputeItem> ParseStreamItem(const v1::PrecomputeItem& message, int64_t chunk_bytes, const Limits& given,
                                               ParseContext& context) {
  if (message.has_output() || message.share()) {
    return InvalidField(message.share() ? "share" : "output", "shared memory", "none: streams carry their bytes");
  }
  const int64_t ids_left = context.ids_left, uploaded = *context.uploaded_bytes;
  const auto parse = [&](const Limits& limits) {
    ParseContext fresh{limits, context.payloads, false, ids_left, context.uploads, context.uploaded_bytes};
    *context.uploaded_bytes = uploaded;
    absl::StatusOr<PrecomputeItem> item = ParseItem(message, fresh);
    context.ids_left = fresh.ids_left;
    return item;
  };
  absl::StatusOr<PrecomputeItem> item = parse(HoldsNoPositions(message) ? RangeLimits(given) : StreamLimits(given));
  if (!item.ok()) return item;
  if (item->work != nullptr && item->work->cut() == Cut::kNone) return parse(given);
  const char* window = message.has_table() ? "table" : "bias";
  if (item->work != nullptr && item->work->prefers_whole()) {
    const int64_t left = context.ids_left, all_uploaded = *context.uploaded_bytes;
    if (absl::StatusOr<PrecomputeItem> whole = parse(given); whole.ok()) {
      whole->whole = true;
      return whole;
    }
    context.ids_left = left;
    *context.uploaded_bytes = all_uploaded;
  }
  const absl::Status status = CheckPieces(*item, window, chunk_bytes, given);
  return status.ok() ? std::move(item) : status;
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

absl::StatusOr<ValidatedPrecompute> RequestParser::ParsePrecompute(const grpc::ByteBuffer& request,
                                                                   const RegionAccess* regions, ParseBudget* budget) const {
  HeaderArena arena;
  auto* const message = arena.New<v1::PrecomputeRequest>();
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kPrecomputeRequest, limits_, message, &payloads, budget); !status.ok()) return status;
  return ParsePrecompute(*message, payloads, regions, budget);
}

absl::StatusOr<ValidatedApply> RequestParser::ParseApply(const grpc::ByteBuffer& request, const RegionAccess* regions,
                                                         ParseBudget* budget) const {
  HeaderArena arena;
  auto* const message = arena.New<v1::ApplyRequest>();
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kApplyRequest, limits_, message, &payloads, budget); !status.ok()) return status;
  return ParseApply(*message, payloads, regions, budget);
}

absl::StatusOr<ValidatedPrecompute> RequestParser::ParsePrecompute(const v1::PrecomputeRequest& request,
                                                                   const raw::Payloads& payloads,
                                                                   const RegionAccess* regions, ParseBudget* budget) const {
  ValidatedPrecompute validated;
  const auto charged = ParseUnary(request, payloads, limits_, uploads_, regions, budget, &validated.items_);
  if (!charged.ok()) return charged.status();
  validated.validate_only_ = request.validate_only();
  validated.charged_bytes_ = *charged;
  return validated;
}

absl::StatusOr<ValidatedApply> RequestParser::ParseApply(const v1::ApplyRequest& request, const raw::Payloads& payloads,
                                                         const RegionAccess* regions, ParseBudget* budget) const {
  ValidatedApply validated;
  const auto charged = ParseUnary(request, payloads, limits_, uploads_, regions, budget, &validated.items_);
  if (!charged.ok()) return charged.status();
  validated.validate_only_ = request.validate_only();
  validated.charged_bytes_ = *charged;
  return validated;
}

absl::StatusOr<StreamRequest> RequestParser::ParseStreamPrecompute(const grpc::ByteBuffer& request) const {
  v1::StreamPrecomputeRequest message;
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kStreamPrecomputeRequest, limits_, &message, &payloads); !status.ok()) return status;
  StreamRequest stream{ValidatedPrecompute(), message.chunk_bytes(), message.first_item(), message.first_row(),
                       !message.no_checksums()};
  if (stream.chunk_bytes != 0 && (stream.chunk_bytes < kLeastChunkBytes || stream.chunk_bytes > kMostChunkBytes)) {
    return InvalidField("chunk_bytes", absl::StrCat(stream.chunk_bytes),
                        absl::StrCat("unset, or ", kLeastChunkBytes, " … ", kMostChunkBytes));
  }
  if (stream.first_row < 0) return InvalidField("first_row", absl::StrCat(stream.first_row), "at least 0");
  const Limits limits = RangeLimits(limits_);
  // The server's own number is not known here, only what it may be.
  const int64_t chunk_bytes = stream.chunk_bytes == 0 ? kMostChunkBytes : stream.chunk_bytes;
  const auto parse = [this, chunk_bytes](const v1::PrecomputeItem& item, ParseContext& context) {
    return ParseStreamItem(item, chunk_bytes, limits_, context);
  };
  const auto sizes = ParseBatch(message, false, payloads, limits, uploads_, nullptr, nullptr, parse, &stream.batch.items_);
  if (!sizes.ok()) return sizes.status();
  if (stream.first_item < 0 || stream.first_item >= message.items_size()) {
    return InvalidField("first_item", absl::StrCat(stream.first_item), absl::StrCat("0 … ", message.items_size() - 1));
  }
  stream.batch.charged_bytes_ = sizes->held;
  return stream;
}

absl::StatusOr<StreamedItem> RequestParser::ParseStreamedItem(const v1::ApplyItem& open,
                                                              const raw::Payloads& payloads) const {
  for (int i = 0; i < open.tensors_size(); ++i) {
    const v1::Tensor& tensor = open.tensors(i);
    if (tensor.storage_case() != v1::Tensor::STORAGE_NOT_SET) {
      return InvalidField(absl::StrCat("tensors[", i, "]"), "storage", "none: the bytes follow in chunks");
    }
    if (!tensor.strides().empty()) {
      return InvalidField(absl::StrCat("tensors[", i, "].strides"), "strides", "none: tensors of streams are dense");
    }
  }
  if (open.outputs_size() > 0) return InvalidField("outputs", "shared memory", "none: streams carry their bytes");
  int64_t uploaded = 0;
  StreamedItem streamed;
  const bool plain = !open.has_add() && !open.has_resize() && !open.has_shift() && !open.has_rerotate() &&
                     !open.has_table() && (!open.has_positions() || IsRange(open.positions()));
  if (plain) {
    const Limits limits = RangeLimits(limits_);
    ParseContext context{limits, payloads, true, limits_.max_request_bytes, uploads_, &uploaded};
    absl::StatusOr<ApplyItem> item = ParseItem(open, context);
    if (!item.ok()) return item.status();
    streamed.in_pieces = ApplyPieces::Can(*item);
    if (streamed.in_pieces) {
      if (auto status =
              CheckLimit("tensors", item->payload_bytes, "max_stream_bytes", limits_.max_stream_bytes, "bytes of payload");
          !status.ok()) {
        return status;
      }
      for (const TensorInput& tensor : item->tensors) streamed.bytes.push_back(tensor.bytes);
      streamed.item = *std::move(item);
      return streamed;
    }
  }
  ParseContext context{limits_, payloads, true, limits_.max_request_bytes, uploads_, &uploaded};
  const absl::StatusOr<ApplyItem> item = ParseItem(open, context);
  if (!item.ok()) return item.status();
  streamed.position_bytes = item->work != nullptr ? item->work->position_bytes : PositionBytes(*item);
  for (const v1::Tensor& tensor : open.tensors()) {
    const std::span<const int64_t> shape(tensor.shape().data(), static_cast<size_t>(tensor.shape_size()));
    streamed.bytes.push_back(CheckedElements(shape).value_or(0) * SizeOf(static_cast<DType>(tensor.dtype())));
  }
  return streamed;
}

absl::StatusOr<ValidatedScores> RequestParser::ParseScores(const grpc::ByteBuffer& request, ParseBudget* budget) const {
  v1::ScoresRequest message;
  raw::Payloads payloads;
  if (auto status = Read(request, raw::kScoresRequest, limits_, &message, &payloads, budget); !status.ok()) return status;
  ValidatedScores validated;
  const auto charged = ParseUnary(message, payloads, limits_, uploads_, nullptr, budget, &validated.items_);
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
  // In streams it is the bytes that a flag bounds, and elements take a byte at least.
  const bool in_stream = limits.max_item_elements == kStreamElements;
  const char* const name = in_stream ? "max_stream_bytes" : "max_item_elements";
  const int64_t most = in_stream ? limits.max_stream_bytes : limits.max_item_elements;
  if (!count) {
    return InvalidField(field, "a size that does not fit in 63 bits",
                        absl::StrCat("up to ", most, in_stream ? " bytes" : " elements", " (the server's ", name, ")"));
  }
  if (*count > limits.max_item_elements) {
    return OverLimit(field, *count, name, most, in_stream ? "elements, of a byte or more each" : "elements");
  }
  return *count;
}

absl::Status CheckPlanFields(v1::Precision precision, std::optional<int64_t> sequence_length,
                             std::optional<int64_t> max_position, std::string_view length_field) {
  if (auto status = CheckEnum("precision", precision, v1::Precision_descriptor()); !status.ok()) return status;
  if (sequence_length && (*sequence_length < 1 || *sequence_length > kMaxSequenceLength)) {
    return InvalidField(length_field, absl::StrCat(*sequence_length), absl::StrCat("1 … ", kMaxSequenceLength));
  }
  if (max_position && *max_position < 1) return InvalidField("max_position", absl::StrCat(*max_position), "at least 1");
  return absl::OkStatus();
}

absl::StatusOr<TableSource> ParseSource(const v1::EncodingSpec& message, std::string_view path, v1::Precision precision,
                                        std::optional<int64_t> sequence_length, std::optional<int64_t> max_position,
                                        const ParseContext& context, std::string_view length_field) {
  const RequestWeightReader weights(context);
  absl::StatusOr<CanonicalSpec> canonical = CanonicalFromProto(message, &weights);
  if (!canonical.ok()) return AtSpecPath(path, canonical.status());
  TableSource source;
  source.path = std::string(path);
  source.spec = *std::move(canonical);
  source.weight_bytes = weights.bytes();
  if (auto status = CheckPlanFields(precision, sequence_length, max_position, length_field); !status.ok()) return status;
  if (precision == v1::PRECISION_COMPAT_F32) source.precision = Precision::kCompatF32;
  source.max_position = max_position;
  const Scheme& scheme = SchemeOf(source.spec.spec);
  if (scheme.needs_sequence_length) {
    if (!sequence_length) {
      return InvalidField(length_field, "nothing",
                          absl::StrCat("1 … ", kMaxSequenceLength, ": the frequencies of ",
                                       absl::string_view(scheme.name.data(), scheme.name.size()), " depend on it"));
    }
    source.sequence_length = sequence_length;
  }
  return source;
}

}  // namespace phasor::server
