// Tables whose entries are made one by one: values with bounds on their errors, the rounding test, and the exact path for
// what fails it.
#if defined(PHASOR_KERNELS_CPU_ANGLE_POINTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_POINTS_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_POINTS_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_POINTS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

#include "kernels/core/narrow.h"
#include "kernels/core/sincos.h"
#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/angle_rounding-inl.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// One vector of a row: values and the bounds on their errors.
struct Bounded {
  Complex z;
  VD cos_error;
  VD sin_error;
};

// Decides the entries of one vector that the rounding test does not: `i` is its column in the chunk.
template <typename T, class Method>
HWY_NOINLINE void RepairPoints(const Method& method, const Bounded& value, int64_t i, int64_t count, T* cos_out,
                               T* sin_out) {
  const DD d;
  double cos[kLanes], sin[kLanes], cos_error[kLanes], sin_error[kLanes];
  hn::StoreU(value.z.cos, d, cos);
  hn::StoreU(value.z.sin, d, sin);
  hn::StoreU(value.cos_error, d, cos_error);
  hn::StoreU(value.sin_error, d, sin_error);
  const auto is_sure = [](double z, double error) { return BitsOf(Narrow<T>(z + error)) == BitsOf(Narrow<T>(z - error)); };
  for (int64_t lane = 0; lane < count; ++lane) {
    if (is_sure(cos[lane], cos_error[lane]) && is_sure(sin[lane], sin_error[lane])) {
      cos_out[lane] = Narrow<T>(cos[lane] + cos_error[lane]);
      sin_out[lane] = Narrow<T>(sin[lane] + sin_error[lane]);
      continue;
    }
    const SinCos128 exact = method.Exact(i + lane);
    cos_out[lane] = RoundTo<T>(Multiply(exact.cos, method.factor()));
    sin_out[lane] = RoundTo<T>(Multiply(exact.sin, method.factor()));
  }
}

// The rows of a job. A method has LoadColumns(first, columns), which says where a chunk begins; MoveTo(row); Evaluate(i),
// the vector at column i of the chunk; Exact(i), one entry of it, times factor().
template <typename T, bool kStream, class Method>
bool RunPoints(const AngleJob& job, Method& method) {
  constexpr int64_t kRowsBetweenLooks = 64;
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  RowOutput<kStream> cos(job.cos, job), sin(job.sin, job);
  bool done = true;
  for (int64_t row = 0; row < job.rows && done; ++row) {
    method.MoveTo(row);
    for (int64_t column = 0; column < job.pairs; column += kChunk) {
      const int64_t columns = std::min(job.pairs - column, kChunk);
      if (row == 0 || job.pairs > kChunk) method.LoadColumns(column, columns);
      for (int64_t i = 0; i < columns; i += kLanes) {
        const Bounded value = method.Evaluate(i);
        Doubts<T> doubts = NoDoubts<T>();
        Emit<false>(value.z.cos, value.cos_error, cos_row + i, doubts);
        Emit<false>(value.z.sin, value.sin_error, sin_row + i, doubts);
        if (HWY_UNLIKELY(Any(doubts))) {
          RepairPoints<T>(method, value, i, std::min(columns - i, kLanes), cos_row + i, sin_row + i);
        }
      }
      cos.Write(cos_row, row, 1, column, columns);
      sin.Write(sin_row, row, 1, column, columns);
    }
    done = row % kRowsBetweenLooks != 0 || !job.Cancelled();
  }
  cos.Finish();
  sin.Finish();
  return done;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_POINTS_INL_H_
