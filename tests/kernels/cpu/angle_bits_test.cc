// The bits of a table depend on nothing but its definition: not on splits, ids, strides, threads, stores or the target.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/aligned_allocator.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_target.h"
#include "tests/kernels/cpu/angle_oracle.h"
#include "tests/kernels/cpu/angle_test_util.h"

namespace phasor::testing {
namespace {

constexpr int64_t kRows = 1300;

std::vector<AngleConfig> Configs() {
  return {{10000, 64}, {500000, 37, 1, 1.1386294361119891}, {1e6, 140, 1, 0.9, 35}, {10000, 1}};
}

struct Case {
  AngleConfig config;
  int64_t first;
  DType dtype;
  Precision precision;
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const AngleConfig& config : Configs()) {
    for (int64_t first : {int64_t{0}, int64_t{-650}, kPositionLimit - kRows}) {
      for (DType dtype : kNarrowTypes) cases.push_back({config, first, dtype, Precision::kExact});
      cases.push_back({config, first, DType::kF32, Precision::kCompatF32});
      cases.push_back({config, first, DType::kBF16, Precision::kCompatF32});
    }
  }
  return cases;
}

class AngleBitsTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend();
};

TEST_F(AngleBitsTest, SplitsDoNotMatter) {
  std::mt19937_64 random(1);
  for (const Case& c : Cases()) {
    const AnglePlan plan = MakePlan(c.config, c.precision);
    const PositionSource positions{c.first, 1, {}};
    const Table whole = Build(*backend_, plan, positions, kRows, c.dtype);
    Table pieces(kRows, plan.pairs(), c.dtype);
    const AngleTask task = MakeTask(plan, positions, c.dtype, pieces);
    for (int64_t row = 0; row < kRows;) {
      const int64_t end = std::min<int64_t>(kRows, row + 1 + static_cast<int64_t>(random() % 150));
      ASSERT_TRUE(backend_->Run(task, RowRange{row, end}, nullptr).ok());
      row = end;
    }
    EXPECT_EQ(whole, pieces) << c.config.ToString() << " from " << c.first << " " << Name(c.dtype);
  }
}

TEST_F(AngleBitsTest, IdsAndStridesDoNotMatter) {
  std::mt19937_64 random(2);
  for (const Case& c : Cases()) {
    const AnglePlan plan = MakePlan(c.config, c.precision);
    const Table whole = Build(*backend_, plan, PositionSource{c.first, 1, {}}, kRows, c.dtype);
    const int64_t row_bytes = plan.pairs() * SizeOf(c.dtype);
    const auto expect_rows = [&](const Table& got, const std::vector<int64_t>& rows) {
      for (size_t r = 0; r < rows.size(); ++r) {
        const auto at = static_cast<size_t>(rows[r] * row_bytes), to = r * static_cast<size_t>(row_bytes);
        ASSERT_EQ(0, std::memcmp(whole.cos.data() + at, got.cos.data() + to, static_cast<size_t>(row_bytes))) << rows[r];
        ASSERT_EQ(0, std::memcmp(whole.sin.data() + at, got.sin.data() + to, static_cast<size_t>(row_bytes))) << rows[r];
      }
    };
    // Single rows, short and long runs.
    std::vector<int64_t> rows;
    while (rows.size() < 600) {
      const auto begin = static_cast<int64_t>(random() % kRows);
      const int64_t length = std::vector<int64_t>{1, 1, 5, 70}[random() % 4];
      for (int64_t r = begin; r < std::min(begin + length, kRows); ++r) rows.push_back(r);
    }
    std::vector<int64_t> ids;
    for (int64_t row : rows) ids.push_back(c.first + row);
    const auto count = static_cast<int64_t>(ids.size());
    expect_rows(Build(*backend_, plan, PositionSource{0, 1, ids}, count, c.dtype), rows);

    for (int64_t stride : {int64_t{3}, int64_t{-1}, int64_t{-7}}) {
      std::vector<int64_t> strided;
      for (int64_t row = stride > 0 ? 0 : kRows - 1; row >= 0 && row < kRows; row += stride) strided.push_back(row);
      const PositionSource positions{c.first + strided[0], stride, {}};
      expect_rows(Build(*backend_, plan, positions, static_cast<int64_t>(strided.size()), c.dtype), strided);
    }
  }
}

TEST_F(AngleBitsTest, TargetsDoNotMatter) {
  const std::vector<std::string> targets = CpuTargets();
  ASSERT_EQ(targets.back(), "scalar");
  for (const Case& c : Cases()) {
    const AnglePlan plan = MakePlan(c.config, c.precision);
    std::vector<int64_t> ids(100);
    std::iota(ids.begin(), ids.end(), c.first);
    std::reverse(ids.begin(), ids.end());
    const Table range = Build(*backend_, plan, PositionSource{c.first, 1, {}}, 300, c.dtype);
    const Table list = Build(*backend_, plan, PositionSource{0, 1, ids}, 100, c.dtype);
    for (const std::string& target : targets) {
      const ScopedTarget forced(target);
      ASSERT_EQ(CurrentCpuTarget(), target);
      EXPECT_EQ(range, Build(*backend_, plan, PositionSource{c.first, 1, {}}, 300, c.dtype)) << target;
      EXPECT_EQ(list, Build(*backend_, plan, PositionSource{0, 1, ids}, 100, c.dtype)) << target;
    }
  }
}

