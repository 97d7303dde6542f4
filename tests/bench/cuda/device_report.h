// What is said of a device's speed: a line for people and one for programs, each row for itself, so that what was measured
// is there whatever becomes of the next.
#ifndef PHASOR_TESTS_BENCH_CUDA_DEVICE_REPORT_H_
#define PHASOR_TESTS_BENCH_CUDA_DEVICE_REPORT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace phasor::cuda {

enum class RowKind : uint8_t { kAtLeast, kAtMost, kFigure };

// A gate, or a figure that nothing is asked of.
struct ReportRow {
  std::string name;
  RowKind kind = RowKind::kFigure;
  double value = 0;        // a gate's: a ratio, or what the name says
  double limit = 0;        // of gates
  std::string error = {};  // why there is no value

  // False without a value, whatever the kind.
  bool holds() const;
};

// "name   0.912  ≥ 0.80  holds"
std::string TextOf(const ReportRow& row);
// {"gate": …, "ratio": …, "limit": …, "at_least": …, "holds": …} or {"figure": …, "value": …}, with "error" where there is
// no value; on one line.
std::string JsonOf(const ReportRow& row);

// Prints the row, and appends its JSON to the file (empty: none).
void Report(const ReportRow& row, std::string_view json_file);

// Whether devices of that compute capability do half as many operations in f64 as in f32, rather than a 32nd or a 64th: what
// is asked of kernels that compute in f64 holds for those.
bool HasFastDoubles(int major, int minor);

// Of any count of values but none.
double Median(std::vector<double> values);

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_BENCH_CUDA_DEVICE_REPORT_H_
