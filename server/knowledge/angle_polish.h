// The last digits of frequencies that no schedule gives.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_POLISH_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_POLISH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "server/knowledge/angle_check.h"
#include "server/knowledge/angle_ranges.h"

namespace phasor::server {

// One Gauss-Newton step over a sample of rows, weighted by one unit in the last place of each value.
struct PolishStep {
  std::vector<double> change;   // of ln frequency, per pair
  std::vector<double> weight;   // of each
  double amplitude_change = 0;  // of ln amplitude
};
absl::StatusOr<PolishStep> StepOf(const Backend& backend, const PairTable& table, const AnglePlan& plan, int64_t start,
                                  Rows rows);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_POLISH_H_
