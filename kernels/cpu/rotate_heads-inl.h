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
  int64_t ahead_bytes;  // how far ahead of each head of x memory is asked for; 0: not at all
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
HWY_INLINE void RotateAt(DF df, const Stored* x, Stored* y, int64_t e, const Spans& spans,
                         const Factors<DF, Step::kTablesPerStep>& factors, hn::Vec<DF>& sentinel) {
  const typename Step::template Tag<DF> ds;
  const auto a = LoadX<Step>(ds, x + e);
  hn::Vec<decltype(ds)> ya;
  if constexpr (Step::kPairing == Pairing::kHalfSplit) {
    const auto b = LoadX<Step>(ds, x + spans.partner + e);
    hn::Vec<decltype(ds)> yb;
    Step::Run(df, a, b, factors, ya, yb, sentinel);
    Put<kStream>(yb, ds, y + spans.partner + e);
  } else {
    Step::Run(df, a, factors, ya, sentinel);
  }
  Put<kStream>(ya, ds, y + e);
}

// The two vectors of pairs from element e on.
template <class Step, bool kStream, class DF, class Stored, class Spans>
HWY_INLINE void RotateTwoAt(DF df, const Stored* x, Stored* y, int64_t e, const Spans& spans, const Factors<DF, 1>* factors,
                            hn::Vec<DF>& sentinel) {
  const typename Step::template Tag<DF> ds;
  using V = hn::Vec<decltype(ds)>;
  const int64_t next = e + static_cast<int64_t>(hn::Lanes(ds));
  const V a[2] = {LoadX<Step>(ds, x + e), LoadX<Step>(ds, x + next)};
  V ya[2];
  if constexpr (Step::kPairing == Pairing::kHalfSplit) {
    const V b[2] = {LoadX<Step>(ds, x + spans.partner + e), LoadX<Step>(ds, x + spans.partner + next)};
    V yb[2];
    Step::RunTwo(df, a, b, factors, ya, yb, sentinel);
    Put<kStream>(yb[0], ds, y + spans.partner + e);
    Put<kStream>(yb[1], ds, y + spans.partner + next);
  } else {
    Step::RunTwo(df, a, factors, ya, sentinel);
  }
  Put<kStream>(ya[0], ds, y + e);
  Put<kStream>(ya[1], ds, y + next);
}

// Asks for what lies ahead of a head of so many elements.
template <class Step, class Stored, class Spans>
HWY_INLINE void PrefetchAhead(const Stored* x, int64_t elements, const Spans& spans) {
  if (spans.ahead_bytes == 0) return;
  const auto* from = reinterpret_cast<const char*>(x) + spans.ahead_bytes;
  const auto bytes = elements * static_cast<int64_t>(sizeof(Stored));
  for (int64_t i = 0; i < bytes; i += kLineBytes) {
    hwy::Prefetch(from + i);
    if constexpr (Step::kPairing == Pairing::kHalfSplit) hwy::Prefetch(from + i + spans.partner * sizeof(Stored));
  }
}

// The vector of pairs at element e of a head, its factors from memory.
template <class Step, bool kStream, class DF, class Stored, class Spans>
HWY_INLINE void RotateFromMemoryAt(DF df, const Stored* x, Stored* y, int64_t e, const Spans& spans, hn::Vec<DF>& sentinel) {
  RotateAt<Step, kStream>(df, x, y, e, spans, Step::LoadFactors(df, *spans.tables, e), sentinel);
}

// The same for the `rest` pairs at element e that do not fill a vector.
template <class Step, class DF, class Stored, class Spans>
HWY_INLINE void RotateRestAt(DF df, const Stored* x, Stored* y, int64_t e, int64_t rest, const Spans& spans,
                             hn::Vec<DF>& sentinel) {
  const typename Step::template Tag<DF> ds;
  hn::Vec<decltype(ds)> ya;
  const auto a = LoadUpTo(ds, x + e, rest);
  const auto factors = Step::LoadFactors(df, *spans.tables, e);
  if constexpr (Step::kPairing == Pairing::kHalfSplit) {
    hn::Vec<decltype(ds)> yb;
    Step::Run(df, a, LoadUpTo(ds, x + spans.partner + e, rest), factors, ya, yb, sentinel);
    StoreFirst(yb, ds, y + spans.partner + e, rest);
  } else {
    Step::Run(df, a, factors, ya, sentinel);
  }
  StoreFirst(ya, ds, y + e, rest);
}

