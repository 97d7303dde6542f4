// float32 frequencies whose float32 products with positions make a table.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_FLOAT32_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_FLOAT32_H_

#include <cstdint>
#include <vector>

#include "server/knowledge/angle_check.h"
#include "server/knowledge/angle_estimate.h"
#include "server/knowledge/angle_ranges.h"

namespace phasor::server {

// float32 frequencies in the ranges and beside them whose float32 products with positions make the table best, per pair.
struct Float32Turns {
  std::vector<double> frequencies;
  double worst = 0;  // units in the last place, of the worst pair
};
Float32Turns SearchFloat32(const PairTable& table, const std::vector<TurnRange>& ranges, double amplitude, int64_t start,
                           Rows rows);

// Whether the pairs that turn fastest have float32 frequencies that make their values to one unit in the last place. Late
// starts leave few. The table and the estimates outlive it.
class Float32Starts {
 public:
  Float32Starts(const PairTable& table, const Estimates& estimates, double amplitude);

  // Work is some microseconds, mostly; false once all calls together have tried four million frequencies.
  bool Allows(int64_t start);

 private:
  struct Value {
    double row = 0, have = 0, unit = 0;
    bool is_cos = false;
  };
  struct Pair {
    PairEstimate estimate;
    std::vector<Value> values;
  };

  bool Makes(const Pair& pair, float frequency, double start) const;
  bool PairAllows(const Pair& pair, int64_t start);

  const PairTable& table_;
  const Estimates& estimates_;
  float factor_;
  std::vector<Pair> pairs_;
  int64_t tried_ = 0;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_FLOAT32_H_
