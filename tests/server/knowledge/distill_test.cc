// Fits of small functions, judged by numbers worked out here.
#include "server/knowledge/distill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_target.h"
#include "server/knowledge/distill_net.h"
#include "tests/server/knowledge/fitted.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;
using testing::Not;

// Σ_k w·cos(πk(m − first + ½)/N), or the layers with SiLU between, in long double and by libm.
std::vector<long double> Evaluate(const DistilledSpec& spec, int64_t position) {
  const auto at = static_cast<long double>(position - *spec.first_position);
  const auto count = static_cast<long double>(spec.num_positions);
  std::vector<long double> x;
  for (int64_t k = 0; k < spec.cosine_terms; ++k) {
    x.push_back(std::cos(std::numbers::pi_v<long double> * static_cast<long double>(k) * (at + 0.5L) / count));
  }
  if (spec.cosine_terms == 0) x.push_back(2 * at / (count - 1) - 1);
  for (size_t i = 0; i < spec.w.size() && spec.w[i]; ++i) {
    const std::vector<double> w = spec.w[i]->values(), b = spec.b[i]->values();
    std::vector<long double> y(b.begin(), b.end());
    for (size_t o = 0; o < y.size(); ++o) {
      for (size_t k = 0; k < x.size(); ++k) y[o] += w[o * x.size() + k] * x[k];
      if (i + 1 < spec.w.size() && spec.w[i + 1]) y[o] /= 1 + std::exp(-y[o]);
    }
    x = std::move(y);
  }
  return x;
}

