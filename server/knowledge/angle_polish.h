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

// float32 frequencies in the ranges and beside them whose float32 products with positions make the table best, per pair.
struct Float32Turns {
  std::vector<double> frequencies;
  double worst = 0;  // units in the last place, of the worst pair
};
Float32Turns SearchFloat32(const PairTable& table, const std::vector<TurnRange>& ranges, double amplitude, int64_t start,
                           Rows rows);

// Whether the pairs that turn fastest have float32 frequencies whose float32 products with positions from `start` make the
// table to one unit in the last place. Late starts leave few. Work is some microseconds.
bool AllowsFloat32(const PairTable& table, const Estimates& estimates, double amplitude, int64_t start);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_POLISH_H_
