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
#include "kernels/cpu/angle_points-inl.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// One row after the other, by the polynomial of its phase (angle_points-inl.h).
class DirectMethod {
 public:
  explicit DirectMethod(const AngleJob& job) : job_(job), setup_(*job.setup) {}

  void LoadColumns(int64_t first, int64_t) { first_ = first; }
  void MoveTo(int64_t row) {
    position_ = job_.Position(row);
    magnitude_ = hn::Set(DU64(), static_cast<uint64_t>(position_ < 0 ? -position_ : position_));
    sign_ = hn::Set(DD(), position_ < 0 ? -1.0 : 1.0);
  }

  HWY_INLINE Bounded Evaluate(int64_t i) const {
    const DD d;
    const DU64 du;
    const int64_t pair = first_ + i;
    Bounded result;
    Complex& z = result.z;
    z = SinCosOfTurns<false>(hn::LoadU(du, setup_.turn_high + pair), hn::LoadU(du, setup_.turn_low + pair), magnitude_);
    z.cos = hn::Mul(z.cos, hn::LoadU(d, setup_.scale_cos + pair));
    // Adding zero makes the zero of a still pair positive.
    z.sin = Fma(z.sin, hn::Mul(sign_, hn::LoadU(d, setup_.scale_sin + pair)), hn::Zero(d));
    const VD relative = hn::LoadU(d, setup_.direct_relative + pair);
    const VD absolute = hn::LoadU(d, setup_.direct_absolute + pair);
    result.cos_error = Fma(hn::Abs(z.cos), relative, absolute);
    result.sin_error = Fma(hn::Abs(z.sin), relative, absolute);
    return result;
  }

  SinCos128 Exact(int64_t i) const {
    return SinCosOfPosition(setup_.frequencies[static_cast<size_t>(first_ + i)], position_);
  }
  const Real128& factor() const { return setup_.factor; }

 private:
  const AngleJob& job_;
  const AngleSetup& setup_;
  int64_t first_ = 0, position_ = 0;
  VU64 magnitude_;
  VD sign_;
};

bool AngleDirectKernel(const AngleJob& job) {
  return VisitJob(job, [&job](auto type, auto stream) {
    DirectMethod method(job);
    return RunPoints<typename decltype(type)::type, decltype(stream)::value>(job, method);
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
