#include "server/positions_parser.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/core/sincos.h"
#include "kernels/encodings/spec_check.h"
#include "server/grpc_status.h"
#include "server/position_draft.h"

namespace phasor::server {
namespace {

// From a draft to a PositionSet: extents compared, offsets added, bounds checked.
class Finisher {
 public:
  explicit Finisher(const PositionScope& scope) : scope_(scope), limits_(scope.context.limits) {}

  absl::StatusOr<ParsedPositions> Finish(PositionDraft draft, const v1::Positions& message) {
    if (auto status = CheckExtents(draft); !status.ok()) return status;
    if (auto status = CheckLimit(draft.field, draft.columns, "max_positions", limits_.max_positions, "positions");
        !status.ok()) {
      return status;
    }
    if (auto status = AddOffsets(message, &draft); !status.ok()) return status;
    ParsedPositions parsed;
    if (auto status = CheckBounds(draft, &parsed); !status.ok()) return status;
    parsed.per_batch = scope_.tokens && draft.rows != 1;
    if (draft.rope_delta) parsed.rope_delta.assign(static_cast<size_t>(BatchOf(draft)), *draft.rope_delta);
    parsed.set.count = draft.rows * draft.columns;
    parsed.set.hidden = std::move(draft.hidden);
    for (DraftAxis& axis : draft.axes) WholeIfAllAre(&axis);
    if (draft.is_range) {
      parsed.set.start = draft.start;
      parsed.set.stride = draft.stride;
      return parsed;
    }
    parsed.set.ids = std::move(draft.axes[0].ids);
    parsed.set.fractional = std::move(draft.axes[0].fractional);
    for (size_t a = 1; a < draft.axes.size(); ++a) {
      parsed.set.more_axes.push_back(
          {.ids = std::move(draft.axes[a].ids), .fractional = std::move(draft.axes[a].fractional)});
    }
    return parsed;
  }

 private:
  // Whole numbers are whole positions, whatever type they came in, and there is one zero: one request has one form.
  static void WholeIfAllAre(DraftAxis* axis) {
    std::vector<double>& ids = axis->fractional;
    for (double& id : ids) id += 0.0;  // −0 becomes 0
    if (!std::all_of(ids.begin(), ids.end(), [](double id) { return id == std::floor(id); })) return;
    for (const double id : ids) axis->ids.push_back(static_cast<int64_t>(id));
    axis->fractional.clear();
  }

  int64_t BatchOf(const PositionDraft& draft) const { return scope_.tokens ? scope_.tokens->batch : draft.rows; }

  absl::Status CheckExtents(const PositionDraft& draft) const {
    if (!scope_.tokens) return absl::OkStatus();
    const Tokens& tokens = *scope_.tokens;
    const std::string field = draft.is_range ? scope_.At("range.count") : draft.field;
    if (draft.columns != tokens.sequence) {
      return InvalidField(
          field, absl::StrCat(draft.rows == 1 ? "" : absl::StrCat(draft.rows, " × "), draft.columns, " positions"),
          absl::StrCat(tokens.sequence, ", the tensors' sequence", draft.is_range ? "" : ", or one such row per batch row"));
    }
    if (draft.rows != 1 && draft.rows != tokens.batch) {
      return InvalidField(field, absl::StrCat(draft.rows, " rows"),
                          absl::StrCat(tokens.batch == 1 ? "" : "1 or ", tokens.batch, ", the tensors' batch"));
    }
    return absl::OkStatus();
  }

