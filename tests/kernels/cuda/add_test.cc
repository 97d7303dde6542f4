#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/conformance/add_cases.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

TEST(CudaAddTest, BitsOfTheReferenceInEveryShapeTypeAndSwitch) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(71);
  int64_t number = 0;
  for (const AddShape& shape : kAddShapes) {
    for (const DType dtype : kFloatTypes) {
      for (int i = 0; i < 10; ++i) {
        const int switches = i == 0 ? 0 : static_cast<int>(random() % 256);
        const AddCase c(shape, dtype, switches, random);
        const Buffer want = c.Run(**reference);
        std::vector<int64_t> cuts;
        for (int64_t row = 1; row < shape.batch * shape.tokens; ++row) {
          if (random() % 5 == 0) cuts.push_back(row);
        }
        const auto compare = [&](const HostGridBackend& backend) {
          ASSERT_EQ(c.Run(backend, cuts).FirstDifference(want, 0, c.elements(), SizeOf(dtype)), -1)
              << Name(dtype) << " batch " << shape.batch << " tokens " << shape.tokens << " dim " << shape.dim
              << " switches " << switches;
        };
        compare(HostGridNumber(number++));
        if (number % 40 == 0 && c.elements() < 1000) OnEveryHostGrid(compare);
      }
    }
  }
}

// What the layouts of real tensors come to: one strip for all, or one for every batch row.
TEST(CudaAddTest, MovesWholeTensorsAsFewStrips) {
  float x[64] = {}, pe[64] = {};
  AddTask task;
  task.batch = 2, task.tokens = 4, task.dim = 8;
  task.x = task.y = x;
  task.pe = {pe, 0, 8};
  const auto strips = [&](int64_t batch_stride, int64_t token_stride, RowRange rows) {
    task.x_batch_stride = task.y_batch_stride = batch_stride;
    task.x_token_stride = task.y_token_stride = token_stride;
    const Task of_any = task;
    const auto lowered = Lower(of_any);
    EXPECT_TRUE(lowered.ok());
    return (*lowered)->TransfersOf(rows);
  };
  EXPECT_EQ(strips(8, 16, {0, 8}).outputs.size(), 1u);  // tokens, then batch rows
  EXPECT_EQ(strips(32, 8, {0, 8}).outputs.size(), 2u);  // batch rows, then tokens
  EXPECT_EQ(strips(32, 8, {3, 4}).outputs.size(), 1u);  // part of a token
  EXPECT_EQ(strips(32, 8, {3, 4}).outputs[0].host, reinterpret_cast<std::byte*>(x + 32 + 8));
  EXPECT_EQ(strips(32, 8, {0, 8}).in_place, (std::vector<int>{0, 2}));
  EXPECT_EQ(strips(32, 8, {0, 8}).inputs[0].rows, 1);  // without gaps
}

TEST(CudaAddTest, RefusesWhatCannotBeRun) {
  float x[8] = {}, pe[8] = {};
  AddTask good;
  good.tokens = 2, good.dim = 4;
  good.x = good.y = x;
  good.x_token_stride = good.y_token_stride = 4;
  good.pe = {pe, 0, 4};
  const HostGridBackend backend({}, 1);
  const auto code = [&](auto change, RowRange rows = {0, 2}) {
    AddTask task = good;
    change(task);
    return backend.Run(task, rows, nullptr).code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](AddTask&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code([](AddTask&) {}, {0, 3}), kInvalid);
  EXPECT_EQ(code([](AddTask& t) { t.y = nullptr; }), kInvalid);
  EXPECT_EQ(code([&](AddTask& t) { t.other = {pe, 0, 4}; }), kInvalid);
  EXPECT_EQ(code([&](AddTask& t) { t.first.data = pe; }), kInvalid);
  EXPECT_EQ(code([](AddTask& t) { t.dtype = DType::kI32; }), kInvalid);
  EXPECT_EQ(code([](AddTask& t) { t.x_token_stride = 0; }), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code([](AddTask& t) { t.pe.token_stride = 1; }), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace phasor::cuda
