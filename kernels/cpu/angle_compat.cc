// Tables as float32 libraries mean them: angle = fl32(fl32(inv_freq)·fl32(position)), cos and sin of that float correctly
// rounded to f32 (angle_compat-inl.h), times fl32(A) in f32 (inverse: divided by it), then one cast. Rows with larger angles
// than the polynomial takes, or with ones whose sine could be denormal, take the exact path throughout.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_compat.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_compat-inl.h"
#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/cpu/angle_rounding-inl.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

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
  RunCompatAngles(
      columns, [&](int64_t i) HWY_ATTR { return hn::Mul(hn::LoadU(d, chunk.inv_freq + i), hn::Set(d, p)); }, cos, sin);
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
