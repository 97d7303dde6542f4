#include "tests/kernels/cpu/angle_oracle.h"

#include <gmp.h>
#include <mpfr.h>

#include <bit>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace phasor::testing {
namespace {

constexpr mpfr_prec_t kBits = 320;
constexpr int kFixedPoint = 190;

class Mpfr {
 public:
  Mpfr() { mpfr_init2(value_, kBits); }
  ~Mpfr() { mpfr_clear(value_); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;
  operator mpfr_ptr() { return value_; }  // NOLINT: meant to be passed to mpfr_* functions

 private:
  mpfr_t value_;
};

void InvFreq(const AngleConfig& config, int64_t pair, mpfr_ptr out) {
  if (pair >= config.LivePairs()) {
    mpfr_set_zero(out, 1);
    return;
  }
  Mpfr exponent;
  mpfr_set_si(exponent, -pair, MPFR_RNDN);
  mpfr_div_si(exponent, exponent, config.pairs, MPFR_RNDN);
  mpfr_set_d(out, config.base, MPFR_RNDN);
  mpfr_pow(out, out, exponent, MPFR_RNDN);
  mpfr_div_d(out, out, config.scale, MPFR_RNDN);
}

// The lowest `count` limbs of round(value·2^bits), value ≥ 0.
void ToLimbs(mpfr_ptr value, int bits, uint64_t* limbs, int count) {
  Mpfr scaled;
  mpfr_mul_2si(scaled, value, bits, MPFR_RNDN);
  mpz_t integer;
  mpz_init(integer);
  mpfr_get_z(integer, scaled, MPFR_RNDN);
  for (int i = 0; i < count; ++i) {
    limbs[i] = mpz_get_ui(integer);
    mpz_fdiv_q_2exp(integer, integer, 64);
  }
  mpz_clear(integer);
}

Fixed192 ToFixed(mpfr_ptr value) {
  Fixed192 result;
  result.negative = mpfr_sgn(value) < 0;
  Mpfr magnitude;
  mpfr_abs(magnitude, value, MPFR_RNDN);
  ToLimbs(magnitude, kFixedPoint, result.limb.data(), 3);
  return result;
}

Fixed192 Multiply(const Fixed192& a, const Fixed192& b) {
  uint64_t product[6] = {};
  for (int i = 0; i < 3; ++i) {
    unsigned __int128 carry = 0;
    for (int j = 0; j < 3; ++j) {
      carry += static_cast<unsigned __int128>(a.limb[i]) * b.limb[j] + product[i + j];
      product[i + j] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    product[i + 3] = static_cast<uint64_t>(carry);
  }
  // ÷ 2^190: limbs 3…5 shifted left by two.
  Fixed192 result;
  for (int i = 0; i < 3; ++i) result.limb[i] = product[i + 3] << 2 | product[i + 2] >> 62;
  result.negative = a.negative != b.negative;
  return result;
}

bool Less(const std::array<uint64_t, 3>& a, const std::array<uint64_t, 3>& b) {
  for (int i = 2; i >= 0; --i) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return false;
}

Fixed192 Add(const Fixed192& a, const Fixed192& b) {
  Fixed192 result;
  if (a.negative == b.negative) {
    unsigned __int128 carry = 0;
    for (int i = 0; i < 3; ++i) {
      carry += static_cast<unsigned __int128>(a.limb[i]) + b.limb[i];
      result.limb[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    result.negative = a.negative;
    return result;
  }
  const bool swap = Less(a.limb, b.limb);
  const Fixed192& large = swap ? b : a;
  const Fixed192& small = swap ? a : b;
  uint64_t borrow = 0;
  for (int i = 0; i < 3; ++i) {
    const unsigned __int128 difference = static_cast<unsigned __int128>(large.limb[i]) - small.limb[i] - borrow;
    result.limb[i] = static_cast<uint64_t>(difference);
    borrow = static_cast<uint64_t>(difference >> 64) != 0 ? 1 : 0;
  }
  result.negative = large.negative;
  return result;
}

struct Format {
  int precision;
  int min_exponent;
  int max_exponent;
};
Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {53, -1022, 1023};
    case DType::kF16:
      return {11, -14, 15};
    case DType::kBF16:
      return {8, -126, 127};
    default:
      return {24, -126, 127};
  }
}

// mantissa: 256 bits, least significant limb first; value = mantissa·2^scale.
uint64_t RoundLimbs(const uint64_t* limbs, int scale, bool negative, const Format& format) {
  int top = 3;
  while (top >= 0 && limbs[top] == 0) --top;
  if (top < 0) return 0;
  const int bits = 64 * top + 64 - std::countl_zero(limbs[top]);
  const int exponent = bits - 1 + scale;
  const int least = format.min_exponent - format.precision + 1;
  const int quantum = exponent - format.precision + 1 > least ? exponent - format.precision + 1 : least;
  const int drop = quantum - scale;  // bits to drop
  const auto bit = [&](int i) { return i >= 0 && i < 256 ? limbs[i / 64] >> (i % 64) & 1 : 0; };
  uint64_t kept = 0;
  for (int i = bits - 1; i >= drop; --i) kept = kept << 1 | bit(i);
  bool sticky = false;
  for (int i = 0; i < drop - 1 && i < 256 && !sticky; i += 64 - i % 64) {
    const int end = drop - 1;
    const uint64_t limb = limbs[i / 64];
    sticky = (end / 64 > i / 64 ? limb : limb & ((uint64_t{1} << (end % 64)) - 1)) != 0;
  }
  if (bit(drop - 1) != 0 && (sticky || (kept & 1) != 0)) ++kept;
  const int fraction = format.precision - 1;
  const uint64_t field = quantum > least ? static_cast<uint64_t>(quantum - least) : 0;
  uint64_t result = kept + (field << fraction);
  const uint64_t infinity = static_cast<uint64_t>(2 * format.max_exponent + 1) << fraction;
  if (result > infinity) result = infinity;
  const int total = format.precision == 53 ? 64 : format.precision == 24 ? 32 : 16;
  return result | static_cast<uint64_t>(negative) << (total - 1);
}

uint64_t RoundMpfr(mpfr_ptr value, DType dtype) {
  if (mpfr_zero_p(value) != 0) return 0;
  // 250 bits are exact enough: the value is far from any tie, or exact in fewer bits.
  const mpfr_exp_t exponent = mpfr_get_exp(value);
  Mpfr magnitude;
  mpfr_abs(magnitude, value, MPFR_RNDN);
  uint64_t limbs[4];
  ToLimbs(magnitude, static_cast<int>(250 - exponent), limbs, 4);
  return RoundLimbs(limbs, static_cast<int>(exponent - 250), mpfr_sgn(value) < 0, FormatOf(dtype));
}

}  // namespace

std::string AngleConfig::ToString() const {
  return absl::StrFormat("base %g pairs %d scale %g factor %g live %d", base, pairs, scale, factor, LivePairs());
}

AnglePlan MakePlan(const AngleConfig& config, Precision precision) {
  AnglePlan plan;
  plan.precision = precision;
  plan.attention_factor = DoubleDouble{config.factor, 0};
  plan.attention_factor_f32 = static_cast<float>(config.factor);
  Mpfr inv_freq, two_pi;
  mpfr_const_pi(two_pi, MPFR_RNDN);
  mpfr_mul_2ui(two_pi, two_pi, 1, MPFR_RNDN);
  for (int64_t i = 0; i < config.pairs; ++i) {
    InvFreq(config, i, inv_freq);
    plan.inv_freq.push_back(mpfr_get_d(inv_freq, MPFR_RNDN));
    plan.inv_freq_f32.push_back(mpfr_get_flt(inv_freq, MPFR_RNDN));
    mpfr_div(inv_freq, inv_freq, two_pi, MPFR_RNDN);
    Turns turns;
    ToLimbs(inv_freq, 192, turns.limb.data(), 4);
    plan.frequencies.push_back(turns);
  }
  return plan;
}

AngleOracle::AngleOracle(const AngleConfig& config, int64_t position) : position_(position) {
  Mpfr inv_freq, angle, sine, cosine;
  for (int64_t i = 0; i < config.pairs; ++i) {
    InvFreq(config, i, inv_freq);
    mpfr_sin_cos(sine, cosine, inv_freq, MPFR_RNDN);
    step_cos_.push_back(ToFixed(cosine));
    step_sin_.push_back(ToFixed(sine));
    mpfr_mul_si(angle, inv_freq, position, MPFR_RNDN);
    mpfr_sin_cos(sine, cosine, angle, MPFR_RNDN);
    cos_.push_back(ToFixed(cosine));
    sin_.push_back(ToFixed(sine));
  }
}

void AngleOracle::Step() {
  if (++position_ == 0) {
    cos_.assign(cos_.size(), Fixed192{{0, 0, uint64_t{1} << (kFixedPoint - 128)}, false});
    sin_.assign(sin_.size(), Fixed192{});
    return;
  }
  for (size_t i = 0; i < cos_.size(); ++i) {
    Fixed192 minus = Multiply(sin_[i], step_sin_[i]);
    minus.negative = !minus.negative;
    const Fixed192 cosine = Add(Multiply(cos_[i], step_cos_[i]), minus);
    sin_[i] = Add(Multiply(sin_[i], step_cos_[i]), Multiply(cos_[i], step_sin_[i]));
    cos_[i] = cosine;
  }
}

uint64_t RoundOracle(const Fixed192& value, double factor, DType dtype) {
  const uint64_t bits = std::bit_cast<uint64_t>(factor);
  const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1075;
  uint64_t product[4] = {};
  unsigned __int128 carry = 0;
  for (int i = 0; i < 3; ++i) {
    carry += static_cast<unsigned __int128>(value.limb[i]) * mantissa;
    product[i] = static_cast<uint64_t>(carry);
    carry >>= 64;
  }
  product[3] = static_cast<uint64_t>(carry);
  return RoundLimbs(product, exponent - kFixedPoint, value.negative, FormatOf(dtype));
}

uint64_t RoundByMpfr(const AngleConfig& config, int64_t pair, int64_t position, bool sine, bool inverse, DType dtype) {
  Mpfr angle, value;
  InvFreq(config, pair, angle);
  mpfr_mul_si(angle, angle, position, MPFR_RNDN);
  if (sine) {
    mpfr_sin(value, angle, MPFR_RNDN);
  } else {
    mpfr_cos(value, angle, MPFR_RNDN);
  }
  if (inverse) {
    mpfr_div_d(value, value, config.factor, MPFR_RNDN);
  } else {
    mpfr_mul_d(value, value, config.factor, MPFR_RNDN);
  }
  return RoundMpfr(value, dtype);
}

float CompatByMpfr(float angle, bool sine) {
  Mpfr value;
  mpfr_set_flt(value, angle, MPFR_RNDN);
  if (sine) {
    mpfr_sin(value, value, MPFR_RNDN);
  } else {
    mpfr_cos(value, value, MPFR_RNDN);
  }
  return mpfr_get_flt(value, MPFR_RNDN);
}

}  // namespace phasor::testing
