// Traps that schemes are known for, each with its right and its wrong value. tests/conformance/index.json says which trap is
// held by which test; those that have a test beside their scheme are not here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "kernels/program/absolute_rows.h"

namespace phasor {
namespace {

constexpr double kPi = std::numbers::pi;

RopeSpec Rope(int64_t head_dim, double base, RopeSchedule schedule = DefaultSchedule{}) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.schedule = std::move(schedule);
  return rope;
}

Resolved ResolveOf(const EncodingSpec& spec, Precision precision = Precision::kExact) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  if (!canonical.ok()) return {};
  auto resolved = Resolve(*canonical, std::nullopt, precision);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return resolved.ok() ? *std::move(resolved) : Resolved{};
}
std::vector<double> InvFreq(const EncodingSpec& spec) { return std::get<AnglePlan>(ResolveOf(spec).plan).inv_freq; }

// One row of an absolute encoding at its coordinates, f64.
std::vector<double> Row(const EncodingSpec& spec, const std::vector<double>& position) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  const Resolved resolved = ResolveOf(spec);
  std::vector<double> row(static_cast<size_t>(AbsoluteColumns(canonical->spec)));
  AbsolutePositions positions;
  positions.rows = 1;
  positions.axis_count = static_cast<int64_t>(position.size());
  if (std::get_if<GridSinusoidalSpec>(&canonical->spec) != nullptr && position.size() == 1) {
    positions.source.start = static_cast<int64_t>(position[0]);  // a row of the grid
  } else {
    for (size_t axis = 0; axis < position.size(); ++axis) {
      (axis == 0 ? positions.source : positions.more_axes[axis - 1]).fractional_ids = {&position[axis], 1};
    }
  }
  EXPECT_TRUE(CheckAbsolute(canonical->spec, positions).ok());
  std::vector<double> scratch(static_cast<size_t>(AbsoluteScratchBytes(canonical->spec, positions, DType::kF64) / 8 + 16));
  void* at = scratch.data();
  size_t room = scratch.size() * 8;
  auto steps = AbsoluteSteps({.spec = &canonical->spec,
                              .plan = &resolved.plan,
                              .positions = positions,
                              .dtype = DType::kF64,
                              .out = row.data(),
                              .scratch = static_cast<std::byte*>(std::align(64, 8, at, room))});
  EXPECT_TRUE(steps.ok() && RunProgram(**CreateBackend("cpu"), *steps).ok());
  return row;
}

std::vector<double> Row(const EncodingSpec& spec, double position) { return Row(spec, std::vector<double>{position}); }

// Values at key − query = distances, head 0, f64.
std::vector<double> Bias(const EncodingSpec& spec, const std::vector<int64_t>& distances) {
  const Resolved resolved = ResolveOf(spec);
  const auto count = static_cast<int64_t>(distances.size());
  std::vector<double> out(distances.size());
  const BiasVectorTask task{.plan = *DistancePlanOf(resolved.plan),
                            .dtype = DType::kF64,
                            .heads = 1,
                            .out = out.data(),
                            .head_stride = count,
                            .distances = distances};
  EXPECT_TRUE((*CreateBackend("cpu"))->Run(task, {0, count}, nullptr).ok());
  return out;
}

void ExpectRefused(const EncodingSpec& spec, const std::string& field) {
  const auto error = SpecErrorOf(Canonicalize(spec).status());
  ASSERT_TRUE(error) << field;
  EXPECT_EQ(error->field, field);
}

TEST(SinusoidalGotcha, TheLongestWavelengthIsNotTwoPiTimesTheBase) {
  SinusoidalSpec s;
  s.dim = 512;
  const double longest = 2 * kPi / InvFreq(s).back();
  EXPECT_NEAR(longest, 60611, 0.5);
  EXPECT_GT(std::fabs(longest - 2 * kPi * 10000), 2000);
}

