// The formulas of kernels/core/math.h, over any type of number: math.h includes this file for doubles,
// kernels/cpu/math-inl.h once per instruction set for vectors. One text, so one result. Hence no include guard, no includes
// and no namespace here.
//
// The includer defines PHASOR_MATH_INLINE (what stands before a function) and gives each function a class O with
//   V            a number (or a vector of them) with + − · /, each rounded once to nearest even
//   U, M         its bits as unsigned 64-bit integers; the result of a comparison
//   Set(c), Fma(a, b, c) = a·b + c, Fms = a·b − c, Fnma = c − a·b, each rounded once, Sqrt; Neg, Abs, CopySign(magnitude,
//   sign) Less(a, b), Equal(a, b), IsNaN(a), Or(m, n), Select(m, yes, no) Bits(v), FromBits(u), SetBits(c),
//   Add/Sub/OrBits(u, v), ShiftLeft52(u), ShiftRight52(u)
// and the constants of math_coefficients.h as math::k….
//
// Functions are built on two: ExpOf and LogOf, which take and give unevaluated sums of two doubles, good to about 2^-58
// (relative). So each function rounds about once, at its end. Errors: math.h, measured by its test.

// hi + lo, |lo| at most about an ulp of hi.
template <class O>
struct Pair {
  typename O::V hi, lo;
};

// (m.hi + m.lo)·2^k; k is whole.
template <class O>
struct Scaled {
  Pair<O> m;
  typename O::V k;
};

// a + b, exactly.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> TwoSum(V a, V b) {
  const V sum = a + b;
  const V b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// The same for |a| ≥ |b| or a = 0.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> FastTwoSum(V a, V b) {
  const V sum = a + b;
  return {sum, b - (sum - a)};
}

// a·b, exactly (unless it underflows).
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> TwoProduct(V a, V b) {
  const V product = a * b;
  return {product, O::Fms(a, b, product)};
}

template <class O>
PHASOR_MATH_INLINE Pair<O> Add(Pair<O> a, Pair<O> b) {
  const Pair<O> sum = TwoSum<O>(a.hi, b.hi);
  return FastTwoSum<O>(sum.hi, sum.lo + (a.lo + b.lo));
}

