// What a fit says while it runs and when it is done: progress, cancel, verdicts, refusals.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/reference/reference_backend.h"
#include "server/knowledge/distill_net.h"
#include "server/knowledge/distill_series.h"
#include "tests/server/knowledge/fitted.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;
using testing::Not;

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

// A step is made of pieces, between which who waits is told; the sums are those of whole products, to the bit.
TEST(Distill, PiecesOfAStepAreTheWholeStep) {
  constexpr int64_t kRows = 100, kHidden = 24;
  const Grid values{kRows, 2, Smooth(kRows, 2)};
  int wholes = 0, pieces = 0;
  TrainingNet whole(values, kHidden, nullptr, [&] { ++wholes; });
  TrainingNet cut(values, kHidden, nullptr, [&] { ++pieces; }, 1);  // 16 rows at once
  const std::vector<double> at = whole.Start(3);
  EXPECT_EQ(cut.Start(3), at);
  wholes = pieces = 0;
  NetError error, error_of_pieces;
  std::vector<double> gradient, gradient_of_pieces;
  ASSERT_TRUE(whole.Evaluate(at, &error, &gradient));
  ASSERT_TRUE(cut.Evaluate(at, &error_of_pieces, &gradient_of_pieces));
  EXPECT_EQ(gradient, gradient_of_pieces);
  EXPECT_EQ(error.loss, error_of_pieces.loss);
  EXPECT_EQ(error.max, error_of_pieces.max);
  EXPECT_GE(wholes, 7) << "seven products";
  EXPECT_GT(pieces, wholes + 20);
}

TEST(Distill, SeriesTellProgressInsideABlockOfRows) {
  std::vector<int64_t> told;
  const auto listen = [&](const DistillProgress& progress) { told.push_back(progress.step); };
  ASSERT_TRUE(FitSeries(Grid{256, 1024, Smooth(256, 1024)}, 2048, listen, nullptr).ok());
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told[0], 128) << "half of the terms of all rows";
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
