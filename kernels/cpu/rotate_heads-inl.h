// Rotates all heads of a token with the steps of rotate-inl.h, in the way that suits the width of a head.
#if defined(PHASOR_KERNELS_CPU_ROTATE_HEADS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ROTATE_HEADS_INL_H_
#undef PHASOR_KERNELS_CPU_ROTATE_HEADS_INL_H_
#else
#define PHASOR_KERNELS_CPU_ROTATE_HEADS_INL_H_
#endif

#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "kernels/cpu/rotate-inl.h"
#include "kernels/cpu/stores-inl.h"

#if HWY_TARGET != HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where the rotated elements of a token are, and what turns them: n elements per span, one span per head (interleaved) or
// two (half-split; `partner` elements apart).
template <typename Stored, class Tables>
struct TokenSpans {
  const Stored* x;
  Stored* y;
  int64_t x_head_stride, y_head_stride;
  int64_t heads;
  int64_t partner;
  int64_t elements;
  int64_t ahead_bytes;  // how far ahead of each vector of x memory is asked for
  const Tables* tables;
};

// Loads a vector that two operations will use, once: g++ would rather give each of them a memory operand, and loads are what
// rotations in cache run out of. (Widening f16 is one operation.)
template <class DS>
HWY_INLINE hn::Vec<DS> LoadOnce(DS ds, const hn::TFromD<DS>* from) {
  auto v = hn::LoadU(ds, from);
#if HWY_ARCH_X86 && HWY_COMPILER_GCC
  asm("" : "+v"(v.raw));
#endif
  return v;
}
template <class Step, class DS>
HWY_INLINE hn::Vec<DS> LoadX(DS ds, const hn::TFromD<DS>* from) {
  if constexpr (Step::kUsesOnce) {
    return hn::LoadU(ds, from);
  } else {
    return LoadOnce(ds, from);
  }
}

// The vector of pairs at element e of a head.
template <class Step, bool kStream, class DF, class Stored, class Spans>
HWY_INLINE void RotateAt(DF df, const Stored* x, Stored* y, int64_t e, const Spans& spans, hn::Vec<DF>& sentinel) {
  const typename Step::template Tag<DF> ds;
  const auto a = LoadX<Step>(ds, x + e);
  hwy::Prefetch(reinterpret_cast<const char*>(x + e) + spans.ahead_bytes);
  hn::Vec<decltype(ds)> ya;
  if constexpr (Step::kPairing == Pairing::kHalfSplit) {
    const auto b = LoadX<Step>(ds, x + spans.partner + e);
    hwy::Prefetch(reinterpret_cast<const char*>(x + spans.partner + e) + spans.ahead_bytes);
    hn::Vec<decltype(ds)> yb;
    Step::Run(df, a, b, *spans.tables, e, ya, yb, sentinel);
    Put<kStream>(yb, ds, y + spans.partner + e);
  } else {
    Step::Run(df, a, *spans.tables, e, ya, sentinel);
  }
  Put<kStream>(ya, ds, y + e);
}

// The same for the `rest` pairs at element e that do not fill a vector.
template <class Step, class DF, class Stored, class Spans>
HWY_INLINE void RotateRestAt(DF df, const Stored* x, Stored* y, int64_t e, int64_t rest, const Spans& spans,
                             hn::Vec<DF>& sentinel) {
  const typename Step::template Tag<DF> ds;
  hn::Vec<decltype(ds)> ya;
  const auto a = LoadUpTo(ds, x + e, rest);
  if constexpr (Step::kPairing == Pairing::kHalfSplit) {
    hn::Vec<decltype(ds)> yb;
    Step::Run(df, a, LoadUpTo(ds, x + spans.partner + e, rest), *spans.tables, e, ya, yb, sentinel);
    StoreFirst(yb, ds, y + spans.partner + e, rest);
  } else {
    Step::Run(df, a, *spans.tables, e, ya, sentinel);
  }
  StoreFirst(ya, ds, y + e, rest);
}

// Steps kFirst … kSteps − 1 of a head, unrolled. Two sentinels, so that the chain of their additions does not set the pace.
template <class Step, bool kStream, int kSteps, int kFirst, class DF, class Stored, class Spans>
HWY_INLINE void RotateSteps(DF df, const Stored* x, Stored* y, const Spans& spans, hn::Vec<DF>& sentinel0,
                            hn::Vec<DF>& sentinel1) {
  if constexpr (kFirst < kSteps) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
    RotateAt<Step, kStream>(df, x, y, kFirst * lanes, spans, kFirst % 2 == 0 ? sentinel0 : sentinel1);
    RotateSteps<Step, kStream, kSteps, kFirst + 1>(df, x, y, spans, sentinel0, sentinel1);
  }
}