std::vector<double> AllWeights(const Distilled& fitted) {
  std::vector<double> all;
  for (size_t i = 0; i < fitted.spec.w.size() && fitted.spec.w[i]; ++i) {
    for (const WeightRef& weight : {fitted.spec.w[i], fitted.spec.b[i]}) {
      const std::vector<double> values = weight->values();
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

// FNV-1a of the bits.
uint64_t DigestOf(const std::vector<double>& values) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (const double value : values) {
    const uint64_t bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) digest = (digest ^ (bits >> shift & 0xff)) * 0x100000001b3u;
  }
  return digest;
}

TEST(DistillSeries, IsExactForATableOfSoManyCosines) {
  const int64_t rows = 100;
  std::vector<double> values;
  for (int64_t m = 0; m < rows; ++m) {
    for (const auto& [a, k] : {std::pair(3.0, 0), std::pair(-2.0, 5), std::pair(0.25, 11)}) {
      values.push_back(a * std::cos(std::numbers::pi * k * (static_cast<double>(m) + 0.5) / rows) + 1);
    }
  }
  const Side side = TableOf(InputContent::kSinusoidal, {rows, 3}, values);
  const DistillSamples samples = SamplesAt(side);
  const Distilled exact = Fit(side, samples, DistillForm::kCosineSeries, {.terms = 12});
  EXPECT_LE(exact.errors.max_error, 1e-12);
  EXPECT_NEAR(exact.spec.w[0]->at(12 + 5), -2, 1e-13);
  EXPECT_NEAR(exact.spec.w[0]->at(2 * 12 + 11), 0.25, 1e-13);
  EXPECT_NEAR(exact.spec.w[0]->at(0), 4, 1e-13);
  EXPECT_EQ(exact.parameters, 36);
  EXPECT_EQ(exact.steps, 0);
  // Without the last cosine its column is off by all of it, and the others are not.
  const Distilled short_one = Fit(side, samples, DistillForm::kCosineSeries, {.terms = 11});
  EXPECT_NEAR(short_one.errors.max_error, 0.25, 1e-3);
  EXPECT_EQ(short_one.errors.max_column, 2);
  EXPECT_LE(short_one.errors.by_column[1], 1e-12);
}

TEST(DistillSeries, AsManyTermsAsRowsAreTheTable) {
  const Distilled fitted = FitTable(37, 5, DistillForm::kCosineSeries, {.terms = 37});
  EXPECT_LE(fitted.errors.max_error, 1e-15);
  EXPECT_THAT(fitted.verdict, HasSubstr("saves nothing"));
}

TEST(Distill, ErrorsAreThoseOfAnIndependentEvaluation) {
  const int64_t rows = 96, columns = 4;
  const std::vector<double> values = Smooth(rows, columns);
  const Side side = TableOf(InputContent::kSinusoidal, {rows, columns}, values, 1000);
  const DistillSamples samples = SamplesAt(side, 0, 0);
  for (const DistillForm form : {DistillForm::kPerceptron, DistillForm::kCosineSeries}) {
    const Distilled fitted = Fit(side, samples, form, {.hidden = 12, .steps = 30, .terms = 7});
    EXPECT_EQ(fitted.spec.first_position, 1000);
    EXPECT_EQ(fitted.spec.num_positions, rows);
    double largest = 0, squares = 0, of_values = 0;
    int64_t at_position = 0, at_column = 0;
    std::vector<double> by_column(columns);
    for (int64_t m = 0; m < rows; ++m) {
      const std::vector<long double> row = Evaluate(fitted.spec, 1000 + m);
      for (int64_t c = 0; c < columns; ++c) {
        const double value = values[static_cast<size_t>(m * columns + c)];
        const auto error = static_cast<double>(std::abs(row[static_cast<size_t>(c)] - value));
        squares += error * error;
        of_values += value * value;
        by_column[static_cast<size_t>(c)] = std::max(by_column[static_cast<size_t>(c)], error);
        if (error <= largest) continue;
        largest = error;
        at_position = 1000 + m;
        at_column = c;
      }
    }
    EXPECT_GT(largest, 1e-9);
    EXPECT_NEAR(fitted.errors.max_error, largest, 1e-13);
    EXPECT_EQ(fitted.errors.max_position, at_position);
    EXPECT_EQ(fitted.errors.max_column, at_column);
    EXPECT_NEAR(fitted.errors.rms_error, std::sqrt(squares / static_cast<double>(values.size())), 1e-13);
    EXPECT_NEAR(fitted.errors.rms_value, std::sqrt(of_values / static_cast<double>(values.size())), 1e-13);
    for (size_t c = 0; c < by_column.size(); ++c) EXPECT_NEAR(fitted.errors.by_column[c], by_column[c], 1e-13) << c;
    EXPECT_FALSE(fitted.errors.max_beyond.has_value());
    EXPECT_THAT(fitted.verdict, HasSubstr("Beyond that nothing is known"));
    EXPECT_FALSE(fitted.closed_form_is_better);
  }
}

TEST(Distill, BeyondTheRangeIsMeasuredWhereTheSourceIsKnown) {
  RopeSpec rope;
  rope.head_dim = 8;
  const Side side = Of(rope);
  const Distilled fitted = Fit(side, SamplesAt(side, 10, 40), DistillForm::kCosineSeries, {.terms = 20});
  double beyond = 0;
  for (int64_t m = 50; m < 90; ++m) {
    const std::vector<long double> row = Evaluate(fitted.spec, m);
    for (size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(m) * std::pow(10000.0, -static_cast<double>(i) / 4);
      beyond = std::max(beyond, static_cast<double>(std::abs(row[i] - std::cos(angle))));
      beyond = std::max(beyond, static_cast<double>(std::abs(row[4 + i] - std::sin(angle))));
    }
  }
  ASSERT_TRUE(fitted.errors.max_beyond.has_value());
  EXPECT_NEAR(*fitted.errors.max_beyond, beyond, 1e-12);
  EXPECT_GT(beyond, 0.5);
  EXPECT_TRUE(fitted.closed_form_is_better);
  EXPECT_THAT(fitted.verdict, HasSubstr("closed form (rope_default) of 4 numbers"));
  EXPECT_THAT(fitted.verdict, HasSubstr("Do not use it beyond: over positions 50 to 89"));
}

// The last rows that there are: what lies beyond is cut, not refused.
TEST(Distill, TheEndOfThePositionsIsTheEnd) {
  RopeSpec rope;
  rope.head_dim = 4;
  const Side side = Of(rope);
  const int64_t last = (int64_t{1} << 31) - 1;
  const DistillSamples samples = SamplesAt(side, last - 19, 15);
  EXPECT_EQ(samples.values.rows, 15);
  EXPECT_EQ(samples.beyond.rows, 5);
  const Distilled fitted = Fit(side, samples, DistillForm::kPerceptron, {.hidden = 4, .steps = 3});
  EXPECT_TRUE(fitted.errors.max_beyond.has_value());
  EXPECT_EQ(ErrorOf(ChooseSamples(side, last, 0).status()), "first_position: 2147483647: 0 … 2147483646");
}

TEST(DistillPerceptron, FollowsASmoothTable) {
  const Distilled fitted = FitTable(256, 8, DistillForm::kPerceptron, {.hidden = 32, .steps = 300});
  EXPECT_LE(fitted.errors.max_error, 2e-5);  // of 0.02
  EXPECT_EQ(fitted.parameters, 32 + 32 + 32 * 32 + 32 + 32 * 8 + 8);
  EXPECT_EQ(fitted.table_numbers, 256 * 8);
  EXPECT_LE(fitted.steps, 300);
  EXPECT_GT(fitted.steps, 10);
}

TEST(DistillPerceptron, TheSizeOfTheNumbersChangesNoBitOfTheShape) {
  std::vector<double> values = Smooth(64, 3), large = values;
  for (double& value : large) value *= 0x1p40;
  const DistillOptions options{.hidden = 10, .steps = 40};
  const Side a = TableOf(InputContent::kSinusoidal, {64, 3}, values), b = TableOf(InputContent::kSinusoidal, {64, 3}, large);
  const Distilled fit_a = Fit(a, SamplesAt(a), DistillForm::kPerceptron, options);
  const Distilled fit_b = Fit(b, SamplesAt(b), DistillForm::kPerceptron, options);
  EXPECT_EQ(fit_b.spec.w[1]->values(), fit_a.spec.w[1]->values());
  EXPECT_EQ(fit_b.errors.max_error, fit_a.errors.max_error * 0x1p40);
}

TEST(DistillPerceptron, MoreStepsAreNeverWorse) {
  double before = std::numeric_limits<double>::infinity();
  int better = 0;
  for (const int64_t steps : {1, 2, 5, 20, 60, 61, 62, 63, 200}) {
    const double error = FitTable(80, 6, DistillForm::kPerceptron, {.hidden = 14, .steps = steps}).errors.max_error;
    EXPECT_LE(error, before + 1e-14) << steps;
    better += error < 0.9 * before ? 1 : 0;
    before = error;
  }
  EXPECT_GE(better, 4);
}

TEST(DistillPerceptron, SameSeedSameBitsAndAnotherSeedOthers) {
  const DistillOptions options{.hidden = 9, .steps = 25, .seed = 5};
  const Distilled a = FitTable(70, 5, DistillForm::kPerceptron, options),
                  b = FitTable(70, 5, DistillForm::kPerceptron, options);
  EXPECT_EQ(AllWeights(a), AllWeights(b));
  DistillOptions other = options;
  other.seed = uint64_t{5} << 32;
  EXPECT_NE(AllWeights(a), AllWeights(FitTable(70, 5, DistillForm::kPerceptron, other)));
}

// Bits that every machine and instruction set gives. The table is one of quotients, which no libm makes.
TEST(DistillPerceptron, BitsAreTheSameEverywhere) {
  std::vector<double> values;
  for (int m = 0; m < 67; ++m) {
    for (int c = 1; c <= 3; ++c) values.push_back(1.0 / (m + c) - c * m / 64.0);
  }
  const Side side = TableOf(InputContent::kSinusoidal, {67, 3}, values);
  const DistillSamples samples = SamplesAt(side);
  for (const std::string& target : CpuTargets()) {
    ASSERT_TRUE(ForceCpuTarget(target).ok());
    const Distilled net = Fit(side, samples, DistillForm::kPerceptron, {.hidden = 11, .steps = 40, .seed = 3});
    EXPECT_EQ(DigestOf(AllWeights(net)), 7578517958960100040u) << target;
    const Distilled series = Fit(side, samples, DistillForm::kCosineSeries, {.terms = 13});
    EXPECT_EQ(DigestOf(AllWeights(series)), 17540726272665852970u) << target;
  }
  ASSERT_TRUE(ForceCpuTarget("auto").ok());
}

// Fewer rows than units, rows that are all alike, and nothing but zeros.
TEST(DistillPerceptron, TablesThatSayLittle) {
  for (const int64_t hidden : {1, 2, 7, 64, 300}) {
    for (const int64_t rows : {2, 3, 9}) {
      const Distilled fitted = FitTable(rows, 2, DistillForm::kPerceptron, {.hidden = hidden, .steps = 5});
      if (hidden > rows) {
        EXPECT_LE(fitted.errors.max_error, 1e-6) << hidden << " units, " << rows << " rows";
      }
    }
  }
  for (const double value : {0.0, 3.0, -1e140, 1e-300}) {
    const Side side = TableOf(InputContent::kSinusoidal, {20, 2}, std::vector<double>(40, value));
    const Distilled fitted = Fit(side, SamplesAt(side), DistillForm::kPerceptron, {.hidden = 8, .steps = 20});
    EXPECT_LE(fitted.errors.max_error, std::abs(value) * 1e-9) << value;
  }
}

TEST(DistillPerceptron, StopsWhereTheErrorIsWanted) {
  const Distilled free = FitTable(128, 4, DistillForm::kPerceptron, {.hidden = 24, .steps = 200});
  const double tolerance = free.errors.max_error * 20;
  const Distilled held = FitTable(128, 4, DistillForm::kPerceptron, {.hidden = 24, .steps = 200, .tolerance = tolerance});
  EXPECT_LE(held.errors.max_error, tolerance);
  EXPECT_LT(held.steps, free.steps);
}

}  // namespace
}  // namespace phasor::server
