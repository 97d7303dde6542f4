// Products of many vectors by many, each sum in the fixed order of kernels/core/sum.h: a lane is one product and goes
// through the operations of FixedSum, so the bits are those of the scalar code on every instruction set.
#if defined(PHASOR_KERNELS_CPU_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_PRODUCT_INL_H_
#undef PHASOR_KERNELS_CPU_PRODUCT_INL_H_
#else
#define PHASOR_KERNELS_CPU_PRODUCT_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#include "kernels/core/dtype.h"
#include "kernels/core/sum.h"
#include "kernels/cpu/linear-inl.h"
#include "kernels/cpu/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile is kTileRows vectors x by kTileColumns vectors y. All partial sums of one would need more registers than there
// are, so a tile's are finished one after the other, in an order in which the tree of the total needs few of them kept:
// partial sums p and p + 8 next to each other, then those of p + 4, and so on.
inline constexpr int64_t kTileColumns = 16;
#if HWY_TARGET == HWY_SCALAR
inline constexpr int64_t kTileRows = 1;
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
inline constexpr int64_t kTileRows = 4;
#else
inline constexpr int64_t kTileRows = 2;
#endif
inline constexpr int kPartialOrder[kPartialSums] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

// Where the elements of a vector go in packed tiles: those of a partial sum side by side, in kPartialOrder.
// packed[m·stride] = x[order of m], m = 0 … dim − 1.
HWY_INLINE void PackVector(const double* HWY_RESTRICT x, int64_t dim, int64_t stride, double* HWY_RESTRICT packed) {
  double* to = packed;
  for (int p : kPartialOrder) {
    for (int64_t d = p; d < dim; d += kPartialSums, to += stride) *to = x[d];
  }
}

// wide[d] = x[d], exactly.
template <typename X>
HWY_INLINE void WidenVector(const X* HWY_RESTRICT x, int64_t dim, double* HWY_RESTRICT wide) {
  int64_t d = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  for (; d + lanes <= dim; d += lanes) hn::StoreU(LoadWidened(df, x + d), df, wide + d);
#endif
  for (; d < dim; ++d) wide[d] = Widen<double>(x[d]);
}

// Stores lanes of sums; the total is never −0, and a NaN is the canonical one.
template <class D>
HWY_INLINE void StoreTotals(D d, hn::Vec<D> sums, double* out) {
  const auto total = hn::Add(sums, hn::Zero(d));
#if HWY_TARGET == HWY_SCALAR
  hn::StoreU(hn::Set(d, phasor::CanonicalizeNaN(hn::GetLane(total))), d, out);
#else
  hn::StoreU(CanonicalizeNaN(d, total), d, out);
#endif
}

// out[r·out_stride + c] = FixedDot(x_r, y_c) for the whole tile. x: [dim, kTileRows], y: [dim, kTileColumns], packed.
HWY_INLINE void ProductTile(const double* HWY_RESTRICT x, const double* HWY_RESTRICT y, int64_t dim,
                            double* HWY_RESTRICT out, int64_t out_stride) {
  const hn::CappedTag<double, 8> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<double, 8>()));
  constexpr int kVectors = static_cast<int>(kTileColumns / kLanes);
  constexpr int kSums = static_cast<int>(kTileRows) * kVectors;
  // Sums of 2, 4, 8 and 16 partial sums that wait for their other half.
  HWY_ALIGN double waiting[3][kSums * kLanes];
  const double* xs = x;
  const double* ys = y;
  const auto partial = [&](int p, V(&sum)[kSums]) HWY_ATTR {
    for (V& s : sum) s = hn::Zero(d);
    for (int64_t i = p; i < dim; i += kPartialSums, xs += kTileRows, ys += kTileColumns) {
      V column[kVectors];
      HWY_UNROLL(16) for (int v = 0; v < kVectors; ++v) column[v] = hn::Load(d, ys + v * kLanes);
      HWY_UNROLL(4)
      for (int r = 0; r < kTileRows; ++r) {
        const V row = hn::Set(d, xs[r]);
        HWY_UNROLL(16)
        for (int v = 0; v < kVectors; ++v) sum[r * kVectors + v] = FusedMulAdd(d, row, column[v], sum[r * kVectors + v]);
      }
    }
  };
  for (int pair = 0; pair < kPartialSums / 2; ++pair) {
    V sum[kSums], other[kSums];
    partial(kPartialOrder[2 * pair], sum);
    partial(kPartialOrder[2 * pair + 1], other);
    HWY_UNROLL(16) for (int s = 0; s < kSums; ++s) sum[s] = hn::Add(sum[s], other[s]);
    int level = 0;
    for (; (pair >> level & 1) != 0; ++level) {
      HWY_UNROLL(16) for (int s = 0; s < kSums; ++s) sum[s] = hn::Add(sum[s], hn::Load(d, waiting[level] + s * kLanes));
    }
    if (level < 3) {
      HWY_UNROLL(16) for (int s = 0; s < kSums; ++s) hn::Store(sum[s], d, waiting[level] + s * kLanes);
    } else {
      for (int r = 0; r < kTileRows; ++r) {
        for (int v = 0; v < kVectors; ++v) {
          StoreTotals(d, sum[r * kVectors + v], out + r * out_stride + v * kLanes);
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_PRODUCT_INL_H_
