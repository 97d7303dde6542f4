// The functions of kernels/core/math.h, over the building blocks of math_formulas.h and included after it, in the same way.

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Exp(V x) {
  const Scaled<O> e = ExpOf<O>({Clamp<O>(x, -760.0, 720.0), O::Set(0.0)});
  return Canonical<O>(Scale<O>(e.m.hi + e.m.lo, e.k));
}

// e^(x − y) of the exact difference.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V ExpOfDifference(V x, V y) {
  const Pair<O> difference = TwoSum<O>(x, O::Neg(y));
  const V exponent = Clamp<O>(difference.hi, -760.0, 720.0);
  // Where the clamp holds, the low part is of no use and may be NaN.
  const V low = O::Select(O::Equal(difference.hi, exponent), difference.lo, O::Set(0.0));
  const Scaled<O> e = ExpOf<O>({exponent, low});
  return Canonical<O>(Scale<O>(e.m.hi + e.m.lo, e.k));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Exp2(V x) {
  const V clamped = Clamp<O>(x, -1100.0, 1100.0);
  const V k = (clamped + O::Set(kWhole)) - O::Set(kWhole);
  const V fraction = clamped - k;
  const Pair<O> r = TwoProduct<O>(fraction, O::Set(math::kLn2));
  const Pair<O> rest = ExpMinusOneReduced<O>({r.hi, O::Fma(fraction, O::Set(math::kLn2Low), r.lo)});
  const Pair<O> sum = FastTwoSum<O>(O::Set(1.0), rest.hi);
  return Canonical<O>(Scale<O>(sum.hi + (sum.lo + rest.lo), k));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Expm1(V x) {
  const Pair<O> half = HalfExpMinusOne<O>({Clamp<O>(x, -60.0, 709.8), O::Set(0.0)});
  const V result = O::Set(2.0) * (half.hi + half.lo);
  return Canonical<O>(O::Select(O::Less(O::Abs(x), O::Set(0x1p-54)), x, result));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Log(V x) {
  const Pair<O> log = LogOf<O>({x, O::Set(0.0)});
  return LogEnds<O>(x, log.hi + log.lo);
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Log1p(V x) {
  const Pair<O> sum = TwoSum<O>(O::Set(1.0), x);
  const Pair<O> log = LogOf<O>(sum);
  const V result = LogEnds<O>(sum.hi, log.hi + log.lo);
  return O::Select(O::Less(O::Abs(x), O::Set(0x1p-54)), x, result);
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Log2(V x) {
  const LogParts<O> parts = SplitForLog<O>({x, O::Set(0.0)});
  const V s = parts.s.hi, z = s * s;
  const V tail = (s * z) * Polynomial<O, math::kAtanhTail>(z);
  const Pair<O> log = FastTwoSum<O>(O::Set(2.0) * s, O::Fma(O::Set(2.0), parts.s.lo, tail));
  const Pair<O> log2 = Multiply<O>(log, {O::Set(math::kLog2E), O::Set(math::kLog2ELow)});
  const Pair<O> sum = TwoSum<O>(parts.e, log2.hi);
  return LogEnds<O>(x, sum.hi + (sum.lo + log2.lo));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Sqrt(V x) {
  return Canonical<O>(O::Sqrt(x));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Pow(V x, V y) {
  const V zero = O::Set(0.0), one = O::Set(1.0);
  const Pair<O> fine = FineLogOf<O>(x);
  const V log_high = LogEnds<O>(x, fine.hi);
  const V product = y * log_high;
  const V exponent = Clamp<O>(product, -760.0, 720.0);
  // Where the clamp holds, the low part is of no use and may be NaN (∞ − ∞).
  const V low = O::Fma(y, fine.lo, O::Fms(y, log_high, product));
  const Scaled<O> e = ExpOf<O>({exponent, O::Select(O::Equal(product, exponent), low, zero)});
  const V power = Canonical<O>(Scale<O>(e.m.hi + e.m.lo, e.k));
  return O::Select(O::Or(O::Equal(x, one), O::Equal(y, zero)), one, power);
}

// 1/(1 + e^−x). Where x < 0 it is e^x/(1 + e^x), so small results keep their precision.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Scaled<O> SigmoidOf(Pair<O> x) {
  const V zero = O::Set(0.0), one = O::Set(1.0);
  const auto negative = O::Less(x.hi, zero);
  const V magnitude = O::Abs(x.hi);
  const V exponent = O::Neg(O::Select(O::Less(O::Set(760.0), magnitude), O::Set(760.0), magnitude));
  const V low = O::Select(negative, x.lo, O::Neg(x.lo));
  const Scaled<O> e = ExpOf<O>({exponent, O::Select(O::Less(O::Set(760.0), magnitude), zero, low)});
  const Pair<O> small = Collapse<O>(e);
  const Pair<O> sum = FastTwoSum<O>(one, small.hi);
  const Pair<O> numerator = Select<O>(negative, e.m, {one, zero});
  return {Divide<O>(numerator, {sum.hi, sum.lo + small.lo}), O::Select(negative, e.k, zero)};
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Sigmoid(V x) {
  const Scaled<O> sigmoid = SigmoidOf<O>({x, O::Set(0.0)});
  return Canonical<O>(Scale<O>(sigmoid.m.hi + sigmoid.m.lo, sigmoid.k));
}

// x·factor, rounded about once, with the sign of x; −0 below `lowest`, where that is the rounded product.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Times(V x, Scaled<O> factor, double lowest) {
  const V bounded = O::Select(O::Less(x, O::Set(lowest)), O::Set(lowest), x);
  const Pair<O> product = TwoProduct<O>(bounded, factor.m.hi);
  const V low = O::Fma(bounded, factor.m.lo, product.lo);
  const V value = O::Select(O::Equal(x, O::Set(__builtin_inf())), x, product.hi + low);
  return Canonical<O>(O::CopySign(Scale<O>(value, factor.k), x));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Relu(V x) {
  return O::Select(O::Less(O::Set(0.0), x), x, O::Select(O::IsNaN(x), CanonicalNaN<O>(), O::Set(0.0)));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Silu(V x) {
  return Times<O>(x, SigmoidOf<O>({x, O::Set(0.0)}), -760.0);
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Softplus(V x) {
  const V zero = O::Set(0.0);
  const V magnitude = O::Abs(x);
  const V exponent = O::Neg(O::Select(O::Less(O::Set(760.0), magnitude), O::Set(760.0), magnitude));
  const Scaled<O> e = ExpOf<O>({exponent, zero});
  const Pair<O> small = Collapse<O>(e);
  // log(1 + z) = z·(1 − z/2 + z²/3 − …) for z below 2^-21; unscaled, because it may be subnormal.
  const V slope = small.hi * O::Fma(small.hi, O::Set(1.0 / 3), O::Set(-0.5));
  const V tiny = Scale<O>(e.m.hi + O::Fma(e.m.hi, slope, e.m.lo), e.k);
  const Pair<O> one_and_small = FastTwoSum<O>(O::Set(1.0), small.hi);
  const Pair<O> log = LogOf<O>({one_and_small.hi, one_and_small.lo + small.lo});
  const Pair<O> sum = TwoSum<O>(O::Select(O::Less(zero, x), x, zero), log.hi);
  // Not sum.lo for an infinity, which it makes NaN.
  const V rounded = O::Select(O::Equal(magnitude, O::Set(__builtin_inf())), sum.hi, sum.hi + (sum.lo + log.lo));
  return Canonical<O>(O::Select(O::Less(x, O::Set(-15.0)), tiny, rounded));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V LogSigmoid(V x) {
  return Canonical<O>(O::Neg(Softplus<O>(O::Neg(x))));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Tanh(V x) {
  // (e^2t − 1)/(e^2t + 1), of halves: a/(a + 1) with a = (e^2t − 1)/2.
  const V magnitude = O::Abs(x);
  const V bounded = O::Select(O::Less(O::Set(22.0), magnitude), O::Set(22.0), magnitude);
  const Pair<O> half = HalfExpMinusOne<O>({bounded + bounded, O::Set(0.0)});
  const Pair<O> sum = TwoSum<O>(half.hi, O::Set(1.0));
  const Pair<O> quotient = Divide<O>(half, {sum.hi, sum.lo + half.lo});
  const V tanh = O::Select(O::Less(magnitude, O::Set(0x1p-28)), magnitude, quotient.hi + quotient.lo);
  return Canonical<O>(O::CopySign(tanh, x));
}

// P(N < x) of a standard normal N.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE Scaled<O> NormalOf(V x) {
  const V zero = O::Set(0.0), one = O::Set(1.0);
  const V magnitude = O::Abs(x);
  const V t = O::Select(O::Less(O::Set(40.0), magnitude), O::Set(40.0), magnitude);
  const Pair<O> denominator = TwoSum<O>(t, O::Set(5.0));
  const Pair<O> u = Divide<O>(TwoSum<O>(t, O::Set(-5.0)), denominator);
  const Pair<O> factor = PolynomialOfPairs<O, math::kNormalTailLow>(u, Polynomial<O, math::kNormalTail>(u.hi));
  const Pair<O> square = TwoProduct<O>(t, t);
  const Scaled<O> e = ExpOf<O>({O::Set(-0.5) * square.hi, O::Set(-0.5) * square.lo});
  const Scaled<O> below{Multiply<O>(e.m, Divide<O>(factor, denominator)), e.k};
  const Pair<O> small = Collapse<O>(below);
  const Pair<O> above = Add<O>({one, zero}, {O::Neg(small.hi), O::Neg(small.lo)});
  const auto negative = O::Less(x, zero);
  return {Select<O>(negative, below.m, above), O::Select(negative, below.k, zero)};
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V Gelu(V x) {
  return Times<O>(x, NormalOf<O>(x), -40.0);
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V GeluTanh(V x) {
  // ½·(1 + tanh u) is the logistic function of 2u.
  const V bounded = Clamp<O>(x, -40.0, 40.0);
  const Pair<O> square = TwoProduct<O>(bounded, bounded);
  const Pair<O> cubic = Multiply<O>(square, {O::Set(math::kGeluCubic), O::Set(math::kGeluCubicLow)});
  const Pair<O> factor =
      Multiply<O>(Add<O>({O::Set(1.0), O::Set(0.0)}, cubic), {O::Set(math::kGeluLinear), O::Set(math::kGeluLinearLow)});
  return Times<O>(x, SigmoidOf<O>(Multiply<O>({bounded, O::Set(0.0)}, factor)), -40.0);
}

// ---- For results of single precision: relative error below 2^-37, and a third of the time.

// e^x; x is taken as 200 or −200 beyond them.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V CoarseExp(V x) {
  const V bounded = Clamp<O>(x, -200.0, 200.0);
  const V k = O::Fma(bounded, O::Set(math::kLog2E), O::Set(kWhole)) - O::Set(kWhole);
  const V r = O::Fnma(k, O::Set(math::kLn2), bounded);
  const V sum = O::Fma(r * r, Polynomial<O, math::kExpTailCoarse>(r), r);
  return Canonical<O>((O::Set(1.0) + sum) * PowerOfTwo<O>(k));
}

// log x for x that are not subnormal.
template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V CoarseLog(V x) {
  const auto bits = O::Bits(x);
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu, kBias = uint64_t{1024} << 52;
  const auto biased = O::ShiftRight52(O::AddBits(bits, O::SetBits(kBias - kRootHalf)));
  const V m = O::FromBits(O::SubBits(bits, O::SubBits(O::ShiftLeft52(biased), O::SetBits(kBias))));
  const V e = O::FromBits(O::OrBits(biased, O::SetBits(0x4330000000000000u))) - O::Set(0x1p52 + 1024);
  const V f = m - O::Set(1.0);
  const V s = f / (O::Set(2.0) + f), z = s * s;
  const V log = O::Fma(s * z, Polynomial<O, math::kAtanhTailCoarse>(z), s + s);
  return LogEnds<O>(x, O::Fma(e, O::Set(math::kLn2), log));
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V CoarseSigmoid(V x) {
  const V e = CoarseExp<O>(O::Neg(O::Abs(x)));
  return O::Select(O::Less(x, O::Set(0.0)), e, O::Set(1.0)) / (O::Set(1.0) + e);
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V CoarseSoftplus(V x) {
  const V e = CoarseExp<O>(O::Neg(O::Abs(x)));
  const V s = e / (O::Set(2.0) + e), z = s * s;
  const V log = O::Fma(s * z, Polynomial<O, math::kAtanhTailThird>(z), s + s);
  return O::Select(O::Less(O::Set(0.0), x), x, O::Set(0.0)) + log;
}

template <class O, class V = typename O::V>
PHASOR_MATH_INLINE V CoarseLogSigmoid(V x) {
  return O::Neg(CoarseSoftplus<O>(O::Neg(x)));
}
