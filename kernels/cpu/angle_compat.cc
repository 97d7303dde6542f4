// Tables as float32 libraries mean them: angle = fl32(fl32(inv_freq)·fl32(position)), cos and sin of that float correctly
// rounded to f32, times fl32(A) in f32 (inverse: divided by it), then one cast.
//
// Error of z: with 2/π = h + l + δ, |δ| < 2^-107, the rest after n quarters is fma(a, h, −n) + a·l, each operation within 1u
// of its own result: ≤ 3u relative and |a|·2^-106 absolute. No float is nearer to a multiple of π/2 than 2^-31, zero apart
// (Muller, Elementary Functions: 16367173·2^72 is the worst, 2^-30.2), so that for |a| < 2^31 the absolute part is below
// 2^-44 of the rest. With the polynomial's 2^-41 that is within the bound of 2^-40·|z|. Rows with larger angles, or with
// ones whose sine could be denormal, take the exact path throughout.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_compat.cc"
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

constexpr double kBound = 0x1p-40;
constexpr int kTogether = 4;  // vectors of a row worked on side by side

HWY_INLINE VD ToF64(VF v) { return hn::PromoteTo(DD(), v); }

// e^(i·angle), each component within kBound, relative, for 2^-120 < |angle| < 2^31 or 0.
template <int kCount>
HWY_INLINE void EvaluateCompat(const VF (&angle)[kCount], Complex (&z)[kCount]) {
  const DD d;
  const VD two_over_pi = hn::Set(d, 0x1.45f306dc9c883p-1);
  const VD two_over_pi_low = hn::Set(d, -0x1.6b01ec5417056p-55);
  // Adding 1.5·2^52 rounds to a whole number, whose low bits are then those of the sum.
  const VD magic = hn::Set(d, 0x1.8p52);
  VD sum[kCount], rest[kCount];
  HWY_UNROLL(4)
  for (int v = 0; v < kCount; ++v) {
    const VD a = ToF64(angle[v]);
    sum[v] = Fma(a, two_over_pi, magic);
    const VD n = hn::Sub(sum[v], magic);
    rest[v] = Fma(a, two_over_pi_low, FmaSub(a, two_over_pi, n));
  }
  SinCosFast(rest, z);
  HWY_UNROLL(4)
  for (int v = 0; v < kCount; ++v) z[v] = TurnByQuarters(z[v], hn::BitCast(DU64(), sum[v]));
}

// Decides the entries of one vector of a row by bounds that hold for every value.
HWY_INLINE void RepairCompat(Complex z, VF angle, float* cos_out, float* sin_out) {
  double cos[kLanes], sin[kLanes];
  float angles[kLanes];
  hn::StoreU(z.cos, DD(), cos);
  hn::StoreU(z.sin, DD(), sin);
  hn::StoreU(angle, DF(), angles);
  const auto is_sure = [](double v) {
    return BitsOf(Narrow<float>(v * (1 + kBound))) == BitsOf(Narrow<float>(v * (1 - kBound)));
  };
  for (int64_t i = 0; i < kLanes; ++i) {
    if (!is_sure(cos[i])) cos_out[i] = CompatEntry(angles[i], Component::kCos);
    if (!is_sure(sin[i])) sin_out[i] = CompatEntry(angles[i], Component::kSin);
  }
}

// The frequencies of a chunk, padded to whole vectors by zeros.
struct CompatChunk {
  HWY_ALIGN float inv_freq[kChunk];
  float smallest;  // magnitudes, zeros apart
  float largest;
};

void LoadChunk(std::span<const float> inv_freq, CompatChunk& chunk) {
  chunk.smallest = FromBits<float>(kInfinityBits<float>);
  chunk.largest = 0;
  for (size_t i = 0; i < static_cast<size_t>(kChunk); ++i) {
    const float f = i < inv_freq.size() ? inv_freq[i] : 0.0f;
    chunk.inv_freq[i] = f;
    const float magnitude = f < 0 ? -f : f;
    if (magnitude != 0 && magnitude < chunk.smallest) chunk.smallest = magnitude;
    if (magnitude > chunk.largest) chunk.largest = magnitude;
  }
}

