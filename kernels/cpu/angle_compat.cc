// Tables as float32 libraries mean them: angle = fl32(fl32(inv_freq)·fl32(position)), cos and sin of that float correctly
// rounded to f32, times fl32(A) in f32 (inverse: divided by it), then one cast.
//
// Error of z: with 2/π = h + l + δ, |δ| < 2^-107, the rest after n quarters is fma(a, h, −n) + a·l, each operation within
// 1u of its own result: ≤ 3u relative and |a|·2^-106 absolute, then 1.5u for the scaling to radians, as SinCosNear0 wants
// it (8u). The bound used is 16u·|z| + |a|·2^-104. Beyond |a| = 2^50 the quarter count is not exact: always the exact path.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_compat.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

struct CompatValue {
  Complex z;
  VD cos_error;
  VD sin_error;
};

HWY_INLINE VD ToF64(VF v) { return hn::PromoteTo(DD(), v); }

HWY_INLINE CompatValue EvaluateCompat(VF angle) {
  const DD d;
  const VD a = ToF64(angle);
  const VD two_over_pi = hn::Set(d, 0x1.45f306dc9c883p-1);
  const VD two_over_pi_low = hn::Set(d, -0x1.6b01ec5417056p-55);
  // Adding 1.5·2^52 rounds to a whole number, whose low bits are then those of the sum.
  const VD magic = hn::Set(d, 0x1.8p52);
  const VD sum = Fma(a, two_over_pi, magic);
  const VD n = hn::Sub(sum, magic);
  const VD rest = Fma(a, two_over_pi_low, FmaSub(a, two_over_pi, n));
  const VD x = hn::Mul(rest, hn::Set(d, 0x1.921fb54442d18p+0));  // quarters to radians
  CompatValue result;
  const auto in_range = hn::Lt(hn::Abs(a), hn::Set(d, 0x1p50));
  const Complex z = SinCosInQuarter(x, hn::BitCast(DU64(), sum));
  result.z = Complex{hn::IfThenElseZero(in_range, z.cos), hn::IfThenElseZero(in_range, z.sin)};
  const VD relative = hn::Set(d, 0x1p-49);
  const VD infinity = hn::Set(d, FromBits<double>(kInfinityBits<double>));
  const VD absolute = hn::IfThenElse(in_range, hn::Mul(hn::Abs(a), hn::Set(d, 0x1p-104)), infinity);
  result.cos_error = Fma(hn::Abs(result.z.cos), relative, absolute);
  result.sin_error = Fma(hn::Abs(result.z.sin), relative, absolute);
  return result;
}

HWY_NOINLINE void RepairCompat(const CompatValue& value, VF angle, float* cos_out, float* sin_out) {
  const DD d;
  double cos[kLanes], sin[kLanes], cos_error[kLanes], sin_error[kLanes];
  float angles[kLanes];
  hn::StoreU(value.z.cos, d, cos);
  hn::StoreU(value.z.sin, d, sin);
  hn::StoreU(value.cos_error, d, cos_error);
  hn::StoreU(value.sin_error, d, sin_error);
  hn::StoreU(angle, DF(), angles);
  const auto is_sure = [](double z, double e) { return BitsOf(Narrow<float>(z + e)) == BitsOf(Narrow<float>(z - e)); };
  for (int64_t i = 0; i < kLanes; ++i) {
    if (!is_sure(cos[i], cos_error[i])) cos_out[i] = CompatEntry(angles[i], Component::kCos);
    if (!is_sure(sin[i], sin_error[i])) sin_out[i] = CompatEntry(angles[i], Component::kSin);
  }
}

// The trigonometry of one row, `inv_freq` padded to whole vectors.
HWY_INLINE void RunCompatRow(const float* inv_freq, int64_t columns, int64_t position, float* cos, float* sin) {
  const DF d;
  const VF p = hn::Set(d, static_cast<float>(position));
  for (int64_t i = 0; i < columns; i += kLanes) {
    const VF angle = hn::Mul(hn::LoadU(d, inv_freq + i), p);
    const CompatValue value = EvaluateCompat(angle);
    Doubts doubts = NoDoubts();
    Emit(value.z.cos, value.cos_error, cos + i, doubts);
    Emit(value.z.sin, value.sin_error, sin + i, doubts);
    if (HWY_UNLIKELY(Any(doubts))) RepairCompat(value, angle, cos + i, sin + i);
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
  HWY_ALIGN float inv_freq[kChunk];
  HWY_ALIGN float cos_values[kChunk];
  HWY_ALIGN float sin_values[kChunk];
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  RowOutput<kStream> cos(job.cos, job), sin(job.sin, job);
  const float factor = job.plan->attention_factor_f32;
  bool done = true;
  for (int64_t row = 0; row < job.rows && done; ++row) {
    for (int64_t column = 0; column < job.pairs; column += kChunk) {
      const int64_t columns = job.pairs - column < kChunk ? job.pairs - column : kChunk;
      if (row == 0 || job.pairs > kChunk) {
        for (int64_t i = 0; i < kChunk; ++i)
          inv_freq[i] = i < columns ? job.plan->inv_freq_f32[static_cast<size_t>(column + i)] : 0.0f;
      }
      RunCompatRow(inv_freq, columns, job.Position(row), cos_values, sin_values);
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
