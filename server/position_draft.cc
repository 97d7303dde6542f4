#include "server/position_draft.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "server/grpc_status.h"
#include "server/position_rules.h"
#include "server/request_parser.h"

namespace phasor::server {
namespace {

constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;

absl::StatusOr<PositionDraft> DraftRange(const v1::PositionRange& range, const PositionScope& scope) {
  PositionDraft draft;
  draft.start = range.start();
  if (range.has_stride()) draft.stride = range.stride();
  draft.is_range = true;
  draft.field = scope.At("range");
  if (draft.stride == 0) return InvalidField(scope.At("range.stride"), "0", "any other step");
  if (!range.has_count()) {
    if (!scope.tokens) return InvalidField(scope.At("range.count"), "nothing", "0 or more");
    draft.columns = scope.tokens->sequence;
  } else if (range.count() < 0) {
    return InvalidField(scope.At("range.count"), absl::StrCat(range.count()), "0 or more");
  } else {
    draft.columns = range.count();
  }
  return draft;
}

absl::StatusOr<PositionDraft> DraftList(const v1::PositionList& list, const PositionScope& scope) {
  const int64_t count = list.ids_size();
  const std::string field = scope.At("list.ids");
  if (auto status = scope.Expand(field, count); !status.ok()) return status;
  PositionDraft draft;
  draft.axes.push_back({.ids = {list.ids().begin(), list.ids().end()}, .field = field});
  draft.columns = count;
  draft.field = field;
  // One row for all, or every row in turn.
  if (scope.tokens && scope.tokens->batch > 1 && count != scope.tokens->sequence && count % scope.tokens->batch == 0) {
    draft.rows = scope.tokens->batch;
    draft.columns = count / scope.tokens->batch;
  }
  return draft;
}

absl::StatusOr<PositionDraft> DraftPacked(const v1::PackedPositions& packed, const PositionScope& scope) {
  const std::string field = scope.At("packed.cu_seqlens");
  if (scope.tokens && !scope.tokens->packed_axis && scope.tokens->batch != 1) {
    return InvalidField(scope.At("packed"), absl::StrCat("packed sequences for a batch of ", scope.tokens->batch),
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
  if (scope.tokens && end != scope.tokens->sequence) {
    return InvalidField(absl::StrCat(field, "[", packed.cu_seqlens_size() - 1, "]"), absl::StrCat(end),
                        absl::StrCat(scope.tokens->sequence, ", the number of tokens"));
  }
  if (auto status = scope.Expand(field, end); !status.ok()) return status;
  PositionDraft draft;
  draft.columns = end;
  draft.field = field;
  draft.segments.assign(packed.cu_seqlens().begin() + 1, packed.cu_seqlens().end());
  DraftAxis axis;
  axis.field = field;
  axis.ids.reserve(static_cast<size_t>(end));
  int64_t begin = 0;
  for (int64_t segment : draft.segments) {
    for (int64_t i = begin; i < segment; ++i) axis.ids.push_back(i - begin);
    begin = segment;
  }
  draft.axes.push_back(std::move(axis));
  return draft;
}

// Ids that a rule of position_rules.h makes, once there is room for them.
template <typename Rule>
absl::StatusOr<PositionDraft> DraftRule(const Rule& rule, std::string_view name, const absl::StatusOr<RuleSize>& size,
                                        RuleIds (*make)(const Rule&, const RuleSize&), const PositionScope& scope) {
  if (!size.ok()) return size.status();
  const std::string field = scope.At(name);
  for (int64_t axis = 0; axis < size->axes; ++axis) {
    if (auto status = scope.Expand(field, size->count); !status.ok()) return status;
  }
  RuleIds ids = make(rule, *size);
  PositionDraft draft;
  draft.columns = size->count;
  draft.field = field;
  draft.rope_delta = ids.rope_delta;
  for (int64_t axis = 0; axis < size->axes; ++axis) {
    const auto a = static_cast<size_t>(axis);
    DraftAxis into{.field = field};
    if (ids.is_fractional()) {
      into.fractional = std::move(ids.fractional[a]);
    } else {
      into.ids = std::move(ids.whole[a]);
    }
    draft.axes.push_back(std::move(into));
  }
  return draft;
}

// sequence_offsets move what is mapped, not what the map gives: a row of its own for every offset, unless all are equal.
absl::StatusOr<PositionDraft> DraftRemapped(const v1::Positions& message, const PositionScope& scope) {
  const v1::RemappedPositions& rule = message.remapped();
  const std::string path = scope.At("remapped");
  const auto count = scope.tokens ? std::optional<int64_t>(scope.tokens->sequence) : std::nullopt;
  const auto size = SizeOfRemapped(rule, path, count, scope.context.limits);
  if (!size.ok()) return size.status();
  const auto& offsets = message.sequence_offsets();
  if (auto status = scope.CheckOffsets(offsets, scope.tokens ? scope.tokens->batch : 1, "batch row"); !status.ok()) {
    return status;
  }
  std::vector<int64_t> starts;
  for (int i = 0; i < offsets.size(); ++i) {
    const int64_t start = rule.start() + offsets[i];  // both are below 2^31
    if (start < -kLastPosition || start > kLastPosition) {
      return InvalidField(absl::StrCat(scope.At("sequence_offsets"), "[", i, "]"), absl::StrCat(offsets[i]),
                          absl::StrCat("a sum with remapped.start within ±", kLastPosition));
    }
    starts.push_back(start);
  }
  if (starts.empty()) starts.push_back(rule.start());
  if (std::all_of(starts.begin(), starts.end(), [&](int64_t start) { return start == starts[0]; })) starts.resize(1);
  PositionDraft draft;
  draft.rows = static_cast<int64_t>(starts.size());
  draft.columns = size->count;
  draft.field = path;
  draft.has_offsets = true;
  const auto ids = CheckedMul(draft.rows, draft.columns);
  if (auto status = scope.Expand(path, ids.value_or(scope.context.limits.max_positions + 1)); !status.ok()) return status;
  DraftAxis& axis = draft.axes.emplace_back(DraftAxis{.field = path});
  for (const int64_t start : starts) {
    v1::RemappedPositions moved = rule;
    moved.set_start(start);
    const RuleIds row = IdsOfRemapped(moved, *size);
    if (row.is_fractional()) {
      axis.fractional.insert(axis.fractional.end(), row.fractional[0].begin(), row.fractional[0].end());
    } else {
      axis.ids.insert(axis.ids.end(), row.whole[0].begin(), row.whole[0].end());
    }
  }
  return draft;
}

}  // namespace

absl::Status PositionScope::CheckOffsets(const google::protobuf::RepeatedField<int64_t>& offsets, int64_t wanted,
                                         std::string_view unit) const {
  if (offsets.empty()) return absl::OkStatus();
  const std::string field = At("sequence_offsets");
  if (offsets.size() != wanted) {
    return InvalidField(field, absl::StrCat(offsets.size(), " entries"),
                        absl::StrCat("none, or ", wanted, ", one per ", absl::string_view(unit.data(), unit.size())));
  }
  const int64_t most = context.limits.max_position;
  for (int i = 0; i < offsets.size(); ++i) {
    if (offsets[i] >= -most && offsets[i] <= most) continue;
    return InvalidField(absl::StrCat(field, "[", i, "]"), absl::StrCat(offsets[i]),
                        absl::StrCat(-most, " … ", most, " (the server's max_position)"));
  }
  return absl::OkStatus();
}

std::string PositionScope::At(std::string_view field) const {
  return absl::StrCat(path, ".", absl::string_view(field.data(), field.size()));
}

absl::Status PositionScope::Expand(std::string_view field, int64_t count) const {
  const Limits& limits = context.limits;
  if (auto status = CheckLimit(field, count, "max_positions", limits.max_positions, "positions"); !status.ok()) {
    return status;
  }
  const int64_t bytes = count * static_cast<int64_t>(sizeof(int64_t));
  if (bytes > context.ids_left) {
    return OverLimit(field, limits.max_request_bytes - context.ids_left + bytes, "max_request_bytes",
                     limits.max_request_bytes, "bytes of position ids in this call");
  }
  if (ParseBudget* budget = context.budget; budget != nullptr) {
    if (count > budget->ids) {
      budget->exceeded = true;
      return absl::ResourceExhaustedError("more ids than there is time for");
    }
    budget->ids -= count;
  }
  context.ids_left -= bytes;
  return absl::OkStatus();
}

absl::StatusOr<PositionDraft> DraftPositions(const v1::Positions& message, const PositionScope& scope) {
  const Limits& limits = scope.context.limits;
  switch (message.rule_case()) {
    case v1::Positions::kRange:
      return DraftRange(message.range(), scope);
    case v1::Positions::kList:
      return DraftList(message.list(), scope);
    case v1::Positions::kIds:
      return DraftIds(message.ids(), scope);
    case v1::Positions::kMask:
      return DraftMask(message.mask(), scope);
    case v1::Positions::kPacked:
      return DraftPacked(message.packed(), scope);
    case v1::Positions::kMultiAxis:
      return DraftMultiAxis(message.multi_axis(), scope);
    case v1::Positions::kContextParallel:
      return DraftRule(message.context_parallel(), "context_parallel",
                       SizeOfContextParallel(message.context_parallel(), scope.At("context_parallel"), limits),
                       &IdsOfContextParallel, scope);
    case v1::Positions::kMrope:
      return DraftRule(message.mrope(), "mrope", SizeOfMrope(message.mrope(), scope.At("mrope"), limits), &IdsOfMrope,
                       scope);
    case v1::Positions::kGrid: {
      auto draft =
          DraftRule(message.grid(), "grid", SizeOfGrid(message.grid(), scope.At("grid"), limits), &IdsOfGrid, scope);
      if (draft.ok()) draft->unmoved = message.grid().prefix();
      return draft;
    }
    case v1::Positions::kRemapped:
      return DraftRemapped(message, scope);
    case v1::Positions::RULE_NOT_SET:
      break;
  }
  if (scope.tokens) return DraftRange(v1::PositionRange(), scope);
  return InvalidField(scope.path, "nothing",
                      "one of range, list, ids, mask, packed, multi_axis, context_parallel, mrope, grid, remapped");
}

}  // namespace phasor::server
