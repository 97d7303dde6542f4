// The elementary functions against MPFR and, over many more arguments, against long double.
#include "kernels/core/math.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/narrow.h"

namespace phasor::math {
namespace {

constexpr double kHuge = std::numeric_limits<double>::max();

class Mpfr {
 public:
  Mpfr() { mpfr_init2(value_, 200); }
  ~Mpfr() { mpfr_clear(value_); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;
  operator mpfr_ptr() { return value_; }  // NOLINT: meant to be passed to mpfr_* functions

 private:
  mpfr_t value_;
};

// Arguments of a test, evenly between two numbers or by exponent (then of both signs).
struct Range {
  double low, high;
  bool logarithmic = false;
};

struct Function {
  const char* name;
  double (*ours)(double);
  void (*exact)(mpfr_ptr x);  // in place
  long double (*wider)(long double);
  std::vector<Range> ranges;
  // Below it `wider` is no judge: it rounds the argument of an exponential, whose error grows with the argument.
  double wider_from = -INFINITY;
};

void SigmoidExact(mpfr_ptr x) {
  mpfr_neg(x, x, MPFR_RNDN);
  mpfr_exp(x, x, MPFR_RNDN);
  mpfr_add_ui(x, x, 1, MPFR_RNDN);
  mpfr_ui_div(x, 1, x, MPFR_RNDN);
}
void SoftplusExact(mpfr_ptr x) {
  Mpfr small;
  mpfr_abs(small, x, MPFR_RNDN);
  mpfr_neg(small, small, MPFR_RNDN);
  mpfr_exp(small, small, MPFR_RNDN);
  mpfr_log1p(small, small, MPFR_RNDN);
  if (mpfr_sgn(x) < 0) mpfr_set_ui(x, 0, MPFR_RNDN);
  mpfr_add(x, x, small, MPFR_RNDN);
}
void LogSigmoidExact(mpfr_ptr x) {
  mpfr_neg(x, x, MPFR_RNDN);
  SoftplusExact(x);
  mpfr_neg(x, x, MPFR_RNDN);
}
void SiluExact(mpfr_ptr x) {
  Mpfr sigmoid;
  mpfr_set(sigmoid, x, MPFR_RNDN);
  SigmoidExact(sigmoid);
  mpfr_mul(x, x, sigmoid, MPFR_RNDN);
}
void GeluExact(mpfr_ptr x) {
  Mpfr argument;
  mpfr_set_ui(argument, 2, MPFR_RNDN);
  mpfr_sqrt(argument, argument, MPFR_RNDN);
  mpfr_div(argument, x, argument, MPFR_RNDN);
  mpfr_neg(argument, argument, MPFR_RNDN);
  mpfr_erfc(argument, argument, MPFR_RNDN);
  mpfr_mul(x, x, argument, MPFR_RNDN);
  mpfr_div_2ui(x, x, 1, MPFR_RNDN);
}
void GeluTanhExact(mpfr_ptr x) {
  Mpfr argument, constant;
  mpfr_pow_ui(argument, x, 3, MPFR_RNDN);
  mpfr_set_str(constant, "0.044715", 10, MPFR_RNDN);
  mpfr_fma(argument, argument, constant, x, MPFR_RNDN);
  mpfr_const_pi(constant, MPFR_RNDN);
  mpfr_ui_div(constant, 8, constant, MPFR_RNDN);
  mpfr_sqrt(constant, constant, MPFR_RNDN);
  mpfr_mul(argument, argument, constant, MPFR_RNDN);
  SigmoidExact(argument);
  mpfr_mul(x, x, argument, MPFR_RNDN);
}

long double SigmoidWider(long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
long double SoftplusWider(long double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); }
long double GeluWider(long double x) { return 0.5L * x * std::erfc(-x / std::sqrt(2.0L)); }
long double GeluTanhWider(long double x) {
  const long double root = std::sqrt(8 / 3.14159265358979323846264338327950288L);
  return x * SigmoidWider(root * (x + 0.044715L * x * x * x));
}

const std::vector<Function>& Functions() {
  const auto exp_like = std::vector<Range>{{-708, 709.7}, {-0.4, 0.4}, {-746, -708}};
  const auto positive = std::vector<Range>{{0.5, 2}, {0.99, 1.01}, {0, 1e6}, {1e300, kHuge}, {0, 0x1p-1020}};
  const auto sigmoidal = std::vector<Range>{{-708, 40}, {-5, 5}, {-750, -700}, {-60, 5, true}};
  static const auto* const functions = new std::vector<Function>{
      {"Exp", Exp, [](mpfr_ptr x) { mpfr_exp(x, x, MPFR_RNDN); }, [](long double x) { return std::exp(x); }, exp_like},
      {"Exp2",
       Exp2,
       [](mpfr_ptr x) { mpfr_exp2(x, x, MPFR_RNDN); },
       [](long double x) { return std::exp2(x); },
       {{-1022, 1024}, {-1, 1}, {-1076, -1022}}},
      {"Expm1",
       Expm1,
       [](mpfr_ptr x) { mpfr_expm1(x, x, MPFR_RNDN); },
       [](long double x) { return std::expm1(x); },
       {{-60, 709.7}, {-1, 1}, {-1074, 5, true}}},
      {"Log", Log, [](mpfr_ptr x) { mpfr_log(x, x, MPFR_RNDN); }, [](long double x) { return std::log(x); }, positive},
      {"Log1p",
       Log1p,
       [](mpfr_ptr x) { mpfr_log1p(x, x, MPFR_RNDN); },
       [](long double x) { return std::log1p(x); },
       {{-1, 2}, {0, 1e6}, {-1074, -1, true}, {1e300, kHuge}}},
      {"Log2", Log2, [](mpfr_ptr x) { mpfr_log2(x, x, MPFR_RNDN); }, [](long double x) { return std::log2(x); }, positive},
      {"Sqrt", Sqrt, [](mpfr_ptr x) { mpfr_sqrt(x, x, MPFR_RNDN); }, [](long double x) { return std::sqrt(x); }, positive},
      {"Sigmoid", Sigmoid, SigmoidExact, SigmoidWider, sigmoidal},
      {"Softplus",
       Softplus,
       SoftplusExact,
       SoftplusWider,
       {{-708, 709}, {-5, 5}, {-40, -5}, {-750, -700}, {-60, 1023, true}}},
      {"LogSigmoid", LogSigmoid, LogSigmoidExact, [](long double x) { return -SoftplusWider(-x); }, {{-40, 40}, {700, 750}}},
      {"Tanh",
       Tanh,
       [](mpfr_ptr x) { mpfr_tanh(x, x, MPFR_RNDN); },
       [](long double x) { return std::tanh(x); },
       {{-23, 23}, {-1, 1}, {-1074, 3, true}}},
      {"Silu",
       Silu,
       SiluExact,
       [](long double x) { return x * SigmoidWider(x); },
       {{-708, 50}, {-5, 5}, {-755, -700}, {-1074, 9, true}}},
      {"Gelu", Gelu, GeluExact, GeluWider, {{-38, 10}, {-5, 5}, {-39, -37}, {-1074, 5, true}}, -5},
      {"GeluTanh", GeluTanh, GeluTanhExact, GeluTanhWider, {{-21, 10}, {-5, 5}, {-23, -21}, {-1074, 4, true}}, -5},
  };
  return *functions;
}

// Deterministic arguments of a range, its ends included.
class Arguments {
 public:
  Arguments(Range range, uint64_t seed) : range_(range), random_(seed) {}
  double Next() {
    const double unit = static_cast<double>(random_() >> 11) * 0x1p-53;
    if (!range_.logarithmic) return range_.low + (range_.high - range_.low) * unit;
    const double exponent = range_.low + (range_.high - range_.low) * unit;
    const double floor = std::floor(exponent);
    const double magnitude = std::ldexp(1 + (exponent - floor), static_cast<int>(floor));
    return (random_() & 1) != 0 ? -magnitude : magnitude;
  }

