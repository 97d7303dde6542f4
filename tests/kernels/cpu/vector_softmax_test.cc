// Softmax in vectors gives the bits of kernels/core/softmax.h, on every instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/core/softmax.h"
#include "kernels/cpu/softmax.h"
#include "tests/kernels/cpu/each_target.h"
#include "tests/kernels/cpu/guarded_buffer.h"

namespace phasor {
namespace {

template <typename T>
constexpr DType kDType = std::is_same_v<T, double>  ? DType::kF64
                         : std::is_same_v<T, float> ? DType::kF32
                         : std::is_same_v<T, F16>   ? DType::kF16
                                                    : DType::kBF16;

// Scores of one row: what `kind` says beside ordinary ones.
enum Kind { kOrdinary, kSomeMasked, kFullyMasked, kNaN, kInfinite, kWide };
template <typename X>
std::vector<X> Scores(int64_t count, Kind kind, uint64_t seed) {
  std::mt19937_64 random(seed);
  const X masked = FromBits<X>(kInfinityBits<X> | kSignBit<X>);
  std::vector<X> scores;
  for (int64_t k = 0; k < count; ++k) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    const bool mask = kind == kFullyMasked || kind == kNaN || (kind != kOrdinary && random() % 3 == 0);
    scores.push_back(mask ? masked : Narrow<X>((unit - 0.5) * (kind == kWide ? 3000 : 20)));
  }
  if (kind == kNaN) scores[random() % scores.size()] = FromBits<X>(kInfinityBits<X> | 1);
  if (kind == kInfinite) scores[random() % scores.size()] = FromBits<X>(kInfinityBits<X>);
  return scores;
}

template <typename Y, typename X>
void ExpectScalarBits() {
  for (int64_t count : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 1000, 2047, 2048, 2049, 2500}) {
    // One row of each kind, with a gap between rows.
    constexpr int64_t kRows = 6;
    const int64_t x_stride = count + 3, y_stride = count + 1;
    std::vector<X> x(static_cast<size_t>(kRows * x_stride), FromBits<X>(0));
    GuardedBuffer expected(kRows * y_stride * static_cast<int64_t>(sizeof(Y)), 8 % sizeof(Y)), got = expected;
    for (int64_t r = 0; r < kRows; ++r) {
      const std::vector<X> row = Scores<X>(count, static_cast<Kind>(r), static_cast<uint64_t>(count));
      std::copy(row.begin(), row.end(), x.begin() + r * x_stride);
      SoftmaxRow(row.data(), count, reinterpret_cast<Y*>(expected.data()) + r * y_stride);
    }
    SoftmaxRows(kDType<X>, x.data(), x_stride, kDType<Y>, got.data(), y_stride, kRows, count);
    ASSERT_TRUE(got.SameAs(expected)) << count;
    if constexpr (std::is_same_v<X, Y>) {
      SoftmaxRows(kDType<X>, x.data(), x_stride, kDType<Y>, x.data(), x_stride, kRows, count);
      for (int64_t r = 0; r < kRows; ++r) {
        ASSERT_EQ(std::memcmp(x.data() + r * x_stride, expected.data() + static_cast<size_t>(r * y_stride) * sizeof(Y),
                              static_cast<size_t>(count) * sizeof(Y)),
                  0)
            << count << " in place, row " << r;
      }
    }
  }
}

TEST(VectorSoftmaxTest, HasTheScalarBits) {
  OnEachTarget([] {
    ExpectScalarBits<double, double>();
    ExpectScalarBits<float, float>();
    ExpectScalarBits<F16, F16>();
    ExpectScalarBits<BF16, BF16>();
    ExpectScalarBits<float, double>();
    ExpectScalarBits<F16, double>();
    ExpectScalarBits<BF16, double>();
  });
}

TEST(VectorSoftmaxTest, EmptyRowsAndNoRows) {
  OnEachTarget([] {
    float untouched = 5;
    SoftmaxRows(DType::kF32, &untouched, 1, DType::kF32, &untouched, 1, 3, 0);
    SoftmaxRows(DType::kF32, &untouched, 1, DType::kF32, &untouched, 1, 0, 1);
    EXPECT_EQ(untouched, 5);
  });
}

}  // namespace
}  // namespace phasor