  absl::Status AddOffsets(const v1::Positions& message, PositionDraft* draft) {
    const auto& offsets = message.sequence_offsets();
    if (offsets.empty() || draft->has_offsets) return absl::OkStatus();
    const bool packed = message.rule_case() == v1::Positions::kPacked;
    const int64_t wanted = packed ? static_cast<int64_t>(draft->segments.size()) : BatchOf(*draft);
    if (auto status = scope_.CheckOffsets(offsets, wanted, packed ? "sequence" : "batch row"); !status.ok()) return status;
    if (auto status = CheckBounds(*draft, nullptr); !status.ok()) return status;
    const bool equal = std::all_of(offsets.begin(), offsets.end(), [&](int64_t o) { return o == offsets[0]; });
    if (equal) {
      draft->start += draft->is_range ? offsets[0] : 0;
      draft->moved_by = offsets[0];
      for (DraftAxis& axis : draft->axes) {
        Move(offsets[0], *draft, &axis.ids);
        Move(offsets[0], *draft, &axis.fractional);
      }
      return absl::OkStatus();
    }
    if (packed) {
      int64_t begin = 0;
      for (size_t s = 0; s < draft->segments.size(); ++s) {
        for (int64_t i = begin; i < draft->segments[s]; ++i) {
          draft->axes[0].ids[static_cast<size_t>(i)] += offsets[static_cast<int>(s)];
        }
        begin = draft->segments[s];
      }
      return absl::OkStatus();
    }
    return SpreadOffsets(offsets, draft);
  }

  template <typename T>
  static void Move(int64_t offset, const PositionDraft& draft, std::vector<T>* ids) {
    for (size_t i = 0; i < ids->size(); ++i) {
      if (static_cast<int64_t>(i) % draft.columns >= draft.unmoved) (*ids)[i] += static_cast<T>(offset);
    }
  }

  // Different offsets: every batch row needs positions of its own.
  absl::Status SpreadOffsets(const google::protobuf::RepeatedField<int64_t>& offsets, PositionDraft* draft) {
    const auto count = CheckedMul(offsets.size(), draft->columns);
    if (draft->is_range) draft->axes.push_back({.field = draft->field});
    for (DraftAxis& axis : draft->axes) {
      const absl::Status status = scope_.Expand(scope_.At("sequence_offsets"), count.value_or(limits_.max_positions + 1));
      if (!status.ok()) return status;
      if (axis.fractional.empty()) {
        axis.ids = Spread(axis.ids, offsets, *draft);
      } else {
        axis.fractional = Spread(axis.fractional, offsets, *draft);
      }
    }
    if (!draft->hidden.empty() && draft->rows == 1) {
      const std::vector<uint8_t> row = draft->hidden;
      for (int i = 1; i < offsets.size(); ++i) draft->hidden.insert(draft->hidden.end(), row.begin(), row.end());
    }
    draft->rows = offsets.size();
    draft->is_range = false;
    return absl::OkStatus();
  }

  template <typename T>
  static std::vector<T> Spread(const std::vector<T>& ids, const google::protobuf::RepeatedField<int64_t>& offsets,
                               const PositionDraft& draft) {
    std::vector<T> spread;
    spread.reserve(static_cast<size_t>(offsets.size() * draft.columns));
    for (int64_t row = 0; row < offsets.size(); ++row) {
      const int64_t source = draft.rows == 1 ? 0 : row * draft.columns;
      const T offset = static_cast<T>(offsets[static_cast<int>(row)]);
      for (int64_t column = 0; column < draft.columns; ++column) {
        const T position =
            draft.is_range ? static_cast<T>(draft.start + column * draft.stride) : ids[static_cast<size_t>(source + column)];
        spread.push_back(column < draft.unmoved ? position : position + offset);
      }
    }
    return spread;
  }

  absl::Status CheckPosition(std::string_view field, int64_t position) const {
    if (InBounds(position)) return absl::OkStatus();
    return InvalidField(field, absl::StrCat(position), Bounds());
  }
  bool InBounds(int64_t position) const { return position >= -limits_.max_position && position <= limits_.max_position; }
  bool InBounds(double position) const {
    const double magnitude = std::fabs(position);  // a NaN fails both comparisons
    return magnitude == 0 || (magnitude >= kSmallestFraction && magnitude <= static_cast<double>(limits_.max_position));
  }
  std::string Bounds() const {
    return absl::StrCat(-limits_.max_position, " … ", limits_.max_position, " (the server's max_position)");
  }

