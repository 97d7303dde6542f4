// Fits of small functions, judged by numbers worked out here.
#include "server/knowledge/distill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_target.h"
#include "kernels/reference/reference_backend.h"
#include "server/knowledge/distill_net.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;
using testing::Not;

Side Of(const EncodingSpec& spec, std::optional<int64_t> length = std::nullopt) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto side = SideOfSpec(*canonical, length, Precision::kExact);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

Side TableOf(InputContent content, std::vector<int64_t> shape, std::vector<double> values,
             std::optional<int64_t> first = std::nullopt) {
  InputTable table;
  table.content = content;
  table.tensors.push_back({DType::kF64, std::move(shape), std::move(values)});
  table.first_position = first;
  auto side = SideOfTable(table, nullptr);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

// Smooth columns that a few cosines do not exhaust.
std::vector<double> Smooth(int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t m = 0; m < rows; ++m) {
    for (int64_t c = 0; c < columns; ++c) {
      const double x = static_cast<double>(m) / static_cast<double>(rows);
      values.push_back(0.02 * std::sin(static_cast<double>(c + 1) * 3 * x + static_cast<double>(c)));
    }
  }
  return values;
}

std::string ErrorOf(const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  return error ? error->field + ": " + error->given + ": " + error->allowed : status.ToString();
}

DistillSamples SamplesAt(const Side& side, int64_t first = 0, int64_t count = 0) {
  const auto window = ChooseSamples(side, first, count);
  EXPECT_TRUE(window.ok()) << window.status();
  auto samples = SamplesOf(*MakeCpuBackend(), side, *window);
  EXPECT_TRUE(samples.ok()) << samples.status();
  return *std::move(samples);
}

Distilled Fit(const Side& side, const DistillSamples& samples, DistillForm form, const DistillOptions& options) {
  auto fitted = Distill(*MakeCpuBackend(), side, samples, form, options, [](const DistillProgress&) {}, nullptr);
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  return *std::move(fitted);
}

Distilled FitTable(int64_t rows, int64_t columns, DistillForm form, const DistillOptions& options) {
  const Side side = TableOf(InputContent::kSinusoidal, {rows, columns}, Smooth(rows, columns));
  return Fit(side, SamplesAt(side), form, options);
}

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

TEST(Distill, CancelStops) {
  const Side side = TableOf(InputContent::kSinusoidal, {64, 4}, Smooth(64, 4));
  const DistillSamples samples = SamplesAt(side);
  CancelFlag cancel{true};
  for (const DistillForm form : {DistillForm::kPerceptron, DistillForm::kCosineSeries}) {
    const auto fitted = Distill(*MakeCpuBackend(), side, samples, form, {}, [](const DistillProgress&) {}, &cancel);
    EXPECT_EQ(fitted.status().code(), absl::StatusCode::kCancelled);
  }
}

TEST(Distill, SeriesTellProgressInRows) {
  const Side side = TableOf(InputContent::kSinusoidal, {300, 2}, Smooth(300, 2));
  std::vector<DistillProgress> told;
  const auto listen = [&](const DistillProgress& progress) { told.push_back(progress); };
  ASSERT_TRUE(Distill(*MakeCpuBackend(), side, SamplesAt(side), DistillForm::kCosineSeries, {}, listen, nullptr).ok());
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0].form, DistillForm::kCosineSeries);
  EXPECT_EQ(told[0].step, 256);
  EXPECT_EQ(told[0].steps, 300);
}

TEST(Distill, AStepLooksAtCancelInside) {
  CancelFlag cancel{false};
  TrainingNet net(Grid{8, 2, Smooth(8, 2)}, 4, &cancel);
  const std::vector<double> start = net.Start(0);
  NetError error;
  std::vector<double> gradient;
  EXPECT_TRUE(net.Evaluate(start, &error, &gradient));
  EXPECT_FALSE(gradient.empty());
  gradient.clear();
  cancel = true;
  EXPECT_FALSE(net.Evaluate(start, &error, &gradient));
  EXPECT_TRUE(gradient.empty());
}

TEST(Distill, AFitWithoutErrorSaysSo) {
  const Side side = TableOf(InputContent::kSinusoidal, {4, 1}, std::vector<double>(4, 0.0));
  const Distilled d = Fit(side, SamplesAt(side), DistillForm::kCosineSeries, {.terms = 1});
  EXPECT_EQ(d.errors.max_error, 0);
  EXPECT_THAT(d.verdict, HasSubstr("It makes every value again over positions 0 to 3."));
  EXPECT_THAT(d.verdict, Not(HasSubstr("off by up to 0")));
}