TEST(SinusoidalGotcha, OddWidthsHaveOneSineMoreOrAColumnOfZeros) {
  SinusoidalSpec s;
  s.dim = 5;
  const double t1 = 3 * std::pow(1e4, -2.0 / 5), t2 = 3 * std::pow(1e4, -4.0 / 5);
  EXPECT_NEAR(Row(s, 3)[4], std::sin(t2), 1e-15);
  s.layout = SinusoidalLayout::kConcatenated;  // Marian: three sines, two cosines
  const std::vector<double> marian = Row(s, 3);
  EXPECT_NEAR(marian[2], std::sin(t2), 1e-15);
  EXPECT_NEAR(marian[3], std::cos(3.0), 1e-15);
  EXPECT_NEAR(marian[4], std::cos(t1), 1e-15);
  s.spacing = SinusoidalSpacing::kEndpointInclusive;  // fairseq: two of each, and zeros
  const std::vector<double> fairseq = Row(s, 3);
  EXPECT_NEAR(fairseq[2], std::cos(3.0), 1e-15);
  EXPECT_EQ(fairseq[4], 0);
}

TEST(SinusoidalGotcha, EndpointSpacingMovesEveryPairButTheFirst) {
  SinusoidalSpec paper, whisper;
  paper.dim = whisper.dim = 8;
  whisper.spacing = SinusoidalSpacing::kEndpointInclusive;
  const std::vector<double> a = InvFreq(paper), b = InvFreq(whisper);
  EXPECT_EQ(a[0], b[0]);
  for (size_t i = 1; i < 4; ++i) EXPECT_LT(b[i], 0.8 * a[i]);
  EXPECT_EQ(b[3], 1e-4);
  EXPECT_NEAR(a[3], 1e-3, 1e-18);
}

TEST(SinusoidalGotcha, ConcatenatedColumnsAreTheInterleavedOnesPermuted) {
  SinusoidalSpec s;
  s.dim = 6;
  const std::vector<double> paper = Row(s, 11);
  s.layout = SinusoidalLayout::kConcatenated;
  const std::vector<double> tensor2tensor = Row(s, 11);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tensor2tensor[i], paper[2 * i]);
    EXPECT_EQ(tensor2tensor[3 + i], paper[2 * i + 1]);
  }
  EXPECT_NE(tensor2tensor[1], paper[1]);
}

TEST(TimestepGotcha, AShiftOfOneDividesByZeroAtWidthTwo) {
  TimestepSpec s;
  s.dim = 2;
  ExpectRefused(s, "timestep.downscale_freq_shift");  // the library's default is 1
  s.downscale_freq_shift = 0;
  EXPECT_NEAR(Row(s, 2.5)[0], std::sin(2.5), 1e-15);
  EXPECT_GT(std::fabs(Row(s, 2.5)[0] - Row(s, 2)[0]), 0.1);  // a fraction counts
}

TEST(GaussianFourierGotcha, WeightsHaveToBeGiven) { ExpectRefused(GaussianFourierSpec{}, "weights"); }

TEST(GaussianFourierGotcha, SamsCoordinatesAreStretchedBeforeTheMatrixNotAfter) {
  GaussianFourierSpec s;
  s.weight = MakeWeight({2, 1}, {0.3, -0.7});
  const double x = 0.25, y = 0.625;
  const double right = 2 * kPi * (0.3 * (2 * x - 1) - 0.7 * (2 * y - 1)), wrong = 2 * kPi * (0.3 * x - 0.7 * y);
  EXPECT_NEAR(Row(s, {2 * x - 1, 2 * y - 1})[0], std::sin(right), 1e-14);
  EXPECT_NEAR(Row(s, {x, y})[0], std::sin(wrong), 1e-14);
  EXPECT_GT(std::fabs(std::sin(right) - std::sin(wrong)), 0.1);
  s.radians = true;  // LightGlue has no factor 2π
  EXPECT_NEAR(Row(s, {x, y})[1], std::cos(0.3 * x - 0.7 * y), 1e-14);
  s.log = true;
  ExpectRefused(s, "gaussian_fourier.radians");
  s.radians = false;
  ExpectRefused(s, "gaussian_fourier.log");
}