  // Every position within bounds; notes the extremes in `parsed` when given.
  absl::Status CheckBounds(const PositionDraft& draft, ParsedPositions* parsed) const {
    double smallest = 0, largest = -1;
    bool first = true;
    const auto note = [&](double low, double high) {
      smallest = first ? low : std::min(smallest, low);
      largest = first ? high : std::max(largest, high);
      first = false;
    };
    if (draft.is_range) {
      if (auto status = CheckRange(draft, note); !status.ok()) return status;
    }
    for (const DraftAxis& axis : draft.axes) {
      if (auto status = CheckAxis(axis, note); !status.ok()) return status;
    }
    if (parsed != nullptr) {
      // Where rows of a table are meant, a position lies between two of them.
      parsed->smallest = static_cast<int64_t>(std::floor(smallest));
      parsed->set.largest = static_cast<int64_t>(std::ceil(largest));
      if (largest != std::floor(largest)) parsed->set.largest_fraction = largest;
    }
    return absl::OkStatus();
  }

  template <typename Note>
  absl::Status CheckRange(const PositionDraft& draft, Note&& note) const {
    // A position that an offset moved out of bounds is neither the start that was given nor anything else that was.
    const std::string moved = draft.moved_by == 0 ? "" : absl::StrCat(" with the offset ", draft.moved_by);
    if (!InBounds(draft.start)) {
      return moved.empty() ? CheckPosition(absl::StrCat(draft.field, ".start"), draft.start)
                           : InvalidField(draft.field, absl::StrCat("first position ", draft.start, moved), Bounds());
    }
    if (draft.columns == 0) return absl::OkStatus();
    const auto steps = CheckedMul(draft.columns - 1, draft.stride);
    const auto last = steps ? CheckedAdd(draft.start, *steps) : std::nullopt;
    if (!last) return InvalidField(draft.field, "a last position that does not fit in 63 bits", Bounds());
    if (!InBounds(*last)) return InvalidField(draft.field, absl::StrCat("last position ", *last, moved), Bounds());
    note(static_cast<double>(std::min(draft.start, *last)), static_cast<double>(std::max(draft.start, *last)));
    return absl::OkStatus();
  }

  template <typename Note>
  absl::Status CheckAxis(const DraftAxis& axis, Note&& note) const {
    if (!axis.ids.empty()) {
      const auto [low, high] = std::minmax_element(axis.ids.begin(), axis.ids.end());
      if (!InBounds(*low) || !InBounds(*high)) {
        const auto first = std::find_if(axis.ids.begin(), axis.ids.end(), [&](int64_t id) { return !InBounds(id); });
        return CheckPosition(absl::StrCat(axis.field, "[", first - axis.ids.begin(), "]"), *first);
      }
      note(static_cast<double>(*low), static_cast<double>(*high));
    }
    for (size_t i = 0; i < axis.fractional.size(); ++i) {
      const double position = axis.fractional[i];
      if (!InBounds(position)) {
        return InvalidField(
            absl::StrCat(axis.field, "[", i, "]"), FormatNumber(position),
            absl::StrCat("0, or a magnitude of 2^-64 … ", limits_.max_position, " (the server's max_position)"));
      }
      note(position, position);
    }
    return absl::OkStatus();
  }

  const PositionScope& scope_;
  const Limits& limits_;
};

}  // namespace

absl::StatusOr<ParsedPositions> ParsePositions(const v1::Positions& message, std::string_view path,
                                               std::optional<Tokens> tokens, ParseContext& context) {
  const PositionScope scope{std::string(path), tokens, context};
  absl::StatusOr<PositionDraft> draft = DraftPositions(message, scope);
  if (!draft.ok()) return draft.status();
  return Finisher(scope).Finish(*std::move(draft), message);
}

}  // namespace phasor::server
