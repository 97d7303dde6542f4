// The vector functions give the bits of kernels/core/math.h, on every instruction set and at every width.
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "tests/kernels/cpu/each_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/vector_math_test.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/math-inl.h"

// Every function of one argument, and those that floats have too.
#define PHASOR_TEST_FUNCTIONS(F) \
  F(Exp)                         \
  F(CoarseExp)                   \
  F(Exp2)                        \
  F(Expm1)                       \
  F(Log)                         \
  F(Log1p)                       \
  F(Log2)                        \
  F(Sqrt)                        \
  F(Sigmoid)                     \
  F(Softplus)                    \
  F(LogSigmoid)                  \
  F(Tanh)                        \
  F(Relu)                        \
  F(Silu)                        \
  F(Gelu)                        \
  F(GeluTanh)
#define PHASOR_TEST_FLOAT_FUNCTIONS(F) F(Exp) F(Log) F(Sigmoid) F(Softplus) F(LogSigmoid)

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, typename T, class F>
void Map(D d, const T* from, int64_t count, T* to, F f) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, from + i)), d, to + i);
}

// Whole vectors, and a quarter each in narrower ones. `count` is a multiple of 64.
template <typename T, class F>
void MapWidths(const T* from, int64_t count, T* to, F f) {
  const int64_t quarter = count / 4;
  Map(hn::ScalableTag<T>(), from, quarter, to, f);
  Map(hn::CappedTag<T, 8>(), from + quarter, quarter, to + quarter, f);
  Map(hn::CappedTag<T, 4>(), from + 2 * quarter, quarter, to + 2 * quarter, f);
  Map(hn::CappedTag<T, 2>(), from + 3 * quarter, quarter, to + 3 * quarter, f);
}

#define PHASOR_DEFINE(NAME)                                                         \
  void NAME##Doubles(const double* from, int64_t count, double* to) {               \
    MapWidths(from, count, to, [](auto d, auto v) HWY_ATTR { return NAME(d, v); }); \
  }
PHASOR_TEST_FUNCTIONS(PHASOR_DEFINE)
#undef PHASOR_DEFINE
#define PHASOR_DEFINE(NAME)                                                         \
  void NAME##Floats(const float* from, int64_t count, float* to) {                  \
    MapWidths(from, count, to, [](auto d, auto v) HWY_ATTR { return NAME(d, v); }); \
  }
PHASOR_TEST_FLOAT_FUNCTIONS(PHASOR_DEFINE)
#undef PHASOR_DEFINE

void PowDoubles(const double* x, const double* y, int64_t count, double* to) {
  const hn::ScalableTag<double> dd;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(dd))) {
    hn::StoreU(Pow(dd, hn::LoadU(dd, x + i), hn::LoadU(dd, y + i)), dd, to + i);
  }
}