// The trigonometry of one row.
HWY_INLINE void RunCompatRow(const CompatChunk& chunk, int64_t columns, float p, float* HWY_RESTRICT cos,
                             float* HWY_RESTRICT sin) {
  const DF d;
  const float distance = p < 0 ? -p : p;
  const float step = distance < 1 ? distance : 1;
  if (HWY_UNLIKELY(chunk.largest * distance > 0x1p30f || (distance != 0 && chunk.smallest * step < 0x1p-100f))) {
    for (int64_t i = 0; i < columns; ++i) {
      cos[i] = CompatEntry(chunk.inv_freq[i] * p, Component::kCos);
      sin[i] = CompatEntry(chunk.inv_freq[i] * p, Component::kSin);
    }
    return;
  }
  const auto angle_at = [&](int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, chunk.inv_freq + i), hn::Set(d, p)); };
  // The values of kCount vectors.
  const auto run = [&]<int kCount>(int64_t i, Complex(&z)[kCount], Doubts<float>& doubts) HWY_ATTR {
    VF angle[kCount];
    for (int v = 0; v < kCount; ++v) angle[v] = angle_at(i + v * kLanes);
    EvaluateCompat(angle, z);
    for (int v = 0; v < kCount; ++v) {
      EmitRelative(z[v].cos, cos + i + v * kLanes, doubts);
      EmitRelative(z[v].sin, sin + i + v * kLanes, doubts);
    }
  };
  Doubts<float> doubts = NoDoubts<float>();
  int64_t next = 0;
  for (; next + kTogether * kLanes <= columns; next += kTogether * kLanes) {
    Complex z[kTogether];
    run(next, z, doubts);
  }
  for (; next < columns; next += kLanes) {
    Complex z[1];
    run(next, z, doubts);
  }
  if (HWY_LIKELY(!AnyRelative(doubts))) return;
  for (int64_t i = 0; i < columns; i += kLanes) {
    doubts = NoDoubts<float>();
    Complex z[1];
    run(i, z, doubts);
    if (AnyRelative(doubts)) RepairCompat(z[0], angle_at(i), cos + i, sin + i);
  }
}

HWY_INLINE void Cast(VF v, float* out) { hn::StoreU(v, DF(), out); }
HWY_INLINE void Cast(VF v, double* out) { hn::StoreU(ToF64(v), DD(), out); }
template <typename T>
HWY_INLINE void Cast(VF v, T* out) {
#if HWY_TARGET == HWY_SCALAR
  *out = Narrow<T>(hn::GetLane(v));
#else
  if constexpr (std::is_same_v<T, F16>) {
    hn::StoreU(NarrowToF16(DF(), v), hn::Rebind<uint16_t, DF>(), reinterpret_cast<uint16_t*>(out));
  } else {
    hn::StoreU(NarrowToBF16(DF(), v), hn::Rebind<uint16_t, DF>(), reinterpret_cast<uint16_t*>(out));
  }
#endif
}

// values·factor or values/factor in f32, cast to T.
template <bool kInverse, typename T>
HWY_INLINE void ScaleAndCast(const float* values, int64_t columns, float factor, T* out) {
  const DF d;
  const VF f = hn::Set(d, factor);
  for (int64_t i = 0; i < columns; i += kLanes) {
    const VF v = hn::LoadU(d, values + i);
    Cast(kInverse ? hn::Div(v, f) : hn::Mul(v, f), out + i);
  }
}

template <typename T, bool kStream, bool kInverse>
bool RunCompat(const AngleJob& job) {
  constexpr int64_t kRowsBetweenLooks = 64;
  CompatChunk chunk;
  HWY_ALIGN float cos_values[kChunk];
  HWY_ALIGN float sin_values[kChunk];
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  const float factor = job.plan->attention_factor_f32;
  RowOutput<kStream> cos(job.cos, job), sin(job.sin, job);
  bool done = true;
  for (int64_t row = 0; row < job.rows && done; ++row) {
    for (int64_t column = 0; column < job.pairs; column += kChunk) {
      const int64_t columns = job.pairs - column < kChunk ? job.pairs - column : kChunk;
      if (row == 0 || job.pairs > kChunk) {
        LoadChunk(std::span(job.plan->inv_freq_f32).subspan(static_cast<size_t>(column), static_cast<size_t>(columns)),
                  chunk);
      }
      RunCompatRow(chunk, columns, job.PositionF32(row), cos_values, sin_values);
      if (std::is_same_v<T, float> && factor == 1) {
        cos.Write(cos_values, row, 1, column, columns);
        sin.Write(sin_values, row, 1, column, columns);
        continue;
      }
      ScaleAndCast<kInverse>(cos_values, columns, factor, cos_row);
      ScaleAndCast<kInverse>(sin_values, columns, factor, sin_row);
      cos.Write(cos_row, row, 1, column, columns);
      sin.Write(sin_row, row, 1, column, columns);
    }
    done = row % kRowsBetweenLooks != 0 || !job.Cancelled();
  }
  cos.Finish();
  sin.Finish();
  return done;
}

bool AngleCompatKernel(const AngleJob& job) {
  const auto run = [&job](auto type, auto stream) {
    using T = typename decltype(type)::type;
    return job.inverse ? RunCompat<T, decltype(stream)::value, true>(job)
                       : RunCompat<T, decltype(stream)::value, false>(job);
  };
  if (job.dtype != DType::kF64) return VisitJob(job, run);
  return job.stream && kHasStreaming ? run(TypeTag<double>{}, std::true_type{}) : run(TypeTag<double>{}, std::false_type{});
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
HWY_EXPORT(AngleCompatKernel);
bool AngleCompat(const AngleJob& job) { return HWY_DYNAMIC_DISPATCH(AngleCompatKernel)(job); }
}  // namespace phasor
#endif
