// Rows of learned tables and sinusoids of given frequencies, bit for bit against the reference, and rows of every absolute
// encoding as steps.
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "kernels/program/absolute_rows.h"
#include "tests/conformance/table_cases.h"

namespace phasor {
namespace {

// Runs the task on both in two ranges and compares; the task's outputs are [rows, stride] each.
template <typename MakeTask>
void Compare(const Variant& variant, int64_t rows, int64_t stride, DType dtype, const MakeTask& make) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const int64_t size = SizeOf(dtype);
  const auto run = [&](const Backend& backend) {
    Buffer out(rows * stride * size);
    const Task task = make(out.data());
    EXPECT_TRUE(backend.Run(task, {0, rows / 3}, nullptr).ok());
    EXPECT_TRUE(backend.Run(task, {rows / 3, rows}, nullptr).ok());
    EXPECT_TRUE(out.GuardIntact());
    return out;
  };
  EXPECT_EQ(run(variant.Select()).FirstDifference(run(**reference), 0, rows * stride, size), -1)
      << variant.name << " " << Name(dtype);
}

TEST(TableConformanceTest, GatheredRows) {
  std::mt19937_64 random(31);
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType from : kFloatTypes) {
      for (DType to : kFloatTypes) {
        for (double scale : kTestedScales) {
          for (bool normalize : {false, true}) {
            const GatherCase c(from, to, scale, normalize, random);
            Compare(variant, GatherCase::kRows, c.stride(), to, [&](void* out) { return c.TaskTo(out); });
          }
        }
      }
    }
  }
}

TEST(TableConformanceTest, RowsThatAreNotThereAreRefused) {
  std::mt19937_64 random(32);
  GatherPlan plan;
  plan.rows = 4;
  plan.dim = 2;
  plan.table = RandomTable(DType::kF32, 4, 2, false, random);
  float out[8] = {};
  GatherRowsTask task;
  task.plan = &plan;
  task.positions.start = 2;
  task.out = out;
  task.row_stride = 2;
  for (const char* name : {"cpu", "reference"}) {
    const auto backend = CreateBackend(name);
    ASSERT_TRUE(backend.ok());
    EXPECT_TRUE((*backend)->Run(task, {0, 2}, nullptr).ok());
    EXPECT_EQ((*backend)->Run(task, {0, 3}, nullptr).code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(TableConformanceTest, FourierRows) {
  FourierPlan shape;
  shape.weights = {16.5, -3.25, 0, 1e-3, 40, -0x1p-64, 123456.7, -1, 0x1.fp30};
  const std::vector<double> fractions = {1, 0x1p-64, 0.01, 0.999999999, 1.0000000001, 80, 2147483646.5, 3.25};
  const std::vector<int64_t> whole = {1, 2, 3, 1000, 2147483647, 7, 11, 13};
  const auto rows = static_cast<int64_t>(whole.size());
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType dtype : kFloatTypes) {
      for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
        for (bool log : {true, false}) {
          FourierPlan plan = shape;
          plan.precision = precision;
          plan.log = log;
          const int64_t pairs = plan.pairs();
          for (bool fractional : {true, false}) {
            Compare(variant, rows, 2 * pairs, dtype, [&](void* out) {
              FourierRowsTask task;
              task.plan = &plan;
              if (fractional) {
                task.positions.fractional_ids = fractions;
              } else {
                task.positions.ids = whole;
              }
              task.dtype = dtype;
              task.sin = out;
              task.cos = static_cast<char*>(out) + pairs * SizeOf(dtype);
              task.row_stride = 2 * pairs;
              return task;
            });
          }
        }
      }
    }
  }
}

// Sums over axes: cancelling, tiny, huge, and residues that fixed point does not hold.
TEST(TableConformanceTest, FourierRowsOfSeveralAxes) {
  FourierPlan shape;
  shape.log = false;
  shape.axes = 3;
  shape.weights = {16.5,    1, 0,         1e-3,    0x1p-64, 3,    0x1.fp30, 1,    -16.5,   1,     0, 2e-3,
                   0x1p-64, 3, -0x1.fp30, 0x1p-40, 0,       0.75, 0,        1e-5, 0x1p-64, 1e-30, 1, 0x1.8p-63};
  const std::vector<double> x = {1, 0x1p-64, 0.1, 2147483646.5, 0, 3.25}, y = {1, 0x1p-64, 0.1, -2147483646.5, 0, -0.7};
  const std::vector<int64_t> z = {0, 1, -5, 7, 0, 100000};
  const auto rows = static_cast<int64_t>(z.size());
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType dtype : kFloatTypes) {
      for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
        for (bool radians : {false, true}) {
          FourierPlan plan = shape;
          plan.precision = precision;
          plan.radians = radians;
          const int64_t pairs = plan.pairs();
          Compare(variant, rows, 2 * pairs, dtype, [&](void* out) {
            FourierRowsTask task;
            task.plan = &plan;
            task.positions.fractional_ids = x;
            task.more_axes[0].fractional_ids = y;
            task.more_axes[1].ids = z;
            task.dtype = dtype;
            task.sin = out;
            task.cos = static_cast<char*>(out) + pairs * SizeOf(dtype);
            task.row_stride = 2 * pairs;
            return task;
          });
        }
      }
    }
  }
}

