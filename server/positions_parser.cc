#include "server/positions_parser.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/core/checked_math.h"
#include "server/grpc_status.h"
#include "server/tensor_parser.h"

namespace phasor::server {
namespace {

constexpr std::array kIdTypes = {DType::kI32, DType::kI64};
constexpr std::array kMaskTypes = {DType::kBool, DType::kI32, DType::kI64};

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Positions before offsets: a range, or ids in `rows` rows of `columns`.
struct Draft {
  int64_t start = 0;
  int64_t stride = 1;
  std::vector<int64_t> ids;
  bool is_range = false;
  int64_t moved_by = 0;  // the offset that `start` has in it already
  int64_t rows = 1;
  int64_t columns = 0;
  std::string field;              // path of the numbers, for errors
  std::vector<int64_t> segments;  // of packed: ends of the sequences
};

class PositionsParser {
 public:
  PositionsParser(std::string_view path, std::optional<Tokens> tokens, ParseContext& context)
      : path_(path), tokens_(tokens), context_(context) {}

  absl::StatusOr<ParsedPositions> Parse(const v1::Positions& message) {
    absl::StatusOr<Draft> draft = ParseRule(message);
    if (!draft.ok()) return draft.status();
    return Finish(*std::move(draft), message);
  }

 private:
  std::string At(std::string_view field) const { return absl::StrCat(Absl(path_), ".", Absl(field)); }

  absl::StatusOr<Draft> ParseRule(const v1::Positions& message) {
    switch (message.rule_case()) {
      case v1::Positions::kRange:
        return FromRange(message.range());
      case v1::Positions::kList:
        return FromList(message.list());
      case v1::Positions::kIds:
        return FromIds(message.ids());
      case v1::Positions::kMask:
        return FromMask(message.mask());
      case v1::Positions::kPacked:
        return FromPacked(message.packed());
      case v1::Positions::kMultiAxis:
        return NotServed(At("multi_axis"), "a position with several axes");
      case v1::Positions::kContextParallel:
        return NotServed(At("context_parallel"), "a context-parallel split");
      case v1::Positions::kMrope:
        return NotServed(At("mrope"), "multimodal positions");
      case v1::Positions::kGrid:
        return NotServed(At("grid"), "grids");
      case v1::Positions::kRemapped:
        return NotServed(At("remapped"), "mapped positions");
      case v1::Positions::RULE_NOT_SET:
        break;
    }
    if (tokens_) return FromRange(v1::PositionRange());
    return InvalidField(path_, "nothing", "one of range, list, ids, mask, packed");
  }

  absl::StatusOr<Draft> FromRange(const v1::PositionRange& range) const {
    Draft draft;
    draft.start = range.start();
    if (range.has_stride()) draft.stride = range.stride();
    draft.is_range = true;
    draft.field = At("range");
    if (draft.stride == 0) return InvalidField(At("range.stride"), "0", "any other step");
    if (!range.has_count()) {
      if (!tokens_) return InvalidField(At("range.count"), "nothing", "0 or more");
      draft.columns = tokens_->sequence;
    } else if (range.count() < 0) {
      return InvalidField(At("range.count"), absl::StrCat(range.count()), "0 or more");
    } else {
      draft.columns = range.count();
    }
    return draft;
  }

  absl::StatusOr<Draft> FromList(const v1::PositionList& list) {
    const int64_t count = list.ids_size();
    if (auto status = Expand(At("list.ids"), count); !status.ok()) return status;
    Draft draft;
    draft.ids.assign(list.ids().begin(), list.ids().end());
    draft.columns = count;
    draft.field = At("list.ids");
    // One row for all, or every row in turn.
    if (tokens_ && tokens_->batch > 1 && count != tokens_->sequence && count % tokens_->batch == 0) {
      draft.rows = tokens_->batch;
      draft.columns = count / tokens_->batch;
    }
    return draft;
  }

  absl::StatusOr<Draft> FromIds(const v1::Tensor& ids) {
    if (ids.dtype() == v1::DTYPE_F32 || ids.dtype() == v1::DTYPE_F64) {
      return NotServed(At("ids"), "a fractional position");
    }
    return FromTensor(ids, At("ids"), kIdTypes, /*matrix_in_precompute=*/false);
  }