void ExpOfDifferences(const double* x, const double* y, int64_t count, double* to) {
  const hn::ScalableTag<double> dd;
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(dd))) {
    hn::StoreU(ExpOfDifference(dd, hn::LoadU(dd, x + i), hn::LoadU(dd, y + i)), dd, to + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace phasor {
namespace {

#define PHASOR_EXPORT(NAME) HWY_EXPORT(NAME##Doubles);
PHASOR_TEST_FUNCTIONS(PHASOR_EXPORT)
#undef PHASOR_EXPORT
#define PHASOR_EXPORT(NAME) HWY_EXPORT(NAME##Floats);
PHASOR_TEST_FLOAT_FUNCTIONS(PHASOR_EXPORT)
#undef PHASOR_EXPORT
HWY_EXPORT(PowDoubles);
HWY_EXPORT(ExpOfDifferences);

// Special values with their neighbours, any patterns, and what lies where the functions change their way.
template <typename T>
std::vector<T> Arguments(uint64_t seed, int count) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (T magnitude : {T{0},
                      Limits::denorm_min(),
                      Limits::min(),
                      Limits::epsilon(),
                      T{0.5},
                      T{1},
                      T{2},
                      T{15},
                      T{22},
                      T{40},
                      T{60},
                      T{104},
                      T{200},
                      T{708.4},
                      T{709.8},
                      T{745.2},
                      T{760},
                      T{1022},
                      T{1024},
                      T{1074},
                      T{1075},
                      T{1100},
                      Limits::max(),
                      Limits::infinity(),
                      Limits::quiet_NaN(),
                      std::sqrt(T{2}),
                      std::sqrt(T{0.5}),
                      T(0x1p-28),
                      T(0x1p-54)}) {
    for (T v : {magnitude, std::nextafter(magnitude, T{0}), std::nextafter(magnitude, Limits::infinity())}) {
      values.push_back(v);
      values.push_back(-v);
    }
  }
  std::mt19937_64 random(seed);
  while (static_cast<int>(values.size()) < count) {
    const T unit = static_cast<T>(random() >> 40) * T(0x1p-24);
    values.push_back(FromBits<T>(random()));
    values.push_back((2 * unit - 1) * 800);
    values.push_back((2 * unit - 1) * 3);
    values.push_back(std::ldexp(1 + unit, static_cast<int>(random() % 64) - 32));
  }
  values.resize(static_cast<size_t>(count));
  return values;
}

constexpr int kCount = 64 * 500;

template <typename T, typename Vector>
void ExpectScalarBits(const char* name, T (*scalar)(T), Vector&& vector) {
  SCOPED_TRACE(name);
  const std::vector<T> from = Arguments<T>(3, kCount);
  std::vector<T> expected(from.size());
  for (size_t i = 0; i < from.size(); ++i) expected[i] = scalar(from[i]);
  OnEachTarget([&] {
    std::vector<T> got(from.size());
    vector(from.data(), kCount, got.data());
    if (std::memcmp(got.data(), expected.data(), got.size() * sizeof(T)) == 0) return;
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(BitsOf(got[i]), BitsOf(expected[i]))
          << std::hexfloat << from[i] << ": " << got[i] << ", not " << expected[i];
    }
  });
}

TEST(VectorMathTest, DoublesHaveTheScalarBits){
#define PHASOR_CHECK(NAME)                                                                    \
  ExpectScalarBits<double>(#NAME, math::NAME, [](const double* from, int64_t n, double* to) { \
    HWY_DYNAMIC_DISPATCH(NAME##Doubles)(from, n, to);                                         \
  });
    PHASOR_TEST_FUNCTIONS(PHASOR_CHECK)
#undef PHASOR_CHECK
}

TEST(VectorMathTest, FloatsHaveTheScalarBits){
#define PHASOR_CHECK(NAME) \
  ExpectScalarBits<float>( \
      #NAME, math::NAME, [](const float* from, int64_t n, float* to) { HWY_DYNAMIC_DISPATCH(NAME##Floats)(from, n, to); });
    PHASOR_TEST_FLOAT_FUNCTIONS(PHASOR_CHECK)
#undef PHASOR_CHECK
}

TEST(VectorMathTest, FunctionsOfTwoArgumentsHaveTheScalarBits) {
  std::vector<double> x = Arguments<double>(4, kCount), y = Arguments<double>(5, kCount);
  // Every pair of special values, then arguments whose power is of moderate size.
  constexpr size_t kSpecial = 150;
  for (size_t i = 0; i < kSpecial * kSpecial; ++i) {
    x[i] = x[i % kSpecial];
    y[i] = y[i / kSpecial];
  }
  for (size_t i = kSpecial * kSpecial; i < y.size(); i += 2) y[i] = std::fmod(y[i], 1000) / std::log(std::fabs(x[i]));
  std::vector<double> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) expected[i] = math::Pow(x[i], y[i]);
  OnEachTarget([&] {
    std::vector<double> got(x.size());
    HWY_DYNAMIC_DISPATCH(PowDoubles)(x.data(), y.data(), kCount, got.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(BitsOf(got[i]), BitsOf(expected[i])) << std::hexfloat << x[i] << " ^ " << y[i];
    }
  });
  for (size_t i = 0; i < x.size(); ++i) expected[i] = math::ExpOfDifference(x[i], y[i]);
  OnEachTarget([&] {
    std::vector<double> got(x.size());
    HWY_DYNAMIC_DISPATCH(ExpOfDifferences)(x.data(), y.data(), kCount, got.data());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(BitsOf(got[i]), BitsOf(expected[i])) << std::hexfloat << x[i] << " − " << y[i];
    }
  });
}

}  // namespace
}  // namespace phasor

#endif  // HWY_ONCE
