// Tables at consecutive positions: x ← 2·cos(inv_freq)·x − (the x before), from two rows at absolute multiples of 16 on, a
// rounding test on every value, and the exact path for the few that fail it. That is one fma for a value, half of what
// z ← z·w takes; its error grows with the square of the number of steps, which 14 steps allow.
//
// Error of z = (cos, sin), with u = 2^-53, relative to factor = A or 1/A; a product of complex numbers with a rounded one
// adds 3u normwise (1u of that one's rounding, 2u of the product):
// - The anchor at a multiple of 512 comes from the polynomial and the scaling: 8u + 2u. Up to 7 jumps by e^(i·64·inv_freq)
//   and up to 3 passes of e^(i·16·inv_freq) lead to the first row: 10u + 21u + 9u = 40u.
// - The second row is a product: 3u of its own. What the first row is off by turns along with it and grows no more.
// - A row after them adds the rounding of 2·cos(inv_freq), 2u·|x|, and of the fma, u·|x|: 3u. An error at row j of the pass
//   is at row n multiplied by sin((n−j+1)·inv_freq)/sin(inv_freq), n − j + 1 at most: the second row's 3u by 15, and 3u by
//   14 + 13 + … + 1 = 105. Together 40u + 45u + 315u = 400u.
// The bound used is 512u = 2^-44; the rest covers products of errors and the rounding of z ± e.
//
// Sines of small angles are known better than that, or every sine of a slow pair would fail the test. Let p be the block's
// largest |position| (≥ 63) and t = inv_freq·p ≤ 1/8; errors relative to factor. A product with e^(i·k·inv_freq) adds
// |δcos|·sin(k·inv_freq) + 2u·|sin| + 2u·sin(k·inv_freq) to the error of sin.
// - The anchor of the block: ≤ 31u·t where |position| grows from the super anchor on. The worst block is [−64, −1], whose
//   super anchor's angle is 8t: 80u·t, and 7 jumps add 70u·t + 14u·t + Σ|δcos|·t ≤ 137u·t: 301u·t.
// - 3 passes, |δcos| ≤ 40u, 16·inv_freq ≤ 0.26t: 3·(40u·0.26t + 2u·t + 2u·0.26t) ≤ 39u·t.
// - These turn along: at most 15 rows on, |δcos|·sin(15·inv_freq) ≤ 40u·0.24t joins: 10u·t.
// - The second row adds 2u·t + 2u·t/63, ×15: 31u·t. A row after it adds 3u·|sin| ≤ 3u·t, ×105: 315u·t.
// Together below 700u·t. The bound used is 1024u·t = 2^-43·t.
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_range.cc"
// The include guard of Highway's mechanism must come before everything that depends on the target.
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/cpu/angle_rounding-inl.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

constexpr int64_t kBlock = 64;   // rows between anchors
constexpr int64_t kSuper = 512;  // rows between anchors made from the phase
constexpr int64_t kPass = 16;    // rows between products, and in the buffer

// A block's columns [first, first + columns) of a chunk.
struct Chunk {
  int64_t first;    // pair
  int64_t columns;  // pairs that exist
  int64_t padded;   // columns to work on, whole vectors
};

// At the start of a page: at an unlucky place of the stack, one in some dozens, its lines and the streamed rows got in each
// other's way and tables took 2.9 times as long (Zen 4, the same place every time).
template <typename T>
struct alignas(4096) ChunkState {
  HWY_ALIGN double cos[kChunk];  // z of the next pass's first row
  HWY_ALIGN double sin[kChunk];
  HWY_ALIGN double anchor_cos[kChunk];
  HWY_ALIGN double anchor_sin[kChunk];
  HWY_ALIGN double sin_error[kChunk];
  // [kPass, columns], packed; the last vector of a row may run into the next one, which is written later (see RunPass).
  HWY_ALIGN T cos_rows[kPass * kChunk + kChunk];
  HWY_ALIGN T sin_rows[kPass * kChunk + kChunk];
};

HWY_INLINE Complex LoadComplex(const double* cos, const double* sin) {
  return Complex{hn::LoadU(DD(), cos), hn::LoadU(DD(), sin)};
}
HWY_INLINE void StoreComplex(Complex z, double* cos, double* sin) {
  hn::StoreU(z.cos, DD(), cos);
  hn::StoreU(z.sin, DD(), sin);
}

