#include "kernels/cpu/softmax.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/core/softmax.h"
#include "kernels/core/sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/softmax.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

template <typename Y, typename X>
void OneRow(const X* x, int64_t count, Y* y) {
  SoftmaxRow(x, count, y);
}

#else

// Terms of a row are kept so far, and computed twice beyond: the bits are the same.
constexpr int64_t kKept = 2048;

// Sixteen elements of a row at a time, as the sum wants them; the last group is copied out and padded.
template <typename Y, typename X>
class Row {
 public:
  using D = VectorSums<double>::D;
  using V = hn::Vec<D>;
  static constexpr int kGroup = sums::kPartialSums;
  static constexpr int kLanes = VectorSums<double>::kLanes;

  HWY_INLINE Row(const X* x, int64_t count) : x_(x), whole_(count / kGroup * kGroup), rest_(count % kGroup) {
    for (X& v : tail_) v = x[count - 1];  // harmless: one of the row's own
    std::memcpy(tail_, x + whole_, static_cast<size_t>(rest_) * sizeof(X));
  }

  // The greatest element; false when a NaN or +∞ is among them, or nothing but −∞: `masked` then tells which.
  HWY_INLINE bool FindGreatest(bool& masked) {
    const V infinity = hn::Set(D(), std::numeric_limits<double>::infinity());
    V greatest = hn::Neg(infinity);
    auto nan = hn::IsNaN(greatest);
    for (int64_t k = 0; k < whole_ + kGroup; k += kLanes) {
      const V v = LoadWidened(D(), k < whole_ ? x_ + k : tail_ + (k - whole_));
      greatest = hn::IfThenElse(hn::Lt(greatest, v), v, greatest);
      nan = hn::Or(nan, hn::IsNaN(v));
    }
    greatest_ = hn::MaxOfLanes(D(), greatest);
    const bool has_nan = !hn::AllFalse(D(), nan);
    masked = !has_nan && hn::AllTrue(D(), hn::Eq(greatest_, hn::Neg(infinity)));
    return !has_nan && !masked && hn::AllFalse(D(), hn::Eq(greatest_, infinity));
  }

  HWY_INLINE void Write(Y* y) {
    VectorSums<double> partial;
    alignas(64) double kept[kKept];
    for (int64_t k = 0; k < whole_; k += kLanes) {
      const V term = Term(x_ + k);
      if (k < kKept) hn::Store(term, D(), kept + k);
      partial.AddLanes(static_cast<int>(k % kGroup) / kLanes, term);
    }
    alignas(64) double tail_terms[kGroup];
    for (int k = 0; k < kGroup; k += kLanes) hn::Store(Term(tail_ + k), D(), tail_terms + k);
    partial.AddFirst(tail_terms, rest_);
    const V sum = hn::Set(D(), partial.Total());

    for (int64_t k = 0; k < whole_; k += kLanes) {
      const V term = k < kKept ? hn::Load(D(), kept + k) : Term(x_ + k);
      StoreNarrowed(hn::Div(term, sum), y + k);
    }
    Y last[kGroup];
    for (int k = 0; k < kGroup; k += kLanes) StoreNarrowed(hn::Div(hn::Load(D(), tail_terms + k), sum), last + k);
    std::memcpy(y + whole_, last, static_cast<size_t>(rest_) * sizeof(Y));
  }

 private:
  HWY_INLINE V Term(const X* x) const {
    if constexpr (std::is_same_v<Y, double>) {
      return ExpOfDifference(D(), LoadWidened(D(), x), greatest_);
    } else {
      return CoarseExp(D(), hn::Sub(LoadWidened(D(), x), greatest_));
    }
  }
  // Terms of a row without NaN are none either.
  static HWY_INLINE void StoreNarrowed(V v, Y* y) {
    using DF = hn::Rebind<float, D>;
    using DU16 = hn::Rebind<uint16_t, D>;
    if constexpr (std::is_same_v<Y, double>) {
      hn::StoreU(v, D(), y);
    } else if constexpr (std::is_same_v<Y, float>) {
      hn::StoreU(hn::DemoteTo(DF(), v), DF(), y);
    } else if constexpr (std::is_same_v<Y, F16>) {
      hn::StoreU(NarrowToF16AnyNaN(DF(), NarrowF64ToOddF32(DF(), v)), DU16(), reinterpret_cast<uint16_t*>(y));
    } else {
      hn::StoreU(NarrowToBF16(DF(), NarrowF64ToOddF32(DF(), v)), DU16(), reinterpret_cast<uint16_t*>(y));
    }
  }

  const X* x_;
  int64_t whole_, rest_;
  V greatest_;
  X tail_[kGroup];
};

template <typename Y, typename X>
void OneRow(const X* x, int64_t count, Y* y) {
  if (count == 0) return;
  Row<Y, X> row(x, count);
  bool masked = false;
  if (row.FindGreatest(masked)) {
    row.Write(y);
  } else {
    std::fill(y, y + count, FromBits<Y>(masked ? BitsType<Y>{0} : kCanonicalNaNBits<Y>));
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

template <typename Y, typename X>
void AllRows(const void* x, int64_t x_stride, void* y, int64_t y_stride, int64_t rows, int64_t count) {
  for (int64_t r = 0; r < rows; ++r) {
    OneRow(static_cast<const X*>(x) + r * x_stride, count, static_cast<Y*>(y) + r * y_stride);
  }
}

void SoftmaxOfTypes(DType x_dtype, const void* x, int64_t x_stride, DType y_dtype, void* y, int64_t y_stride, int64_t rows,
                    int64_t count) {
  VisitFloat(y_dtype, [&](auto tag) {
    using Y = typename decltype(tag)::type;
    if (x_dtype == DType::kF64) {
      AllRows<Y, double>(x, x_stride, y, y_stride, rows, count);
    } else {
      AllRows<Y, Y>(x, x_stride, y, y_stride, rows, count);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(SoftmaxOfTypes);

}  // namespace

void SoftmaxRows(DType x_dtype, const void* x, int64_t x_stride, DType y_dtype, void* y, int64_t y_stride, int64_t rows,
                 int64_t count) {
  HWY_DYNAMIC_DISPATCH(SoftmaxOfTypes)(x_dtype, x, x_stride, y_dtype, y, y_stride, rows, count);
}

}  // namespace phasor
#endif  // HWY_ONCE
