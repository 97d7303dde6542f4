// Tables at fractional positions: every entry is that of the exact path, on every instruction set; the exact path itself is
// compared with wide arithmetic in the conformance tests and in kernels/core.
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/core/sincos.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/cpu/angle_oracle.h"
#include "tests/kernels/cpu/angle_test_util.h"
#include "tests/kernels/cpu/each_target.h"

namespace phasor::testing {
namespace {

PositionSource At(const std::vector<double>& fractions) {
  PositionSource source;
  source.fractional_ids = fractions;
  return source;
}
PositionSource WholeAt(const std::vector<int64_t>& ids) {
  PositionSource source;
  source.ids = ids;
  return source;
}

// Everyday fractions, whole numbers, and every size that is allowed.
std::vector<double> Positions(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> mantissa(1, 2), everyday(-4096, 4096);
  std::vector<double> positions = {0, -0.0, 0x1p-64, -0x1p-64, 0x1.fffffffffffffp30, 1, -3, 0.25};
  while (static_cast<int64_t>(positions.size()) < count) {
    switch (random() % 4) {
      case 0:
        positions.push_back(everyday(random));
        break;
      case 1:
        positions.push_back(std::floor(everyday(random)) + 0.5);
        break;
      case 2:
        positions.push_back(static_cast<float>(everyday(random)));
        break;
      default:
        positions.push_back(std::ldexp(mantissa(random), static_cast<int>(random() % 95) - 64));
    }
  }
  return positions;
}

template <typename T>
uint64_t Exact(const Turns& frequency, double position, const Real128& factor, bool sine) {
  const SinCos128 value = SinCosOfFractionalPosition(frequency, position);
  return BitsOf(RoundTo<T>(Multiply(sine ? value.sin : value.cos, factor)));
}

void CompareWithExactPath(const Backend& backend, const AnglePlan& plan, const std::vector<double>& positions, DType dtype,
                          bool inverse) {
  const auto rows = static_cast<int64_t>(positions.size());
  const Table table = Build(backend, plan, At(positions), rows, dtype, inverse);
  Real128 factor = ToReal128(plan.attention_factor);
  if (inverse) factor = Reciprocal(factor);
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t pair = 0; pair < plan.pairs(); ++pair) {
        for (bool sine : {false, true}) {
          const double position = positions[static_cast<size_t>(row)];
          ASSERT_EQ(table.Bits(sine, row * plan.pairs() + pair),
                    (Exact<T>(plan.frequencies[static_cast<size_t>(pair)], position, factor, sine)))
              << "position " << position << " pair " << pair << (sine ? " sin" : " cos");
        }
      }
    }
  });
}

TEST(AngleFractionalTest, EveryEntryIsTheExactPaths) {
  const auto backend = MakeCpuBackend();
  for (const AngleConfig& config :
       {AngleConfig{10000, 64}, AngleConfig{500000, 37, 1, 1.1386294361119891}, AngleConfig{1e6, 140, 1, 0.9, 35}}) {
    const AnglePlan plan = MakePlan(config, Precision::kExact);
    const std::vector<double> positions = Positions(150, static_cast<uint64_t>(config.pairs));
    OnEachTarget([&] {
      for (DType dtype : kNarrowTypes) CompareWithExactPath(*backend, plan, positions, dtype, dtype == DType::kF16);
    });
  }
}

// Positions whose sine or cosine lies within about 2^-52 of the middle between two neighbours of the type: the rounding test
// alone decides whether such an entry is right.
template <typename T>
std::vector<double> HardPositions(const AnglePlan& plan, std::mt19937_64& random) {
  std::uniform_real_distribution<double> values(0.05, 0.95);
  std::vector<double> positions;
  for (int64_t pair = 0; pair < plan.pairs(); pair += 3) {
    const double radians = plan.inv_freq[static_cast<size_t>(pair)];
    for (int i = 0; i < 4; ++i) {
      const T below = Narrow<T>(values(random));
      const double middle = (Widen<double>(below) + Widen<double>(FromBits<T>(BitsOf(below) + 1u))) / 2;
      for (double angle : {std::asin(middle), std::acos(middle)}) {
        const double position = angle / radians;
        if (position < 0x1p30) positions.push_back(i % 2 == 0 ? position : -position);
      }
    }
  }
  return positions;
}

