#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cpu/angle_oracle.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

using ::phasor::testing::AngleConfig;
using ::phasor::testing::MakePlan;

constexpr int64_t kLast = (int64_t{1} << 31) - 1;
constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

// cos and sin of `rows` rows, `shift` bytes off alignment, with a gap behind each row.
struct Table {
  Table(int64_t rows, int64_t stride, DType dtype, int64_t bytes_off)
      : size(SizeOf(dtype)), shift(bytes_off), cos(static_cast<size_t>(rows * stride * size + 64), 0xee), sin(cos) {}
  void Aim(AngleTask& task) {
    if (task.cos != nullptr) task.cos = cos.data() + shift;
    if (task.sin != nullptr) task.sin = sin.data() + shift;
  }
  friend bool operator==(const Table& a, const Table& b) { return a.cos == b.cos && a.sin == b.sin; }

  int64_t size, shift;
  std::vector<uint8_t> cos, sin;
};

// Runs every chunk, order and number of OS threads against the reference.
void Compare(AngleTask task, int64_t rows, int64_t gap) {
  static const auto reference = MakeReferenceBackend();
  int mark = 0;
  if (task.cos == nullptr && task.sin == nullptr) task.cos = task.sin = &mark;
  task.row_stride = task.plan->pairs() + gap;
  const int64_t shift = gap == 0 ? 0 : SizeOf(task.dtype);
  Table want(rows, task.row_stride, task.dtype, shift);
  want.Aim(task);
  ASSERT_TRUE(reference->Run(task, {0, rows}, nullptr).ok());
  for (const HostGrid& grid :
       {HostGrid{ThreadOrder::kForward, 1}, HostGrid{ThreadOrder::kShuffled, 3}, HostGrid{ThreadOrder::kReversed, 3, 1}}) {
    for (const int64_t chunk : {int64_t{1}, int64_t{17}, rows}) {
      Table got(rows, task.row_stride, task.dtype, shift);
      got.Aim(task);
      ASSERT_TRUE(RunLowered(task, {0, rows}, grid, chunk).ok());
      ASSERT_TRUE(got == want) << "chunk " << chunk << ", order " << static_cast<int>(grid.order);
    }
  }
  // Rows from the middle alone: no other is touched.
  Table part(rows, task.row_stride, task.dtype, shift), part_want = part;
  const RowRange middle{rows / 3, std::min(rows, rows / 3 + 5)};
  part_want.Aim(task);
  ASSERT_TRUE(reference->Run(task, middle, nullptr).ok());
  part.Aim(task);
  ASSERT_TRUE(RunLowered(task, middle, {}, 2).ok());
  ASSERT_TRUE(part == part_want);
}

PositionSource From(int64_t start, int64_t stride = 1) { return {start, stride, {}}; }

AngleTask TaskOf(const AnglePlan& plan, DType dtype, PositionSource positions) {
  AngleTask task;
  task.plan = &plan;
  task.dtype = dtype;
  task.positions = positions;
  return task;
}

TEST(CudaAngleTest, ConsecutivePositions) {
  for (const int64_t pairs : {1, 4, 8, 13}) {
    const AnglePlan plan = MakePlan({.base = 10000, .pairs = pairs, .factor = 1.1386294361119891});
    for (const DType dtype : kTypes) {
      for (const int64_t start : {int64_t{0}, int64_t{-21}, int64_t{131011}, kLast - 36, -kLast}) {
        if (start > 0 && pairs != 13) continue;  // the reference takes its time
        SCOPED_TRACE(::testing::Message() << Name(dtype) << " pairs " << pairs << " from " << start);
        Compare(TaskOf(plan, dtype, From(start)), 37, start == 0 ? 0 : 3);
      }
    }
  }
}

