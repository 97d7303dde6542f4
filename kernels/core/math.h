// Elementary functions whose bits depend on nothing but the argument: built from IEEE additions, products, quotients and
// explicit fma, never from libm. The same formulas run in vectors (kernels/cpu/math-inl.h) and on a device, with the same
// bits.
//
// Accuracy, in units in the last place of the exact result, as the test measures it against MPFR: kUlps (below 1 is what may
// be relied on), kUlpsSubnormal where the result is subnormal, which then is rounded twice; kUlpsF32 for the float versions,
// which round a more precise value once, subnormal or not.
//
// Special values: a NaN argument gives the canonical quiet NaN (narrow.h), as does one outside the domain; infinities give
// the limit; overflow gives ∞, underflow a subnormal or zero of the right sign. Subnormals are kept. A function that has
// f(−0) = −0 as its limit says so. No function reads or sets floating-point flags; rounding mode: to nearest.
#ifndef PHASOR_KERNELS_CORE_MATH_H_
#define PHASOR_KERNELS_CORE_MATH_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/core/double_double.h"
#include "kernels/core/host_device.h"
#include "kernels/core/math_coefficients.h"

namespace phasor::math {

inline constexpr double kUlps = 0.56;
inline constexpr double kUlpsSubnormal = 0.77;
inline constexpr double kUlpsF32 = 0.5001;

namespace formulas {

#define PHASOR_MATH_INLINE PHASOR_HOST_DEVICE inline

// The numbers of math_formulas.h: one double each.
struct OneDouble {
  using V = double;
  using U = uint64_t;
  using M = bool;
  PHASOR_MATH_INLINE static double Set(double c) { return c; }
  PHASOR_MATH_INLINE static double Fma(double a, double b, double c) { return std::fma(a, b, c); }
  PHASOR_MATH_INLINE static double Fms(double a, double b, double c) { return std::fma(a, b, -c); }
  PHASOR_MATH_INLINE static double Fnma(double a, double b, double c) { return std::fma(-a, b, c); }
  PHASOR_MATH_INLINE static double Sqrt(double a) { return std::sqrt(a); }
  PHASOR_MATH_INLINE static double Neg(double a) { return -a; }
  PHASOR_MATH_INLINE static double Abs(double a) { return FromBits(Bits(a) & ~kSign); }
  PHASOR_MATH_INLINE static double CopySign(double magnitude, double sign) {
    return FromBits((Bits(magnitude) & ~kSign) | (Bits(sign) & kSign));
  }
  PHASOR_MATH_INLINE static bool Less(double a, double b) { return a < b; }
  PHASOR_MATH_INLINE static bool Equal(double a, double b) { return a == b; }
  PHASOR_MATH_INLINE static bool IsNaN(double a) { return a != a; }
  PHASOR_MATH_INLINE static bool Or(bool a, bool b) { return a || b; }
  PHASOR_MATH_INLINE static double Select(bool mask, double yes, double no) { return mask ? yes : no; }
  PHASOR_MATH_INLINE static uint64_t Bits(double a) { return std::bit_cast<uint64_t>(a); }
  PHASOR_MATH_INLINE static double FromBits(uint64_t u) { return std::bit_cast<double>(u); }
  PHASOR_MATH_INLINE static uint64_t SetBits(uint64_t c) { return c; }
  PHASOR_MATH_INLINE static uint64_t AddBits(uint64_t u, uint64_t v) { return u + v; }
  PHASOR_MATH_INLINE static uint64_t SubBits(uint64_t u, uint64_t v) { return u - v; }
  PHASOR_MATH_INLINE static uint64_t OrBits(uint64_t u, uint64_t v) { return u | v; }
  PHASOR_MATH_INLINE static uint64_t ShiftLeft52(uint64_t u) { return u << 52; }
  PHASOR_MATH_INLINE static uint64_t ShiftRight52(uint64_t u) { return u >> 52; }

