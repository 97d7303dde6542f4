// compat_f32: what a float32 library means, with trigonometry correctly rounded: 0 wrong against MPFR of the float angle.
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/core/narrow.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_target.h"
#include "tests/kernels/cpu/angle_oracle.h"
#include "tests/kernels/cpu/angle_test_util.h"

namespace phasor::testing {
namespace {

uint64_t Expected(const AnglePlan& plan, int64_t pair, int64_t position, bool sine, bool inverse, DType dtype) {
  const float angle = plan.inv_freq_f32[static_cast<size_t>(pair)] * static_cast<float>(position);
  const float value = CompatByMpfr(angle, sine) + 0.0f;  // zeros are +0
  const float scaled = inverse ? value / plan.attention_factor_f32 : value * plan.attention_factor_f32;
  return VisitFloat(dtype, [&](auto type) -> uint64_t {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, double>) {
      return BitsOf(static_cast<double>(scaled));
    } else {
      return BitsOf(Narrow<T>(scaled));
    }
  });
}

void ExpectRows(const Backend& backend, const AngleConfig& config, int64_t first, int64_t rows, DType dtype, bool inverse) {
  const AnglePlan plan = MakePlan(config, Precision::kCompatF32);
  const Table table = Build(backend, plan, PositionSource{first, 1, {}}, rows, dtype, inverse);
  int64_t wrong = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < config.pairs; ++i) {
      for (bool sine : {false, true}) {
        wrong += table.Bits(sine, row * config.pairs + i) != Expected(plan, i, first + row, sine, inverse, dtype);
      }
    }
  }
  EXPECT_EQ(wrong, 0) << config.ToString() << " from " << first << " " << Name(dtype) << " inverse " << inverse;
}

TEST(AngleCompatTest, NoEntryIsWrong) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (const AngleConfig& config : {AngleConfig{10000, 64}, AngleConfig{5e8, 64, 1, 1.1386294361119891, 40}}) {
    for (int64_t first :
         {int64_t{0}, int64_t{-200}, int64_t{1848}, int64_t{1} << 18, int64_t{1} << 20, kPositionLimit - 400}) {
      ExpectRows(*backend, config, first, 400, DType::kF32, /*inverse=*/false);
    }
  }
}

TEST(AngleCompatTest, EveryTypeIsOneCast) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    for (bool inverse : {false, true}) ExpectRows(*backend, {500000, 21, 1, 1.1386294361119891}, -30, 100, dtype, inverse);
  }
}

// Consecutive positions go through a recurrence and a correction, ids do not. Rows are no multiple of anything.
TEST(AngleCompatTest, RangesAndIdsAgree) {
  constexpr int64_t kRows = 12345;
  struct Window {
    AngleConfig config;
    int64_t first;
  };
  std::vector<Window> windows;
  // Around the largest angles of each kind of correction.
  for (const AngleConfig& config : {AngleConfig{10000, 64}, AngleConfig{5e5, 41}}) {
    for (int64_t middle : {0, 1 << 11, 1 << 18, 1 << 20, 1 << 22, 1 << 24}) windows.push_back({config, middle - kRows / 2});
    windows.push_back({config, 1 - kPositionLimit});
  }
  // Each holds values that come out wrong without the rounding test (the first three), or without the last term of a
  // correction: what a search of 2·10^9 values found.
  windows.push_back({{10000, 64}, 1394985});
  windows.push_back({{5e5, 64}, 1209810});
  windows.push_back({{100, 64}, 49380});
  windows.push_back({{1.3, 64}, 172830});
  windows.push_back({{1.3, 64}, 209865});
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (const Window& window : windows) {
    const AnglePlan plan = MakePlan(window.config, Precision::kCompatF32);
    std::vector<int64_t> ids(kRows);
    std::iota(ids.begin(), ids.end(), window.first);
    const Table one_by_one = Build(*backend, plan, PositionSource{0, 1, ids}, kRows, DType::kF32);
    EXPECT_EQ(Build(*backend, plan, PositionSource{window.first, 1, {}}, kRows, DType::kF32), one_by_one)
        << window.config.ToString() << " from " << window.first;
  }
}

// Every type, and frequencies of 0 beside others, whose cos is a float.
TEST(AngleCompatTest, RangesOfEveryTypeAgreeWithIds) {
  constexpr int64_t kRows = 150;
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  AnglePlan plan = MakePlan({10000, 140, 1, 1.25}, Precision::kCompatF32);
  for (size_t i : {2, 3, 9, 100, 139}) plan.inv_freq_f32[i] = 0;
  plan.inv_freq_f32[5] = -0.7f;
  std::vector<int64_t> ids(kRows);
  for (int64_t row = 0; row < kRows; ++row) ids[static_cast<size_t>(row)] = row - 40;
  for (const std::string& target : CpuTargets()) {
    const ScopedTarget forced(target);
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      for (bool inverse : {false, true}) {
        EXPECT_EQ(Build(*backend, plan, PositionSource{-40, 1, {}}, kRows, dtype, inverse),
                  Build(*backend, plan, PositionSource{0, 1, ids}, kRows, dtype, inverse))
            << target << " " << Name(dtype) << " inverse " << inverse;
      }
    }
  }
}

// Frequencies that no model has: angles beyond 2^31, denormal ones, infinite ones, on every target.
TEST(AngleCompatTest, StrangeAnglesAreRight) {
  std::mt19937 random(5);
  AnglePlan plan = MakePlan({10000, 24}, Precision::kCompatF32);
  for (float& f : plan.inv_freq_f32) f = FromBits<float>(random() % 0x7f800000u);
  plan.inv_freq_f32[3] = 0;
  plan.inv_freq_f32[5] = 0x1p-149f;
  plan.inv_freq_f32[7] = FromBits<float>(0x7f7fffff);
  for (const std::string& target : CpuTargets()) {
    const ScopedTarget forced(target);
    const auto backend = MakeCpuBackend();
    for (int64_t first : {int64_t{-3}, kPositionLimit - 5}) {
      const Table table = Build(*backend, plan, PositionSource{first, 1, {}}, 5, DType::kF32);
      for (int64_t row = 0; row < 5; ++row) {
        for (int64_t i = 0; i < plan.pairs(); ++i) {
          for (bool sine : {false, true}) {
            const uint64_t got = table.Bits(sine, row * plan.pairs() + i);
            const float angle = plan.inv_freq_f32[static_cast<size_t>(i)] * static_cast<float>(first + row);
            const uint64_t expected =
                IsNaN(angle - angle) ? kCanonicalNaNBits<float> : Expected(plan, i, first + row, sine, false, DType::kF32);
            ASSERT_EQ(got, expected) << target << " angle " << angle << " sine " << sine;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::testing