TEST(Distill, ProgressTellsHowFarAndCancelsFromThere) {
  const Side side = TableOf(InputContent::kSinusoidal, {256, 8}, Smooth(256, 8));
  const DistillSamples samples = SamplesAt(side);
  CancelFlag cancel{false};
  DistillProgress last;
  int told = 0;
  const auto listen = [&](const DistillProgress& progress) {
    last = progress;
    if (++told == 2) cancel.store(true);
  };
  const auto fitted = Distill(*MakeCpuBackend(), side, samples, DistillForm::kPerceptron,
                              {.hidden = 48, .steps = kMaxDistillSteps}, listen, &cancel);
  EXPECT_EQ(fitted.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(told, 2);
  EXPECT_GT(last.step, 1);
  EXPECT_LT(last.step, kMaxDistillSteps);
  EXPECT_EQ(last.steps, kMaxDistillSteps);
  EXPECT_GT(last.max_error, 0);
  EXPECT_LE(last.rms_error, last.max_error);
}

TEST(Distill, ABiasIsAFunctionOfTheDistanceBack) {
  AlibiSpec alibi;
  alibi.num_heads = 4;
  const Side side = Of(alibi);
  const Distilled fitted = Fit(side, SamplesAt(side, 10, 64), DistillForm::kPerceptron, {.hidden = 16, .steps = 100});
  EXPECT_LE(fitted.errors.max_error, 0.01);
  EXPECT_LE(fitted.errors.max_position, -10);
  EXPECT_GE(fitted.errors.max_position, -73);
  EXPECT_TRUE(fitted.closed_form_is_better);
  EXPECT_THAT(fitted.verdict, HasSubstr("closed form (alibi) of 4 numbers"));
  ASSERT_TRUE(fitted.bias.has_value());
  // As a bias, fed with query − key = 10 … 73: −m·2^(−2(h + 1)).
  const auto canonical = Canonicalize(*fitted.bias);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  std::vector<double> distances, out(4 * 64);
  for (int m = 10; m < 74; ++m) distances.push_back(m);
  PerceptronTask task;
  task.perceptron = &std::get<DynamicPositionBiasPlan>(resolved->plan).perceptron;
  task.dtype = DType::kF64;
  task.features = distances.data();
  task.heads = 4;
  task.out = out.data();
  task.head_stride = 64;
  ASSERT_TRUE(MakeReferenceBackend()->Run(task, {0, 64}, nullptr).ok());
  for (int h = 0; h < 4; ++h) {
    for (int m = 10; m < 74; ++m) EXPECT_NEAR(out[64 * h + m - 10], -m * std::exp2(-2 * (h + 1)), fitted.errors.max_error);
  }
}

TEST(Distill, SomeColumnsTooFastAreNamed) {
  RopeSpec rope;
  rope.head_dim = 16;
  const Side side = Of(rope);
  const Distilled fitted = Fit(side, SamplesAt(side, 0, 256), DistillForm::kCosineSeries, {.terms = 24});
  EXPECT_THAT(fitted.verdict, HasSubstr("The largest errors are in the "));
  EXPECT_THAT(fitted.verdict, HasSubstr("of pair 0"));
  EXPECT_THAT(fitted.verdict, Not(HasSubstr("of pair 7")));
}

TEST(Distill, LearnedTablesAndBucketsHaveNoClosedForm) {
  LearnedSpec learned;
  learned.num_positions = 50;
  learned.dim = 3;
  learned.table = WeightRef(MakeWeight({50, 3}, Smooth(50, 3)));
  const Side side = Of(learned);
  const DistillSamples samples = SamplesAt(side);
  EXPECT_EQ(samples.values.rows, 50);
  EXPECT_EQ(samples.beyond.rows, 0);
  const Distilled fitted = Fit(side, samples, DistillForm::kCosineSeries, {.terms = 10});
  EXPECT_FALSE(fitted.closed_form_is_better);
  EXPECT_THAT(fitted.verdict, HasSubstr("30 parameters in place of 150 numbers (20 %)"));

  // A part of the table: the rest is known, and tells how bad it gets.
  const DistillSamples part = SamplesAt(side, 5, 30);
  EXPECT_EQ(part.beyond.rows, 15);
  EXPECT_EQ(part.values.at(0, 1), learned.table->at(5 * 3 + 1));
}

TEST(DistillSamples, RefusesWhatCannotBeFitted) {
  RopeSpec rope;
  rope.head_dim = 128;
  const Side side = Of(rope);
  EXPECT_EQ(ErrorOf(ChooseSamples(side, 0, 1).status()), "count: 1: 2 … 32768 of 128 columns from there on");
  EXPECT_EQ(ErrorOf(ChooseSamples(side, 0, 32769).status()), "count: 32769: 2 … 32768 of 128 columns from there on");
  EXPECT_EQ(ErrorOf(ChooseSamples(side, 0, -5).status()), "count: -5: 2 … 32768 of 128 columns from there on");
  rope.xpos = XposScale{.scale_base = 512, .center = {}};
  EXPECT_EQ(ErrorOf(ChooseSamples(Of(rope), 0, 0).status()),
            "spec.rope.xpos: scales by position: a rotation alone: cos and sin");
  const Side large = TableOf(InputContent::kSinusoidal, {2, 2}, {1, 2, -1e151, 4});
  EXPECT_EQ(ErrorOf(SamplesOf(*MakeCpuBackend(), large, {0, 2}).status()),
            "table: -1e+151 at position 1, column 0: numbers up to 1e150");
  const Side one = TableOf(InputContent::kSinusoidal, {1, 4}, {1, 2, 3, 4});
  EXPECT_EQ(ErrorOf(ChooseSamples(one, 0, 0).status()), "table: 1 row: 2 rows or more");
  const Side table = TableOf(InputContent::kSinusoidal, {4, 2}, std::vector<double>(8, 1.0), 100);
  EXPECT_EQ(ErrorOf(ChooseSamples(table, 99, 2).status()), "first_position: 99: 100 … 102");
  EXPECT_EQ(ErrorOf(ChooseSamples(table, 101, 4).status()), "count: 4: 2 … 3 of 2 columns from there on");
}

}  // namespace
}  // namespace phasor::server
