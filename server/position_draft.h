// Positions on their way from a rule to a PositionSet. Private to the parsers of positions.
#ifndef PHASOR_SERVER_POSITION_DRAFT_H_
#define PHASOR_SERVER_POSITION_DRAFT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/positions.pb.h"

#include "server/item_parser.h"
#include "server/positions_parser.h"

namespace phasor::server {

// Coordinates along one axis: rows × columns of ids, whole or fractional.
struct DraftAxis {
  std::vector<int64_t> ids = {};
  std::vector<double> fractional = {};
  std::string field;  // path of the numbers, for errors
};

// A range (no axes), or ids in `rows` rows of `columns` per axis.
struct PositionDraft {
  int64_t start = 0;
  int64_t stride = 1;
  bool is_range = false;
  int64_t moved_by = 0;      // the offset that all positions have in them already
  int64_t unmoved = 0;       // so many columns at the start of a row take no offset
  bool has_offsets = false;  // sequence_offsets are in the positions already: the rule maps what they lead to
  int64_t rows = 1;
  int64_t columns = 0;
  std::string field;  // of the rule, for errors
  std::vector<DraftAxis> axes;
  std::vector<uint8_t> hidden;    // of a mask: rows × columns
  std::vector<int64_t> segments;  // of packed: ends of the sequences
  std::optional<int64_t> rope_delta;
};

// What the readers of rules share. `tokens` as in ParsePositions.
struct PositionScope {
  std::string path;
  std::optional<Tokens> tokens;
  ParseContext& context;

  std::string At(std::string_view field) const;
  // Asks for room for `count` ids of eight bytes before they are made.
  absl::Status Expand(std::string_view field, int64_t count) const;
  // sequence_offsets: none, or `wanted` of them (one per `unit`), each within bounds, which keeps sums far from overflow.
  absl::Status CheckOffsets(const google::protobuf::RepeatedField<int64_t>& offsets, int64_t wanted,
                            std::string_view unit) const;
};

// The positions of a rule, before sequence_offsets (unless has_offsets); nothing is checked yet that positions of all rules
// must hold.
absl::StatusOr<PositionDraft> DraftPositions(const v1::Positions& message, const PositionScope& scope);

// Of the rules whose ids travel as tensors.
absl::StatusOr<PositionDraft> DraftIds(const v1::Tensor& ids, const PositionScope& scope);
absl::StatusOr<PositionDraft> DraftMask(const v1::MaskPositions& mask, const PositionScope& scope);
absl::StatusOr<PositionDraft> DraftMultiAxis(const v1::MultiAxisPositions& positions, const PositionScope& scope);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_POSITION_DRAFT_H_