// All heads of a token, each of exactly kSteps vectors: few enough for cos and sin to stay in registers. Returns whether to
// look for NaN.
template <class Step, bool kStream, int kSteps, class DF, class Spans>
HWY_INLINE bool RotateHeadsInRegisters(DF df, const Spans& spans) {
  auto sentinel0 = hn::Set(df, 1);
  auto sentinel1 = hn::Set(df, 1);
  auto* x = spans.x;
  auto* y = spans.y;
  for (int64_t h = 0; h < spans.heads; ++h, x += spans.x_head_stride, y += spans.y_head_stride) {
    RotateSteps<Step, kStream, kSteps, 0>(df, x, y, spans, sentinel0, sentinel1);
  }
  return !hn::AllFalse(df, hn::Or(hn::IsNaN(sentinel0), hn::IsNaN(sentinel1)));
}

// All heads of a token, each of whole vectors.
template <class Step, bool kStream, class DF, class Spans>
HWY_INLINE bool RotateHeadsOfVectors(DF df, const Spans& spans) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
  auto sentinel = hn::Set(df, 1);
  auto* x = spans.x;
  auto* y = spans.y;
  for (int64_t h = 0; h < spans.heads; ++h, x += spans.x_head_stride, y += spans.y_head_stride) {
    for (int64_t e = 0; e < spans.elements; e += lanes) RotateAt<Step, kStream>(df, x, y, e, spans, sentinel);
  }
  return !hn::AllFalse(df, hn::IsNaN(sentinel));
}

// Elements [e, spans.elements) of one head: whole vectors, then halves of them down to 128 bits, then what is left.
template <class Step, class DF, class Stored, class Spans>
HWY_INLINE bool RotateAnyHead(DF df, const Stored* x, Stored* y, int64_t e, const Spans& spans) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
  auto sentinel = hn::Set(df, 1);
  for (; e + lanes <= spans.elements; e += lanes) RotateAt<Step, false>(df, x, y, e, spans, sentinel);
  bool nan = false;
  if (e < spans.elements) {
    if constexpr (hn::MaxLanes(df) * sizeof(hn::TFromD<DF>) > 16) {
      nan = RotateAnyHead<Step>(hn::Half<DF>(), x, y, e, spans);
    } else {
      RotateRestAt<Step>(df, x, y, e, spans.elements - e, spans, sentinel);
    }
  }
  return !hn::AllFalse(df, hn::IsNaN(sentinel)) || nan;
}

// All heads of a token, each of any number of elements.
template <class Step, class DF, class Spans>
HWY_NOINLINE bool RotateHeadsOfAnyWidth(DF df, const Spans& spans) {
  bool nan = false;
  auto* x = spans.x;
  auto* y = spans.y;
  for (int64_t h = 0; h < spans.heads; ++h, x += spans.x_head_stride, y += spans.y_head_stride) {
    nan |= RotateAnyHead<Step>(df, x, y, 0, spans);
  }
  return nan;
}

// Whether kSteps vectors of cos and as many of sin (twice as many where a step holds two) fit in the registers.
template <class Step, class DF, int kSteps>
constexpr bool FitsRegisters() {
  constexpr bool kManyRegisters = HWY_TARGET != HWY_AVX2;
  constexpr int kVectors = kSteps * 2 * (Step::kTablesPerStep);
  return kVectors <= (kManyRegisters ? 16 : 8);
}

// Picks the way for the width. Returns whether to look for NaN.
template <class Step, bool kStream, class DF, class Spans>
HWY_INLINE bool RotateHeads(DF df, const Spans& spans) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
  if (HWY_UNLIKELY(spans.elements % lanes != 0)) {
    if constexpr (hn::MaxLanes(df) * sizeof(hn::TFromD<DF>) > 32) {
      // Whole vectors of half the width beat a mixture of widths (80 or 96 channels), as long as they are wide themselves.
      if (spans.elements % (lanes / 2) == 0) return RotateHeadsOfVectors<Step, false>(hn::Half<DF>(), spans);
    }
    return RotateHeadsOfAnyWidth<Step>(df, spans);
  }
  const int64_t steps = spans.elements / lanes;
  if constexpr (FitsRegisters<Step, DF, 8>()) {
    if (steps == 8) return RotateHeadsInRegisters<Step, kStream, 8>(df, spans);
  }
  if constexpr (FitsRegisters<Step, DF, 4>()) {
    if (steps == 4) return RotateHeadsInRegisters<Step, kStream, 4>(df, spans);
  }
  if constexpr (FitsRegisters<Step, DF, 2>()) {
    if (steps == 2) return RotateHeadsInRegisters<Step, kStream, 2>(df, spans);
  }
  return RotateHeadsOfVectors<Step, kStream>(df, spans);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET != HWY_SCALAR

#endif  // PHASOR_KERNELS_CPU_ROTATE_HEADS_INL_H_
