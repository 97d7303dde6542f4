// Some heads of a bias, without making the others.
#ifndef PHASOR_SERVER_KNOWLEDGE_SIDE_HEADS_H_
#define PHASOR_SERVER_KNOWLEDGE_SIDE_HEADS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "server/knowledge/numbers.h"
#include "server/knowledge/side.h"

namespace phasor::server {

// At most `most` of `count` indices, evenly spaced with the first and the last; all of them where there are no more.
std::vector<int64_t> EvenIndices(int64_t count, int64_t most);

// Rows [first, first + count) of those heads of a bias by distance, as EntriesOf has them: [count, heads], f64. Errors:
// those of EntriesOf; CANCELLED.
absl::StatusOr<Grid> EntriesOfHeads(const Backend& backend, const Side& side, const std::vector<int64_t>& heads,
                                    int64_t first, int64_t count, const CancelFlag* cancel);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SIDE_HEADS_H_