TEST(CudaAngleTest, StillPairsSlowPairsAndWholeTurns) {
  AnglePlan still = MakePlan({.pairs = 8, .factor = 1.0078125, .live = 3});
  AnglePlan slow = MakePlan({.base = 1e30, .pairs = 8});
  // Exact quarters of a turn, and a whole turn a position beside a fraction of one.
  slow.frequencies[0].limb = {0, 0, uint64_t{1} << 62, 0};
  slow.frequencies[1].limb = {0, 0, 0, 1};
  slow.frequencies[2].limb = {0, 0, uint64_t{1} << 60, 3};
  for (const DType dtype : kTypes) {
    for (const AnglePlan* plan : {&still, &slow}) {
      for (const int64_t start : {-20, 0, 1000000}) {
        SCOPED_TRACE(::testing::Message() << Name(dtype) << " from " << start);
        Compare(TaskOf(*plan, dtype, From(start)), 35, 0);
      }
    }
  }
}

TEST(CudaAngleTest, IdsStridesAndFractions) {
  std::mt19937_64 random(3);
  std::vector<int64_t> ids = {0, -1, 1, kLast, -kLast, 16, 17, 18};
  std::vector<double> fractions = {0.0, -0.0, 0x1p-64, -0x1p-64, 0x1.fffffffffffffp30, -3.0, 0.5, 2147483647.0};
  while (ids.size() < 20) ids.push_back(static_cast<int32_t>(random()) >> (random() % 31));
  while (fractions.size() < 20) {
    const double size = std::ldexp(static_cast<double>(random() >> 11) * 0x1p-53 + 1, static_cast<int>(random() % 94) - 63);
    fractions.push_back(random() % 2 == 0 ? size : -size);
  }
  const auto rows = static_cast<int64_t>(ids.size());
  for (const int64_t pairs : {3, 8}) {
    AnglePlan plan = MakePlan({.base = 500000, .pairs = pairs, .factor = 0.7071067811865476, .live = pairs - 1});
    plan.frequencies[0].limb[3] = 2;  // above 2π
    const AnglePlan compat = MakePlan({.base = 500000, .pairs = pairs, .factor = 1.25}, Precision::kCompatF32);
    for (const DType dtype : kTypes) {
      for (const PositionSource& positions :
           {PositionSource{0, 1, ids}, From(-7000, 977), From(5, 0), PositionSource{0, 1, {}, fractions}}) {
        for (const AnglePlan* tried : {&std::as_const(plan), &compat}) {
          AngleTask task = TaskOf(*tried, dtype, positions);
          task.inverse = positions.start != 0;
          SCOPED_TRACE(::testing::Message() << Name(dtype) << " pairs " << pairs << " start " << positions.start);
          if (dtype == DType::kF64 && tried == &plan && !positions.fractional_ids.empty()) {
            task.cos = &task;
            task.row_stride = pairs;
            EXPECT_EQ(Lower(task).status(), absl::UnimplementedError("dtype"));
            continue;
          }
          Compare(task, rows, pairs == 3 ? 2 : 0);
        }
      }
    }
  }
}

TEST(CudaAngleTest, CompatAnglesOfEverySize) {
  AnglePlan plan = MakePlan({.base = 10000, .pairs = 16, .factor = 0.9}, Precision::kCompatF32);
  // Huge, tiny, denormal and negative ones; an infinite angle beyond position 1.
  const float sizes[] = {3e38f, 1e30f, 5e8f, 1.1e9f, 2e-38f, 1e-40f, 1e-30f, -1.5f, 7e-31f, 6.2831855f};
  std::copy(std::begin(sizes), std::end(sizes), plan.inv_freq_f32.begin());
  for (const DType dtype : kTypes) {
    for (const bool inverse : {false, true}) {
      AngleTask task = TaskOf(plan, dtype, From(inverse ? 0 : -1));
      task.inverse = inverse;
      Compare(task, 2, 0);
      plan.inv_freq_f32[0] = 1;  // finite from here on
      Compare(task, 40, 1);
      plan.inv_freq_f32[0] = 3e38f;
    }
  }
}

