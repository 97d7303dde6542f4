// Tables at any positions: a polynomial of the exact integer phase, the rounding test, and the exact path for what fails it.
// The same bits as the recurrence of angle_range.cc, because both give the correctly rounded entry.
//
// Error of z: below 2^-41·|z| from SinCosOfTurns and 2u from the scaling, against a bound of 2^-40·|z| (the rest covers z ±
// e), and 2^-94·2π absolute from the phase's 96 bits, against 2^-90, both times factor.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_direct.cc"
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

// One vector of a row: values and the bounds on their errors.
struct Bounded {
  Complex z;
  VD cos_error;
  VD sin_error;
};

HWY_INLINE Bounded EvaluateDirect(const AngleSetup& setup, int64_t pair, VU64 magnitude, VD sign) {
  const DD d;
  const DU64 du;
  Bounded result;
  Complex& z = result.z;
  z = SinCosOfTurns<false>(hn::LoadU(du, setup.turn_high + pair), hn::LoadU(du, setup.turn_low + pair), magnitude);
  z.cos = hn::Mul(z.cos, hn::LoadU(d, setup.scale_cos + pair));
  // Adding zero makes the zero of a still pair positive.
  z.sin = Fma(z.sin, hn::Mul(sign, hn::LoadU(d, setup.scale_sin + pair)), hn::Zero(d));
  const VD relative = hn::LoadU(d, setup.direct_relative + pair);
  const VD absolute = hn::LoadU(d, setup.direct_absolute + pair);
  result.cos_error = Fma(hn::Abs(z.cos), relative, absolute);
  result.sin_error = Fma(hn::Abs(z.sin), relative, absolute);
  return result;
}

template <typename T>
HWY_NOINLINE void RepairDirect(const AngleSetup& setup, const Bounded& value, int64_t pair, int64_t count, int64_t position,
                               T* cos_out, T* sin_out) {
  const DD d;
  double cos[kLanes], sin[kLanes], cos_error[kLanes], sin_error[kLanes];
  hn::StoreU(value.z.cos, d, cos);
  hn::StoreU(value.z.sin, d, sin);
  hn::StoreU(value.cos_error, d, cos_error);
  hn::StoreU(value.sin_error, d, sin_error);
  for (int64_t i = 0; i < count; ++i) {
    const Turns& turns = setup.frequencies[static_cast<size_t>(pair + i)];
    cos_out[i] = EntryFrom<T>(cos[i], cos_error[i], turns, position, setup.factor, Component::kCos);
    sin_out[i] = EntryFrom<T>(sin[i], sin_error[i], turns, position, setup.factor, Component::kSin);
  }
}

// Columns [first, first + columns) of one row.
template <typename T>
HWY_INLINE void RunDirectRow(const AngleSetup& setup, int64_t position, int64_t first, int64_t columns, T* cos, T* sin) {
  const VU64 magnitude = hn::Set(DU64(), static_cast<uint64_t>(position < 0 ? -position : position));
  const VD sign = hn::Set(DD(), position < 0 ? -1.0 : 1.0);
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Bounded value = EvaluateDirect(setup, first + i, magnitude, sign);
    Doubts<T> doubts = NoDoubts<T>();
    Emit<false>(value.z.cos, value.cos_error, cos + i, doubts);
    Emit<false>(value.z.sin, value.sin_error, sin + i, doubts);
    if (HWY_UNLIKELY(Any(doubts))) {
      const int64_t count = columns - i < kLanes ? columns - i : kLanes;
      RepairDirect(setup, value, first + i, count, position, cos + i, sin + i);
    }
  }
}

template <typename T, bool kStream>
bool RunDirect(const AngleJob& job) {
  constexpr int64_t kRowsBetweenLooks = 64;
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  RowOutput<kStream> cos(job.cos, job), sin(job.sin, job);
  bool done = true;
  for (int64_t row = 0; row < job.rows && done; ++row) {
    const int64_t position = job.Position(row);
    for (int64_t column = 0; column < job.pairs; column += kChunk) {
      const int64_t columns = job.pairs - column < kChunk ? job.pairs - column : kChunk;
      RunDirectRow(*job.setup, position, column, columns, cos_row, sin_row);
      cos.Write(cos_row, row, 1, column, columns);
      sin.Write(sin_row, row, 1, column, columns);
    }
    done = row % kRowsBetweenLooks != 0 || !job.Cancelled();
  }
  cos.Finish();
  sin.Finish();
  return done;
}

bool AngleDirectKernel(const AngleJob& job) {
  return VisitJob(job, [&job](auto type, auto stream) {
    return RunDirect<typename decltype(type)::type, decltype(stream)::value>(job);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
HWY_EXPORT(AngleDirectKernel);
bool AngleDirect(const AngleJob& job) { return HWY_DYNAMIC_DISPATCH(AngleDirectKernel)(job); }
}  // namespace phasor
#endif