// Steps kFirst … kSteps − 1 of a head, unrolled. Two sentinels, so that the chain of their additions does not set the pace.
template <class Step, bool kStream, int kSteps, int kFirst, class DF, class Stored, class Spans>
HWY_INLINE void RotateSteps(DF df, const Stored* x, Stored* y, const Spans& spans,
                            const Factors<DF, Step::kTablesPerStep> (&factors)[kSteps], hn::Vec<DF> (&sentinels)[2]) {
  if constexpr (kFirst < kSteps) {
    const typename Step::template Tag<DF> ds;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(ds));
    constexpr int64_t e = kFirst;
    if constexpr (Step::kRunsTwo && kSteps % 2 == 0) {
      RotateTwoAt<Step, kStream>(df, x, y, e * lanes, spans, &factors[kFirst], sentinels[kFirst / 2 % 2]);
      RotateSteps<Step, kStream, kSteps, kFirst + 2>(df, x, y, spans, factors, sentinels);
    } else {
      RotateAt<Step, kStream>(df, x, y, e * lanes, spans, factors[kFirst], sentinels[kFirst % 2]);
      RotateSteps<Step, kStream, kSteps, kFirst + 1>(df, x, y, spans, factors, sentinels);
    }
  }
}

// All heads of a token, each of exactly kSteps vectors: few enough for cos and sin to stay in registers. Returns whether to
// look for NaN.
template <class Step, bool kStream, int kSteps, class DF, class Spans>
HWY_INLINE bool RotateHeadsInRegisters(DF df, const Spans& spans) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
  hn::Vec<DF> sentinels[2] = {hn::Set(df, 1), hn::Set(df, 1)};
  // Loaded here, as the compiler cannot: what is written to y might be the tables.
  Factors<DF, Step::kTablesPerStep> factors[kSteps];
  HWY_UNROLL(8)
  for (int i = 0; i < kSteps; ++i) factors[i] = Step::LoadFactors(df, *spans.tables, i * lanes);
  auto* x = spans.x;
  auto* y = spans.y;
  for (int64_t h = 0; h < spans.heads; ++h, x += spans.x_head_stride, y += spans.y_head_stride) {
    PrefetchAhead<Step>(x, kSteps * lanes, spans);
    RotateSteps<Step, kStream, kSteps, 0>(df, x, y, spans, factors, sentinels);
  }
  return SawNaN(df, sentinels[0]) || SawNaN(df, sentinels[1]);
}

// All heads of a token, each of whole vectors.
template <class Step, bool kStream, class DF, class Spans>
HWY_INLINE bool RotateHeadsOfVectors(DF df, const Spans& spans) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
  auto sentinel = hn::Set(df, 1);
  auto* x = spans.x;
  auto* y = spans.y;
  for (int64_t h = 0; h < spans.heads; ++h, x += spans.x_head_stride, y += spans.y_head_stride) {
    PrefetchAhead<Step>(x, spans.elements, spans);
    for (int64_t e = 0; e < spans.elements; e += lanes) RotateFromMemoryAt<Step, kStream>(df, x, y, e, spans, sentinel);
  }
  return SawNaN(df, sentinel);
}

// Elements [e, spans.elements) of one head: whole vectors, then halves of them down to 128 bits, then what is left.
template <class Step, class DF, class Stored, class Spans>
HWY_INLINE bool RotateAnyHead(DF df, const Stored* x, Stored* y, int64_t e, const Spans& spans) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(typename Step::template Tag<DF>()));
  auto sentinel = hn::Set(df, 1);
  for (; e + lanes <= spans.elements; e += lanes) RotateFromMemoryAt<Step, false>(df, x, y, e, spans, sentinel);
  bool nan = false;
  if (e < spans.elements) {
    if constexpr (hn::MaxLanes(df) * sizeof(hn::TFromD<DF>) > 16) {
      nan = RotateAnyHead<Step>(hn::Half<DF>(), x, y, e, spans);
    } else {
      RotateRestAt<Step>(df, x, y, e, spans.elements - e, spans, sentinel);
    }
  }
  return SawNaN(df, sentinel) || nan;
}

// All heads of a token, each of any number of elements.
template <class Step, class DF, class Spans>
HWY_NOINLINE bool RotateHeadsOfAnyWidth(DF df, const Spans& spans) {
  bool nan = false;
  auto* x = spans.x;
  auto* y = spans.y;
  for (int64_t h = 0; h < spans.heads; ++h, x += spans.x_head_stride, y += spans.y_head_stride) {
    PrefetchAhead<Step>(x, spans.elements, spans);
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
