// What an angle task promises beside its numbers: exact special values, halves that are not wanted, errors, cancellation,
// the set-up cache, and that the bounds behind the rounding test hold with room to spare.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/core/sincos.h"
#include "kernels/cpu/angle_setup.h"
#include "kernels/cpu/angle_table.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_target.h"
#include "tests/kernels/cpu/angle_oracle.h"
#include "tests/kernels/cpu/angle_test_util.h"

namespace phasor::testing {
namespace {

class AngleTaskTest : public ::testing::Test {
 protected:
  absl::Status Run(const AngleTask& task, RowRange rows, const CancelFlag* cancel = nullptr) const {
    return backend_->Run(task, rows, cancel);
  }
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  const AnglePlan plan_ = MakePlan({10000, 48, 1, 1.25, 40});
};

TEST_F(AngleTaskTest, ZeroAnglesAreExact) {
  for (const std::string& target : CpuTargets()) {
    const ScopedTarget forced(target);
    for (int64_t rows : {1, 200}) {
      const Table table = Build(*backend_, plan_, PositionSource{-(rows / 2), 1, {}}, rows, DType::kF32);
      const auto at = [&](bool sine, int64_t row, int64_t pair) {
        return std::bit_cast<float>(static_cast<uint32_t>(table.Bits(sine, row * 48 + pair)));
      };
      for (int64_t i = 0; i < 48; ++i) {
        EXPECT_EQ(at(false, rows / 2, i), 1.25f);
        EXPECT_EQ(table.Bits(true, rows / 2 * 48 + i), 0u);
      }
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = 40; i < 48; ++i) {
          EXPECT_EQ(at(false, row, i), 1.25f);
          EXPECT_EQ(table.Bits(true, row * 48 + i), 0u);
        }
      }
    }
  }
}

TEST_F(AngleTaskTest, CosIsEvenAndSinIsOdd) {
  const Table right = Build(*backend_, plan_, PositionSource{1, 1, {}}, 500, DType::kF16);
  const Table left = Build(*backend_, plan_, PositionSource{-500, 1, {}}, 500, DType::kF16);
  for (int64_t row = 0; row < 500; ++row) {
    for (int64_t i = 0; i < 48; ++i) {
      const int64_t a = row * 48 + i, b = (499 - row) * 48 + i;
      ASSERT_EQ(right.Bits(false, a), left.Bits(false, b));
      ASSERT_EQ(right.Bits(true, a), right.Bits(true, a) == 0 ? left.Bits(true, b) : left.Bits(true, b) ^ 0x8000u);
    }
  }
}

// Quarter, third and whole turns; a frequency whose values would be denormal in f32.
TEST_F(AngleTaskTest, StrangeFrequenciesAreRight) {
  AnglePlan plan;
  for (uint64_t top : {uint64_t{1} << 62, uint64_t{1} << 63, uint64_t{3} << 62, uint64_t{0x5555555555555555}, uint64_t{0}}) {
    plan.frequencies.push_back(Turns{{0, 0, top, 0}});
  }
  plan.frequencies.push_back(Turns{{uint64_t{1} << 55, 0, 0, 2}});
  plan.frequencies.push_back(Turns{{0, uint64_t{1} << 5, 0, 0}});
  for (const std::string& target : CpuTargets()) {
    const ScopedTarget forced(target);
    for (DType dtype : kNarrowTypes) {
      const Table table = Build(*backend_, plan, PositionSource{-64, 1, {}}, 300, dtype);
      std::vector<int64_t> ids = {-9, 5, 1, 0, kPositionLimit - 1};
      const Table list = Build(*backend_, plan, PositionSource{0, 1, ids}, 5, dtype);
      const auto expect = [&](const Table& got, int64_t row, int64_t position) {
        for (int64_t i = 0; i < plan.pairs(); ++i) {
          const SinCos128 exact = SinCosOfPosition(plan.frequencies[static_cast<size_t>(i)], position);
          VisitFloat(dtype, [&](auto type) {
            using T = typename decltype(type)::type;
            EXPECT_EQ(got.Bits(false, row * plan.pairs() + i), BitsOf(RoundTo<T>(exact.cos))) << position << " pair " << i;
            EXPECT_EQ(got.Bits(true, row * plan.pairs() + i), BitsOf(RoundTo<T>(exact.sin))) << position << " pair " << i;
          });
        }
      };
      for (int64_t row = 0; row < 300; ++row) expect(table, row, row - 64);
      for (int64_t row = 0; row < 5; ++row) expect(list, row, ids[static_cast<size_t>(row)]);
    }
  }
}

