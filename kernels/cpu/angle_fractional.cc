// Tables at fractional positions: the product of position and frequency in three doubles, a polynomial of what is left of
// it, the rounding test, and the exact path for what fails it.
//
// Error of z: with F = a + b + c quarter turns per position (each of 53 bits, cut, so that |b| < 2^-52·|a|, |c| < 2^-52·|b|
// and what is left out is below 2^-157·F), q = RN(a·p), n the nearest whole number, the rest is (q − n) + ((e + b·p) + (e' +
// c·p)) with the exact errors e and e' of the products. q − n is exact for |q| < 2^51. Of the sums, the inner ones are
// within 2^-102·|q| of theirs, the last one rounds once: 2^-53 of the rest. With SinCosFast's 2^-41 and 2u from the scaling,
// the bound is 2^-40·|z| and 2^-100·|q|·factor. Where |q| > 2^32 (the rest could leave the polynomial's range), and where a
// sine could be one of f32's denormals, nothing passes the test.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/angle_fractional.cc"
#include <bit>
#include <limits>
#include <span>

#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/angle_points-inl.h"
#include "kernels/cpu/angle_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

constexpr double kRelative = 0x1p-40;
constexpr double kAbsolute = 0x1p-100;
constexpr double kLargestQuarters = 0x1p32;
constexpr double kSmallestQuarters = 0x1p-104;  // factor ≥ 10^-4: the sine is above 2^-118

// The top 53 bits of a number of turns, in quarter turns, which are taken from it.
double TakeQuarters(Turns& turns) {
  int limb = 3;
  while (limb >= 0 && turns.limb[static_cast<size_t>(limb)] == 0) --limb;
  if (limb < 0) return 0;
  const auto top = static_cast<size_t>(limb);
  const int bit = 64 * limb + 63 - std::countl_zero(turns.limb[top]);
  const int lowest = bit - 52;
  double value = 0;
  // From the high limb down, every bit from `lowest` on; a sum of numbers without a common bit is exact.
  for (int i = limb; i >= 0 && 64 * i + 63 >= lowest; --i) {
    uint64_t& word = turns.limb[static_cast<size_t>(i)];
    const int cut = lowest - 64 * i;
    const uint64_t taken = cut <= 0 ? word : word >> cut << cut;
    word -= taken;
    // Two halves, so that each is a double exactly.
    const auto scale = [](int exponent) { return FromBits<double>(static_cast<uint64_t>(1023 + exponent) << 52); };
    value += static_cast<double>(taken >> 32) * scale(64 * i + 32 - 190);
    value += static_cast<double>(taken & 0xffffffff) * scale(64 * i - 190);
  }
  return value;
}

// The frequencies of a chunk, padded to whole vectors by zeros.
struct FractionalChunk {
  HWY_ALIGN double a[kChunk];
  HWY_ALIGN double b[kChunk];
  HWY_ALIGN double c[kChunk];
};

void LoadFrequencies(std::span<const Turns> frequencies, FractionalChunk& chunk) {
  for (size_t i = 0; i < static_cast<size_t>(kChunk); ++i) {
    Turns rest = i < frequencies.size() ? frequencies[i] : Turns{};
    chunk.a[i] = TakeQuarters(rest);
    chunk.b[i] = TakeQuarters(rest);
    chunk.c[i] = TakeQuarters(rest);
  }
}

// One row after the other (angle_points-inl.h).
class FractionalMethod {
 public:
  explicit FractionalMethod(const AngleJob& job) : job_(job), factor_(hn::Set(DD(), RoundTo<double>(job.factor))) {}

  void LoadColumns(int64_t first, int64_t columns) {
    first_ = first;
    LoadFrequencies(std::span(job_.plan->frequencies).subspan(static_cast<size_t>(first), static_cast<size_t>(columns)),
                    chunk_);
  }
  void MoveTo(int64_t row) {
    row_ = row;
    position_ = hn::Set(DD(), job_.fractional_ids[static_cast<size_t>(row)]);
  }

  HWY_INLINE Bounded Evaluate(int64_t i) const {
    const DD d;
    const VD a = hn::LoadU(d, chunk_.a + i);
    const VD b = hn::LoadU(d, chunk_.b + i);
    const VD c = hn::LoadU(d, chunk_.c + i);
    const VD magic = hn::Set(d, 0x1.8p52);  // adding it rounds to a whole number, whose low bits are then those of the sum
    const VD q = hn::Mul(a, position_);
    const VD sum = hn::Add(q, magic);
    const VD whole = hn::Sub(sum, magic);
    const VD second = hn::Mul(b, position_);
    const VD inner = hn::Add(FmaSub(a, position_, q), second);
    const VD outer = Fma(c, position_, FmaSub(b, position_, second));
    const VD rest[1] = {hn::Add(hn::Sub(q, whole), hn::Add(inner, outer))};
    Bounded result;
    Complex z[1];
    SinCosFast(rest, z);
    result.z = TurnByQuarters(z[0], hn::BitCast(DU64(), sum));
    result.z.cos = hn::Mul(result.z.cos, factor_);
    // Adding zero makes a zero positive.
    result.z.sin = Fma(result.z.sin, factor_, hn::Zero(d));
    const VD size = hn::Abs(q);
    const auto refused = hn::Or(hn::Gt(size, hn::Set(d, kLargestQuarters)),
                                hn::And(hn::Gt(size, hn::Zero(d)), hn::Lt(size, hn::Set(d, kSmallestQuarters))));
    const VD absolute = hn::IfThenElse(refused, hn::Set(d, std::numeric_limits<double>::infinity()),
                                       hn::Mul(size, hn::Mul(factor_, hn::Set(d, kAbsolute))));
    result.cos_error = Fma(hn::Abs(result.z.cos), hn::Set(d, kRelative), absolute);
    result.sin_error = Fma(hn::Abs(result.z.sin), hn::Set(d, kRelative), absolute);
    return result;
  }

  SinCos128 Exact(int64_t i) const {
    return SinCosOfFractionalPosition(job_.plan->frequencies[static_cast<size_t>(first_ + i)],
                                      job_.fractional_ids[static_cast<size_t>(row_)]);
  }
  const Real128& factor() const { return job_.factor; }

 private:
  const AngleJob& job_;
  const VD factor_;
  FractionalChunk chunk_;
  int64_t first_ = 0, row_ = 0;
  VD position_;
};

bool AngleFractionalKernel(const AngleJob& job) {
  return VisitJob(job, [&job](auto type, auto stream) {
    FractionalMethod method(job);
    return RunPoints<typename decltype(type)::type, decltype(stream)::value>(job, method);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
HWY_EXPORT(AngleFractionalKernel);
bool AngleFractional(const AngleJob& job) { return HWY_DYNAMIC_DISPATCH(AngleFractionalKernel)(job); }
}  // namespace phasor
#endif
