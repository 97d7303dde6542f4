// What masks do to a piece of a row that is in cache: adding, and hiding keys that are not there.
#if defined(PHASOR_KERNELS_CPU_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_MASK_INL_H_
#undef PHASOR_KERNELS_CPU_MASK_INL_H_
#else
#define PHASOR_KERNELS_CPU_MASK_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// In f64 when either is f64, else in f32.
template <typename T, typename A>
using SumType = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<A, double>, double, float>;

#if HWY_TARGET != HWY_SCALAR

// One vector of C, from as many elements of T at any address.
template <typename T, class DC>
HWY_INLINE hn::Vec<DC> LoadWide(DC dc, const T* from) {
  using C = hn::TFromD<DC>;
  if constexpr (std::is_same_v<T, C>) {
    return hn::LoadU(dc, from);
  } else if constexpr (std::is_same_v<T, float>) {
    return hn::PromoteTo(dc, hn::LoadU(hn::Rebind<float, DC>(), from));
  } else if constexpr (std::is_same_v<C, double>) {
    return hn::PromoteTo(dc, LoadWide<T>(hn::Rebind<float, DC>(), from));
  } else {
    const auto bits = hn::LoadU(hn::Rebind<uint16_t, DC>(), reinterpret_cast<const uint16_t*>(from));
    if constexpr (std::is_same_v<T, F16>) {
      return WidenF16(dc, bits);
    } else {
      return WidenBF16(dc, bits);
    }
  }
}

// Rounded once; NaN must be canonical.
template <typename T, class DC>
HWY_INLINE void StoreNarrow(DC dc, hn::Vec<DC> v, T* to) {
  using C = hn::TFromD<DC>;
  if constexpr (std::is_same_v<T, C>) {
    hn::StoreU(v, dc, to);
  } else if constexpr (std::is_same_v<T, float>) {
    const hn::Rebind<float, DC> df;
    hn::StoreU(CanonicalizeNaN(df, hn::DemoteTo(df, v)), df, to);
  } else if constexpr (std::is_same_v<C, double>) {
    const hn::Rebind<float, DC> df;
    StoreNarrow<T>(df, NarrowF64ToOddF32(df, v), to);
  } else {
    const hn::Rebind<uint16_t, DC> du16;
    if constexpr (std::is_same_v<T, F16>) {
      hn::StoreU(NarrowToF16(dc, v), du16, reinterpret_cast<uint16_t*>(to));
    } else {
      hn::StoreU(NarrowToBF16(dc, v), du16, reinterpret_cast<uint16_t*>(to));
    }
  }
}

#endif  // HWY_TARGET != HWY_SCALAR

// data[i] += add[i] for i < count.
template <typename T, typename A>
HWY_INLINE void AddInto(T* data, const A* add, int64_t count) {
  using C = SumType<T, A>;
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<C> dc;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(dc));
  for (; i + lanes <= count; i += lanes) {
    const auto sum = hn::Add(LoadWide<T>(dc, data + i), LoadWide<A>(dc, add + i));
    StoreNarrow<T>(dc, CanonicalizeNaN(dc, sum), data + i);
  }
#endif
  for (; i < count; ++i) data[i] = Narrow<T>(Widen<C>(data[i]) + Widen<C>(add[i]));
}

// data[i] = bits where add[i] is −∞, for i < count. U: an unsigned integer of the element's size.
template <typename A, typename U>
HWY_INLINE void HideMinusInfinity(U* data, const A* add, U bits, int64_t count) {
  constexpr BitsType<A> kMinusInfinity = kInfinityBits<A> | kSignBit<A>;
  for (int64_t i = 0; i < count; ++i) data[i] = BitsOf(add[i]) == kMinusInfinity ? bits : data[i];
}

// data[i] = bits where there[i] is 0, for i < count. U: an unsigned integer of the element's size.
template <typename U>
HWY_INLINE void Hide(U* data, const uint8_t* there, U bits, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(U) < 8) {
    const hn::ScalableTag<U> du;
    const hn::Rebind<uint8_t, decltype(du)> du8;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(du));
    const auto hidden = hn::Set(du, bits);
    for (; i + lanes <= count; i += lanes) {
      const auto mask = hn::Eq(hn::PromoteTo(du, hn::LoadU(du8, there + i)), hn::Zero(du));
      hn::StoreU(hn::IfThenElse(mask, hidden, hn::LoadU(du, data + i)), du, data + i);
    }
  }
#endif
  for (; i < count; ++i) data[i] = there[i] != 0 ? data[i] : bits;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_MASK_INL_H_