GridSinusoidalSpec Detr(std::vector<int64_t> grid) {
  GridSinusoidalSpec s;
  s.dim = 8;
  s.grid = std::move(grid);
  s.order = GridOrder::kAsListed;
  s.layout = GridLayout::kInterleaved;
  s.start = 1;
  s.extent_epsilon = 1e-6;
  s.scale = 2 * kPi;
  return s;
}

TEST(GridGotcha, DetrsLastPointIsNotQuiteAtTwoPi) {
  const double y = 2 / (2 + 1e-6) * 2 * kPi;
  const std::vector<double> last = Row(Detr({2, 3}), 5);
  EXPECT_NEAR(last[0], std::sin(y), 1e-15);
  EXPECT_GT(std::fabs(last[0]), 3e-6);                                              // without the epsilon it would be 0
  EXPECT_NEAR(Row(Detr({2, 3}), 0)[0], std::sin(1 / (2 + 1e-6) * 2 * kPi), 1e-15);  // counted from 1, not from 0
}

TEST(GridGotcha, DetrsRowsComeFirstWithSineBesideCosine) {
  const std::vector<double> row = Row(Detr({4, 3}), 1);  // row 0, column 1
  const double y = 1 / (4 + 1e-6) * 2 * kPi, x = 2 / (3 + 1e-6) * 2 * kPi;
  const std::vector<double> right = {std::sin(y), std::cos(y), std::sin(y / 100), std::cos(y / 100),
                                     std::sin(x), std::cos(x), std::sin(x / 100), std::cos(x / 100)};
  for (size_t i = 0; i < right.size(); ++i) EXPECT_NEAR(row[i], right[i], 1e-15) << i;
  GridSinusoidalSpec mae = Detr({4, 3});
  mae.order.reset();
  EXPECT_NEAR(Row(mae, 1)[0], std::sin(x), 1e-15);  // the default's first half is the width
}

TEST(GridGotcha, DeformableDetrCountsFromTheMiddles) {
  GridSinusoidalSpec s = Detr({4, 3});
  s.start = 0.5;
  EXPECT_NEAR(Row(s, 0)[1], std::cos(0.5 / (4 + 1e-6) * 2 * kPi), 1e-15);
}

TEST(GridGotcha, DabDetrHasATemperatureForEachAxis) {
  GridSinusoidalSpec s = Detr({4, 3});
  s.axis_bases = {20, 30};
  const std::vector<double> row = Row(s, 1);
  EXPECT_NEAR(row[2], std::sin(1 / (4 + 1e-6) * 2 * kPi / std::sqrt(20.0)), 1e-15);
  EXPECT_NEAR(row[6], std::sin(2 / (3 + 1e-6) * 2 * kPi / std::sqrt(30.0)), 1e-15);
}

// A picture of 1 x 2 in a map of 1 x 3: the extent is that of the picture.
TEST(GridGotcha, AMaskNormalisesByWhatIsSeen) {
  GridSinusoidalSpec s = Detr({});
  const double seen = 2 / (2 + 1e-6) * 2 * kPi, whole = 2 / (3 + 1e-6) * 2 * kPi;
  const double y = 1 / (1 + 1e-6) * 2 * kPi;
  EXPECT_NEAR(Row(s, {y, seen})[4], std::sin(seen), 1e-15);
  EXPECT_NEAR(Row(Detr({1, 3}), 1)[4], std::sin(whole), 1e-15);
  EXPECT_GT(std::fabs(std::sin(seen) - std::sin(whole)), 0.5);
}

