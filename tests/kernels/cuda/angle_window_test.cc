// Angle tables of every case of the conformance tests, in windows of 10^6 entries and more, against the CPU's bits.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/encodings/encoding.h"
#include "tests/conformance/cases.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

constexpr int64_t kLast = (int64_t{1} << 31) - 1;

// Entries of a half, all windows of a type together; kCompatF32, without a recurrence, gets an eighth.
constexpr int64_t kEntries[] = {1 << 20, 1 << 18, 1 << 18};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

void Compare(const Backend& cpu, const AnglePlan& plan, DType dtype, int64_t start, int64_t rows) {
  AngleTask task;
  task.plan = &plan;
  task.dtype = dtype;
  task.inverse = start < 0;
  task.row_stride = plan.pairs();
  task.positions.start = start;
  for (int64_t axis = 1; axis < plan.axes; ++axis)
    task.more_axes[static_cast<size_t>(axis - 1)] = {start / (axis + 1), 1, {}};
  const auto bytes = static_cast<size_t>(rows * plan.pairs() * SizeOf(dtype));
  std::vector<uint8_t> want_cos(bytes, 1), want_sin(bytes, 1), cos(bytes, 2), sin(bytes, 2);
  task.cos = want_cos.data();
  task.sin = want_sin.data();
  ASSERT_TRUE(cpu.Run(task, {0, rows}, nullptr).ok());
  task.cos = cos.data();
  task.sin = sin.data();
  ASSERT_TRUE(RunLowered(task, {0, rows}, {}, 1 << 14).ok());
  EXPECT_EQ(std::memcmp(cos.data(), want_cos.data(), bytes), 0) << "cos";
  EXPECT_EQ(std::memcmp(sin.data(), want_sin.data(), bytes), 0) << "sin";
}

class CudaAngleWindowTest : public testing::TestWithParam<Precision> {};

TEST_P(CudaAngleWindowTest, BitsOfTheCpu) {
  const auto cpu = MakeCpuBackend();
  int cases = 0;
  for (const Case& c : ConformanceCases()) {
    const auto canonical = Canonicalize(c.spec);
    ASSERT_TRUE(canonical.ok());
    const auto resolved = Resolve(*canonical, c.sequence_length, GetParam());
    if (!resolved.ok()) continue;
    const auto* plan = std::get_if<AnglePlan>(&resolved->plan);
    if (plan == nullptr || plan->pairs() == 0) continue;
    ++cases;
    for (int i = 0; i < 3; ++i) {
      const int64_t rows = std::max<int64_t>(1, kEntries[i] / plan->pairs() / (GetParam() == Precision::kExact ? 4 : 32));
      for (const int64_t start : {int64_t{0}, -rows / 3, int64_t{1} << 20, kLast + 1 - rows}) {
        SCOPED_TRACE(testing::Message() << c.name << " " << Name(kTypes[i]) << " from " << start);
        Compare(*cpu, *plan, kTypes[i], start, rows);
      }
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(cases, 10);
}

INSTANTIATE_TEST_SUITE_P(All, CudaAngleWindowTest, testing::Values(Precision::kExact, Precision::kCompatF32),
                         [](const auto& test) { return test.param == Precision::kExact ? "Exact" : "CompatF32"; });

}  // namespace
}  // namespace phasor::cuda
