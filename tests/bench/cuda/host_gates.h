// What callers with data on the host see of a device: copies in and out beside the work, many small requests together, and
// from which size on a device is worth its while. On any driver, so that tests run them where there is no device.
#ifndef PHASOR_TESTS_BENCH_CUDA_HOST_GATES_H_
#define PHASOR_TESTS_BENCH_CUDA_HOST_GATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cuda/driver.h"
#include "tests/bench/cuda/device_report.h"

namespace phasor::cuda {

struct HostGateSizes {
  int64_t bytes = int64_t{256} << 20;          // of the tensor that goes to the device and back
  int64_t largest_of_few = int64_t{16} << 20;  // up to which the device is compared with the CPU
  int rounds = 9;
};

// INTERNAL, with the first byte that is another, unless both give the same bits for the rotation of that many bytes of bf16
// numbers at `data`, which are rotated.
absl::Status RotatesAlike(const Backend& one, const Backend& other, std::byte* data, int64_t bytes);

// Device 0 of the driver. Both times of memory as the server's pool has it, which is pinned where it is, and of the
// runtime's own; what the last round leaves is the CPU's, bit for bit, or there is no figure.
std::vector<ReportRow> HostPathGate(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes);
std::vector<ReportRow> GroupFigures(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes);
std::vector<ReportRow> BreakEvenFigure(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes);

}  // namespace phasor::cuda

#endif  // PHASOR_TESTS_BENCH_CUDA_HOST_GATES_H_