TEST(AngleFractionalTest, EntriesBesideTheMiddleOfTwoNumbers) {
  const auto backend = MakeCpuBackend();
  const AnglePlan plan = MakePlan({10000, 64}, Precision::kExact);
  OnEachTarget([&] {
    std::mt19937_64 random(11);
    CompareWithExactPath(*backend, plan, HardPositions<float>(plan, random), DType::kF32, false);
    CompareWithExactPath(*backend, plan, HardPositions<F16>(plan, random), DType::kF16, false);
    CompareWithExactPath(*backend, plan, HardPositions<BF16>(plan, random), DType::kBF16, false);
  });
}

// Frequencies of several turns a position, and quarter turns, whose zeros are exact.
TEST(AngleFractionalTest, LargeFrequenciesAndExactQuarters) {
  const auto backend = MakeCpuBackend();
  AnglePlan plan;
  for (const Turns& frequency :
       {Turns{{0, 0, uint64_t{1} << 62, 0}}, Turns{{0, 0, 0, 1}}, Turns{{1, 2, 3, uint64_t{1} << 40}}, Turns{{0, 0, 0, 0}},
        Turns{{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, (uint64_t{1} << 63) - 1}}, Turns{{0, uint64_t{1} << 32, 0, 0}}}) {
    plan.frequencies.push_back(frequency);
    plan.inv_freq.push_back(0);
    plan.inv_freq_f32.push_back(0);
  }
  const std::vector<double> positions = Positions(120, 3);
  OnEachTarget([&] {
    for (DType dtype : kNarrowTypes) CompareWithExactPath(*backend, plan, positions, dtype, false);
  });
  const std::vector<double> quarters = {2, 0.5};
  const Table table = Build(*backend, plan, At(quarters), 2, DType::kF32);
  EXPECT_EQ(FromBits<float>(table.Bits(false, 0)), -1.0f);
  EXPECT_EQ(table.Bits(true, 0), 0u);
  EXPECT_EQ(FromBits<float>(table.Bits(false, 7)), -1.0f);  // half a turn of one turn a position
}

TEST(AngleFractionalTest, WholeNumbersGiveTheBitsOfWholePositions) {
  const auto backend = MakeCpuBackend();
  const AnglePlan exact = MakePlan({10000, 64, 1, 0.9}, Precision::kExact);
  const AnglePlan compat = MakePlan({10000, 64, 1, 0.9}, Precision::kCompatF32);
  std::vector<double> fractions;
  std::vector<int64_t> ids;
  std::mt19937_64 random(9);
  for (int i = 0; i < 200; ++i) {
    ids.push_back(static_cast<int32_t>(random()) >> (random() % 31));
    fractions.push_back(static_cast<double>(ids.back()));
  }
  for (const AnglePlan* plan : {&exact, &compat}) {
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      EXPECT_TRUE(Build(*backend, *plan, WholeAt(ids), 200, dtype) == Build(*backend, *plan, At(fractions), 200, dtype));
    }
  }
}

TEST(AngleFractionalTest, PositionsOutOfRangeAreRefused) {
  const auto backend = MakeCpuBackend();
  const AnglePlan plan = MakePlan({10000, 4}, Precision::kExact);
  for (double bad : {std::nan(""), HUGE_VAL, 2147483648.0, -2147483648.0, 0x1p-65, 5e-324}) {
    const std::vector<double> positions = {1.5, bad};
    Table table(2, 4, DType::kF32);
    const AngleTask task = MakeTask(plan, At(positions), DType::kF32, table);
    EXPECT_EQ(backend->Run(task, {0, 2}, nullptr).code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(backend->Run(task, {0, 3}, nullptr).code(), absl::StatusCode::kInvalidArgument) << "more rows than ids";
  }
}

}  // namespace
}  // namespace phasor::testing