 private:
  static constexpr uint64_t kSign = uint64_t{1} << 63;
};

// clang-format off
#include "kernels/core/math_formulas.h"   // IWYU pragma: keep
#include "kernels/core/math_functions.h"  // IWYU pragma: keep
// clang-format on

#undef PHASOR_MATH_INLINE

// One rounding; NaN canonical.
PHASOR_HOST_DEVICE inline float ToFloat(double x) {
  return x != x ? std::bit_cast<float>(0x7fc00000u) : static_cast<float>(x);
}

}  // namespace formulas

// ---- Double precision.

// e^x. Overflows from 709.79 on; subnormal below −708.39.
PHASOR_HOST_DEVICE inline double Exp(double x) { return formulas::Exp<formulas::OneDouble>(x); }
// e^(x − y) of the exact difference, which Exp(x − y) would round first; NaN for infinities of one sign.
PHASOR_HOST_DEVICE inline double ExpOfDifference(double x, double y) {
  return formulas::ExpOfDifference<formulas::OneDouble>(x, y);
}
// 2^x; exact for whole x.
PHASOR_HOST_DEVICE inline double Exp2(double x) { return formulas::Exp2<formulas::OneDouble>(x); }
// e^x − 1, precise beside 0 too; Expm1(−0) = −0.
PHASOR_HOST_DEVICE inline double Expm1(double x) { return formulas::Expm1<formulas::OneDouble>(x); }
// Natural logarithm: −∞ at ±0, NaN below.
PHASOR_HOST_DEVICE inline double Log(double x) { return formulas::Log<formulas::OneDouble>(x); }
// log(1 + x), precise beside 0 too: −∞ at −1, NaN below; Log1p(−0) = −0.
PHASOR_HOST_DEVICE inline double Log1p(double x) { return formulas::Log1p<formulas::OneDouble>(x); }
// Binary logarithm, exact for powers of two: −∞ at ±0, NaN below.
PHASOR_HOST_DEVICE inline double Log2(double x) { return formulas::Log2<formulas::OneDouble>(x); }
// x^y for x ≥ 0 (−0 counts as 0); NaN for x < 0, whatever y ≠ 0. As in C, 1 where y = 0 or x = 1, even with a NaN beside it.
PHASOR_HOST_DEVICE inline double Pow(double x, double y) { return formulas::Pow<formulas::OneDouble>(x, y); }
// Correctly rounded; Sqrt(−0) = −0, NaN below.
PHASOR_HOST_DEVICE inline double Sqrt(double x) { return formulas::Sqrt<formulas::OneDouble>(x); }

// 1/(1 + e^−x), precise in both tails.
PHASOR_HOST_DEVICE inline double Sigmoid(double x) { return formulas::Sigmoid<formulas::OneDouble>(x); }
// log(1 + e^x), precise in both tails.
PHASOR_HOST_DEVICE inline double Softplus(double x) { return formulas::Softplus<formulas::OneDouble>(x); }
// log(1/(1 + e^−x)) = −Softplus(−x), bit for bit: −0 once that underflows.
PHASOR_HOST_DEVICE inline double LogSigmoid(double x) { return formulas::LogSigmoid<formulas::OneDouble>(x); }
// Tanh(−x) = −Tanh(x), bit for bit.
PHASOR_HOST_DEVICE inline double Tanh(double x) { return formulas::Tanh<formulas::OneDouble>(x); }

// The greater of x and +0; Relu(−0) = +0.
PHASOR_HOST_DEVICE inline double Relu(double x) { return formulas::Relu<formulas::OneDouble>(x); }
// x/(1 + e^−x); −0 from −∞ on, and where it underflows.
PHASOR_HOST_DEVICE inline double Silu(double x) { return formulas::Silu<formulas::OneDouble>(x); }
// x·½·(1 + erf(x/√2)); −0 from −∞ on, and where it underflows.
PHASOR_HOST_DEVICE inline double Gelu(double x) { return formulas::Gelu<formulas::OneDouble>(x); }
// x·½·(1 + tanh(√(2/π)·(x + 0.044715·x³))), the constants as real numbers; otherwise as Gelu.
PHASOR_HOST_DEVICE inline double GeluTanh(double x) { return formulas::GeluTanh<formulas::OneDouble>(x); }

// e^x with a relative error below 2^-37, for what is rounded to single precision or less; e^200 and e^-200 beyond ±200.
PHASOR_HOST_DEVICE inline double CoarseExp(double x) { return formulas::CoarseExp<formulas::OneDouble>(x); }

// ---- Single precision, by way of shorter formulas in double precision.

PHASOR_HOST_DEVICE inline float Exp(float x) {
  return formulas::ToFloat(formulas::CoarseExp<formulas::OneDouble>(static_cast<double>(x)));
}
PHASOR_HOST_DEVICE inline float Log(float x) {
  return formulas::ToFloat(formulas::CoarseLog<formulas::OneDouble>(static_cast<double>(x)));
}
PHASOR_HOST_DEVICE inline float Sigmoid(float x) {
  return formulas::ToFloat(formulas::CoarseSigmoid<formulas::OneDouble>(static_cast<double>(x)));
}
PHASOR_HOST_DEVICE inline float Softplus(float x) {
  return formulas::ToFloat(formulas::CoarseSoftplus<formulas::OneDouble>(static_cast<double>(x)));
}
PHASOR_HOST_DEVICE inline float LogSigmoid(float x) {
  return formulas::ToFloat(formulas::CoarseLogSigmoid<formulas::OneDouble>(static_cast<double>(x)));
}

}  // namespace phasor::math

#endif  // PHASOR_KERNELS_CORE_MATH_H_