 private:
  Range range_;
  std::mt19937_64 random_;
};

// The last place of a double (of a float) of x's magnitude.
double UlpOf(double x, int precision = 53, int smallest = -1074) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return x == 0 ? std::ldexp(1.0, smallest) : std::ldexp(1.0, std::max(exponent - precision, smallest));
}

double Bound(double exact) { return std::fabs(exact) < DBL_MIN ? kUlpsSubnormal : kUlps; }

TEST(MathTest, EveryFunctionIsWithinItsBound) {
  for (const Function& function : Functions()) {
    SCOPED_TRACE(function.name);
    for (const Range& range : function.ranges) {
      Arguments arguments(range, 17);
      for (int i = 0; i < 4000; ++i) {
        const double x = arguments.Next();
        Mpfr exact;
        mpfr_set_d(exact, x, MPFR_RNDN);
        function.exact(exact);
        const double nearest = mpfr_get_d(exact, MPFR_RNDN);
        mpfr_sub_d(exact, exact, function.ours(x), MPFR_RNDN);
        mpfr_div_d(exact, exact, UlpOf(nearest), MPFR_RNDN);
        ASSERT_LE(std::fabs(mpfr_get_d(exact, MPFR_RNDN)), Bound(nearest))
            << std::hexfloat << x << " gives " << function.ours(x);
      }
    }
  }
}

// Long double functions, rounded arguments included, are good to some 30 of their own last places: 0.02 of ours.
TEST(MathTest, AMillionArgumentsOfEachFunctionAgreeWithLongDouble) {
  if (LDBL_MANT_DIG < 64) GTEST_SKIP() << "long double is no wider than double";
#if defined(__SANITIZE_ADDRESS__) || !defined(NDEBUG)
  constexpr int kArguments = 50000;
#else
  constexpr int kArguments = 1000000;
#endif
  for (const Function& function : Functions()) {
    SCOPED_TRACE(function.name);
    for (const Range& range : function.ranges) {
      Arguments arguments(range, 18);
      for (size_t i = 0; i < kArguments / function.ranges.size(); ++i) {
        const double x = arguments.Next();
        if (x < function.wider_from) continue;
        const long double exact = function.wider(x);
        const double nearest = static_cast<double>(exact);
        const long double error = std::fabs(function.ours(x) - exact) / UlpOf(nearest);
        ASSERT_LE(error, Bound(nearest) + 0.02) << std::hexfloat << x << " gives " << function.ours(x);
      }
    }
  }
}

TEST(MathTest, PowersAreWithinTheirBound) {
  std::mt19937_64 random(19);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  for (int i = 0; i < 200000; ++i) {
    // x near 1 or of any exponent, y such that the result is finite, or subnormal.
    const double spread = i % 2 == 0 ? 2 : 2000;
    const double x = std::exp2((unit() - 0.5) * spread);
    const double y = (unit() - 0.51) * 2 * 735 / std::log(x);
    const double ours = Pow(x, y);
    if (i % 20 == 0) {
      Mpfr exact, exponent;
      mpfr_set_d(exact, x, MPFR_RNDN);
      mpfr_set_d(exponent, y, MPFR_RNDN);
      mpfr_pow(exact, exact, exponent, MPFR_RNDN);
      const double nearest = mpfr_get_d(exact, MPFR_RNDN);
      if (std::isinf(nearest)) continue;
      mpfr_sub_d(exact, exact, ours, MPFR_RNDN);
      mpfr_div_d(exact, exact, UlpOf(nearest), MPFR_RNDN);
      ASSERT_LE(std::fabs(mpfr_get_d(exact, MPFR_RNDN)), Bound(nearest)) << std::hexfloat << x << " ^ " << y;
    } else if (LDBL_MANT_DIG >= 64) {
      const long double exact = std::pow(static_cast<long double>(x), static_cast<long double>(y));
      const double nearest = static_cast<double>(exact);
      if (std::isinf(nearest)) continue;
      ASSERT_LE(std::fabs(ours - exact) / UlpOf(nearest), Bound(nearest) + 0.02) << std::hexfloat << x << " ^ " << y;
    }
  }
}

TEST(MathTest, FloatsAreRoundedOnce) {
  struct FloatFunction {
    const char* name;
    float (*ours)(float);
    double (*wider)(double);
  };
  const FloatFunction functions[] = {{"Exp", Exp, Exp},
                                     {"Log", Log, Log},
                                     {"Sigmoid", Sigmoid, Sigmoid},
                                     {"Softplus", Softplus, Softplus},
                                     {"LogSigmoid", LogSigmoid, LogSigmoid}};
  for (const FloatFunction& function : functions) {
    SCOPED_TRACE(function.name);
    std::mt19937_64 random(20);
    for (int i = 0; i < 300000; ++i) {
      // Any pattern, and magnitudes where the functions are interesting.
      const uint32_t bits = static_cast<uint32_t>(random());
      const float x = i % 2 == 0 ? FromBits<float>(bits) : (static_cast<float>(bits >> 8) * 0x1p-23f - 1) * 120;
      const double exact = function.wider(x);
      const float ours = function.ours(x);
      if (std::isnan(exact) || std::fabs(exact) > 0x1.ffffffp127) {
        ASSERT_EQ(BitsOf(ours), BitsOf(Narrow<float>(exact))) << std::hexfloat << x;
      } else {
        ASSERT_LE(std::fabs(ours - exact), kUlpsF32 * UlpOf(exact, 24, -149)) << std::hexfloat << x;
      }
    }
  }
}

}  // namespace
}  // namespace phasor::math
