// cos and sin of f32 angles at consecutive positions: the angle a is the exact product position·inv_freq, rounded, so that
// it is beside it by d = a − position·inv_freq, and both numbers and d are doubles. Cosines and sines of the exact products
// come from x ← 2·cos(inv_freq)·x − (the x before), those of d from a few terms, and one product of complex numbers joins
// them. That is half of the work of reducing every angle.
//
// Error of z, with u = 2^-53:
// - The anchor at the first row of 64 is within 8u, and so are e^(i·inv_freq) and e^(i·8·inv_freq), normwise; a product with
//   one of them adds 10u. Up to 7 products lead to the first row of a pass of 8: 78u.
// - The second row is one more product, 10u. A row after them adds the error of 2·cos(inv_freq), 16u·|x|, and of the fma:
// 17u.
//   An error at row j of the pass is at row n multiplied by n − j + 1 at most: 10u·7 + 17u·(6 + 5 + … + 1) = 427u.
// - The product with e^(i·d) rounds by 3u, and what the terms leave out is below 3u where angles are below 2^18, so that
//   |d| ≤ 2^-7. Where they are below 2^11, |d| ≤ 2^-14, three shears do, which are off by |d|³/6 ≤ 342u.
// Together below 860u. The bound used is 1024u = 2^-43; the rest covers products of errors and the rounding of z ± e.
//
// Sines of small angles, t = inv_freq·p ≤ 1/8 for the block's largest |position| p (≥ 32), are known better, relative to t:
// - The anchor: 8u. A product with e^(i·8·inv_freq) adds |δcos|·sin(8·inv_freq) ≤ 78u·0.25, 8u·0.25, 8u and 3u: 33u, and 7
//   of them 231u. In a pass |δcos|·sin(7·inv_freq) ≤ 78u·0.22 joins.
// - The second row adds 8u/32, 8u and 3u, ×7: 79u. A row after it adds 17u·|sin|, ×21: 357u.
// - The product with e^(i·d), |d| ≤ 2^-24·t, adds 3u.
// Together below 700u·t. The bound used is 1024u·t.
#if defined(PHASOR_KERNELS_CPU_ANGLE_COMPAT_RANGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_ANGLE_COMPAT_RANGE_INL_H_
#undef PHASOR_KERNELS_CPU_ANGLE_COMPAT_RANGE_INL_H_
#else
#define PHASOR_KERNELS_CPU_ANGLE_COMPAT_RANGE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"

#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_compat-inl.h"
#include "kernels/cpu/angle_rounding-inl.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kCompatBlock = 64;  // rows between anchors
inline constexpr int64_t kCompatPass = 8;    // rows between products

// The positions of a pass, to fill vectors with.
struct CompatPositions {
  float f32[kCompatPass];
  explicit CompatPositions(int64_t first) {
    for (int64_t r = 0; r < kCompatPass; ++r) f32[r] = static_cast<float>(first + r);
  }
};

// The frequencies of up to kChunk columns, and where their recurrences are; columns are padded by zeros.
class CompatRange {
 public:
  // Whether kCompatBlock rows from `first` on are for this class, the largest and the smallest magnitude but zero of the
  // frequencies given. Beyond, too few angles would be below 2^18.
  static bool Suits(float smallest, float largest, int64_t first) {
    const double reach = Reach(first);
    return reach <= 0x1p24 && largest * reach < 0x1p22 && smallest >= 0x1p-100f;
  }

  void SetFrequencies(const float* inv_freq, int64_t columns) {
    const DD d;
    columns_ = columns;
    for (int64_t i = 0; i < columns; i += kLanes) {
      const VF f = hn::LoadU(DF(), inv_freq + i);
      const VD wide = ToF64(f);
      hn::StoreU(f, DF(), inv_freq_ + i);
      Store(AtAngle(wide), step_cos_ + i, step_sin_ + i);
      Store(AtAngle(hn::Mul(wide, hn::Set(d, static_cast<double>(kCompatPass)))), pass_cos_ + i, pass_sin_ + i);
    }
  }