TEST_F(AngleTaskTest, HalvesCanBeLeftOut) {
  for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
    AnglePlan plan = plan_;
    plan.precision = precision;
    for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      const Table both = Build(*backend_, plan, PositionSource{3, 1, {}}, 100, dtype);
      Table half(100, 48, dtype);
      AngleTask task = MakeTask(plan, PositionSource{3, 1, {}}, dtype, half);
      task.cos = nullptr;
      ASSERT_TRUE(Run(task, {0, 100}).ok());
      EXPECT_EQ(half.sin, both.sin);
      task = MakeTask(plan, PositionSource{3, 1, {}}, dtype, half);
      task.sin = nullptr;
      ASSERT_TRUE(Run(task, {0, 100}).ok());
      EXPECT_EQ(half.cos, both.cos);
    }
  }
}

TEST_F(AngleTaskTest, RefusesWhatItCannotRun) {
  Table table(10, 48, DType::kF32);
  const AngleTask good = MakeTask(plan_, PositionSource{0, 1, {}}, DType::kF32, table);
  const auto refused = [&](auto change, RowRange rows = {0, 10}) {
    AngleTask task = good;
    change(task);
    return absl::IsInvalidArgument(Run(task, rows));
  };
  const std::vector<int64_t> ids = {0, 1, int64_t{1} << 31, 3};
  EXPECT_TRUE(refused([](AngleTask& t) { t.plan = nullptr; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.cos = t.sin = nullptr; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.dtype = DType::kI32; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.row_stride = 47; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.positions.start = kPositionLimit - 9; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.positions.start = -kPositionLimit; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.positions.stride = kPositionLimit / 9 + 1; }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.positions.stride = std::numeric_limits<int64_t>::max(); }));
  EXPECT_TRUE(refused([](AngleTask& t) { t.positions.start = std::numeric_limits<int64_t>::min(); }));
  EXPECT_TRUE(refused([&](AngleTask& t) { t.positions.ids = ids; }, {0, 4}));
  EXPECT_TRUE(refused([&](AngleTask& t) { t.positions.ids = ids; }, {3, 5}));
  EXPECT_FALSE(refused([&](AngleTask& t) { t.positions.ids = ids; }, {0, 2}));
  EXPECT_FALSE(refused([](AngleTask& t) { t.positions.start = kPositionLimit - 10; }));
  EXPECT_TRUE(Run(good, {5, 5}).ok());
}

TEST_F(AngleTaskTest, StopsWhenCancelled) {
  Table table(10, 48, DType::kF64);
  const CancelFlag cancelled(true);
  for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
    AnglePlan plan = plan_;
    plan.precision = precision;
    for (DType dtype : {DType::kF64, DType::kF32}) {
      EXPECT_TRUE(absl::IsCancelled(Run(MakeTask(plan, {}, dtype, table), {0, 10}, &cancelled)));
    }
  }
}

TEST_F(AngleTaskTest, SlicesAreAboutAMillisecond) {
  AngleTask task;
  for (int64_t pairs : {1, 64, 4096, 1 << 19}) {
    const AnglePlan plan = [&] {
      AnglePlan p;
      p.frequencies.resize(static_cast<size_t>(pairs));
      return p;
    }();
    task.plan = &plan;
    for (DType dtype : {DType::kF64, DType::kF32}) {
      task.dtype = dtype;
      const int64_t rows = AngleRowsPerSlice(task);
      EXPECT_GE(rows, 1);
      EXPECT_LE(rows * pairs, std::max<int64_t>(pairs, 4'000'000));
    }
  }
}

TEST(AngleSetupCacheTest, KeepsWhatWasUsedLast) {
  AngleSetupCache cache;
  const AnglePlan plan = MakePlan({10000, 8});
  const auto first = cache.Get(plan, DType::kF32, false);
  EXPECT_EQ(first, cache.Get(MakePlan({10000, 8}), DType::kF32, false));  // an equal plan elsewhere
  EXPECT_NE(first, cache.Get(plan, DType::kF16, false));
  EXPECT_NE(first, cache.Get(plan, DType::kF32, true));
  EXPECT_NE(first, cache.Get(MakePlan({10000, 8, 1, 2}), DType::kF32, false));
  EXPECT_NE(first, cache.Get(MakePlan({10001, 8}), DType::kF32, false));
  for (size_t i = 0; i < AngleSetupCache::kMaxEntries; ++i) {
    cache.Get(MakePlan({20000.0 + static_cast<double>(i), 8}), DType::kF32, false);
  }
  EXPECT_NE(first, cache.Get(plan, DType::kF32, false));  // pushed out, made anew
}