  absl::StatusOr<Draft> FromMask(const v1::MaskPositions& mask) {
    if (tokens_ && tokens_->packed_axis) {
      return InvalidField(At("mask"), "a mask for LAYOUT_THD", "range, list, ids or packed");
    }
    const int64_t pad = mask.has_pad_position() ? mask.pad_position() : 0;
    if (pad != 0 && pad != 1) return InvalidField(At("mask.pad_position"), absl::StrCat(pad), "0 or 1");
    if (tokens_ && mask.mask().shape_size() != 2) {
      return InvalidField(At("mask.mask.shape"), absl::StrCat(mask.mask().shape_size(), " axes"), "[batch, sequence]");
    }
    if (!mask.has_mask()) return InvalidField(At("mask.mask"), "nothing", "a tensor of 0 and 1");
    absl::StatusOr<Draft> draft = FromTensor(mask.mask(), At("mask.mask"), kMaskTypes, /*matrix_in_precompute=*/true);
    if (!draft.ok()) return draft;
    for (int64_t row = 0; row < draft->rows; ++row) {
      int64_t ones = 0;
      for (int64_t column = 0; column < draft->columns; ++column) {
        int64_t& id = draft->ids[static_cast<size_t>(row * draft->columns + column)];
        if (id != 0 && id != 1) {
          return InvalidField(absl::StrCat(draft->field, "[", row, ", ", column, "]"), absl::StrCat(id), "0 or 1");
        }
        ones += id;
        id = id == 1 ? ones - 1 : pad;
      }
    }
    return draft;
  }

  // [columns] or [rows, columns].
  absl::StatusOr<Draft> FromTensor(const v1::Tensor& message, std::string field, std::span<const DType> types,
                                   bool matrix_in_precompute) {
    const absl::StatusOr<ParsedTensor> tensor = ParseTensor(message, field, types, Storage::kRequired, context_);
    if (!tensor.ok()) return tensor.status();
    const size_t axes = tensor->shape.size();
    const bool vector = axes == 1;
    const bool matrix = axes == 2 && (tokens_ || matrix_in_precompute);
    if (!vector && !matrix) {
      return InvalidField(absl::StrCat(field, ".shape"), absl::StrCat(axes, " axes"),
                          tokens_ || matrix_in_precompute ? "[count] or [batch, count]" : "[count]");
    }
    const int64_t stored = tensor->bytes / SizeOf(tensor->dtype);
    if (auto status = Expand(field, std::max(stored, tensor->elements)); !status.ok()) return status;
    Draft draft;
    draft.ids = DecodeIntegers(*tensor);
    draft.rows = matrix ? tensor->shape[0] : 1;
    draft.columns = tensor->shape[axes - 1];
    draft.field = std::move(field);
    if (!tensor->dense && matrix && tensor->elements > 0) {
      // Rows move together; strides are at least the rows' length, so no element is overwritten before it is read.
      const auto at = draft.ids.begin();
      for (int64_t row = 0; row < draft.rows; ++row) {
        std::copy_n(at + row * tensor->strides[0], draft.columns, at + row * draft.columns);
      }
    }
    draft.ids.resize(static_cast<size_t>(tensor->elements));
    return draft;
  }

  absl::StatusOr<Draft> FromPacked(const v1::PackedPositions& packed) {
    const std::string field = At("packed.cu_seqlens");
    if (tokens_ && !tokens_->packed_axis && tokens_->batch != 1) {
      return InvalidField(At("packed"), absl::StrCat("packed sequences for a batch of ", tokens_->batch),
                          "LAYOUT_THD, or a batch of 1");
    }
    if (packed.cu_seqlens().empty()) return InvalidField(field, "nothing", "at least 1 entry");
    int64_t end = 0;
    for (int i = 0; i < packed.cu_seqlens_size(); ++i) {
      const int64_t entry = packed.cu_seqlens(i);
      if (i == 0 ? entry != 0 : entry < end) {
        return InvalidField(absl::StrCat(field, "[", i, "]"), absl::StrCat(entry),
                            i == 0 ? "0" : absl::StrCat("at least ", end, ", the entry before"));
      }
      end = entry;
    }
    if (tokens_ && end != tokens_->sequence) {
      return InvalidField(absl::StrCat(field, "[", packed.cu_seqlens_size() - 1, "]"), absl::StrCat(end),
                          absl::StrCat(tokens_->sequence, ", the number of tokens"));
    }
    if (auto status = Expand(field, end); !status.ok()) return status;
    Draft draft;
    draft.columns = end;
    draft.field = field;
    draft.segments.assign(packed.cu_seqlens().begin() + 1, packed.cu_seqlens().end());
    draft.ids.reserve(static_cast<size_t>(end));
    int64_t begin = 0;
    for (int64_t segment : draft.segments) {
      for (int64_t i = begin; i < segment; ++i) draft.ids.push_back(i - begin);
      begin = segment;
    }
    return draft;
  }