template <typename T>
void MakeSuperAnchor(const AngleSetup& setup, const Chunk& chunk, int64_t position, ChunkState<T>& state) {
  const DD d;
  const DU64 du;
  const bool negative = position < 0;
  const VU64 magnitude = hn::Set(du, static_cast<uint64_t>(negative ? -position : position));
  const VD sign = hn::Set(d, negative ? -1.0 : 1.0);
  for (int64_t i = 0; i < chunk.padded; i += kLanes) {
    const int64_t pair = chunk.first + i;
    Complex z = SinCosOfTurns<true>(hn::LoadU(du, setup.turn_high + pair), hn::LoadU(du, setup.turn_low + pair), magnitude);
    z.cos = hn::Mul(z.cos, hn::LoadU(d, setup.scale_cos + pair));
    z.sin = hn::Mul(z.sin, hn::Mul(sign, hn::LoadU(d, setup.scale_sin + pair)));
    StoreComplex(z, state.anchor_cos + i, state.anchor_sin + i);
  }
}

template <typename T>
void JumpAnchor(const AngleSetup& setup, const Chunk& chunk, ChunkState<T>& state) {
  for (int64_t i = 0; i < chunk.padded; i += kLanes) {
    const Complex jump = LoadComplex(setup.jump_cos + chunk.first + i, setup.jump_sin + chunk.first + i);
    StoreComplex(MultiplyComplex(LoadComplex(state.anchor_cos + i, state.anchor_sin + i), jump), state.anchor_cos + i,
                 state.anchor_sin + i);
  }
}

// The state at the block's first row, and the bounds on its sines.
template <typename T>
void StartBlock(const AngleSetup& setup, const Chunk& chunk, int64_t position, ChunkState<T>& state) {
  const DD d;
  const int64_t last = position + kBlock - 1;
  const VD largest = hn::Set(d, static_cast<double>(last > -position ? last : -position));
  for (int64_t i = 0; i < chunk.padded; i += kLanes) {
    const int64_t pair = chunk.first + i;
    StoreComplex(LoadComplex(state.anchor_cos + i, state.anchor_sin + i), state.cos + i, state.sin + i);
    const VD angle = hn::Mul(hn::LoadU(d, setup.angle + pair), largest);
    const VD small = hn::Mul(angle, hn::LoadU(d, setup.small_error + pair));
    hn::StoreU(hn::IfThenElse(hn::Le(angle, hn::Set(d, 0.125)), small, hn::LoadU(d, setup.range_error + pair)), d,
               state.sin_error + i);
  }
}

// Decides every value of one vector of a row that the rounding test doubts.
template <typename T>
HWY_NOINLINE void RepairVector(const AngleSetup& setup, Complex z, const double* cos_error, const double* sin_error,
                               int64_t pair, int64_t count, int64_t position, T* cos_out, T* sin_out) {
  double cos[kLanes], sin[kLanes];
  hn::StoreU(z.cos, DD(), cos);
  hn::StoreU(z.sin, DD(), sin);
  for (int64_t i = 0; i < count; ++i) {
    const Turns& turns = setup.frequencies[static_cast<size_t>(pair + i)];
    cos_out[i] = EntryFrom<T>(cos[i], cos_error[i], turns, position, setup.factor, Component::kCos);
    sin_out[i] = EntryFrom<T>(sin[i], sin_error[i], turns, position, setup.factor, Component::kSin);
  }
}

// What one strip of kVectors vectors of columns needs: pointers to its first column.
template <typename T>
struct Strip {
  const AngleSetup* setup;
  int64_t pair;
  int64_t count;       // columns that exist
  int64_t row_stride;  // of cos_rows and sin_rows, elements
  double* cos;
  double* sin;
  const double* sin_error;
  T* cos_rows;
  T* sin_rows;
  // Rows to stream behind this strip's own, which make its pieces whole lines; kBesideStride elements apart.
  const T* cos_beside = nullptr;
  const T* sin_beside = nullptr;
};

// Loads from an address whose low 12 bits are those of a streaming store on its way wait for it, and rows are most often a
// multiple of this many bytes apart: what the loops read while they stream lies two lines away from what they write, by this
// measure.
constexpr int64_t kAliasBytes = 256;
constexpr int64_t kBesideStride = kAliasBytes / static_cast<int64_t>(sizeof(float));
inline int64_t ElementsAway(const void* written, size_t element) {
  return static_cast<int64_t>((reinterpret_cast<uintptr_t>(written) + kAliasBytes / 2) % kAliasBytes / element);
}

