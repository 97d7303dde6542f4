// The oracle against MPFR and against loops that a reader can check by eye.
#include "kernels/reference/reference_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/encodings/encoding.h"
#include "tests/kernels/encodings/decimal.h"

namespace phasor {
namespace {

// A plan with any frequency and factor, as turns that MPFR can read back exactly.
AnglePlan PlanOf(std::vector<Turns> frequencies, DoubleDouble factor) {
  AnglePlan plan;
  plan.frequencies = std::move(frequencies);
  plan.inv_freq.assign(plan.frequencies.size(), 0);
  plan.inv_freq_f32.assign(plan.frequencies.size(), 0);
  plan.attention_factor = factor;
  return plan;
}

void TurnsToMpfr(const Turns& turns, Mpfr& out) {
  mpfr_set_zero(out.get(), 1);
  for (int i = 0; i < 4; ++i) {
    Mpfr limb;
    mpfr_set_ui_2exp(limb.get(), turns.limb[i], 64 * (i - 3), MPFR_RNDN);
    mpfr_add(out.get(), out.get(), limb.get(), MPFR_RNDN);
  }
}

// Bits of x rounded once to T by MPFR: its exponent range set to T's, subnormals by mpfr_subnormalize.
template <typename T>
uint64_t RoundByMpfr(const Mpfr& x) {
  if constexpr (std::is_same_v<T, double>) return BitsOf(x.ToDouble());
  const mpfr_exp_t old_min = mpfr_get_emin();
  const mpfr_exp_t old_max = mpfr_get_emax();
  constexpr int kBias = (1 << (FloatFormat<T>::kExponentBits - 1)) - 1;
  mpfr_set_emax(kBias + 1);
  mpfr_set_emin(3 - kBias - (FloatFormat<T>::kFractionBits + 1));
  mpfr_t rounded;
  mpfr_init2(rounded, FloatFormat<T>::kFractionBits + 1);
  const int inexact = mpfr_set(rounded, x.get(), MPFR_RNDN);
  mpfr_subnormalize(rounded, mpfr_check_range(rounded, inexact, MPFR_RNDN), MPFR_RNDN);
  const double value = mpfr_get_d(rounded, MPFR_RNDN);  // exact
  mpfr_clear(rounded);
  mpfr_set_emin(old_min);
  mpfr_set_emax(old_max);
  return BitsOf(Narrow<T>(value));
}

// cos and sin of 2π·frequency·position, times or divided by the factor.
void ExactEntry(const AnglePlan& plan, int64_t pair, int64_t position, bool inverse, Mpfr& cos, Mpfr& sin) {
  Mpfr angle, pi, factor(plan.attention_factor.hi);
  mpfr_t wide;  // the phase needs more than the functions: 256 + 31 bits
  mpfr_init2(wide, 400);
  TurnsToMpfr(plan.frequencies[pair], angle);
  mpfr_mul_si(wide, angle.get(), position, MPFR_RNDN);
  mpfr_frac(wide, wide, MPFR_RNDN);
  mpfr_const_pi(pi.get(), MPFR_RNDN);
  mpfr_mul(angle.get(), wide, pi.get(), MPFR_RNDN);
  mpfr_mul_ui(angle.get(), angle.get(), 2, MPFR_RNDN);
  mpfr_clear(wide);
  mpfr_sin_cos(sin.get(), cos.get(), angle.get(), MPFR_RNDN);
  mpfr_add_d(factor.get(), factor.get(), plan.attention_factor.lo, MPFR_RNDN);
  const auto scale = inverse ? mpfr_div : mpfr_mul;
  scale(cos.get(), cos.get(), factor.get(), MPFR_RNDN);
  scale(sin.get(), sin.get(), factor.get(), MPFR_RNDN);
}

template <typename T>
void ExpectAngleTable(const AnglePlan& plan, std::span<const int64_t> ids, bool inverse) {
  const int64_t pairs = plan.pairs();
  const int64_t rows = static_cast<int64_t>(ids.size());
  std::vector<BitsType<T>> cos(rows * pairs), sin(rows * pairs);
  AngleTask task{.plan = &plan,
                 .positions = {.start = 0, .stride = 1, .ids = ids},
                 .inverse = inverse,
                 .cos = cos.data(),
                 .sin = sin.data(),
                 .row_stride = pairs};
  task.dtype = std::is_same_v<T, double>  ? DType::kF64
               : std::is_same_v<T, float> ? DType::kF32
               : std::is_same_v<T, F16>   ? DType::kF16
                                          : DType::kBF16;
  ASSERT_TRUE(MakeReferenceBackend()->Run(task, {0, rows}, nullptr).ok());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < pairs; ++i) {
      Mpfr exact_cos, exact_sin;
      ExactEntry(plan, i, ids[r], inverse, exact_cos, exact_sin);
      ASSERT_EQ(cos[r * pairs + i], RoundByMpfr<T>(exact_cos)) << "position " << ids[r] << " pair " << i;
      // MPFR keeps the sign of a zero; Phasor stores +0 for an exact zero.
      ASSERT_EQ(sin[r * pairs + i], mpfr_zero_p(exact_sin.get()) ? 0 : RoundByMpfr<T>(exact_sin))
          << "position " << ids[r] << " pair " << i;
    }
  }
}

