// Positions of table rows or tokens, from whatever rule the request uses.
#ifndef PHASOR_SERVER_POSITIONS_PARSER_H_
#define PHASOR_SERVER_POSITIONS_PARSER_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/positions.pb.h"

#include "server/item_parser.h"
#include "server/request.h"

namespace phasor::server {

// The tokens that positions are for (Apply). Both extents ≥ 0.
struct Tokens {
  int64_t batch = 0;
  int64_t sequence = 0;
  bool packed_axis = false;  // THD: sequence counts the tokens of all sequences, batch is 1
};

struct ParsedPositions {
  PositionSet set;
  bool per_batch = false;           // set covers batch × sequence, else one row of `sequence` for every batch row
  int64_t smallest = 0;             // 0 when there is none; of all axes, as set.largest is
  std::vector<int64_t> rope_delta;  // of `mrope`: one per batch row
};

// `tokens`: absent for Precompute, where the rule itself says how many rows there are. Every |position| is within
// limits.max_position and the count within limits.max_positions; ids are expanded only after both are known, at the cost of
// context.ids_left. Errors are below `path`.
absl::StatusOr<ParsedPositions> ParsePositions(const v1::Positions& message, std::string_view path,
                                               std::optional<Tokens> tokens, ParseContext& context);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_POSITIONS_PARSER_H_
