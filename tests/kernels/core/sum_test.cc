// The fixed order of sums and scans, spelled out here once more from its definition.
#include "kernels/core/sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/dtype.h"

namespace phasor::sums {
namespace {

template <typename T>
std::vector<T> RandomNumbers(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& v : values) {
    v = std::ldexp(static_cast<T>(static_cast<int64_t>(random() >> 20) - (int64_t{1} << 43)),
                   static_cast<int>(random() % 40) - 60);
  }
  return values;
}

// The tree over partial sums, as a recursion: node i of a level adds its neighbour half a level away.
template <typename T>
T Tree(const std::vector<T>& partial, size_t i, size_t level) {
  if (level == 16) return partial[i];
  return Tree(partial, i, 2 * level) + Tree(partial, i + level, 2 * level);
}

template <typename T>
class SumTest : public testing::Test {};
using AccumulatorTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(SumTest, AccumulatorTypes);

TYPED_TEST(SumTest, FollowsTheDefinition) {
  using T = TypeParam;
  for (size_t count : {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 100, 127, 1000, 4099}) {
    const std::vector<T> a = RandomNumbers<T>(count, 1), b = RandomNumbers<T>(count, 2);
    std::vector<T> sums(16, T{0}), products(16, T{0});
    for (size_t lane = 0; lane < 16; ++lane) {
      for (size_t k = lane; k < count; k += 16) {
        sums[lane] = sums[lane] + a[k];
        products[lane] = std::fma(a[k], b[k], products[lane]);
      }
    }
    EXPECT_EQ(Sum<T>(a.data(), static_cast<int64_t>(count)), Tree(sums, 0, 1)) << count;
    EXPECT_EQ((Dot<T>(a.data(), b.data(), static_cast<int64_t>(count))), Tree(products, 0, 1)) << count;
  }
}

TYPED_TEST(SumTest, TheOrderShows) {
  // 2^60 in element 0 and −2^60 in element 16 meet in one partial sum; a 1 between them survives only because it is
  // elsewhere.
  using T = TypeParam;
  std::vector<T> x(17, T{0});
  x[0] = T(0x1p60);
  x[1] = 1;
  x[16] = -T(0x1p60);
  EXPECT_EQ(Sum<T>(x.data(), 17), 1);
  // Partial sums 7 and 15 meet first in the tree: there the 1 is lost.
  std::vector<T> y(16, T{0});
  y[7] = T(0x1p60);
  y[15] = 1;
  y[3] = -T(0x1p60);
  EXPECT_EQ(Sum<T>(y.data(), 16), 0);
}

TYPED_TEST(SumTest, SmallWholeNumbersAreExact) {
  using T = TypeParam;
  std::vector<T> x(1000);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<T>(k % 17) - 5;
  T expected = 0, squares = 0;
  for (T v : x) expected += v, squares += v * v;
  EXPECT_EQ(Sum<T>(x.data(), 1000), expected);
  EXPECT_EQ((Dot<T>(x.data(), x.data(), 1000)), squares);
}

TYPED_TEST(SumTest, SpecialValues) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  const std::vector<T> opposite = {inf, -inf}, infinite = {1, inf, 2}, zeros = {T{-0.0}, T{-0.0}};
  EXPECT_EQ(BitsOf(Sum<T>(opposite.data(), 2)), kCanonicalNaNBits<T>);
  EXPECT_EQ(Sum<T>(infinite.data(), 3), inf);
  EXPECT_EQ(BitsOf(Sum<T>(zeros.data(), 2)), 0u);
  EXPECT_EQ(BitsOf(Sum<T>(zeros.data(), 0)), 0u);
  const std::vector<T> smallest = {std::numeric_limits<T>::denorm_min()}, negative = {T{-0.25}};
  EXPECT_EQ(BitsOf((Dot<T>(smallest.data(), negative.data(), 1))), 0u);  // not −0, to which the product rounds
  const std::vector<T> nan = {FromBits<T>(kCanonicalNaNBits<T> | kSignBit<T> | 5), 1};
  EXPECT_EQ(BitsOf((Dot<T>(nan.data(), infinite.data(), 2))), kCanonicalNaNBits<T>);
}