  // Goes to the first row of a block.
  void StartBlock(int64_t first) {
    const DD d;
    const VD position = hn::Set(d, static_cast<double>(first));
    const VD reach = hn::Set(d, Reach(first));
    const VD bound = hn::Set(d, 0x1p-43);
    for (int64_t i = 0; i < columns_; i += kLanes) {
      const VD f = ToF64(hn::LoadU(DF(), inv_freq_ + i));
      Store(AtAngle(hn::Mul(f, position)), cos_ + i, sin_ + i);
      // A frequency of 0 has no error, and its cos is a float, which would fail the test with any other bound.
      const VD angle = hn::Mul(hn::Abs(f), reach);
      const auto all_below = [&](double limit) HWY_ATTR { return hn::AllTrue(d, hn::Lt(angle, hn::Set(d, limit))); };
      ways_[i / kLanes] = all_below(0x1p11) ? Way::kShears : all_below(0x1p18) ? Way::kTerms : Way::kOneByOne;
      const VD cos_error = hn::IfThenZeroElse(hn::Eq(f, hn::Zero(d)), bound);
      hn::StoreU(cos_error, d, cos_error_ + i);
      hn::StoreU(hn::IfThenElse(hn::Le(angle, hn::Set(d, 0.125)), hn::Mul(bound, angle), bound), d, sin_error_ + i);
    }
  }

  // The next kCompatPass rows, `stride` elements apart: whole vectors are written.
  void RunPass(const CompatPositions& positions, float* cos, float* sin, int64_t stride) {
    for (int64_t i = 0; i < columns_; i += kLanes) {
      bool sure = false;
      if (ways_[i / kLanes] == Way::kShears) sure = RunVector<Way::kShears>(positions, i, cos + i, sin + i, stride);
      if (ways_[i / kLanes] == Way::kTerms) sure = RunVector<Way::kTerms>(positions, i, cos + i, sin + i, stride);
      if (HWY_UNLIKELY(!sure)) RunOneByOne(positions, i, cos + i, sin + i, stride);
      Store(MultiplyComplex(Load(cos_ + i, sin_ + i), Load(pass_cos_ + i, pass_sin_ + i)), cos_ + i, sin_ + i);
    }
  }

 private:
  // How the angles of a vector in this block are made from the exact products.
  enum class Way : uint8_t { kShears, kTerms, kOneByOne };

  // A vector's columns angle by angle: where a value is in doubt, and for angles that are too large.
  HWY_NOINLINE void RunOneByOne(const CompatPositions& positions, int64_t i, float* cos, float* sin, int64_t stride) const {
    const VF f = hn::LoadU(DF(), inv_freq_ + i);
    for (int64_t r = 0; r < kCompatPass; ++r) {
      const VF angle = hn::Mul(f, hn::Set(DF(), positions.f32[r]));
      RunCompatAngles(kLanes, [&](int64_t) HWY_ATTR { return angle; }, cos + r * stride, sin + r * stride);
    }
  }

  // The largest |position| of a block.
  static double Reach(int64_t first) { return static_cast<double>(std::max(first + kCompatBlock - 1, -first)); }

  static HWY_INLINE Complex Load(const double* cos, const double* sin) {
    return Complex{hn::LoadU(DD(), cos), hn::LoadU(DD(), sin)};
  }
  static HWY_INLINE void Store(Complex z, double* cos, double* sin) {
    hn::StoreU(z.cos, DD(), cos);
    hn::StoreU(z.sin, DD(), sin);
  }

  // e^(i·angle) within 8u, relative where |angle| ≤ 1/8, for |angle| ≤ 2^18.
  static HWY_INLINE Complex AtAngle(VD angle) {
    const QuarterTurns turns = ReduceAngle(angle);
    return TurnByQuarters(SinCosFine(hn::Mul(turns.rest, hn::Set(DD(), 0x1.921fb54442d18p+0))), turns.quarter);
  }