// One row may take seconds: whoever has left is not waited for.
TEST(TableConformanceTest, ARowOfManySinusoidsIsCutShort) {
  const auto cpu = CreateBackend("cpu");
  ASSERT_TRUE(cpu.ok());
  for (const int64_t axes : {1, 2}) {
    FourierPlan plan;
    plan.log = false;
    plan.axes = axes;
    plan.weights.assign(static_cast<size_t>(axes << 19), 0.3);
    std::vector<double> row(static_cast<size_t>(2 * plan.pairs()));
    FourierRowsTask task;
    task.plan = &plan;
    const std::vector<double> at = {0.25};
    task.positions.fractional_ids = task.more_axes[0].fractional_ids = at;
    task.dtype = DType::kF64;
    task.sin = row.data();
    task.cos = row.data() + plan.pairs();
    task.row_stride = 2 * plan.pairs();
    CancelFlag cancel{false};
    std::thread leaver([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      cancel.store(true);
    });
    EXPECT_EQ((*cpu)->Run(task, {0, 1}, &cancel).code(), absl::StatusCode::kCancelled) << axes;
    leaver.join();
    EXPECT_EQ(row.back(), 0) << "the end was not reached";
  }
}

// Every absolute case, all rows of it in f32 and f64, by steps on both backends.
TEST(TableConformanceTest, AbsoluteRows) {
  const auto cpu = CreateBackend("cpu"), reference = CreateBackend("reference");
  ASSERT_TRUE(cpu.ok() && reference.ok());
  const std::vector<double> fractions = {0.5, 3, 1.25, 1000.125}, more = {-1, 0x1p-64, 1234567.875, -0.1};
  int compared = 0;
  for (const Case& c : ConformanceCases()) {
    const auto canonical = Canonicalize(c.spec);
    ASSERT_TRUE(canonical.ok()) << c.name << canonical.status();
    if (!IsAbsolute(canonical->spec) || AbsoluteColumns(canonical->spec) > 400) continue;
    const Plan plan = PlanOf(c, Precision::kExact);
    AbsolutePositions positions;
    positions.rows = 4;
    positions.source.start = std::holds_alternative<GridSinusoidalSpec>(canonical->spec) ? 0 : -1;
    if (const auto* learned = std::get_if<LearnedSpec>(&canonical->spec))
      positions.source.start = -*learned->position_offset;
    if (std::holds_alternative<GaussianFourierSpec>(canonical->spec)) positions.source.start = 1;
    positions.axis_count = AbsoluteAxes(canonical->spec);
    for (PositionSource& source : positions.more_axes) source.start = -2, source.stride = 3;
    for (bool fractional : {false, true}) {
      if (fractional) positions.source.fractional_ids = fractions;
      if (fractional) positions.more_axes[0].fractional_ids = more;
      if (!CheckAbsolute(canonical->spec, positions).ok()) {
        EXPECT_TRUE(fractional) << c.name;  // rows of a table or a grid
        continue;
      }
      for (DType dtype : {DType::kF32, DType::kF64}) {
        const auto run = [&](const Backend& backend) {
          Buffer out(4 * AbsoluteColumns(canonical->spec) * SizeOf(dtype));
          std::vector<std::byte> scratch(static_cast<size_t>(AbsoluteScratchBytes(canonical->spec, positions, dtype) + 64));
          std::byte* const aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
          const auto steps = AbsoluteSteps({.spec = &canonical->spec,
                                            .plan = &plan,
                                            .positions = positions,
                                            .dtype = dtype,
                                            .out = out.data(),
                                            .scratch = aligned});
          EXPECT_TRUE(steps.ok()) << steps.status();
          if (steps.ok()) {
            EXPECT_TRUE(RunProgram(backend, *steps).ok());
          }
          EXPECT_TRUE(out.GuardIntact());
          return out;
        };
        EXPECT_EQ(run(**cpu).FirstDifference(run(**reference), 0, 4 * AbsoluteColumns(canonical->spec), SizeOf(dtype)), -1)
            << c.name << (fractional ? " fractional" : "");
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 20);
}

}  // namespace
}  // namespace phasor
