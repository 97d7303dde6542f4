// Which tokens stand at the ends of their domain.
#ifndef PHASOR_SERVER_DOMAIN_ENDS_H_
#define PHASOR_SERVER_DOMAIN_ENDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/positions.pb.h"

#include "server/item_parser.h"
#include "server/positions.h"

namespace phasor::server {

// Per token, in the order of the positions: the row of `first` or `last` that it gets, −1 where it gets none. Empty where
// the caller gave no such rows.
struct DomainEnds {
  // What the caller gave.
  struct Rows {
    int64_t first = 0, last = 0;    // how many rows; 0: none
    std::optional<int64_t> length;  // of the sequence
  };

  std::vector<int32_t> first, last;

  int64_t bytes() const { return static_cast<int64_t>((first.size() + last.size()) * sizeof(int32_t)); }
};

// A token's place is its position m ≥ 0. It gets first[m] when m < k, and last[m − (S − k)] when S − k ≤ m < S; both where S
// < 2·k. S is the given length, else the largest position of the token's own sequence + 1: of its batch row, of its part of
// a pack. Tokens that a mask hides get nothing. `set` is plain and has `batch` rows of `sequence` positions. Costs
// context.ids_left. Errors: OverLimit; INVALID_ARGUMENT for a position beyond the given length.
absl::StatusOr<DomainEnds> FindDomainEnds(const v1::Positions& message, const PositionSet& set, int64_t batch,
                                          int64_t sequence, const DomainEnds::Rows& rows, ParseContext& context);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DOMAIN_ENDS_H_
