// Small shared pieces of the angle table tests.
#ifndef PHASOR_TESTS_KERNELS_CPU_ANGLE_TEST_UTIL_H_
#define PHASOR_TESTS_KERNELS_CPU_ANGLE_TEST_UTIL_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/backend.h"
#include "kernels/cpu/cpu_target.h"

namespace phasor::testing {

// cos then sin, each [rows, pairs], poisoned before they are written.
struct Table {
  Table(int64_t rows, int64_t pairs, DType dtype)
      : element(SizeOf(dtype)), cos(static_cast<size_t>(rows * pairs * element), 0xa5), sin(cos) {}
  friend bool operator==(const Table& a, const Table& b) { return a.cos == b.cos && a.sin == b.sin; }
  uint64_t Bits(bool sine, int64_t index) const {
    uint64_t bits = 0;
    std::memcpy(&bits, (sine ? sin : cos).data() + index * element, static_cast<size_t>(element));
    return bits;
  }

  int64_t element;
  std::vector<uint8_t> cos, sin;
};

inline AngleTask MakeTask(const AnglePlan& plan, PositionSource positions, DType dtype, Table& table, bool inverse = false) {
  AngleTask task;
  task.plan = &plan;
  task.positions = positions;
  task.dtype = dtype;
  task.inverse = inverse;
  task.cos = table.cos.data();
  task.sin = table.sin.data();
  task.row_stride = plan.pairs();
  return task;
}

inline Table Build(const Backend& backend, const AnglePlan& plan, PositionSource positions, int64_t rows, DType dtype,
                   bool inverse = false) {
  Table table(rows, plan.pairs(), dtype);
  const absl::Status status = backend.Run(MakeTask(plan, positions, dtype, table, inverse), RowRange{0, rows}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return table;
}

// Forces a target while it lives.
class ScopedTarget {
 public:
  explicit ScopedTarget(const std::string& name) { EXPECT_TRUE(ForceCpuTarget(name).ok()) << name; }
  ~ScopedTarget() { EXPECT_TRUE(ForceCpuTarget("auto").ok()); }
};

inline constexpr DType kNarrowTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr int64_t kPositionLimit = int64_t{1} << 31;

}  // namespace phasor::testing

#endif  // PHASOR_TESTS_KERNELS_CPU_ANGLE_TEST_UTIL_H_
