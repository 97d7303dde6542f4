// Softmax against MPFR, and at rows that have no softmax.
#include "kernels/core/softmax.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/dtype.h"

namespace phasor {
namespace {

// The last place of a T of x's magnitude.
template <typename T>
double UlpOf(double x) {
  constexpr int kFraction = FloatFormat<T>::kFractionBits;
  constexpr int kSmallest = 2 - (1 << (FloatFormat<T>::kExponentBits - 1)) - kFraction;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent - 1 - kFraction, kSmallest));
}

// The largest error in ulps of Y over a row.
template <typename Y, typename X>
double WorstError(const std::vector<X>& x) {
  std::vector<Y> y(x.size());
  SoftmaxRow(x.data(), static_cast<int64_t>(x.size()), y.data());
  double greatest = -INFINITY;
  for (X v : x) greatest = std::max(greatest, Widen<double>(v));
  mpfr_t sum, term;
  mpfr_init2(sum, 200);
  mpfr_init2(term, 200);
  mpfr_set_ui(sum, 0, MPFR_RNDN);
  const auto set_term = [&](X v) {
    mpfr_set_d(term, Widen<double>(v), MPFR_RNDN);
    mpfr_sub_d(term, term, greatest, MPFR_RNDN);
    mpfr_exp(term, term, MPFR_RNDN);
  };
  for (X v : x) {
    set_term(v);
    mpfr_add(sum, sum, term, MPFR_RNDN);
  }
  double worst = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    set_term(x[k]);
    mpfr_div(term, term, sum, MPFR_RNDN);
    const double exact = mpfr_get_d(term, MPFR_RNDN);
    mpfr_sub_d(term, term, Widen<double>(y[k]), MPFR_RNDN);
    worst = std::max(worst, std::fabs(mpfr_get_d(term, MPFR_RNDN)) / UlpOf<Y>(exact));
  }
  mpfr_clear(sum);
  mpfr_clear(term);
  return worst;
}

template <typename X>
std::vector<X> Scores(size_t count, double spread, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<X> scores(count);
  for (X& v : scores) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    v = random() % 10 == 0 ? FromBits<X>(kInfinityBits<X> | kSignBit<X>) : Narrow<X>((unit - 0.5) * spread);
  }
  scores[count / 2] = FromBits<X>(0);
  return scores;
}

TEST(SoftmaxTest, NarrowTypesAreRoundedOnce) {
  for (size_t count : {1, 2, 16, 37, 1000}) {
    for (double spread : {1.0, 30.0, 250.0, 2000.0}) {
      EXPECT_LT((WorstError<float>(Scores<float>(count, spread, 1))), 0.5001) << count << " " << spread;
      EXPECT_LT((WorstError<F16>(Scores<F16>(count, spread, 2))), 0.5001) << count << " " << spread;
      EXPECT_LT((WorstError<BF16>(Scores<BF16>(count, spread, 3))), 0.5001) << count << " " << spread;
      EXPECT_LT((WorstError<float>(Scores<double>(count, spread, 4))), 0.5001) << count << " " << spread;
      EXPECT_LT((WorstError<BF16>(Scores<double>(count, spread, 5))), 0.5001) << count << " " << spread;
    }
  }
}

// Three roundings, and those of the sum: far fewer ulps than there are additions in a partial sum.
TEST(SoftmaxTest, DoublesAreWithinAFewUlps) {
  for (size_t count : {1, 2, 16, 37, 1000, 5000}) {
    for (double spread : {1.0, 30.0, 2000.0}) {
      EXPECT_LT((WorstError<double>(Scores<double>(count, spread, 6))), 2.5 + static_cast<double>(count) / 2000)
          << count << " " << spread;
    }
  }
}

template <typename T>
class SoftmaxRowsTest : public testing::Test {};
using FloatTypes = testing::Types<double, float, F16, BF16>;
TYPED_TEST_SUITE(SoftmaxRowsTest, FloatTypes);

TYPED_TEST(SoftmaxRowsTest, RowsWithoutASoftmax) {
  using T = TypeParam;
  const T masked = FromBits<T>(kInfinityBits<T> | kSignBit<T>), infinity = FromBits<T>(kInfinityBits<T>);
  const T nan = FromBits<T>(kInfinityBits<T> | kSignBit<T> | 1), one = Narrow<T>(1.0), zero = FromBits<T>(0);
  const auto softmax = [](std::vector<T> row) {
    SoftmaxRow(row.data(), static_cast<int64_t>(row.size()), row.data());
    return row;
  };
  const auto all_are = [](const std::vector<T>& row, BitsType<T> bits) {
    return std::all_of(row.begin(), row.end(), [bits](T v) { return BitsOf(v) == bits; });
  };
  EXPECT_TRUE(softmax({}).empty());
  EXPECT_TRUE(all_are(softmax({masked}), 0));
  EXPECT_TRUE(all_are(softmax(std::vector<T>(40, masked)), 0));
  EXPECT_TRUE(all_are(softmax({masked, nan, masked}), kCanonicalNaNBits<T>));
  EXPECT_TRUE(all_are(softmax({one, nan}), kCanonicalNaNBits<T>));
  EXPECT_TRUE(all_are(softmax({one, infinity, masked}), kCanonicalNaNBits<T>));
  EXPECT_TRUE(all_are(softmax({one}), BitsOf(one)));
  // A masked element gets an exact zero, and leaves the others as if it were not there.
  const std::vector<T> with = softmax({zero, masked, one, masked}), without = softmax({zero, one});
  EXPECT_EQ(BitsOf(with[0]), BitsOf(without[0]));
  EXPECT_EQ(BitsOf(with[2]), BitsOf(without[1]));
  EXPECT_EQ(BitsOf(with[1]), 0u);
  EXPECT_EQ(BitsOf(with[3]), 0u);
  // The lowest finite value in place of −∞ gives a fully masked row equal parts.
  const T lowest = FromBits<T>((kInfinityBits<T> - 1u) | kSignBit<T>);
  EXPECT_TRUE(all_are(softmax(std::vector<T>(4, lowest)), BitsOf(Narrow<T>(0.25))));
}

}  // namespace
}  // namespace phasor