TEST(SumTest, NarrowElementsAreWidenedFirst) {
  const std::vector<F16> a = {F16{0x3c00}, F16{0x0001}, F16{0xc000}};      // 1, 2^-24, −2
  const std::vector<BF16> b = {BF16{0x3f80}, BF16{0x4000}, BF16{0x3f00}};  // 1, 2, 0.5
  EXPECT_EQ((Dot<double>(a.data(), b.data(), 3)), 1 + 0x1p-23 - 1);
  EXPECT_EQ((Sum<float>(a.data(), 3)), -1 + 0x1p-24f);
  const std::vector<float> c = {1, 0x1p-40f};
  EXPECT_EQ(Sum<double>(c.data(), 2), 1 + 0x1p-40);
}

TYPED_TEST(SumTest, ScansFollowTheDefinition) {
  using T = TypeParam;
  for (size_t count : {1, 2, 63, 64, 65, 128, 200, 1000}) {
    const std::vector<T> x = RandomNumbers<T>(count, 3);
    std::vector<T> prefix(count), suffix(count);
    PrefixSum(x.data(), static_cast<int64_t>(count), T{0}, prefix.data());
    SuffixSum(x.data(), static_cast<int64_t>(count), T{0}, suffix.data());
    const size_t blocks = (count + 63) / 64;
    const auto end_of = [&](size_t block) { return std::min(count, 64 * block + 64); };
    for (size_t k = 0; k < count; ++k) {
      T before = 0;
      for (size_t block = 0; block < k / 64; ++block) {
        T total = x[64 * block];
        for (size_t i = 64 * block + 1; i < end_of(block); ++i) total += x[i];
        before += total;
      }
      T within = x[k / 64 * 64];
      for (size_t i = k / 64 * 64 + 1; i <= k; ++i) within += x[i];
      ASSERT_EQ(prefix[k], before + within) << k << " of " << count;

      T after = 0;
      for (size_t block = blocks - 1; block > k / 64; --block) {
        T total = x[end_of(block) - 1];
        for (size_t i = end_of(block) - 1; i-- > 64 * block;) total += x[i];
        after += total;
      }
      within = x[end_of(k / 64) - 1];
      for (size_t i = end_of(k / 64) - 1; i-- > k;) within += x[i];
      ASSERT_EQ(suffix[k], after + within) << k << " of " << count;
    }
  }
}

TYPED_TEST(SumTest, ScansInPiecesAndInPlaceGiveTheSameBits) {
  using T = TypeParam;
  constexpr int64_t kCount = 900;
  const std::vector<T> x = RandomNumbers<T>(kCount, 4);
  std::vector<T> prefix(kCount), suffix(kCount), pieces = x;
  const T total = PrefixSum(x.data(), kCount, T{0}, prefix.data());
  EXPECT_EQ(total, prefix.back());
  T base = 0;
  for (int64_t first = 0; first < kCount; first += 192) {
    base = PrefixSum(pieces.data() + first, std::min<int64_t>(192, kCount - first), base, pieces.data() + first);
  }
  EXPECT_EQ(pieces, prefix);
  EXPECT_EQ(base, total);
  EXPECT_EQ(SuffixSum(x.data(), kCount, T{0}, suffix.data()), suffix.front());
  pieces = x;
  base = 0;
  for (int64_t first = kCount / 192 * 192; first >= 0; first -= 192) {
    base = SuffixSum(pieces.data() + first, std::min<int64_t>(192, kCount - first), base, pieces.data() + first);
  }
  EXPECT_EQ(pieces, suffix);
}

TYPED_TEST(SumTest, ScansOfSpecialValues) {
  using T = TypeParam;
  std::vector<T> x(130, T{-0.0}), out(130);
  EXPECT_EQ(PrefixSum(x.data(), 0, T{3}, out.data()), 3);
  EXPECT_EQ(SuffixSum(x.data(), 0, T{3}, out.data()), 3);
  PrefixSum(x.data(), 130, T{0}, out.data());
  for (T v : out) ASSERT_EQ(BitsOf(v), 0u);
  x[70] = FromBits<T>(kSignBit<T> | kInfinityBits<T> | 1);
  PrefixSum(x.data(), 130, T{0}, out.data());
  for (size_t k = 0; k < out.size(); ++k) ASSERT_EQ(BitsOf(out[k]), k < 70 ? 0u : kCanonicalNaNBits<T>);
  SuffixSum(x.data(), 130, T{0}, out.data());
  for (size_t k = 0; k < out.size(); ++k) ASSERT_EQ(BitsOf(out[k]), k > 70 ? 0u : kCanonicalNaNBits<T>);
}

}  // namespace
}  // namespace phasor::sums
