// Cosine series of the rows of a table. Part of distill.h.
#ifndef PHASOR_SERVER_KNOWLEDGE_DISTILL_SERIES_H_
#define PHASOR_SERVER_KNOWLEDGE_DISTILL_SERIES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "server/knowledge/distill.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {

// weights[c·terms + k] of Σ_k weight·cos(π·k·(p + ½)/rows): the best `terms` of them by least squares. Those cosines are
// orthogonal over the rows (DCT-II), so each weight is a mean of products, and more terms change none of the others.
// 1 ≤ terms ≤ rows < 2^31. Told is how many
// rows are done. Errors: CANCELLED.
absl::StatusOr<std::vector<double>> FitSeries(const Grid& values, int64_t terms, DistillListener listener,
                                              const CancelFlag* cancel);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DISTILL_SERIES_H_