TEST_F(AngleBitsTest, ThreadsDoNotMatter) {
  const AnglePlan plan = MakePlan({500000, 64});
  const PositionSource positions{-100, 1, {}};
  const Table whole = Build(*backend_, plan, positions, kRows, DType::kF32);
  Table shared(kRows, plan.pairs(), DType::kF32);
  const AngleTask task = MakeTask(plan, positions, DType::kF32, shared);
  const auto fresh = MakeCpuBackend();  // its cache is empty: all threads want the same set-up at once
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t row = 10 * t; row < kRows; row += 40) {
        EXPECT_TRUE(fresh->Run(task, RowRange{row, std::min(row + 10, kRows)}, nullptr).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(whole, shared);
}

TEST_F(AngleBitsTest, StoresDoNotMatter) {
  for (const AngleConfig& config : Configs()) {
    const AnglePlan plan = MakePlan(config);
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16}) {
      const int64_t rows = 200, size = SizeOf(dtype);
      const Table whole = Build(*backend_, plan, PositionSource{9, 1, {}}, rows, dtype);
      for (int64_t offset : {0, 1, 16}) {
        for (int64_t stride : {plan.pairs(), plan.pairs() + 3, (plan.pairs() + 31) / 32 * 32}) {
          for (StoreHint hint : {StoreHint::kReadNext, StoreHint::kKeep}) {
            std::vector<uint8_t> storage(static_cast<size_t>((rows * stride + offset) * size + 64), 0x5a);
            auto address = reinterpret_cast<uintptr_t>(storage.data());
            uint8_t* const out = storage.data() + (64 - address % 64) % 64 + offset * size;
            AngleTask task;
            task.plan = &plan;
            task.positions.start = 9;
            task.dtype = dtype;
            task.sin = out;
            task.row_stride = stride;
            task.hint = hint;
            ASSERT_TRUE(backend_->Run(task, RowRange{0, rows - 1}, nullptr).ok());
            const auto row_bytes = static_cast<size_t>(plan.pairs() * size);
            for (int64_t r = 0; r < rows - 1; ++r) {
              ASSERT_EQ(
                  0, std::memcmp(out + r * stride * size, whole.sin.data() + static_cast<size_t>(r) * row_bytes, row_bytes));
              for (int64_t b = plan.pairs() * size; b < stride * size; ++b) ASSERT_EQ(out[r * stride * size + b], 0x5a);
            }
            for (int64_t b = 0; b < plan.pairs() * size; ++b) ASSERT_EQ(out[(rows - 1) * stride * size + b], 0x5a);
          }
        }
      }
    }
  }
}

// Both outputs in whole lines, which streaming stores write directly, and rows enough for some of them to be repaired.
TEST_F(AngleBitsTest, StreamingDoesNotMatter) {
  constexpr int64_t kLongRows = 3000;
  for (int64_t pairs : {16, 48, 64, 144}) {
    const AnglePlan plan = MakePlan({500000, pairs});
    const Table whole = Build(*backend_, plan, PositionSource{-700, 1, {}}, kLongRows, DType::kF32);
    for (int64_t stride : {pairs, pairs + 16}) {
      const auto values = static_cast<size_t>(kLongRows * stride);
      const auto storage = hwy::AllocateAligned<float>(2 * values);
      AngleTask task;
      task.plan = &plan;
      task.dtype = DType::kF32;
      task.cos = storage.get();
      task.sin = storage.get() + values;
      task.positions.start = -700;
      task.row_stride = stride;
      task.hint = StoreHint::kKeep;
      for (const std::string& target : CpuTargets()) {
        const ScopedTarget forced(target);
        std::fill_n(storage.get(), 2 * values, -3.0f);
        ASSERT_TRUE(backend_->Run(task, RowRange{0, kLongRows}, nullptr).ok());
        const auto row_bytes = static_cast<size_t>(pairs) * sizeof(float);
        for (int64_t r = 0; r < kLongRows; ++r) {
          const auto at = static_cast<size_t>(r) * row_bytes;
          const float* cos = storage.get() + r * stride;
          const float* sin = cos + values;
          ASSERT_EQ(0, std::memcmp(cos, whole.cos.data() + at, row_bytes)) << target << " row " << r << " of " << pairs;
          ASSERT_EQ(0, std::memcmp(sin, whole.sin.data() + at, row_bytes)) << target << " row " << r << " of " << pairs;
          for (int64_t i = pairs; i < stride; ++i) ASSERT_TRUE(cos[i] == -3 && sin[i] == -3) << target;
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::testing