// Columns that are worked on side by side: one line of f32 with AVX-512; what the registers of AVX2 hold.
constexpr int kWide = 2;

// Whether a strip of f32 is half a line wide. Streamed rows are then made of two strips: half lines, 16 rows of them at a
// time, are more than the processor combines, and took 9 times as long as whole ones.
template <typename T>
constexpr bool kHalfLines = std::is_same_v<T, float> && 2 * kWide * kLanes * static_cast<int64_t>(sizeof(T)) == kLineBytes;

// A row's values, the next row's, and 2·cos(inv_freq).
struct Recurrence {
  Complex now;
  Complex next;
  VD twice_cos;
};
template <typename T>
HWY_INLINE Recurrence StartRecurrence(const Strip<T>& strip, int64_t column) {
  const Complex step = LoadComplex(strip.setup->step_cos + strip.pair + column, strip.setup->step_sin + strip.pair + column);
  const Complex z = LoadComplex(strip.cos + column, strip.sin + column);
  return Recurrence{z, MultiplyComplex(z, step), hn::Add(step.cos, step.cos)};
}
HWY_INLINE Complex After(Complex now, Complex previous, VD twice_cos) {
  return Complex{FmaSub(twice_cos, now.cos, previous.cos), FmaSub(twice_cos, now.sin, previous.sin)};
}

// Runs the strip's kPass rows again, slowly, and repairs what is in doubt. The same operations as in RunStrip: the same z.
template <typename T>
HWY_NOINLINE void RepairStrip(const Strip<T>& strip, int64_t vectors, int64_t position, int64_t rows) {
  const AngleSetup& setup = *strip.setup;
  for (int64_t v = 0; v < vectors * kLanes; v += kLanes) {
    const double* cos_error = setup.range_error + strip.pair + v;
    const double* sin_error = strip.sin_error + v;
    const int64_t count = strip.count - v < kLanes ? strip.count - v : kLanes;
    Recurrence z = StartRecurrence(strip, v);
    for (int64_t r = 0; r < rows; ++r) {
      HWY_ALIGN T scratch[kLanes];
      Doubts<T> doubts = NoDoubts<T>();
      Emit<false>(z.now.cos, hn::LoadU(DD(), cos_error), scratch, doubts);
      Emit<false>(z.now.sin, hn::LoadU(DD(), sin_error), scratch, doubts);
      if (Any(doubts)) {
        RepairVector(setup, z.now, cos_error, sin_error, strip.pair + v, count, position + r,
                     strip.cos_rows + r * strip.row_stride + v, strip.sin_rows + r * strip.row_stride + v);
      }
      z = Recurrence{z.next, After(z.next, z.now, z.twice_cos), z.twice_cos};
    }
  }
}