// Libraries store s·(j − i), s·j or s·(j − S + 1): other numbers, the same attention.
TEST(AlibiGotcha, AConstantPerRowIsFreeUnderSoftmax) {
  AlibiSpec s;
  s.num_heads = 8;
  const std::vector<double> scores = {0.3, -1.2, 2.0, 0.1, 0.9};  // of query 4
  const auto softmax = [&](const std::vector<double>& bias) {
    std::vector<double> p(5);
    double sum = 0;
    for (size_t j = 0; j < 5; ++j) sum += p[j] = std::exp(scores[j] + bias[j]);
    for (double& v : p) v /= sum;
    return p;
  };
  const std::vector<double> ours = Bias(s, {-4, -3, -2, -1, 0});
  std::vector<double> bloom = {0, .5, 1, 1.5, 2}, mpt = {-6, -5.5, -5, -4.5, -4};
  EXPECT_NE(ours, bloom);
  const std::vector<double> p = softmax(ours);
  for (size_t j = 0; j < 5; ++j) {
    EXPECT_NEAR(softmax(bloom)[j], p[j], 1e-15);
    EXPECT_NEAR(softmax(mpt)[j], p[j], 1e-15);
  }
}

TEST(AlibiGotcha, OnlyTheSignedFormRewardsTheFuture) {
  AlibiSpec s;
  s.num_heads = 8;
  EXPECT_EQ(Bias(s, {3})[0], 1.5);  // FlashInfer's, right beside a causal mask only
  s.form = AlibiForm::kSymmetric;
  EXPECT_EQ(Bias(s, {3})[0], -1.5);
}

TEST(LinearGotcha, ScalingFrequenciesIsScalingPositions) {
  const std::vector<double> plain = InvFreq(Rope(64, 1e6)), scaled = InvFreq(Rope(64, 1e6, LinearSchedule{8}));
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] / 8);
}

TEST(NtkGotcha, WidthTwoDividesByZero) { ExpectRefused(Rope(2, 1e4, NtkAwareSchedule{4}), "rope.rotary_dim"); }

TEST(NtkGotcha, SusFormScalesThePairThatNtkAwareLeavesAlone) {
  EXPECT_EQ(InvFreq(Rope(128, 1e4, NtkAwareSchedule{8}))[0], 1);
  EXPECT_NEAR(InvFreq(Rope(128, 1e4, NtkMixedSchedule{8, {}}))[0], std::pow(8, -2.0 / 128), 1e-15);
  EXPECT_NEAR(InvFreq(Rope(128, 1e4, NtkMixedSchedule{8, 0.625}))[0], std::exp(-std::log(8) / std::pow(64, 0.625)), 1e-15);
}

TEST(PartialGotcha, AnExponentOverTheHeadIsAnotherRotation) {
  RopeSpec rope = Rope(128, 1e4);
  rope.rotary_dim = 32;
  const std::vector<double> partial = InvFreq(rope);
  ASSERT_EQ(partial.size(), 16u);
  EXPECT_NEAR(partial[8], 1e-2, 1e-17);
  EXPECT_GT(InvFreq(Rope(128, 1e4))[8], 0.3);  // base^(−16/128)
  // Proportional rotates the whole head, over the head's exponents, and most of its pairs stand still.
  const std::vector<double> proportional = InvFreq(Rope(128, 1e4, ProportionalSchedule{0.25, {}}));
  ASSERT_EQ(proportional.size(), 64u);
  EXPECT_EQ(proportional[8], InvFreq(Rope(128, 1e4))[8]);
  EXPECT_EQ(proportional[16], 0);
}

TEST(YarnGotcha, WithoutTruncationTheEndsStayFractions) {
  YarnSchedule gpt_oss;
  gpt_oss.factor = 32;
  gpt_oss.original_max_position = 4096;
  const auto derived = [&](const std::string& name) {
    for (const Note& note : ResolveOf(Rope(64, 150000, gpt_oss)).derived) {
      if (note.field == name) return std::stod(note.message);
    }
    return -1.0;
  };
  gpt_oss.truncate = false;
  EXPECT_NEAR(derived("low"), 8.0927791, 1e-7);
  EXPECT_NEAR(derived("high"), 17.3980245, 1e-7);
  EXPECT_NEAR(InvFreq(Rope(64, 150000, gpt_oss))[12], 6.7949595e-3, 1e-9);
  gpt_oss.truncate = true;
  EXPECT_EQ(derived("low"), 8);
  EXPECT_EQ(derived("high"), 18);
  EXPECT_NEAR(InvFreq(Rope(64, 150000, gpt_oss))[12], 7.0157139e-3, 1e-9);
}

