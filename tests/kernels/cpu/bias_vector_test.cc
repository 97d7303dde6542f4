#include "kernels/cpu/bias_vector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "boost/multiprecision/cpp_int.hpp"

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"

namespace phasor {
namespace {

using Exact = boost::multiprecision::cpp_rational;

// True when `value` is what IEEE rounding to nearest even makes of `exact`.
template <typename T>
bool IsCorrectlyRounded(const Exact& exact, T value) {
  const uint64_t sign = exact < 0 ? kSignBit<T> : 0;
  const Exact magnitude = exact < 0 ? Exact(-exact) : exact;
  const uint64_t bits = BitsOf(value);
  if (exact == 0) return bits == 0;
  if ((bits & kSignBit<T>) != sign) return false;
  const uint64_t place = bits & (kSignBit<T> - 1u);
  if (place > kInfinityBits<T>) return false;
  // Infinity stands where the next number would be.
  const auto at = [](uint64_t p) {
    if (p < kInfinityBits<T>) return Exact(Widen<double>(FromBits<T>(p)));
    const Exact last(Widen<double>(FromBits<T>(kInfinityBits<T> - 1u)));
    return Exact(2 * last - Exact(Widen<double>(FromBits<T>(kInfinityBits<T> - 2u))));
  };
  const auto beyond = [&](uint64_t p, uint64_t q) {  // the middle of two neighbours
    return Exact((at(p) + at(q)) / 2);
  };
  if (place > 0) {
    const Exact middle = beyond(place - 1, place);
    if (magnitude < middle || (magnitude == middle && place % 2 == 1)) return false;
  }
  if (place < kInfinityBits<T>) {
    const Exact middle = beyond(place, place + 1);
    if (magnitude > middle || (magnitude == middle && place % 2 == 1)) return false;
  }
  return true;
}

template <typename T>
constexpr DType TypeOf() {
  if (std::is_same_v<T, double>) return DType::kF64;
  if (std::is_same_v<T, float>) return DType::kF32;
  return std::is_same_v<T, F16> ? DType::kF16 : DType::kBF16;
}

template <typename T>
class BiasVectorTest : public testing::Test {};
using Types = testing::Types<double, float, F16, BF16>;
TYPED_TEST_SUITE(BiasVectorTest, Types);

template <typename T>
void Check(const std::vector<DoubleDouble>& slopes, AlibiForm form, int64_t first_distance, int64_t count) {
  BiasPlan plan;
  plan.form = form;
  plan.slopes = slopes;
  constexpr int64_t kGuard = 3;
  const int64_t heads = plan.heads() - 1;
  const T guard = FromBits<T>(0x1234);
  std::vector<T> out(static_cast<size_t>(heads * (count + kGuard)), guard);
  BiasVectorTask task;
  task.plan = &plan, task.dtype = TypeOf<T>(), task.first_distance = first_distance;
  task.first_head = 1, task.heads = heads, task.out = out.data(), task.head_stride = count + kGuard;
  ASSERT_TRUE(RunBiasVector(task, {0, count / 2}, nullptr).ok());
  ASSERT_TRUE(RunBiasVector(task, {count / 2, count}, nullptr).ok());
  for (int64_t h = 0; h < heads; ++h) {
    const DoubleDouble& slope = slopes[static_cast<size_t>(h + 1)];
    for (int64_t r = 0; r < count + kGuard; ++r) {
      const T value = out[static_cast<size_t>(h * task.head_stride + r)];
      if (r >= count) {
        ASSERT_EQ(BitsOf(value), BitsOf(guard));
        continue;
      }
      const int64_t d = first_distance + r;
      const int64_t factor = form == AlibiForm::kCausal ? d : (d < 0 ? d : -d);
      const Exact exact = (Exact(slope.hi) + Exact(slope.lo)) * factor;
      ASSERT_TRUE(IsCorrectlyRounded(exact, value))
          << std::hexfloat << slope.hi << " + " << slope.lo << " times " << d << " gave " << Widen<double>(value);
    }
  }
}

// Heads of the usual rule are powers of two or their square roots; given ones can be anything.
std::vector<DoubleDouble> Slopes() {
  std::vector<DoubleDouble> slopes = {
      {0, 0},           {0.5, 0},         {0x1p-8, 0},         {0.70710678118654757, -4.8336466567264567e-17},
      {-0.25, 0},       {0.1, 0},         {1e300, 0},          {0x1p-1074, 0},
      {1.5e-310, 0},    {3e-5, 1e-22},    {-3e-5, 1e-22},      {65504, 0},
      {0x1p-24, 0},     {0x1p-133, 0},    {0x1p127, 0},        {1.0, 0x1p-120},
      {1.0, -0x1p-120}, {1.5, 0x1p-1074}, {0x1p1023, -0x1p969}};
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int i = 0; i < 10; ++i) {
    const double hi = uniform(random) * std::ldexp(1.0, -static_cast<int>(random() % 12));
    slopes.push_back({hi, hi * uniform(random) * 0x1p-54});
  }
  return slopes;
}

TYPED_TEST(BiasVectorTest, EveryValueIsCorrectlyRounded) {
  for (AlibiForm form : {AlibiForm::kCausal, AlibiForm::kSymmetric}) {
    Check<TypeParam>(Slopes(), form, -40, 81);
    Check<TypeParam>(Slopes(), form, 4000, 60);
    Check<TypeParam>(Slopes(), form, -(int64_t{1} << 32) + 1, 5);
    Check<TypeParam>(Slopes(), form, (int64_t{1} << 32) - 6, 5);
  }
}

// A tie of the 16-bit types that only the low part decides: 257·(1 ± 2^-70) lies beside the middle of two bf16 numbers.
TEST(BiasVectorTiesTest, LowPartDecides) {
  BiasPlan plan;
  plan.slopes = {{1, 0}, {1, 0x1p-70}, {1, -0x1p-70}};
  BF16 out[3];
  BiasVectorTask task;
  task.plan = &plan, task.dtype = DType::kBF16, task.first_distance = 257, task.heads = 3, task.out = out;
  task.head_stride = 1;
  ASSERT_TRUE(RunBiasVector(task, {0, 1}, nullptr).ok());
  EXPECT_EQ(out[0].bits, Narrow<BF16>(256.0).bits);
  EXPECT_EQ(out[1].bits, Narrow<BF16>(258.0).bits);
  EXPECT_EQ(out[2].bits, Narrow<BF16>(256.0).bits);
}

TEST(BiasVectorErrorsTest, RefusesAndCancels) {
  BiasPlan plan;
  plan.slopes = {{0.5, 0}, {0.25, 0}};
  float out[8] = {};
  BiasVectorTask good;
  good.plan = &plan, good.heads = 2, good.out = out, good.head_stride = 4;
  ASSERT_TRUE(RunBiasVector(good, {0, 4}, nullptr).ok());
  EXPECT_EQ(out[5], 0.25f);
  const auto refused = [&](auto change) {
    BiasVectorTask task = good;
    change(task);
    return absl::IsInvalidArgument(RunBiasVector(task, {0, 4}, nullptr));
  };
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.plan = static_cast<const BiasPlan*>(nullptr); }));
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.out = nullptr; }));
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.first_head = 1; }));
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.dtype = DType::kBool; }));
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.first_distance = (int64_t{1} << 32) - 3; }));
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.first_distance = -(int64_t{1} << 32); }));
  EXPECT_TRUE(refused([](BiasVectorTask& t) { t.first_distance = INT64_MIN; }));
  BiasPlan infinite = plan;
  infinite.slopes[1].hi = INFINITY;
  EXPECT_TRUE(refused([&](BiasVectorTask& t) { t.plan = &infinite; }));
  CancelFlag cancel = true;
  EXPECT_TRUE(absl::IsCancelled(RunBiasVector(good, {0, 4}, &cancel)));
  EXPECT_GE(BiasVectorRowsPerSlice(good), 1);
}

}  // namespace
}  // namespace phasor
