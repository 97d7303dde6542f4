// Rows gathered from tables and columns assembled from halves.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/table_span.h"
#include "tests/conformance/table_cases.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

TEST(CudaTablesTest, GatheredRowsHaveTheBitsOfTheReference) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(61);
  int64_t number = 0;
  for (const DType from : kFloatTypes) {
    for (const DType to : kFloatTypes) {
      for (const double scale : kTestedScales) {
        for (const bool normalize : {false, true}) {
          const GatherCase c(from, to, scale, normalize, random);
          const int64_t elements = GatherCase::kRows * c.stride();
          const auto run = [&](const Backend& backend) {
            Buffer out(elements * SizeOf(to));
            EXPECT_TRUE(backend.Run(c.TaskTo(out.data()), {0, 13}, nullptr).ok());
            EXPECT_TRUE(backend.Run(c.TaskTo(out.data()), {13, GatherCase::kRows}, nullptr).ok());
            EXPECT_TRUE(out.GuardIntact());
            return out;
          };
          const Buffer want = run(**reference);
          const auto compare = [&](const HostGridBackend& backend) {
            ASSERT_EQ(run(backend).FirstDifference(want, 0, elements, SizeOf(to)), -1)
                << Name(from) << " to " << Name(to) << " scale " << scale << (normalize ? " normalized" : "");
          };
          compare(HostGridNumber(number++));
          if (number % 17 == 0) OnEveryHostGrid(compare);
        }
      }
    }
  }
}

GatherPlan SmallPlan(int64_t rows, std::mt19937_64& random) {
  GatherPlan plan;
  plan.rows = rows;
  plan.dim = 2;
  plan.table = RandomTable(DType::kF32, rows, 2, false, random);
  return plan;
}

TEST(CudaTablesTest, RangesOfRowsAndRowsThatAreNotThere) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(62);
  const GatherPlan plan = SmallPlan(10, random);
  const HostGridBackend backend({}, 2);
  for (const int64_t stride : {1, -1, 3, 0}) {
    std::vector<float> out(20, 5), want(20, 5);
    GatherRowsTask task;
    task.plan = &plan;
    task.positions.start = stride == -1 ? 9 : 0;
    task.positions.stride = stride;
    task.row_stride = 2;
    const int64_t rows = stride == 3 ? 4 : stride == 0 ? 7 : 10;
    task.out = want.data();
    ASSERT_TRUE((*reference)->Run(task, {0, rows}, nullptr).ok());
    task.out = out.data();
    ASSERT_TRUE(backend.Run(task, {0, rows}, nullptr).ok());
    EXPECT_EQ(out, want) << stride;
    if (stride == 0) continue;
    EXPECT_TRUE(absl::IsInvalidArgument(backend.Run(task, {0, rows + 1}, nullptr))) << stride;
    EXPECT_EQ(out, want) << stride;
    task.positions.stride = INT64_MAX / 2;
    EXPECT_TRUE(absl::IsInvalidArgument(backend.Run(task, {0, 10}, nullptr)));
  }
}

// Tables of which chunks would move much more than they read stay where they are.
TEST(CudaTablesTest, ScatteredRowsAreLeftToTheCpu) {
  const auto dense = [](std::vector<int64_t> rows) {
    return IsDense(static_cast<int64_t>(rows.size()), kSmallTableBytes,
                   [&](int64_t i) { return rows[static_cast<size_t>(i)]; });
  };
  std::vector<int64_t> rows(3000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i % 1000);
  EXPECT_TRUE(dense(rows));  // sequences side by side
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i * 2);
  EXPECT_TRUE(dense(rows));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i * 3);
  EXPECT_FALSE(dense(rows));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i * 7919 % 3000);
  EXPECT_FALSE(dense(rows));  // every row once, but any small chunk reads from all over the table
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i / 64 * 100000 + i % 64);
  EXPECT_FALSE(dense(rows));  // small chunks are dense, larger ones are not
  EXPECT_TRUE(dense({}));
  EXPECT_TRUE(dense({7}));
  std::mt19937_64 random(63);
  const GatherPlan plan = SmallPlan(1 << 18, random);
  float out[4] = {};
  const std::vector<int64_t> far = {0, (1 << 18) - 1};
  GatherRowsTask task;
  task.plan = &plan;
  task.positions.ids = far;
  task.out = out;
  task.row_stride = 2;
  EXPECT_TRUE(absl::IsUnimplemented(HostGridBackend({}, 1).Run(task, {0, 2}, nullptr)));
  task.positions.ids = {};
  task.positions.stride = 3;
  EXPECT_TRUE(absl::IsUnimplemented(HostGridBackend({}, 1).Run(task, {0, 2}, nullptr)));
}

TEST(CudaTablesTest, AssembledColumnsHaveTheBitsOfTheReference) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(64);
  int64_t number = 0;
  ForEachFormShape([&](const FormShape& shape) {
    const FormCase c(shape, random);
    const Buffer want = c.Run(**reference);
    const auto compare = [&](const HostGridBackend& backend) {
      ASSERT_EQ(c.Run(backend).FirstDifference(want, 0, c.elements(), shape.size), -1)
          << "form " << static_cast<int>(shape.form) << " size " << shape.size << " pairs " << shape.pairs << " columns "
          << shape.columns;
    };
    compare(HostGridNumber(number++));
    if (number % 29 == 0) OnEveryHostGrid(compare);
  });
}

TEST(CudaTablesTest, OneOfTwoArraysMayBeLeftOutAndBadTasksAreRefused) {
  const uint16_t cos[2] = {1, 2}, sin[2] = {3, 4};
  uint16_t out[4] = {};
  const HostGridBackend backend({}, 1);
  AssembleTask task;
  task.element_size = 2, task.pairs = 2, task.columns = 4, task.table_stride = 2;
  task.sin = sin, task.out_sin = out;
  ASSERT_TRUE(backend.Run(task, {0, 1}, nullptr).ok());
  EXPECT_EQ(std::vector<uint16_t>(out, out + 4), (std::vector<uint16_t>{3, 4, 3, 4}));
  task.cos = cos, task.out = out, task.out_sin = nullptr;
  ASSERT_TRUE(backend.Run(task, {0, 1}, nullptr).ok());
  EXPECT_EQ(std::vector<uint16_t>(out, out + 4), (std::vector<uint16_t>{1, 2, 1, 2}));
  const auto refused = [&](auto change, RowRange rows) {
    AssembleTask bad = task;
    change(bad);
    return absl::IsInvalidArgument(backend.Run(bad, rows, nullptr));
  };
  const std::vector<int32_t> rows = {0};
  EXPECT_TRUE(refused([](AssembleTask& t) { t.out = nullptr; }, {0, 1}));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.cos = nullptr; }, {0, 1}));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.element_size = 1; }, {0, 1}));
  EXPECT_TRUE(refused([](AssembleTask& t) { t.pairs = -1; }, {0, 1}));
  EXPECT_TRUE(refused([&](AssembleTask& t) { t.table_rows = rows; }, {0, 2}));
}

}  // namespace
}  // namespace phasor::cuda
