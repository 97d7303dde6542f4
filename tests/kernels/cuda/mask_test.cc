#include <gtest/gtest.h>

#include <vector>

#include "tests/conformance/mask_cases.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

TEST(CudaMaskTest, BitsOfTheReferenceInPlace) {
  Random random(51);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  for (int i = 0; i < 400; ++i) {
    const DType dtype = kFloatTypes[i % 4];
    const MaskCase c(dtype, random);
    const Buffer want = c.Run(**reference);
    const auto compare = [&](const HostGridBackend& backend) {
      ASSERT_EQ(c.Run(backend).FirstDifference(want, 0, c.elements(), SizeOf(dtype)), -1) << Name(dtype) << " case " << i;
    };
    if (i % 25 == 0 && c.elements() < 4000) {
      OnEveryHostGrid(compare);
    } else {
      compare(HostGridNumber(i / 4));
    }
  }
}

TEST(CudaMaskTest, BitsOfTheReferenceInMatricesOfBiases) {
  Random random(52);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  for (int i = 0; i < 400; ++i) {
    const BiasMatrixCase c(i, random);
    const std::vector<unsigned char> want = c.Run(**reference);
    const auto compare = [&](const HostGridBackend& backend) {
      ASSERT_EQ(c.Run(backend), want) << Name(c.task().dtype) << " case " << i;
    };
    if (i % 25 == 1 && want.size() < 8000) {
      OnEveryHostGrid(compare);
    } else {
      compare(HostGridNumber(i / 4));
    }
  }
}

// Only what the task names is read: positions and vectors end where their numbers do.
TEST(CudaMaskTest, ReadsNoEntryBeyondTheDistances) {
  const std::vector<int32_t> queries = {7, 9}, keys = {3, 1, 12};
  const std::vector<uint16_t> vector = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};  // distances −8 … 5
  std::vector<uint16_t> out(6), want = {5, 3, 14, 3, 1, 12};
  BiasMatrixTask task;
  task.dtype = DType::kF16;
  task.heads = 1, task.queries = 2, task.keys = 3;
  task.vector = vector.data(), task.first_distance = -8;
  task.query_positions = queries.data(), task.key_positions = keys.data();
  task.out = out.data();
  ASSERT_TRUE(HostGridBackend({}, 1).Run(task, {0, 2}, nullptr).ok());
  EXPECT_EQ(out, want);
}

TEST(CudaMaskTest, RefusesWhatCannotBeRun) {
  std::vector<float> data(12, 1);
  MaskRule rule;
  rule.causal = true;
  const HostGridBackend backend({}, 1);
  const MaskTask good{.heads = 2, .queries = 2, .keys = 3, .rule = &rule, .data = data.data()};
  const auto code = [&](auto change, RowRange rows = {0, 4}) {
    MaskTask task = good;
    change(task);
    return backend.Run(task, rows, nullptr).code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](MaskTask&) {}, {0, 5}), kInvalid);
  EXPECT_EQ(code([](MaskTask& t) { t.rule = nullptr; }), kInvalid);
  EXPECT_EQ(code([](MaskTask& t) { t.data = nullptr; }), kInvalid);
  EXPECT_EQ(code([](MaskTask& t) { t.dtype = DType::kI32; }), kInvalid);
  EXPECT_EQ(code([](MaskTask& t) { t.keys = int64_t{1} << 32; }), absl::StatusCode::kUnimplemented);
  // Additive rows that overlap.
  MaskRule overlapping = rule;
  overlapping.additive = data.data();
  overlapping.additive_query_stride = 1;
  EXPECT_EQ(code([&](MaskTask& t) { t.rule = &overlapping; }), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(data, std::vector<float>(12, 1));
}

}  // namespace
}  // namespace phasor::cuda
