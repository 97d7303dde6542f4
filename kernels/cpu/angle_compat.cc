// Tables as float32 libraries mean them: angle = fl32(fl32(inv_freq)·fl32(position)), cos and sin of that float correctly
// rounded to f32 (angle_compat-inl.h), times fl32(A) in f32 (inverse: divided by it), then one cast. Rows with larger angles
// than the polynomial takes, or with ones whose sine could be denormal, take the exact path throughout.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_compat.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_compat-inl.h"
#include "kernels/cpu/angle_compat_range-inl.h"
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

// The same of consecutive whole positions.
template <typename T, bool kStream, bool kInverse>
bool RunCompatRange(const AngleJob& job) {
  CompatChunk chunk;
  CompatRange range;
  HWY_ALIGN float cos_values[kCompatPass * kChunk];
  HWY_ALIGN float sin_values[kCompatPass * kChunk];
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  const float factor = job.plan->attention_factor_f32;
  const bool plain = std::is_same_v<T, float> && factor == 1;
  const bool direct = plain && !kStream && job.cos != nullptr && job.sin != nullptr && job.pairs % kLanes == 0;
  RowOutput<kStream> cos(job.cos, job, !direct), sin(job.sin, job, !direct);
  const auto write = [&](int64_t row, int64_t count, int64_t column, int64_t columns) {
    for (int64_t r = 0; r < count; ++r) {
      const float* cos_from = cos_values + r * kChunk;
      const float* sin_from = sin_values + r * kChunk;
      if (plain) {
        cos.Write(cos_from, row + r, 1, column, columns);
        sin.Write(sin_from, row + r, 1, column, columns);
        continue;
      }
      ScaleAndCast<kInverse>(cos_from, columns, factor, cos_row);
      ScaleAndCast<kInverse>(sin_from, columns, factor, sin_row);
      cos.Write(cos_row, row + r, 1, column, columns);
      sin.Write(sin_row, row + r, 1, column, columns);
    }
  };
  bool done = true;
  for (int64_t begin = 0; begin < job.rows && done; begin += kCompatBlock) {
    const int64_t end = std::min(begin + kCompatBlock, job.rows);
    for (int64_t column = 0; column < job.pairs; column += kChunk) {
      const int64_t columns = std::min(job.pairs - column, kChunk);
      if (begin == 0 || job.pairs > kChunk) {
        LoadChunk(std::span(job.plan->inv_freq_f32).subspan(static_cast<size_t>(column), static_cast<size_t>(columns)),
                  chunk);
        range.SetFrequencies(chunk.inv_freq, columns);
      }
      const bool suits = CompatRange::Suits(chunk.smallest, chunk.largest, job.first + begin);
      if (suits) range.StartBlock(job.first + begin);
      for (int64_t row = begin; row < end; row += kCompatPass) {
        const int64_t count = std::min(end - row, kCompatPass);
        if (suits && direct && count == kCompatPass) {
          const int64_t offset = row * job.row_stride + column;
          range.RunPass(CompatPositions(job.first + row), static_cast<float*>(job.cos) + offset,
                        static_cast<float*>(job.sin) + offset, job.row_stride);
          continue;
        }
        if (suits) {
          range.RunPass(CompatPositions(job.first + row), cos_values, sin_values, kChunk);
        } else {
          for (int64_t r = 0; r < count; ++r) {
            RunCompatRow(chunk, columns, job.PositionF32(row + r), cos_values + r * kChunk, sin_values + r * kChunk);
          }
        }
        write(row, count, column, columns);
      }
    }
    done = !job.Cancelled();
  }
  cos.Finish();
  sin.Finish();
  return done;
}

template <typename T, bool kStream, bool kInverse>
bool RunCompatJob(const AngleJob& job) {
  const bool consecutive = job.ids.empty() && job.fractional_ids.empty() && job.stride == 1;
  // A block has to bring in what its anchors cost.
  if (consecutive && job.rows >= kCompatBlock / 2) return RunCompatRange<T, kStream, kInverse>(job);
  return RunCompat<T, kStream, kInverse>(job);
}

bool AngleCompatKernel(const AngleJob& job) {
  const auto run = [&job](auto type, auto stream) {
    using T = typename decltype(type)::type;
    return job.inverse ? RunCompatJob<T, decltype(stream)::value, true>(job)
                       : RunCompatJob<T, decltype(stream)::value, false>(job);
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
