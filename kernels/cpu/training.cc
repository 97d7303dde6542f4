#include "kernels/cpu/training.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/training.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/linear-inl.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A strip of b, kInner × 2 vectors, stays in the L1 cache while all rows of a pass over it. How the sums are cut changes no
// bit: each goes on from what c holds.
inline constexpr int64_t kInner = 256;

template <int kRows, class D>
HWY_INLINE void Tile(D d, int64_t inner, MatrixView a, const double* HWY_RESTRICT b, int64_t b_stride,
                     double* HWY_RESTRICT c, int64_t c_stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sums[kRows][2];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    sums[i][0] = hn::LoadU(d, c + i * c_stride);
    sums[i][1] = hn::LoadU(d, c + i * c_stride + lanes);
  }
  for (int64_t k = 0; k < inner; ++k) {
    const auto b0 = hn::LoadU(d, b + k * b_stride), b1 = hn::LoadU(d, b + k * b_stride + lanes);
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      const auto factor = hn::Set(d, a.at[i * a.row_stride + k * a.column_stride]);
      sums[i][0] = FusedMulAdd(d, factor, b0, sums[i][0]);
      sums[i][1] = FusedMulAdd(d, factor, b1, sums[i][1]);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    hn::StoreU(sums[i][0], d, c + i * c_stride);
    hn::StoreU(sums[i][1], d, c + i * c_stride + lanes);
  }
}

// Two vectors of columns wide.
template <class D>
HWY_INLINE void Strip(D d, int64_t rows, int64_t inner, MatrixView a, const double* b, int64_t b_stride, double* c,
                      int64_t c_stride) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    Tile<4>(d, inner, {a.at + i * a.row_stride, a.row_stride, a.column_stride}, b, b_stride, c + i * c_stride, c_stride);
  }
  for (; i < rows; ++i) {
    Tile<1>(d, inner, {a.at + i * a.row_stride, a.row_stride, a.column_stride}, b, b_stride, c + i * c_stride, c_stride);
  }
}

void AddProductOf(int64_t rows, int64_t columns, int64_t inner, MatrixView a, const double* b, int64_t b_stride, double* c,
                  int64_t c_stride) {
  const hn::CappedTag<double, kTrainingLanes> d;
  const hn::CappedTag<double, kTrainingLanes / 2> narrow;
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(d));
  for (int64_t k = 0; k < inner; k += kInner) {
    const int64_t now = std::min(kInner, inner - k);
    const MatrixView from{a.at + k * a.column_stride, a.row_stride, a.column_stride};
    int64_t j = 0;
    for (; j + width <= columns; j += width) Strip(d, rows, now, from, b + k * b_stride + j, b_stride, c + j, c_stride);
    // Where two vectors are wider than kTrainingLanes, one such piece may be left.
    for (; j < columns; j += kTrainingLanes) {
      Strip(narrow, rows, now, from, b + k * b_stride + j, b_stride, c + j, c_stride);
    }
  }
}

void SiluWithSlopeOf(const double* z, int64_t count, double* value, double* slope) {
  const hn::CappedTag<double, kTrainingLanes> d;
  const auto one = hn::Set(d, 1.0);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto x = hn::LoadU(d, z + i);
    const auto s = Sigmoid(d, x);
    const auto v = hn::Mul(x, s);
    hn::StoreU(v, d, value + i);
    hn::StoreU(FusedMulAdd(d, v, hn::Sub(one, s), s), d, slope + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(AddProductOf);
HWY_EXPORT(SiluWithSlopeOf);

}  // namespace

void AddProduct(int64_t rows, int64_t columns, int64_t inner, MatrixView a, const double* b, int64_t b_stride, double* c,
                int64_t c_stride) {
  HWY_DYNAMIC_DISPATCH(AddProductOf)(rows, columns, inner, a, b, b_stride, c, c_stride);
}

void SiluWithSlope(const double* z, int64_t count, double* value, double* slope) {
  HWY_DYNAMIC_DISPATCH(SiluWithSlopeOf)(z, count, value, slope);
}

}  // namespace phasor
#endif  // HWY_ONCE