  // Asks for room for `count` ids before they are made.
  absl::Status Expand(std::string_view field, int64_t count) {
    if (auto status = CheckLimit(field, count, "max_positions", context_.limits.max_positions, "positions"); !status.ok()) {
      return status;
    }
    const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
    if (bytes > context_.ids_left) {
      return OverLimit(field, context_.limits.max_request_bytes - context_.ids_left + bytes, "max_request_bytes",
                       context_.limits.max_request_bytes, "bytes of position ids in this call");
    }
    context_.ids_left -= bytes;
    return absl::OkStatus();
  }

  // Counts against tokens, offsets, bounds.
  absl::StatusOr<ParsedPositions> Finish(Draft draft, const v1::Positions& message) {
    if (auto status = CheckExtents(draft); !status.ok()) return status;
    if (auto status = CheckLimit(draft.field, draft.columns, "max_positions", context_.limits.max_positions, "positions");
        !status.ok()) {
      return status;
    }
    if (auto status = AddOffsets(message, &draft); !status.ok()) return status;
    ParsedPositions parsed;
    parsed.per_batch = tokens_ && draft.rows != 1;
    parsed.set.count = draft.rows * draft.columns;
    parsed.set.ids = std::move(draft.ids);
    if (draft.is_range) {
      parsed.set.start = draft.start;
      parsed.set.stride = draft.stride;
    }
    if (auto status = CheckBounds(draft, &parsed); !status.ok()) return status;
    return parsed;
  }

  absl::Status CheckExtents(const Draft& draft) const {
    if (!tokens_) return absl::OkStatus();
    const std::string field = draft.is_range ? At("range.count") : draft.field;
    if (draft.columns != tokens_->sequence) {
      return InvalidField(field,
                          absl::StrCat(draft.rows == 1 ? "" : absl::StrCat(draft.rows, " × "), draft.columns, " positions"),
                          absl::StrCat(tokens_->sequence, ", the tensors' sequence",
                                       draft.is_range ? "" : ", or one such row per batch row"));
    }
    if (draft.rows != 1 && draft.rows != tokens_->batch) {
      return InvalidField(field, absl::StrCat(draft.rows, " rows"),
                          absl::StrCat(tokens_->batch == 1 ? "" : "1 or ", tokens_->batch, ", the tensors' batch"));
    }
    return absl::OkStatus();
  }

  absl::Status AddOffsets(const v1::Positions& message, Draft* draft) {
    const auto& offsets = message.sequence_offsets();
    if (offsets.empty()) return absl::OkStatus();
    const bool packed = message.rule_case() == v1::Positions::kPacked;
    const int64_t batch = tokens_ ? tokens_->batch : draft->rows;
    const int64_t wanted = packed ? static_cast<int64_t>(draft->segments.size()) : batch;
    if (offsets.size() != wanted) {
      return InvalidField(At("sequence_offsets"), absl::StrCat(offsets.size(), " entries"),
                          absl::StrCat("none, or ", wanted, ", one per ", packed ? "sequence" : "batch row"));
    }
    for (int i = 0; i < offsets.size(); ++i) {
      // Bounding the offset first keeps every sum far from overflow.
      if (auto status = CheckPosition(absl::StrCat(At("sequence_offsets"), "[", i, "]"), offsets[i]); !status.ok()) {
        return status;
      }
    }
    if (auto status = CheckBounds(*draft, nullptr); !status.ok()) return status;
    const bool equal = std::all_of(offsets.begin(), offsets.end(), [&](int64_t o) { return o == offsets[0]; });
    if (equal) {
      draft->start += draft->is_range ? offsets[0] : 0;
      draft->moved_by = offsets[0];
      for (int64_t& id : draft->ids) id += offsets[0];
      return absl::OkStatus();
    }
    if (packed) {
      int64_t begin = 0;
      for (size_t s = 0; s < draft->segments.size(); ++s) {
        for (int64_t i = begin; i < draft->segments[s]; ++i)
          draft->ids[static_cast<size_t>(i)] += offsets[static_cast<int>(s)];
        begin = draft->segments[s];
      }
      return absl::OkStatus();
    }
    return SpreadOffsets(offsets, draft);
  }