TEST(ReferenceAngleTest, MatchesMpfr) {
  std::mt19937_64 random(11);
  std::vector<Turns> frequencies;
  for (int i = 0; i < 25; ++i) {
    // From an integer part down to 2^-40 turns per position; one stands still.
    Turns f{{random(), random(), random() >> (random() % 40), i % 5 == 0 ? random() % 1000 : 0}};
    frequencies.push_back(i == 24 ? Turns{} : f);
  }
  std::vector<int64_t> ids = {0, 1, -1, (int64_t{1} << 31) - 1, -(int64_t{1} << 31) + 1};
  while (ids.size() < 26) ids.push_back(static_cast<int32_t>(random()) >> (random() % 31));
  const AnglePlan plan = PlanOf(frequencies, {1.3465735902799727, 3e-17});
  for (bool inverse : {false, true}) {
    ExpectAngleTable<double>(plan, ids, inverse);
    ExpectAngleTable<float>(plan, ids, inverse);
    ExpectAngleTable<F16>(plan, ids, inverse);
    ExpectAngleTable<BF16>(plan, ids, inverse);
  }
}

TEST(ReferenceAngleTest, CompatIsFloatStepByFloatStep) {
  std::mt19937_64 random(12);
  AnglePlan plan = PlanOf(std::vector<Turns>(16), {1, 0});
  plan.precision = Precision::kCompatF32;
  for (int i = 0; i < 16; ++i) plan.inv_freq_f32[i] = std::ldexp(1.0f + static_cast<float>(i) / 17, -i);
  plan.inv_freq_f32[15] = 0;
  plan.attention_factor_f32 = 1.1386294f;
  std::vector<int64_t> ids = {0, -1, 16777217, (int64_t{1} << 31) - 1};
  for (int i = 0; i < 30; ++i) ids.push_back(static_cast<int32_t>(random()));
  std::vector<float> cos(ids.size() * 16), sin(ids.size() * 16);
  for (bool inverse : {false, true}) {
    const AngleTask task{.plan = &plan,
                         .positions = {.start = 0, .stride = 1, .ids = ids},
                         .dtype = DType::kF32,
                         .inverse = inverse,
                         .cos = cos.data(),
                         .sin = sin.data(),
                         .row_stride = 16};
    ASSERT_TRUE(MakeReferenceBackend()->Run(task, {0, static_cast<int64_t>(ids.size())}, nullptr).ok());
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t i = 0; i < 16; ++i) {
        const float angle = plan.inv_freq_f32[i] * static_cast<float>(ids[r]);
        Mpfr exact_cos, exact_sin;
        mpfr_sin_cos(exact_sin.get(), exact_cos.get(), Mpfr(static_cast<double>(angle)).get(), MPFR_RNDN);
        const float c = mpfr_get_flt(exact_cos.get(), MPFR_RNDN);
        const float s = mpfr_get_flt(exact_sin.get(), MPFR_RNDN);
        const float factor = plan.attention_factor_f32;
        EXPECT_EQ(BitsOf(cos[r * 16 + i]), BitsOf(inverse ? c / factor : c * factor));
        EXPECT_EQ(BitsOf(sin[r * 16 + i]), BitsOf((inverse ? s / factor : s * factor) + 0.0f));  // zeros are +0
      }
    }
  }
}