// Streams the half of a line that another strip has left in the buffer.
template <typename T>
HWY_INLINE void StreamBeside(const T* from, T* to) {
  const hn::CappedTag<T, static_cast<size_t>(kWide * kLanes)> d;
  for (int64_t i = 0; i < kWide * kLanes; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::Stream(hn::LoadU(d, from + i), d, to + i);
}

// On AVX2, whose registers are few, a load that stays one: g++ would keep the vector in a register and what changes in every
// row in memory.
HWY_INLINE VD LoadAgain(const double* from) {
#if HWY_TARGET == HWY_AVX2 && HWY_COMPILER_GCC
  asm("" : "+r"(from));
#endif
  return hn::LoadU(DD(), from);
}

// kPass rows of a strip. Returns whether a value is in doubt.
template <int kVectors, bool kStream, typename T>
HWY_INLINE bool RunStrip(const Strip<T>& strip) {
  static_assert(kPass % 2 == 0);
  const DD d;
  Recurrence z[kVectors];
  VD cos_error[kVectors];
  // Beside all else there are not enough registers for these on AVX2.
  alignas(kAliasBytes) double memory[kAliasBytes / sizeof(double)];
  double* sin_error = memory + ElementsAway(strip.cos_rows, sizeof(double)) / (kVectors * kLanes) * (kVectors * kLanes);
  HWY_UNROLL(8)
  for (int v = 0; v < kVectors; ++v) {
    z[v] = StartRecurrence(strip, v * kLanes);
    cos_error[v] = hn::LoadU(d, strip.setup->range_error + strip.pair + v * kLanes);
    hn::StoreU(hn::LoadU(d, strip.sin_error + v * kLanes), d, sin_error + v * kLanes);
  }
  Doubts<T> doubts = NoDoubts<T>();
  T* HWY_RESTRICT cos_out = strip.cos_rows;
  T* HWY_RESTRICT sin_out = strip.sin_rows;
  const T* cos_beside = strip.cos_beside;
  const T* sin_beside = strip.sin_beside;
  const auto end_row = [&]() HWY_ATTR {
    if constexpr (kStream && kHalfLines<T>) {
      StreamBeside(cos_beside, cos_out + kVectors * kLanes);
      StreamBeside(sin_beside, sin_out + kVectors * kLanes);
      cos_beside += kBesideStride;
      sin_beside += kBesideStride;
    }
    cos_out += strip.row_stride;
    sin_out += strip.row_stride;
  };
  // Two rows at a time, so that nothing has to change places.
  for (int64_t r = 0; r < kPass; r += 2) {
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      Emit<kStream>(z[v].now.cos, cos_error[v], cos_out + v * kLanes, doubts);
      Emit<kStream>(z[v].now.sin, LoadAgain(sin_error + v * kLanes), sin_out + v * kLanes, doubts);
      z[v].now = After(z[v].next, z[v].now, z[v].twice_cos);
    }
    end_row();
    HWY_UNROLL(8)
    for (int v = 0; v < kVectors; ++v) {
      Emit<kStream>(z[v].next.cos, cos_error[v], cos_out + v * kLanes, doubts);
      Emit<kStream>(z[v].next.sin, LoadAgain(sin_error + v * kLanes), sin_out + v * kLanes, doubts);
      z[v].next = After(z[v].now, z[v].next, z[v].twice_cos);
    }
    end_row();
  }
  return Any(doubts);
}

template <int kVectors, bool kStream, typename T>
HWY_INLINE void RunAndRepair(const Strip<T>& strip, int64_t position, int64_t rows) {
  if (HWY_UNLIKELY((RunStrip<kVectors, kStream>(strip)))) {
    FinishStores<kStream>();  // a repair is an ordinary store to an address that was streamed to
    RepairStrip(strip, kVectors, position, rows);
  }
  for (int v = 0; v < kVectors * kLanes; v += kLanes) {
    const Complex jump = LoadComplex(strip.setup->pass_cos + strip.pair + v, strip.setup->pass_sin + strip.pair + v);
    StoreComplex(MultiplyComplex(LoadComplex(strip.cos + v, strip.sin + v), jump), strip.cos + v, strip.sin + v);
  }
}

// Where kPass rows of a chunk go.
template <typename T>
struct Destination {
  T* cos;
  T* sin;
  int64_t row_stride;
};

// The next kPass rows of a chunk, at `position` and after; the first `rows` of them are wanted. Strips go from right to
// left: where the last vector of a row overruns it, the next row's first columns are written afterwards.
template <bool kStream, typename T>
void RunPass(const AngleSetup& setup, const Chunk& chunk, int64_t position, int64_t rows, const Destination<T>& to,
             ChunkState<T>& state) {
  const auto strip_at = [&](int64_t column) {
    return Strip<T>{&setup,
                    chunk.first + column,
                    chunk.columns - column,
                    to.row_stride,
                    state.cos + column,
                    state.sin + column,
                    state.sin_error + column,
                    to.cos + column,
                    to.sin + column};
  };
  int64_t column = chunk.padded;
  if constexpr (kStream && kHalfLines<T>) {
    constexpr int64_t kColumns = kWide * kLanes;
    for (; column > 0; column -= 2 * kColumns) {
      Strip<T> left = strip_at(column - 2 * kColumns);
      Strip<T> right = strip_at(column - kColumns);
      right.row_stride = kBesideStride;
      right.cos_rows = state.cos_rows + ElementsAway(left.cos_rows, sizeof(T));
      right.sin_rows = state.sin_rows + ElementsAway(left.sin_rows, sizeof(T));
      RunAndRepair<kWide, false>(right, position, rows);
      left.cos_beside = right.cos_rows;
      left.sin_beside = right.sin_rows;
      RunAndRepair<kWide, true>(left, position, rows);
    }
    return;
  }
  for (; column % (kWide * kLanes) != 0; column -= kLanes)
    RunAndRepair<1, kStream>(strip_at(column - kLanes), position, rows);
  for (; column > 0; column -= kWide * kLanes) {
    RunAndRepair<kWide, kStream>(strip_at(column - kWide * kLanes), position, rows);
  }
}