  // Different offsets: every batch row needs positions of its own.
  absl::Status SpreadOffsets(const google::protobuf::RepeatedField<int64_t>& offsets, Draft* draft) {
    const int64_t columns = draft->columns;
    const auto count = CheckedMul(offsets.size(), columns);
    if (auto status = Expand(At("sequence_offsets"), count.value_or(context_.limits.max_positions + 1)); !status.ok()) {
      return status;
    }
    std::vector<int64_t> ids;
    ids.reserve(static_cast<size_t>(*count));
    for (int64_t row = 0; row < offsets.size(); ++row) {
      const int64_t source = draft->rows == 1 ? 0 : row * columns;
      for (int64_t column = 0; column < columns; ++column) {
        const int64_t position =
            draft->is_range ? draft->start + column * draft->stride : draft->ids[static_cast<size_t>(source + column)];
        ids.push_back(position + offsets[static_cast<int>(row)]);
      }
    }
    draft->ids = std::move(ids);
    draft->rows = offsets.size();
    draft->is_range = false;
    return absl::OkStatus();
  }

  absl::Status CheckPosition(std::string_view field, int64_t position) const {
    if (InBounds(position)) return absl::OkStatus();
    return InvalidField(field, absl::StrCat(position), Bounds());
  }
  bool InBounds(int64_t position) const {
    return position >= -context_.limits.max_position && position <= context_.limits.max_position;
  }
  std::string Bounds() const {
    const int64_t limit = context_.limits.max_position;
    return absl::StrCat(-limit, " … ", limit, " (the server's max_position)");
  }

  // Every position within bounds; notes the extremes in `parsed` when given.
  absl::Status CheckBounds(const Draft& draft, ParsedPositions* parsed) const {
    int64_t smallest = 0;
    int64_t largest = -1;
    // A position that an offset moved out of bounds is neither the start that was given nor anything else that was.
    const std::string moved = draft.moved_by == 0 ? "" : absl::StrCat(" with the offset ", draft.moved_by);
    if (draft.is_range && !InBounds(draft.start)) {
      return moved.empty() ? CheckPosition(absl::StrCat(draft.field, ".start"), draft.start)
                           : InvalidField(draft.field, absl::StrCat("first position ", draft.start, moved), Bounds());
    }
    if (draft.is_range && draft.columns > 0) {
      const auto steps = CheckedMul(draft.columns - 1, draft.stride);
      const auto last = steps ? CheckedAdd(draft.start, *steps) : std::nullopt;
      if (!last) return InvalidField(draft.field, "a last position that does not fit in 63 bits", Bounds());
      if (!InBounds(*last)) return InvalidField(draft.field, absl::StrCat("last position ", *last, moved), Bounds());
      smallest = std::min(draft.start, *last);
      largest = std::max(draft.start, *last);
    }
    const std::vector<int64_t>& ids = parsed != nullptr ? parsed->set.ids : draft.ids;
    if (!ids.empty()) {
      const auto [low, high] = std::minmax_element(ids.begin(), ids.end());
      smallest = *low;
      largest = *high;
      if (!InBounds(*low) || !InBounds(*high)) {
        const auto first = std::find_if(ids.begin(), ids.end(), [&](int64_t id) { return !InBounds(id); });
        return CheckPosition(absl::StrCat(draft.field, "[", first - ids.begin(), "]"), *first);
      }
    }
    if (parsed != nullptr) {
      parsed->smallest = smallest;
      parsed->set.largest = largest;
    }
    return absl::OkStatus();
  }

  std::string_view path_;
  std::optional<Tokens> tokens_;
  ParseContext& context_;
};

}  // namespace

absl::StatusOr<ParsedPositions> ParsePositions(const v1::Positions& message, std::string_view path,
                                               std::optional<Tokens> tokens, ParseContext& context) {
  return PositionsParser(path, tokens, context).Parse(message);
}

}  // namespace phasor::server