TEST(ReferenceAngleTest, RefusesWhatItCannotDo) {
  const AnglePlan plan = PlanOf(std::vector<Turns>(2), {1, 0});
  const auto backend = MakeReferenceBackend();
  std::vector<float> out(8, -1);
  AngleTask task{.plan = &plan, .positions = {}, .cos = out.data(), .sin = nullptr, .row_stride = 2};
  const auto code = [&](RowRange rows) { return backend->Run(task, rows, nullptr).code(); };
  task.positions.start = int64_t{1} << 31;
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kInvalidArgument);
  task.positions = {.start = INT64_MAX, .stride = INT64_MAX, .ids = {}};
  EXPECT_EQ(code({1, 2}), absl::StatusCode::kInvalidArgument);
  const std::vector<int64_t> ids = {0};
  task.positions = {.start = 0, .stride = 1, .ids = ids};
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kOk);
  EXPECT_EQ(code({0, 2}), absl::StatusCode::kInvalidArgument);
  task.cos = nullptr;
  EXPECT_EQ(code({0, 1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 0}), absl::StatusCode::kOk);
  task.cos = out.data();
  const CancelFlag cancelled = true;
  EXPECT_EQ(backend->Run(task, {0, 1}, &cancelled).code(), absl::StatusCode::kCancelled);
}

TEST(ReferenceRotateTest, BothPairingsAndDirections) {
  // One token, one head of five channels, two pairs; angles with cos 3/5, sin 4/5 and cos 0, sin 1.
  const std::vector<double> x = {1, 2, 3, 4, 9};
  const std::vector<double> cos = {0.6, 0};
  const std::vector<double> sin = {0.8, 1};
  std::vector<double> y(5, -1);
  RotateTask task{.dtype = DType::kF64,
                  .pairing = Pairing::kHalfSplit,
                  .tokens = 1,
                  .heads = 1,
                  .head_dim = 5,
                  .pairs = 2,
                  .x = x.data(),
                  .y = y.data(),
                  .x_token_stride = 5,
                  .x_head_stride = 5,
                  .y_token_stride = 5,
                  .y_head_stride = 5,
                  .cos = cos.data(),
                  .sin = sin.data(),
                  .table_stride = 2,
                  .table_rows = {}};
  const auto backend = MakeReferenceBackend();
  ASSERT_TRUE(backend->Run(task, {0, 1}, nullptr).ok());
  const auto near = [](double v) { return testing::DoubleNear(v, 1e-15); };
  EXPECT_THAT(y, testing::ElementsAre(near(0.6 - 2.4), near(-4), near(1.8 + 0.8), near(2), 9));
  task.pairing = Pairing::kInterleaved;
  ASSERT_TRUE(backend->Run(task, {0, 1}, nullptr).ok());
  EXPECT_THAT(y, testing::ElementsAre(near(0.6 - 1.6), near(1.2 + 0.8), near(-4), near(3), 9));
  // The inverse undoes it, in place.
  task.inverse = true;
  task.x = y.data();
  ASSERT_TRUE(backend->Run(task, {0, 1}, nullptr).ok());
  EXPECT_THAT(y, testing::ElementsAre(near(1), near(2), near(3), near(4), 9));
}

TEST(ReferenceRotateTest, NanIsCanonicalAndRowsAreLookedUp) {
  const std::vector<uint16_t> x = {0x7fff, 0x3c00, 0x3c00, 0x0000};  // f16: NaN, 1; 1, 0
  const std::vector<float> cos = {1, -1};
  const std::vector<float> sin = {0, 0};
  const std::vector<int32_t> rows = {1, 0};
  std::vector<uint16_t> y(4);
  const RotateTask task{.dtype = DType::kF16,
                        .pairing = Pairing::kHalfSplit,
                        .tokens = 2,
                        .heads = 1,
                        .head_dim = 2,
                        .pairs = 1,
                        .x = x.data(),
                        .y = y.data(),
                        .x_token_stride = 2,
                        .x_head_stride = 2,
                        .y_token_stride = 2,
                        .y_head_stride = 2,
                        .cos = cos.data(),
                        .sin = sin.data(),
                        .table_stride = 1,
                        .table_rows = rows};
  ASSERT_TRUE(MakeReferenceBackend()->Run(task, {0, 2}, nullptr).ok());
  EXPECT_THAT(y, testing::ElementsAre(0x7e00, 0x7e00, 0x3c00, 0x0000));
}