TEST(CudaAngleTest, OneHalfAlone) {
  const AnglePlan plan = MakePlan({.pairs = 8});
  for (const DType dtype : kTypes) {
    for (const bool cos : {false, true}) {
      AngleTask task = TaskOf(plan, dtype, From(-3));
      int mark = 0;
      (cos ? task.cos : task.sin) = &mark;
      Compare(task, 20, cos ? 0 : 8);
    }
  }
}

TEST(CudaAngleTest, SeveralAxes) {
  const std::vector<int64_t> ids = {5, 6, 7,     8,  9,  100, 101, -5, -6, 0,  1,  2,
                                    3, 4, 70000, 12, 13, 14,  15,  16, 17, 18, 19, 20};
  const std::vector<double> fractions(ids.size(), 2.5);
  AnglePlan plan = MakePlan({.pairs = 24, .factor = 1.5});
  plan.axes = 3;
  for (const bool chunked : {true, false}) {
    plan.axis_of_pair.clear();
    for (int i = 0; i < 24; ++i) plan.axis_of_pair.push_back(static_cast<uint8_t>(chunked ? i / 8 : i % 3));
    // An axis without a pair.
    if (chunked) std::replace(plan.axis_of_pair.begin(), plan.axis_of_pair.end(), uint8_t{1}, uint8_t{2});
    for (const Precision precision : {Precision::kExact, Precision::kCompatF32}) {
      plan.precision = precision;
      for (const DType dtype : kTypes) {
        SCOPED_TRACE(::testing::Message() << Name(dtype) << (chunked ? " chunked" : " interleaved"));
        AngleTask task = TaskOf(plan, dtype, From(11));
        task.more_axes[0] = {0, 1, ids};
        task.more_axes[1] = From(-100, 3);
        Compare(task, static_cast<int64_t>(ids.size()), chunked ? 0 : 5);
        if (dtype == DType::kF64) continue;
        task.more_axes[0] = {0, 1, {}, fractions};
        Compare(task, static_cast<int64_t>(ids.size()), 0);
      }
    }
  }
}

TEST(CudaAngleTest, Errors) {
  const AnglePlan plan = MakePlan({.pairs = 8});
  const std::vector<int64_t> ids = {1, 2, kLast + 1, 4};
  std::vector<float> out(1024);
  AngleTask task = TaskOf(plan, DType::kF32, From(0));
  const auto code = [&](RowRange rows) { return RunLowered(task, rows, {}, 100).code(); };
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kInvalidArgument);  // no output
  task.cos = out.data();
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kInvalidArgument);  // row_stride
  task.row_stride = 8;
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kOk);
  EXPECT_EQ(code({-1, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({4, 4}), absl::StatusCode::kOk);
  task.positions = From(kLast);
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kOk);
  EXPECT_EQ(code({0, 2}), absl::StatusCode::kInvalidArgument);
  task.positions = {0, 1, ids};
  EXPECT_EQ(code({0, 2}), absl::StatusCode::kOk);
  EXPECT_EQ(code({0, 3}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({3, 5}), absl::StatusCode::kInvalidArgument);
  task.dtype = DType::kI32;
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kInvalidArgument);
  task.plan = nullptr;
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kInvalidArgument);
}

TEST(CudaAngleTest, WorksOfTablesBeyondTwoToThe31) {
  AngleParams p;
  p.dtype = DType::kBF16;
  p.pairs = 128;
  p.row_stride = 128;
  p.rows = int64_t{1} << 31;
  p.first = -(int64_t{1} << 30);
  EXPECT_EQ(p.works(), (int64_t{1} << 27) * 16);
  p.method = AngleMethod::kWhole;
  EXPECT_EQ(p.works(), (int64_t{1} << 31) * 16);
  EXPECT_EQ(p.ElementOf(p.rows - 1, 127), (int64_t{1} << 38) - 1);
  EXPECT_EQ(AnglePassOf(-1), -16);
  EXPECT_EQ(AnglePassOf(-kLast), -kLast - 1);
  p.method = AngleMethod::kRange;
  p.first = 15;
  p.rows = 2;
  EXPECT_EQ(p.passes(), 2);
}

}  // namespace
}  // namespace phasor::cuda
