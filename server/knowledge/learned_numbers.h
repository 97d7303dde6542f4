// What PoPE, FoPE and biases that are no function of the distance alone make, as plain numbers: numbers.h for them.
#ifndef PHASOR_SERVER_KNOWLEDGE_LEARNED_NUMBERS_H_
#define PHASOR_SERVER_KNOWLEDGE_LEARNED_NUMBERS_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/encodings/encoding.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {

// Every value is what the service answers in `dtype` (IsFloat), widened. Sizes are the caller's duty.

// PoPE: of every head of δ (one without δ) the table of queries, then that of keys: [positions, heads·2·head_dim].
absl::StatusOr<Angles> MakePolarAngles(const Backend& backend, const PopeSpec& canonical, const AnglePlan& plan,
                                       int64_t first, int64_t count, DType dtype);

// FoPE: [positions, heads·pairs].
absl::StatusOr<Angles> MakeMixedAngles(const Backend& backend, const MixedAnglePlan& plan, int64_t first, int64_t count,
                                       DType dtype);

// The bias of one query at `query` and keys at query − first − count + 1 … query − first, as [heads, count]. Of a spec with
// BiasTraits that is neither over a window nor has a batch.
absl::StatusOr<Grid> MakeQueryRow(const Backend& backend, const EncodingSpec& canonical, const Plan& plan, int64_t query,
                                  int64_t first, int64_t count, DType dtype);

// A bias by distance that is a learned function: [heads, count] from key − query = first on.
absl::StatusOr<Grid> MakeLearnedDistances(const Backend& backend, const EncodingSpec& canonical, const Plan& plan,
                                          int64_t first, int64_t count, DType dtype);

// A bias over a window: rows [first, first + count) of its table, [count, heads].
absl::StatusOr<Grid> MakeWindowRows(const Backend& backend, const EncodingSpec& canonical, const Plan& plan, int64_t first,
                                    int64_t count, DType dtype);

// A query and a key of every row of the window's table, in its order.
struct TokenPair {
  int64_t query = 0;
  int64_t key = 0;
};
TokenPair PairOfRow(const TokenWindow& window, int64_t row);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_LEARNED_NUMBERS_H_
