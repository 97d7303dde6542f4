// Training of a small perceptron on the rows of a table. Part of distill.h.
#ifndef PHASOR_SERVER_KNOWLEDGE_DISTILL_TRAIN_H_
#define PHASOR_SERVER_KNOWLEDGE_DISTILL_TRAIN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/encodings/perceptron.h"
#include "server/knowledge/distill.h"

namespace phasor::server {

struct TrainedPerceptron {
  Perceptron perceptron;  // of x = 2·(row/(rows − 1)) − 1
  int64_t steps = 0;
};

// Minimises the mean square error by L-BFGS over the first two layers. The last one is not searched for: at every step it is
// the best one (least squares, with a small ridge), and what is differentiated is the error with it ("variable projection",
// Golub and Pereyra 1973). Of all steps the one with the least largest error is kept, so more steps are never worse.
absl::StatusOr<TrainedPerceptron> TrainPerceptron(const Grid& values, const DistillOptions& options,
                                                  DistillListener listener, const CancelFlag* cancel);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DISTILL_TRAIN_H_