double AsDouble(const Fixed192& value, double factor) {
  return std::bit_cast<double>(RoundOracle(value, factor, DType::kF64));
}

// A scalar twin of the recurrence, from an anchor of the same quality, against the oracle: the largest error seen over all
// blocks, relative to the bound that the kernel uses.
TEST(AngleSetupTest, TheRecurrenceStaysWithinItsBounds) {
  double worst_cos = 0, worst_sin = 0;
  for (const AngleConfig& config : {AngleConfig{10000, 64}, AngleConfig{5e8, 64, 1, 1.1386294361119891}}) {
    const AnglePlan plan = MakePlan(config);
    const auto setup = MakeAngleSetup(plan, DType::kF32, false);
    for (int64_t super : {int64_t{0}, int64_t{-512}, int64_t{1} << 20, kPositionLimit - 512}) {
      AngleOracle oracle(config, super);
      std::vector<double> anchor_cos(64), anchor_sin(64), pass_cos(64), pass_sin(64);
      std::vector<double> cos(64), sin(64), before_cos(64), before_sin(64);
      const auto advance = [&](size_t i, const double* wc, const double* ws, std::vector<double>& c,
                               std::vector<double>& s) {
        const double next = std::fma(c[i], wc[i], -(s[i] * ws[i]));
        s[i] = std::fma(s[i], wc[i], c[i] * ws[i]);
        c[i] = next;
      };
      for (int64_t row = 0; row < 512; ++row, oracle.Step()) {
        const auto largest =
            static_cast<double>(std::max(std::abs(super + row / 64 * 64), std::abs(super + row / 64 * 64 + 63)));
        for (size_t i = 0; i < 64; ++i) {
          const auto pair = static_cast<int64_t>(i);
          if (row == 0) {
            anchor_cos[i] = AsDouble(oracle.cos(pair), config.factor);
            anchor_sin[i] = AsDouble(oracle.sin(pair), config.factor);
          } else if (row % 64 == 0) {
            advance(i, setup->jump_cos, setup->jump_sin, anchor_cos, anchor_sin);
          }
          if (row % 64 == 0) {
            pass_cos[i] = anchor_cos[i];
            pass_sin[i] = anchor_sin[i];
          } else if (row % 16 == 0) {
            advance(i, setup->pass_cos, setup->pass_sin, pass_cos, pass_sin);
          }
          const double last_cos = cos[i], last_sin = sin[i];
          if (row % 16 == 0) {
            cos[i] = pass_cos[i];
            sin[i] = pass_sin[i];
          } else if (row % 16 == 1) {
            advance(i, setup->step_cos, setup->step_sin, cos, sin);
          } else {
            cos[i] = std::fma(2 * setup->step_cos[i], cos[i], -before_cos[i]);
            sin[i] = std::fma(2 * setup->step_cos[i], sin[i], -before_sin[i]);
          }
          before_cos[i] = last_cos;
          before_sin[i] = last_sin;
          const double angle = setup->angle[i] * largest;
          const double sin_bound = angle <= 0.125 ? angle * setup->small_error[i] : setup->range_error[i];
          worst_cos =
              std::max(worst_cos, std::fabs(cos[i] - AsDouble(oracle.cos(pair), config.factor)) / setup->range_error[i]);
          worst_sin = std::max(worst_sin, std::fabs(sin[i] - AsDouble(oracle.sin(pair), config.factor)) / sin_bound);
        }
      }
    }
  }
  // The bounds are for the worst case of every rounding; what happens is far below.
  EXPECT_LT(worst_cos, 0.5);
  EXPECT_LT(worst_sin, 0.5);
  EXPECT_GT(worst_cos, 0.01);  // and not so far that something is wrong with the measurement
  RecordProperty("worst_cos", std::to_string(worst_cos));
  RecordProperty("worst_sin", std::to_string(worst_sin));
}

}  // namespace
}  // namespace phasor::testing