template <class O>
PHASOR_MATH_INLINE Pair<O> Multiply(Pair<O> a, Pair<O> b) {
  const Pair<O> product = TwoProduct<O>(a.hi, b.hi);
  return FastTwoSum<O>(product.hi, O::Fma(a.lo, b.hi, O::Fma(a.hi, b.lo, product.lo)));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> Divide(Pair<O> a, Pair<O> b) {
  const V inverse = O::Set(1.0) / b.hi;
  const V quotient = a.hi * inverse;
  const V rest = O::Fnma(quotient, b.hi, a.hi) + O::Fnma(quotient, b.lo, a.lo);
  return FastTwoSum<O>(quotient, rest * inverse);
}

template <class O>
PHASOR_MATH_INLINE Pair<O> Select(typename O::M mask, Pair<O> yes, Pair<O> no) {
  return {O::Select(mask, yes.hi, no.hi), O::Select(mask, yes.lo, no.lo)};
}

template <class O>
PHASOR_MATH_INLINE Pair<O> SetPair(DoubleDouble value) {
  return {O::Set(value.hi), O::Set(value.lo)};
}

// The polynomial with coefficients C[I], C[I + 1], … (lowest power first) at x, by Horner's rule.
template <class O, const auto& C, size_t I = 0, class V = typename O::V>
PHASOR_MATH_INLINE V Polynomial(V x) {
  constexpr double kCoefficient = C[I];
  if constexpr (I + 1 == std::extent_v<std::remove_reference_t<decltype(C)>>) {
    return O::Set(kCoefficient);
  } else {
    return O::Fma(x, Polynomial<O, C, I + 1>(x), O::Set(kCoefficient));
  }
}

// C[I] + C[I + 1]·x + … + x^n·rest, n pairs from I on.
template <class O, const auto& C, size_t I = 0>
PHASOR_MATH_INLINE Pair<O> PolynomialOfPairs(Pair<O> x, typename O::V rest) {
  constexpr DoubleDouble kCoefficient = C[I];
  if constexpr (I + 1 == std::extent_v<std::remove_reference_t<decltype(C)>>) {
    return Add<O>(SetPair<O>(kCoefficient), TwoProduct<O>(x.hi, rest));
  } else {
    return Add<O>(SetPair<O>(kCoefficient), Multiply<O>(x, PolynomialOfPairs<O, C, I + 1>(x, rest)));
  }
}

// x within [low, high]; NaN stays.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Clamp(V x, double low, double high) {
  const V raised = O::Select(O::Less(x, O::Set(low)), O::Set(low), x);
  return O::Select(O::Less(O::Set(high), raised), O::Set(high), raised);
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V CanonicalNaN() {
  return O::FromBits(O::SetBits(0x7ff8000000000000u));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Canonical(V x) {
  return O::Select(O::IsNaN(x), CanonicalNaN<O>(), x);
}

// Adding it leaves a whole number in the last bits; |x| < 2^51.
inline constexpr double kWhole = 0x1.8p52;

// 2^k for whole k in [−1022, 1023].
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V PowerOfTwo(V k) {
  return O::FromBits(O::ShiftLeft52(O::AddBits(O::Bits(k + O::Set(kWhole)), O::SetBits(1023))));
}

// x·2^k for whole |k| ≤ 2000 and |x| in [2^-60, 2^60]: rounded once.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Scale(V x, V k) {
  const V half = O::Fma(k, O::Set(0.5), O::Set(kWhole)) - O::Set(kWhole);
  return x * PowerOfTwo<O>(half) * PowerOfTwo<O>(k - half);
}

// The same, less than 2^-300 as zero or as something that small: for sums with numbers near 1.
template <class O>
PHASOR_MATH_INLINE Pair<O> Collapse(Scaled<O> x) {
  const typename O::V power = PowerOfTwo<O>(Clamp<O>(x.k, -300.0, 1000.0));
  return {x.m.hi * power, x.m.lo * power};
}

// e^r − 1 for |r| ≤ ½·ln 2: relative error below 2^-57.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> ExpMinusOneReduced(Pair<O> r) {
  const Pair<O> square = TwoProduct<O>(r.hi, r.hi);
  const V tail = (r.hi * square.hi) * Polynomial<O, math::kExpTail>(r.hi);
  const Pair<O> sum = FastTwoSum<O>(r.hi, O::Set(0.5) * square.hi);
  const V low = O::Fma(O::Set(0.5), square.lo, sum.lo) + O::Fma(sum.hi, r.lo, r.lo);
  return FastTwoSum<O>(sum.hi, low + tail);
}

// x = k·ln 2 + r, |r| ≤ ½·ln 2 (a little more where the quotient is near a half). |x| ≤ 800.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Scaled<O> ReduceByLn2(Pair<O> x) {
  const V k = O::Fma(x.hi, O::Set(math::kLog2E), O::Set(kWhole)) - O::Set(kWhole);
  const V high = O::Fnma(k, O::Set(math::kLn2High42), x.hi);  // exact
  return {TwoSum<O>(high, O::Fnma(k, O::Set(math::kLn2Rest42), x.lo)), k};
}

// e^x, its m in [0.7, 1.5]. |x| ≤ 800.
template <class O>
PHASOR_MATH_INLINE Scaled<O> ExpOf(Pair<O> x) {
  const Scaled<O> reduced = ReduceByLn2<O>(x);
  const Pair<O> rest = ExpMinusOneReduced<O>(reduced.m);
  const Pair<O> sum = FastTwoSum<O>(O::Set(1.0), rest.hi);
  return {{sum.hi, sum.lo + rest.lo}, reduced.k};
}

// e^x − 1 for x in [−60, 709.8], halved so that it does not overflow; x = 0 and |x| ≥ 2^-54.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> HalfExpMinusOne(Pair<O> x) {
  const Scaled<O> reduced = ReduceByLn2<O>(x);
  const Pair<O> rest = ExpMinusOneReduced<O>(reduced.m);
  const V power = PowerOfTwo<O>(reduced.k - O::Set(1.0));
  const Pair<O> whole = TwoSum<O>(power, O::Set(-0.5));
  const Pair<O> sum = TwoSum<O>(whole.hi, power * rest.hi);
  return FastTwoSum<O>(sum.hi, O::Fma(power, rest.lo, sum.lo + whole.lo));
}

