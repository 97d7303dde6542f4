#include "kernels/encodings/distance_value.h"

#include <cmath>

#include "kernels/core/math.h"
#include "kernels/core/sincos.h"

namespace phasor {
namespace {

using O = math::formulas::OneDouble;
using Pair = math::formulas::Pair<O>;
using math::formulas::Add;
using math::formulas::FastTwoSum;
using math::formulas::Multiply;
using math::formulas::TwoProduct;
using math::formulas::TwoSum;

// n^p, n ≥ 1: exact for p = 1 and 2, else relative error below 2^-56.5 (that of the exponential; the exponent is good to
// 2^-62, being at most 2·32·ln 2 with a logarithm good to 2^-68).
Pair Power(double n, double p) {
  if (p == 1) return {n, 0};
  if (p == 2) return TwoProduct<O>(n, n);
  const Pair log = math::formulas::FineLogOf<O>(n);
  const Pair exponent = Multiply<O>({p, 0}, log);
  const auto scaled = math::formulas::ExpOf<O>(exponent);
  const double power = math::formulas::PowerOfTwo<O>(scaled.k);
  return {scaled.m.hi * power, scaled.m.lo * power};
}

// ln(1 + t), t > 0: relative error below 2^-56.5, and that of t.
Pair LogOnePlus(Pair t) {
  if (t.hi < 0x1p-40) return FastTwoSum<O>(t.hi, std::fma(-0.5 * t.hi, t.hi, t.lo));  // t − t²/2
  const Pair sum = TwoSum<O>(1.0, t.hi);
  const Pair x = FastTwoSum<O>(sum.hi, sum.lo + t.lo);
  return math::formulas::LogOf<O>(x);
}

// x, or the sum of two doubles that it differs from by less than 2^-200 of it: a power that is exact is taken as such.
Wide Snapped(const Wide& x) {
  const Wide near = Wide::Sum(ToDoubleDouble(x));
  const Wide rest = x < near ? near - x : x - near;
  return rest < ScaleByPowerOfTwo(x, -200) ? near : x;
}

Wide WidePower(int64_t n, double p) {
  if (p == 1) return Wide::FromInt(n);
  if (p == 2) return Wide::FromInt(n) * Wide::FromInt(n);
  return Snapped(Pow(Wide::FromInt(n), Wide(p)));
}

// Truncated to 106 bits.
Pair ToPair(const Real128& value) {
  if (value.mantissa == 0) return {0, 0};
  const auto high = static_cast<double>(static_cast<uint64_t>(value.mantissa >> 75));
  const auto low = static_cast<double>(static_cast<uint64_t>(value.mantissa >> 22) & ((uint64_t{1} << 53) - 1));
  const double hi = std::ldexp(high, value.exponent - 127 + 75);
  return FastTwoSum<O>(hi, std::ldexp(low, value.exponent - 127 + 22));
}

}  // namespace

DoubleDouble KerpleValue(const KerplePlan& plan, int64_t h, int64_t d) {
  if (d == 0) return {0, 0};
  const auto head = static_cast<size_t>(h);
  const auto n = static_cast<double>(d < 0 ? -d : d);
  Pair shape;
  if (plan.power) {
    shape = Power(n, plan.r2[head]);
  } else {
    shape = LogOnePlus(Multiply<O>({plan.r2[head], 0}, Power(n, plan.p[head])));
  }
  const Pair value = Multiply<O>({-plan.r1[head], 0}, shape);
  return {value.hi, value.lo};
}

Wide WideKerple(const KerplePlan& plan, int64_t h, int64_t d) {
  const auto head = static_cast<size_t>(h);
  const int64_t n = d < 0 ? -d : d;
  if (n == 0) return Wide();
  const Wide r1 = plan.r1[head];
  if (plan.power) return -(r1 * WidePower(n, plan.r2[head]));
  const Wide t = Wide(plan.r2[head]) * WidePower(n, plan.p[head]);
  // ln(1 + t) = 2·atanh(s), s = t/(2 + t) = s + s³/3 + …: a tiny t would be lost in 1 + t.
  if (t < ScaleByPowerOfTwo(Wide(1.0), -100)) {
    const Wide s = t / (Wide(2.0) + t), square = s * s;
    return -(r1 * Wide(2.0) * s * (Wide(1.0) + square / Wide(3.0)));
  }
  return -(r1 * Log(Wide(1.0) + t));
}

DoubleDouble SandwichSum(const SandwichPlan& plan, int64_t d) {
  Pair sum{0, 0};
  if (d == 0) return {0, 0};
  for (const Turns& half : plan.half_frequencies) {
    const Real128 sine = SinCosOfPosition(half, d).sin;
    sum = Add<O>(sum, ToPair(Multiply(sine, sine)));
  }
  return {-2 * sum.hi, -2 * sum.lo};
}

DoubleDouble SandwichValue(const SandwichPlan& plan, int64_t h, DoubleDouble sum) {
  const DoubleDouble& factor = plan.factors[static_cast<size_t>(h)];
  const Pair value = Multiply<O>({factor.hi, factor.lo}, {sum.hi, sum.lo});
  return {value.hi, value.lo};
}

Wide WideSandwich(const SandwichPlan& plan, int64_t h, int64_t d) {
  if (d == 0) return Wide();
  Wide sum;
  for (const Turns& half : plan.half_frequencies) {
    const Wide turns = Wide(2.0) * Wide::FromTurns(half) * Wide::FromInt(d);
    sum = sum + (SinCosOfTurns(turns).cos - Wide(1.0));
  }
  return Wide::Sum(plan.factors[static_cast<size_t>(h)]) * sum;
}

DoubleDouble ExactProduct(double a, double b) {
  if (a == 0 || b == 0) return {0, 0};
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

}  // namespace phasor
