// A gate: the ratio of two benchmarks' medians, and the limit that the ratio must keep.
#ifndef PHASOR_TESTS_BENCH_GATES_H_
#define PHASOR_TESTS_BENCH_GATES_H_

#include <functional>
#include <string>
#include <vector>

namespace phasor::bench {

struct Gate {
  std::string id;           // "G1"
  std::string what;         // "f32 table 64 MiB, avx3"
  std::string numerator;    // names of benchmarks
  std::string denominator;  // empty: the numerator's value is the ratio (a count)
  double limit = 0;
  bool at_least = false;  // the ratio must be ≥ limit instead of ≤
};

// A gate on what google-benchmark cannot take: percentiles, the processor time of another process.
struct MeasuredGate {
  std::string id;
  std::string what;
  std::string versus;
  double limit = 0;  // the value must be at most this
};
struct Measurement {
  double value = 0;    // NaN: it failed
  double seconds = 0;  // printed beside it
};

// What a run is made of. Benchmarks register themselves with google-benchmark under names that gates refer to.
class GateList {
 public:
  void Add(Gate gate) { gates_.push_back(std::move(gate)); }
  // A gate that is a count of wrong values, made once, outside google-benchmark.
  void AddCount(std::string id, std::string what, std::function<double()> count) {
    counts_.push_back({std::move(id), std::move(what), std::move(count)});
  }
  // Gates that one measurement decides; it gives a value for each. It runs outside google-benchmark, and once more when one
  // of them does not hold.
  void AddMeasured(std::vector<MeasuredGate> gates, std::function<std::vector<Measurement>()> measure) {
    measured_.push_back({std::move(gates), std::move(measure)});
  }
  // A row that is printed and never fails: why something was not measured here.
  void Note(std::string text) { notes_.push_back(std::move(text)); }

  // Runs what `filter` (a regular expression on gate ids; empty: all) selects: medians of `repetitions` in random
  // interleaving, gates that do not hold once more. Prints the table, writes `json_path` when it is not empty. Returns
  // whether all hold.
  bool Run(const std::string& filter, int repetitions, double min_seconds, const std::string& json_path);

 private:
  struct Count {
    std::string id, what;
    std::function<double()> count;
  };
  struct Measured {
    std::vector<MeasuredGate> gates;
    std::function<std::vector<Measurement>()> measure;
  };
  std::vector<Gate> gates_;
  std::vector<Measured> measured_;
  std::vector<Count> counts_;
  std::vector<std::string> notes_;
};

// Each registers its benchmarks and gates.
void AddKernelGates(GateList& gates);
void AddExactnessGates(GateList& gates);
void AddScoreGates(GateList& gates);
void AddRpcGates(GateList& gates);
void AddApplyRpcGates(GateList& gates);
void AddLatencyGates(GateList& gates);
void AddSharedMemoryGates(GateList& gates);
void AddKnowledgeGates(GateList& gates);

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_GATES_H_