template <class O>
struct LogParts {
  Pair<O> s;        // f/(2 + f), so that log(1 + f) = 2·atanh(s)
  typename O::V e;  // x = (1 + f)·2^e with 1 + f in [√½, √2)
};

// Of x = x.hi + x.lo with a positive finite x.hi; x.lo must be 0 where x.hi < 2^-60.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE LogParts<O> SplitForLog(Pair<O> x) {
  const auto subnormal = O::Less(x.hi, O::Set(0x1p-1022));
  const auto bits = O::Bits(O::Select(subnormal, x.hi * O::Set(0x1p54), x.hi));
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu, kBias = uint64_t{1024} << 52;
  // e + 1024: the exponent field grows by one at √2 times a power of two.
  const auto biased = O::ShiftRight52(O::AddBits(bits, O::SetBits(kBias - kRootHalf)));
  const V m = O::FromBits(O::SubBits(bits, O::SubBits(O::ShiftLeft52(biased), O::SetBits(kBias))));
  const V e = O::FromBits(O::OrBits(biased, O::SetBits(0x4330000000000000u))) - O::Set(0x1p52 + 1024);
  const V half_power = O::FromBits(O::ShiftLeft52(O::SubBits(O::SetBits(2048), biased)));  // 2^(1−e), 0 for e = 1024
  const Pair<O> f = TwoSum<O>(m - O::Set(1.0), O::Set(0.5) * x.lo * half_power);
  const Pair<O> two_and_f = FastTwoSum<O>(O::Set(2.0), f.hi);
  const Pair<O> s = Divide<O>(f, {two_and_f.hi, two_and_f.lo + f.lo});
  return {s, O::Select(subnormal, e - O::Set(54.0), e)};
}

// e·ln 2 + a + b, |b| ≤ |a|.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> AddMultipleOfLn2(V e, V a, V b) {
  const Pair<O> sum = TwoSum<O>(e * O::Set(math::kLn2High42), a);
  return FastTwoSum<O>(sum.hi, sum.lo + O::Fma(e, O::Set(math::kLn2Rest42), b));
}

// log x: relative error below 2^-57. As SplitForLog.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> LogOf(Pair<O> x) {
  const LogParts<O> parts = SplitForLog<O>(x);
  const V s = parts.s.hi, z = s * s;
  const V tail = (s * z) * Polynomial<O, math::kAtanhTail>(z);
  return AddMultipleOfLn2<O>(parts.e, O::Set(2.0) * s, O::Fma(O::Set(2.0), parts.s.lo, tail));
}

// log x: relative error below 2^-68, for powers. As SplitForLog.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Pair<O> FineLogOf(V x) {
  const LogParts<O> parts = SplitForLog<O>({x, O::Set(0.0)});
  const Pair<O> s = parts.s, z = Multiply<O>(s, s);
  const Pair<O> factor = PolynomialOfPairs<O, math::kAtanhTailFineLow>(z, Polynomial<O, math::kAtanhTailFine>(z.hi));
  const Pair<O> tail = Multiply<O>(Multiply<O>(s, z), factor);
  const Pair<O> sum = Add<O>({O::Set(2.0) * s.hi, O::Set(2.0) * s.lo}, tail);
  return AddMultipleOfLn2<O>(parts.e, sum.hi, sum.lo);
}

// What log x is where LogOf does not hold: −∞ at 0, NaN below, +∞ and NaN kept.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V LogEnds(V x, V log) {
  const V infinity = O::Set(__builtin_inf());
  const V upper = O::Select(O::Equal(x, infinity), infinity, log);
  const V lower = O::Select(O::Equal(x, O::Set(0.0)), O::Neg(infinity), upper);
  return O::Select(O::Or(O::Less(x, O::Set(0.0)), O::IsNaN(x)), CanonicalNaN<O>(), lower);
}