  // z becomes e^(i·d)·z, |d| ≤ 2^-7.
  static HWY_INLINE void Turn(VD d, Complex& z) {
    const DD dd;
    const VD y = hn::Mul(d, d);
    const VD sin = Fma(hn::Mul(d, y), Fma(y, hn::Set(dd, 1.0 / 120.0), hn::Set(dd, -1.0 / 6.0)), d);
    const VD cos_minus_1 = hn::Mul(y, Fma(y, hn::Set(dd, 1.0 / 24.0), hn::Set(dd, -0.5)));
    const Complex shrunk{Fma(cos_minus_1, z.cos, z.cos), Fma(cos_minus_1, z.sin, z.sin)};
    z = Complex{NegFma(sin, z.sin, shrunk.cos), Fma(sin, z.cos, shrunk.sin)};
  }
  // The same, |d| ≤ 2^-14.
  static HWY_INLINE void TurnALittle(VD d, Complex& z) {
    const VD half = hn::Mul(d, hn::Set(DD(), 0.5));
    const VD cos = NegFma(half, z.sin, z.cos);
    z.sin = Fma(d, cos, z.sin);
    z.cos = NegFma(half, z.sin, cos);
  }

  // kCompatPass rows of a vector of columns, two at a time. Returns whether no value is in doubt.
  template <Way kWay>
  HWY_INLINE bool RunVector(const CompatPositions& positions, int64_t i, float* cos, float* sin, int64_t stride) const {
    const DD d;
    const DF df;
    const VF f = hn::LoadU(df, inv_freq_ + i);
    const VD cos_error = hn::LoadU(d, cos_error_ + i);
    const VD sin_error = hn::LoadU(d, sin_error_ + i);
    const Complex step = Load(step_cos_ + i, step_sin_ + i);
    const VD twice_cos = hn::Add(step.cos, step.cos);
    Complex now = Load(cos_ + i, sin_ + i);
    Complex next = MultiplyComplex(now, step);
    Doubts<float> doubts = NoDoubts<float>();
    for (int64_t r = 0; r < kCompatPass; r += 2) {
      Complex z[2] = {now, next};
      VD rest[2];
      HWY_UNROLL(2)
      for (int k = 0; k < 2; ++k) {
        const VF position = hn::Set(df, positions.f32[r + k]);
        rest[k] = ToF64(NegFma(f, position, hn::Mul(f, position)));  // exact: the rounding of a product is a float
      }
      now = Complex{FmaSub(twice_cos, next.cos, now.cos), FmaSub(twice_cos, next.sin, now.sin)};
      HWY_UNROLL(2)
      for (int k = 0; k < 2; ++k) {
        if constexpr (kWay == Way::kShears) {
          TurnALittle(rest[k], z[k]);
        } else {
          Turn(rest[k], z[k]);
        }
      }
      next = Complex{FmaSub(twice_cos, now.cos, next.cos), FmaSub(twice_cos, now.sin, next.sin)};
      HWY_UNROLL(2)
      for (int k = 0; k < 2; ++k) {
        Emit<false>(z[k].cos, cos_error, cos + (r + k) * stride, doubts);
        Emit<false>(z[k].sin, sin_error, sin + (r + k) * stride, doubts);
      }
    }
    return !Any(doubts);
  }

  int64_t columns_ = 0;
  Way ways_[kChunk / kLanes];
  HWY_ALIGN float inv_freq_[kChunk];
  HWY_ALIGN double step_cos_[kChunk];  // e^(i·inv_freq)
  HWY_ALIGN double step_sin_[kChunk];
  HWY_ALIGN double pass_cos_[kChunk];  // e^(i·8·inv_freq)
  HWY_ALIGN double pass_sin_[kChunk];
  HWY_ALIGN double cos_[kChunk];  // of the next pass's first row
  HWY_ALIGN double sin_[kChunk];
  HWY_ALIGN double cos_error_[kChunk];
  HWY_ALIGN double sin_error_[kChunk];
};

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_ANGLE_COMPAT_RANGE_INL_H_