TEST(ReferenceBiasTest, MatchesMpfr) {
  BiasPlan plan{.form = AlibiForm::kCausal, .slopes = {{0.5, 0}, {0.8408964152537145, 3.1e-17}, {-0.1, 0}, {0, 0}}};
  const int64_t first = -(int64_t{1} << 32) + 1;
  for (AlibiForm form : {AlibiForm::kCausal, AlibiForm::kSymmetric}) {
    plan.form = form;
    for (int64_t start : {first, int64_t{-5}, int64_t{131000}, -first - 9}) {
      std::vector<float> out(3 * 10);
      const BiasVectorTask task{.plan = &plan,
                                .dtype = DType::kF32,
                                .first_distance = start,
                                .first_head = 1,
                                .heads = 3,
                                .out = out.data(),
                                .head_stride = 10};
      ASSERT_TRUE(MakeReferenceBackend()->Run(task, {0, 10}, nullptr).ok());
      for (int64_t h = 0; h < 3; ++h) {
        for (int64_t i = 0; i < 10; ++i) {
          const int64_t d = start + i;
          Mpfr value(plan.slopes[h + 1].hi);
          mpfr_add_d(value.get(), value.get(), plan.slopes[h + 1].lo, MPFR_RNDN);
          mpfr_mul_si(value.get(), value.get(), form == AlibiForm::kCausal ? d : -std::abs(d), MPFR_RNDN);
          EXPECT_EQ(out[h * 10 + i], mpfr_get_flt(value.get(), MPFR_RNDN)) << h << " " << d;
          EXPECT_FALSE(out[h * 10 + i] == 0 && std::signbit(out[h * 10 + i]));
        }
      }
    }
  }
  std::vector<float> out(1);
  const BiasVectorTask far{.plan = &plan,
                           .dtype = DType::kF32,
                           .first_distance = first - 1,
                           .first_head = 0,
                           .heads = 1,
                           .out = out.data(),
                           .head_stride = 1};
  EXPECT_EQ(MakeReferenceBackend()->Run(far, {0, 1}, nullptr).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReferenceToeplitzTest, RowsAreWindowsOfTheVector) {
  // Two heads, two queries, three keys; the vector holds the distances −1 … 2.
  const std::vector<float> vector = {-1, 0, 1, 2, 99, -10, 0, 10, 20, 99};
  std::vector<float> out(12);
  const ToeplitzTask task{.element_size = 4,
                          .heads = 2,
                          .queries = 2,
                          .keys = 3,
                          .vector = vector.data(),
                          .vector_stride = 5,
                          .out = out.data()};
  ASSERT_TRUE(MakeReferenceBackend()->Run(task, {0, 4}, nullptr).ok());
  EXPECT_THAT(out, testing::ElementsAre(0, 1, 2, -1, 0, 1, 0, 10, 20, -10, 0, 10));
}

TEST(ReferenceAssembleTest, EveryForm) {
  const std::vector<float> cos = {1, 2};
  const std::vector<float> sin = {-1, -2};
  const auto backend = MakeReferenceBackend();
  const auto run = [&](TableForm form, int64_t columns, bool want_sin = false) {
    std::vector<float> out(columns, 7), out_sin(columns, 7);
    const AssembleTask task{.form = form,
                            .element_size = 4,
                            .pairs = 2,
                            .columns = columns,
                            .cos = cos.data(),
                            .sin = sin.data(),
                            .table_stride = 2,
                            .table_rows = {},
                            .out = out.data(),
                            .out_sin = want_sin ? out_sin.data() : nullptr};
    EXPECT_TRUE(backend->Run(task, {0, 1}, nullptr).ok());
    return want_sin ? out_sin : out;
  };
  using testing::ElementsAre;
  EXPECT_THAT(run(TableForm::kHalf, 2), ElementsAre(1, 2));
  EXPECT_THAT(run(TableForm::kHalf, 2, true), ElementsAre(-1, -2));
  EXPECT_THAT(run(TableForm::kDuplicated, 4), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(run(TableForm::kDuplicated, 4, true), ElementsAre(-1, -2, -1, -2));
  EXPECT_THAT(run(TableForm::kInterleavedDuplicated, 4), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(run(TableForm::kInterleavedDuplicated, 5, true), ElementsAre(-1, -1, -2, -2, 0));
  EXPECT_THAT(run(TableForm::kConcatenated, 4), ElementsAre(1, 2, -1, -2));
  EXPECT_THAT(run(TableForm::kSinCosInterleaved, 4), ElementsAre(-1, 1, -2, 2));
  EXPECT_THAT(run(TableForm::kSinCosInterleaved, 3), ElementsAre(-1, 1, -2));
  EXPECT_THAT(run(TableForm::kSinCosConcatenated, 4), ElementsAre(-1, -2, 1, 2));
  EXPECT_THAT(run(TableForm::kSinCosConcatenated, 3), ElementsAre(-1, -2, 1));        // more sines than cosines
  EXPECT_THAT(run(TableForm::kSinCosConcatenated, 5), ElementsAre(-1, -2, 1, 2, 0));  // a column of zeros
}

}  // namespace
}  // namespace phasor
