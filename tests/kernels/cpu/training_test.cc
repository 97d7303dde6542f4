// Products for training against plain loops, on every instruction set.
#include "kernels/cpu/training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/core/math.h"
#include "tests/kernels/cpu/each_target.h"

namespace phasor {
namespace {

std::vector<double> Random(std::mt19937_64& random, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = std::ldexp(static_cast<double>(random() >> 11), -53) * 4 - 2;
  return values;
}

// Rows that tiles of four leave over, one and several vectors of columns, sums longer than a strip; a as it is and turned.
TEST(Training, AddProductIsOneFmaAfterTheOther) {
  std::mt19937_64 random(1);
  for (const int64_t rows : {1, 3, 4, 7, 9}) {
    for (const int64_t columns : {8, 16, 24, 40}) {
      for (const int64_t inner : {1, 5, 256, 300}) {
        for (const bool turned : {false, true}) {
          const int64_t b_stride = columns + 3, c_stride = columns + 1;
          const std::vector<double> a = Random(random, rows * inner), b = Random(random, inner * b_stride);
          const std::vector<double> before = Random(random, rows * c_stride);
          const MatrixView view = turned ? MatrixView{a.data(), 1, rows} : MatrixView{a.data(), inner, 1};
          std::vector<double> expected = before;
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j) {
              double& sum = expected[static_cast<size_t>(i * c_stride + j)];
              for (int64_t k = 0; k < inner; ++k) {
                sum = std::fma(view.at[i * view.row_stride + k * view.column_stride],
                               b[static_cast<size_t>(k * b_stride + j)], sum);
              }
            }
          }
          OnEachTarget([&] {
            std::vector<double> c = before;
            AddProduct(rows, columns, inner, view, b.data(), b_stride, c.data(), c_stride);
            EXPECT_EQ(c, expected) << rows << " × " << columns << " × " << inner;
          });
        }
      }
    }
  }
}

TEST(Training, SiluWithSlope) {
  std::mt19937_64 random(2);
  std::vector<double> z = Random(random, 64);
  for (double& value : z) value *= 20;
  z[5] = 0;
  z[6] = -800;
  z[7] = 800;
  std::vector<double> value(z.size()), slope(z.size());
  for (size_t i = 0; i < z.size(); ++i) {
    const double s = math::Sigmoid(z[i]);
    value[i] = z[i] * s;
    slope[i] = std::fma(value[i], 1 - s, s);
    // The slope is that of the function.
    const double h = 1e-6;
    if (std::fabs(z[i]) < 30) {
      EXPECT_NEAR(slope[i], (math::Silu(z[i] + h) - math::Silu(z[i] - h)) / (2 * h), 1e-8);
    }
  }
  OnEachTarget([&] {
    std::vector<double> in_place = z, slopes(z.size());
    SiluWithSlope(in_place.data(), 64, in_place.data(), slopes.data());
    EXPECT_EQ(in_place, value);
    EXPECT_EQ(slopes, slope);
  });
}

}  // namespace
}  // namespace phasor