TEST(YarnGotcha, OneFactorReplacesAndTheOtherMultiplies) {
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 32768;
  RopeSpec rope = Rope(128, 1e6, yarn);
  rope.attention_factor = 0.8782488;
  EXPECT_EQ(ResolveOf(rope).attention_factor, 0.8782488);  // transformers' attention_factor
  yarn.attention_factor_multiplier = 0.8782488;            // vLLM's attn_factor: 1/1.1386294, so nothing is scaled
  EXPECT_NEAR(ResolveOf(Rope(128, 1e6, yarn)).attention_factor, 1, 1e-7);
}

TEST(Llama3Gotcha, TheBlendIsLinearInTheFrequency) {
  const Llama3Schedule s{8, 1, 4, 8192};
  const double theta = std::pow(5e5, -62.0 / 128), waves = 8192 * theta / (2 * kPi), t = (waves - 1) / 3;
  const double got = InvFreq(Rope(128, 5e5, s))[31];
  EXPECT_NEAR(got, (1 - t) * theta / 8 + t * theta, 1e-18);
  EXPECT_NEAR(got, 8.5675141e-4, 1e-11);
  const double by_wavelength = (8192 - 8192 / waves) / (8192 - 8192 / 4.0);
  EXPECT_GT(std::fabs((1 - by_wavelength) * theta / 8 + by_wavelength * theta - got), 1e-4);
}

TEST(PixelGotcha, IsNoPowerLaw) {
  RopeSpec pixel = Rope(64, 1e4, PixelSchedule{});
  pixel.base.reset();
  const std::vector<double> f = InvFreq(pixel);
  EXPECT_NEAR(f[1] - f[0], f[31] - f[30], 1e-14);
  EXPECT_GT(f[31] / f[30], 0.9);
}

// The name belongs to two papers and to neither of the two ways of dropping frequencies.
TEST(HopeGotcha, IsNoScheme) {
  for (const Scheme* scheme : Schemes()) EXPECT_EQ(scheme->name.find("hope"), std::string_view::npos);
}

// Angles in float32 are off by what a phase of its size cannot hold; exact tables are not.
TEST(PrecisionGotcha, Float32AnglesLoseThePhase) {
  const EncodingSpec spec = Rope(128, 1e4);
  for (const auto& [position, least, most] : {std::tuple{4095, 5e-5, 1.5e-3}, {131071, 1e-3, 2e-2}, {1048575, 1e-2, 2e-1}}) {
    double worst = 0;
    std::vector<double> cos[2] = {std::vector<double>(64), std::vector<double>(64)}, sin = cos[0];
    for (const Precision precision : {Precision::kExact, Precision::kCompatF32}) {
      const Resolved resolved = ResolveOf(spec, precision);
      AngleTask task;
      task.plan = &std::get<AnglePlan>(resolved.plan);
      task.positions.start = position;
      task.dtype = DType::kF64;
      task.cos = cos[precision == Precision::kExact ? 0 : 1].data();
      task.sin = sin.data();
      task.row_stride = 64;
      ASSERT_TRUE((*CreateBackend("cpu"))->Run(task, {0, 1}, nullptr).ok());
    }
    for (size_t i = 0; i < 64; ++i) worst = std::max(worst, std::fabs(cos[0][i] - cos[1][i]));
    EXPECT_GT(worst, least) << position;
    EXPECT_LT(worst, most) << position;
    EXPECT_NEAR(cos[0][0], std::cos(position), 1e-15);
  }
}

}  // namespace
}  // namespace phasor
