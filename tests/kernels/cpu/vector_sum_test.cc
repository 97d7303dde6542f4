// Sums, dot products and scans in vectors give the bits of kernels/core/sum.h, on every instruction set.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/core/sum.h"
#include "tests/kernels/cpu/each_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/vector_sum_test.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

#define PHASOR_DEFINE(NAME, T, A, B)                      \
  T NAME(const A* a, const B* b, int64_t count, T* sum) { \
    *sum = Sum<T>(a, count);                              \
    return Dot<T>(a, b, count);                           \
  }
PHASOR_DEFINE(FloatsOfF32, float, float, float)
PHASOR_DEFINE(FloatsOfF16, float, F16, F16)
PHASOR_DEFINE(FloatsOfBF16, float, BF16, BF16)
PHASOR_DEFINE(FloatsOfMixed, float, F16, float)
PHASOR_DEFINE(DoublesOfF64, double, double, double)
PHASOR_DEFINE(DoublesOfF32, double, float, double)
PHASOR_DEFINE(DoublesOf16, double, F16, BF16)
#undef PHASOR_DEFINE

float PrefixFloats(const float* x, int64_t count, float* out) { return PrefixSum(x, count, 0.25f, out); }
double PrefixDoubles(const double* x, int64_t count, double* out) { return PrefixSum(x, count, 0.25, out); }
float SuffixFloats(const float* x, int64_t count, float* out) { return SuffixSum(x, count, 0.25f, out); }
double SuffixDoubles(const double* x, int64_t count, double* out) { return SuffixSum(x, count, 0.25, out); }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cstring>
#include <random>

namespace phasor {
namespace {

HWY_EXPORT(FloatsOfF32);
HWY_EXPORT(FloatsOfF16);
HWY_EXPORT(FloatsOfBF16);
HWY_EXPORT(FloatsOfMixed);
HWY_EXPORT(DoublesOfF64);
HWY_EXPORT(DoublesOfF32);
HWY_EXPORT(DoublesOf16);
HWY_EXPORT(PrefixFloats);
HWY_EXPORT(PrefixDoubles);
HWY_EXPORT(SuffixFloats);
HWY_EXPORT(SuffixDoubles);

// Numbers of many magnitudes and both signs, −0 and subnormals too; now and then, at the end, an infinity or NaN.
template <typename T>
std::vector<T> Numbers(int64_t count, uint64_t seed, bool special) {
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (int64_t k = 0; k < count; ++k) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    const double value = std::ldexp(2 * unit - 1, static_cast<int>(random() % 24) - 20);
    values.push_back(random() % 16 == 0 ? FromBits<T>(kSignBit<T> * (random() % 2) + random() % 3) : Narrow<T>(value));
  }
  if (special && count > 0) values[random() % static_cast<uint64_t>(count)] = FromBits<T>(kInfinityBits<T> + random() % 2);
  return values;
}

std::vector<int64_t> Counts() {
  std::vector<int64_t> counts;
  for (int64_t count = 0; count <= 70; ++count) counts.push_back(count);
  for (int64_t count : {127, 128, 129, 255, 511, 512, 513, 1000, 1024, 1100, 4096, 5003}) counts.push_back(count);
  return counts;
}

template <typename T, typename A, typename B, typename Vector>
void ExpectSums(Vector&& vector) {
  for (int64_t count : Counts()) {
    for (bool special : {false, true}) {
      const std::vector<A> a = Numbers<A>(count, static_cast<uint64_t>(count), special);
      const std::vector<B> b = Numbers<B>(count, static_cast<uint64_t>(count) + 7, false);
      T sum = 0;
      const T dot = vector(a.data(), b.data(), count, &sum);
      ASSERT_EQ(BitsOf(sum), BitsOf(sums::Sum<T>(a.data(), count))) << count;
      ASSERT_EQ(BitsOf(dot), BitsOf(sums::Dot<T>(a.data(), b.data(), count))) << count;
    }
  }
}

TEST(VectorSumTest, SumsHaveTheScalarBits) {
  OnEachTarget([] {
#define PHASOR_CHECK(NAME, T, A, B) \
  ExpectSums<T, A, B>([](const A* a, const B* b, int64_t n, T* s) { return HWY_DYNAMIC_DISPATCH(NAME)(a, b, n, s); })
    PHASOR_CHECK(FloatsOfF32, float, float, float);
    PHASOR_CHECK(FloatsOfF16, float, F16, F16);
    PHASOR_CHECK(FloatsOfBF16, float, BF16, BF16);
    PHASOR_CHECK(FloatsOfMixed, float, F16, float);
    PHASOR_CHECK(DoublesOfF64, double, double, double);
    PHASOR_CHECK(DoublesOfF32, double, float, double);
    PHASOR_CHECK(DoublesOf16, double, F16, BF16);
#undef PHASOR_CHECK
  });
}

template <typename T, typename Prefix, typename Suffix>
void ExpectScans(Prefix&& prefix, Suffix&& suffix) {
  for (int64_t count : Counts()) {
    for (bool special : {false, true}) {
      const std::vector<T> x = Numbers<T>(count, static_cast<uint64_t>(count), special);
      const size_t bytes = x.size() * sizeof(T);
      std::vector<T> expected(x.size()), got(x.size()), in_place = x;
      const T total = sums::PrefixSum(x.data(), count, T(0.25), expected.data());
      ASSERT_EQ(BitsOf(prefix(x.data(), count, got.data())), BitsOf(total)) << count;
      ASSERT_TRUE(bytes == 0 || std::memcmp(got.data(), expected.data(), bytes) == 0) << count;
      prefix(in_place.data(), count, in_place.data());
      ASSERT_TRUE(bytes == 0 || std::memcmp(in_place.data(), expected.data(), bytes) == 0) << count;

      const T suffix_total = sums::SuffixSum(x.data(), count, T(0.25), expected.data());
      ASSERT_EQ(BitsOf(suffix(x.data(), count, got.data())), BitsOf(suffix_total)) << count;
      ASSERT_TRUE(bytes == 0 || std::memcmp(got.data(), expected.data(), bytes) == 0) << count;
      in_place = x;
      suffix(in_place.data(), count, in_place.data());
      ASSERT_TRUE(bytes == 0 || std::memcmp(in_place.data(), expected.data(), bytes) == 0) << count;
    }
  }
}

TEST(VectorSumTest, ScansHaveTheScalarBits) {
  OnEachTarget([] {
    ExpectScans<float>([](const float* x, int64_t n, float* out) { return HWY_DYNAMIC_DISPATCH(PrefixFloats)(x, n, out); },
                       [](const float* x, int64_t n, float* out) { return HWY_DYNAMIC_DISPATCH(SuffixFloats)(x, n, out); });
    ExpectScans<double>(
        [](const double* x, int64_t n, double* out) { return HWY_DYNAMIC_DISPATCH(PrefixDoubles)(x, n, out); },
        [](const double* x, int64_t n, double* out) { return HWY_DYNAMIC_DISPATCH(SuffixDoubles)(x, n, out); });
  });
}

}  // namespace
}  // namespace phasor

#endif  // HWY_ONCE