// Whether whole passes can be written where they belong, without the buffer: only whole vectors, aligned when streamed.
template <typename T, bool kStream>
bool StoresDirectly(const AngleJob& job) {
  if (job.cos == nullptr || job.sin == nullptr || job.pairs % kLanes != 0) return false;
  if (!kStream) return true;
  // Narrower pieces (16-bit entries) are better collected first.
  if constexpr (kHalfLines<T>) {
    if (job.pairs % (2 * kWide * kLanes) != 0) return false;
  } else if (sizeof(T) * static_cast<size_t>(kLanes) < 32) {
    return false;
  }
  const auto is_line = [](uintptr_t value) { return value % kLineBytes == 0; };
  return is_line(reinterpret_cast<uintptr_t>(job.cos)) && is_line(reinterpret_cast<uintptr_t>(job.sin)) &&
         is_line(static_cast<uintptr_t>(job.row_stride) * sizeof(T));
}

// Rows of the table in [begin, end) positions, all in one stretch of kSuper, columns of one chunk.
template <typename T, bool kStream>
bool RunChunk(const AngleJob& job, const Chunk& chunk, int64_t begin, int64_t end, ChunkState<T>& state,
              RowOutput<kStream>& cos, RowOutput<kStream>& sin) {
  const AngleSetup& setup = *job.setup;
  const bool direct = StoresDirectly<T, kStream>(job);
  const int64_t super = begin & ~(kSuper - 1);
  MakeSuperAnchor(setup, chunk, super, state);
  for (int64_t block = super; block < end; block += kBlock) {
    if (block != super) JumpAnchor(setup, chunk, state);
    if (block + kBlock <= begin) continue;
    if (job.Cancelled()) return false;
    StartBlock(setup, chunk, block, state);
    for (int64_t pass = block; pass < block + kBlock && pass < end; pass += kPass) {
      const int64_t from = begin > pass ? begin - pass : 0;
      const int64_t to = end - pass < kPass ? end - pass : kPass;
      const int64_t row = pass + from - job.first;
      if (direct && from == 0 && to == kPass) {
        const int64_t offset = row * job.row_stride + chunk.first;
        const Destination<T> out{static_cast<T*>(job.cos) + offset, static_cast<T*>(job.sin) + offset, job.row_stride};
        RunPass<kStream>(setup, chunk, pass, kPass, out, state);
        continue;
      }
      RunPass<false>(setup, chunk, pass, to, Destination<T>{state.cos_rows, state.sin_rows, chunk.columns}, state);
      if (from >= to) continue;
      cos.Write(state.cos_rows + from * chunk.columns, row, to - from, chunk.first, chunk.columns);
      sin.Write(state.sin_rows + from * chunk.columns, row, to - from, chunk.first, chunk.columns);
    }
  }
  return true;
}

template <typename T, bool kStream>
bool RunRange(const AngleJob& job) {
  ChunkState<T> state;
  const bool in_order = !StoresDirectly<T, kStream>(job);
  RowOutput<kStream> cos(job.cos, job, in_order), sin(job.sin, job, in_order);
  const int64_t last = job.first + job.rows;
  bool done = true;
  for (int64_t begin = job.first; begin < last && done;) {
    const int64_t next = (begin & ~(kSuper - 1)) + kSuper;
    const int64_t end = next < last ? next : last;
    for (int64_t column = 0; column < job.pairs && done; column += kChunk) {
      const int64_t columns = job.pairs - column < kChunk ? job.pairs - column : kChunk;
      const Chunk chunk{column, columns, (columns + kLanes - 1) / kLanes * kLanes};
      done = RunChunk(job, chunk, begin, end, state, cos, sin);
    }
    begin = end;
  }
  cos.Finish();
  sin.Finish();
  return done;
}

bool AngleRangeKernel(const AngleJob& job) {
  return VisitJob(
      job, [&job](auto type, auto stream) { return RunRange<typename decltype(type)::type, decltype(stream)::value>(job); });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
HWY_EXPORT(AngleRangeKernel);
bool AngleRange(const AngleJob& job) { return HWY_DYNAMIC_DISPATCH(AngleRangeKernel)(job); }
}  // namespace phasor
#endif
