// What is often said of position encodings, and is wrong: the right number, computed by the kernels, and the texts that say
// it.
#include <cmath>
#include <numbers>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/encodings/buckets.h"
#include "tests/server/knowledge/bias_tables.h"
#include "tests/server/knowledge/card_text.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;

// Rows of a sinusoidal table.
Grid Rows(int64_t dim, int64_t first, int64_t count) {
  SinusoidalSpec spec;
  spec.dim = dim;
  const auto canonical = *Canonicalize(spec);
  const auto resolved = *Resolve(canonical, std::nullopt, Precision::kExact);
  return *MakeRows(TestBackend(), canonical.spec, resolved.plan, first, count, DType::kF64);
}

// Angle of each pair at position 1, radians.
std::vector<double> Frequencies(int64_t head_dim, double base) {
  RopeSpec spec;
  spec.head_dim = head_dim;
  spec.base = base;
  const auto resolved = *Resolve(*Canonicalize(spec), std::nullopt, Precision::kExact);
  const auto angles = *MakeAngles(TestBackend(), std::get<AnglePlan>(resolved.plan), 1, 1, DType::kF64);
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < angles.cos.columns; ++pair)
    frequencies.push_back(std::atan2(angles.sin.at(0, pair), angles.cos.at(0, pair)));
  return frequencies;
}

double Inner(const Grid& rows, int64_t a, int64_t b) {
  double sum = 0;
  for (int64_t i = 0; i < rows.columns; ++i) sum += rows.at(a, i) * rows.at(b, i);
  return sum;
}

AlibiSpec Alibi(int64_t heads) {
  AlibiSpec spec;
  spec.num_heads = heads;
  return spec;
}

Diagnosis Of(InputTable table) { return *DiagnoseTable(TestBackend(), InputOf(std::move(table))); }

// "2^(−8/h), 2^(−9/h), …": .5, .459, .420.
TEST(WrongStatements, AlibiSlopesOfEightHeadsAreHalves) {
  const Grid values = ValuesOf(Alibi(8), -1, 1, DType::kF64);
  for (int64_t head = 0; head < 8; ++head) EXPECT_EQ(values.at(head, 0), -std::exp2(-static_cast<double>(head + 1)));
  const auto wrong = Of(MatrixTable(DType::kF32, 8, 9, 9, [](int64_t h, int64_t d) {
    return std::exp2(-(8.0 + static_cast<double>(h)) / 8) * static_cast<double>(d);
  }));
  ASSERT_TRUE(Names(wrong, "alibi_slopes_step_in_exponent"));
  EXPECT_THAT(wrong.faults.front().symptom, HasSubstr("0.5, 0.4585, 0.4204"));
  EXPECT_THAT(std::string(wrong.faults.front().card->check), HasSubstr(".5, .25, .125"));
}

// "2^(−8/n) ratio" for every n.
TEST(WrongStatements, TwelveHeadsAreNoGeometricSequence) {
  const Grid values = ValuesOf(Alibi(12), -1, 1, DType::kF64);
  const double wanted[] = {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625, .7071, .3536, .1768, .0884};
  for (int64_t head = 0; head < 12; ++head) EXPECT_NEAR(-values.at(head, 0), wanted[head], 5e-5);
  EXPECT_THAT(std::string(FindScheme("alibi")->card->pitfalls), HasSubstr("no power of two"));
  EXPECT_THAT(std::string(FindFault("alibi_plain_geometric_slopes")->check), HasSubstr(".7071, .3536, .1768, .0884"));
}

// "m must be negative"; −m·j − (−m·i).
TEST(WrongStatements, SlopesArePositiveAndDistanceIsNotRewarded) {
  const Grid past = ValuesOf(Alibi(8), -20, 20, DType::kF64);
  for (const double value : past.values) EXPECT_LT(value, 0);
  const auto wrong = Of(MatrixTable(
      DType::kF32, 8, 9, 9,
      [](int64_t h, int64_t d) { return -std::exp2(-static_cast<double>(h + 1)) * static_cast<double>(d); },
      -std::numeric_limits<double>::infinity()));
  ASSERT_TRUE(Names(wrong, "alibi_sign_flipped"));
  EXPECT_THAT(std::string(wrong.faults.front().card->cause), HasSubstr("distance is rewarded"));
  EXPECT_THAT(std::string(wrong.faults.front().card->fix), HasSubstr("slopes themselves are positive"));
}

// "base^(2/d) ≈ 1.0001, so base 10000 at 768 and 100 at 128".
TEST(WrongStatements, TheRatioOfNeighbouringFrequencies) {
  EXPECT_NEAR(1 / Frequencies(768, 10000)[1], 1.0243, 5e-5);
  EXPECT_NEAR(1 / Frequencies(128, 100)[1], 1.0746, 5e-5);
  EXPECT_NEAR(1 / Frequencies(768, 1.039)[1], 1.0001, 5e-6);
  EXPECT_NEAR(1 / Frequencies(128, 10000)[1], 1.1548, 5e-5);
  EXPECT_THAT(CardText("rope_default"), HasSubstr("base^(2/d) (here 1.1548), has no value that it ought to have"));
  EXPECT_THAT(CardText("rope_default"), HasSubstr("The base follows from the context that is wanted"));
}

// "theta_base=100 makes the 0→1 phase π/2"; pairs counted from 1 in the exponent.
TEST(WrongStatements, PairZeroTurnsOneRadianWhateverTheBase) {
  for (const double base : {100.0, 10000.0, 500000.0, 1e6}) {
    for (const int64_t width : {64, 128}) EXPECT_DOUBLE_EQ(Frequencies(width, base)[0], 1) << base;
  }
  EXPECT_THAT(CardText("rope_default"), HasSubstr("first pair turns one radian per position at any base"));
}

// "wavelengths from 2π to 2π·10000".
TEST(WrongStatements, TheLargestWavelength) {
  EXPECT_NEAR(2 * std::numbers::pi / Frequencies(512, 10000).back(), 60611, 0.5);
  EXPECT_NEAR(2 * std::numbers::pi / Frequencies(128, 10000).back(), 54410, 0.5);
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("from 2π to 2π·10000^(510/512) = 60611, not to 2π·10000"));
  EXPECT_THAT(CardText("rope_default"), HasSubstr("2π·10000^(126/128) = 54410"));
}

// "PE(p1) − PE(p2) depends only on the distance".
TEST(WrongStatements, OnlyTheNormOfADifferenceDependsOnTheDistance) {
  const Grid rows = Rows(4, 0, 3);
  double norms[2] = {0, 0};
  for (int64_t step = 0; step < 2; ++step) {
    for (int64_t i = 0; i < 4; ++i) norms[step] += std::pow(rows.at(step + 1, i) - rows.at(step, i), 2);
    EXPECT_NEAR(std::sqrt(norms[step]), .95890, 5e-6);
  }
  EXPECT_NEAR(rows.at(1, 0) - rows.at(0, 0), .841, 5e-4);
  EXPECT_NEAR(rows.at(1, 1) - rows.at(0, 1), -.460, 5e-4);
  EXPECT_NEAR(rows.at(2, 0) - rows.at(1, 0), .068, 5e-4);
  EXPECT_NEAR(rows.at(2, 1) - rows.at(1, 1), -.956, 5e-4);
  const double pair_zero = std::hypot(std::sin(1.0), std::cos(1.0) - 1);
  EXPECT_NEAR(pair_zero, .95885, 5e-6) << "the rest of .95890 is the second pair's";
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("(width 4, one step: 0.95890), the difference itself does not"));
}

// "the inner product only depends on k", true of the raw rows only; "sinusoids form an orthogonal basis".
TEST(WrongStatements, InnerProductsOfRowsDependOnTheDistanceAndAreNotZero) {
  const Grid rows = Rows(64, 0, 200);
  const std::vector<double> frequencies = Frequencies(64, 10000);
  for (const int64_t distance : {1, 7, 50}) {
    double sum = 0;
    for (const double frequency : frequencies) sum += std::cos(frequency * static_cast<double>(distance));
    for (const int64_t at : {0, 31, 149}) EXPECT_NEAR(Inner(rows, at, at + distance), sum, 1e-12);
    EXPECT_GT(std::fabs(sum), 1);
  }
  // With one learned matrix between them (here: channel 0 counts twice) even that is lost.
  const auto weighted = [&](int64_t a, int64_t b) { return Inner(rows, a, b) + rows.at(a, 0) * rows.at(b, 0); };
  EXPECT_GT(std::fabs(weighted(0, 1) - weighted(1, 2)), 0.5);
  EXPECT_NEAR(Inner(rows, 0, 50), 15.67, 5e-3);
  EXPECT_NEAR(Inner(rows, 50, 50), 32, 1e-12);
  const std::string text = CardText("sinusoidal");
  EXPECT_THAT(text,
              HasSubstr("not orthogonal (width 64: rows 50 apart have the inner product 15.67, of 32 with themselves)"));
  EXPECT_THAT(text, HasSubstr("behind learned projections of q and k neither do"));
}

// "sinusoidal encodings cannot model relative positions".
TEST(WrongStatements, AShiftIsALinearMapOfTheRows) {
  const Grid rows = Rows(64, 0, 120);
  const std::vector<double> frequencies = Frequencies(64, 10000);
  constexpr int64_t kShift = 13;
  for (const int64_t at : {0, 5, 100}) {
    for (int64_t pair = 0; pair < 32; ++pair) {
      const double angle = frequencies[static_cast<size_t>(pair)] * kShift, c = std::cos(angle), s = std::sin(angle);
      const double sine = rows.at(at, 2 * pair), cosine = rows.at(at, 2 * pair + 1);
      EXPECT_NEAR(rows.at(at + kShift, 2 * pair), c * sine + s * cosine, 1e-12);
      EXPECT_NEAR(rows.at(at + kShift, 2 * pair + 1), c * cosine - s * sine, 1e-12);
    }
  }
  const std::string text = CardText("sinusoidal");
  EXPECT_THAT(text, HasSubstr("a shift is a fixed linear map: PE(m + k) = R_k·PE(m)"));
  EXPECT_THAT(text,
              HasSubstr("Every position has a code of its own, and order is encoded: permuting tokens changes the input"));
}

// "PE(1) ≈ […, 0.999]".
TEST(WrongStatements, TheLastCosineOfRowOne) {
  EXPECT_NEAR(Rows(4, 1, 1).at(0, 3), .99995, 5e-7);
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("The last cosine of row 1 is 0.99995 at width 4"));
}

// "index out of range when d_model is odd", "769 broadcasts silently".
TEST(WrongStatements, OddWidthsOfTablesWorkAndOfRotationsDoNot) {
  const Grid rows = Rows(769, 0, 2);
  EXPECT_EQ(rows.columns, 769);
  EXPECT_NEAR(rows.at(1, 768), std::sin(std::pow(10000.0, -768.0 / 769)), 1e-15) << "the last column is a sine";
  RopeSpec rope;
  rope.head_dim = 63;
  EXPECT_FALSE(Canonicalize(rope).ok());
  EXPECT_THAT(CardText("sinusoidal"), HasSubstr("An odd D has ceil(D/2) sines and floor(D/2) cosines"));
  EXPECT_THAT(std::string(FindFault("odd_width")->check), HasSubstr("the width of a rotation is even"));
}

// "pairs beyond max_relative_pos get weight 0".
TEST(WrongStatements, ClippingSharesARow) {
  const ClippedDistances clipped{.clip = 16};
  EXPECT_EQ(clipped.at(-16), clipped.at(-1000));
  EXPECT_EQ(clipped.at(16), clipped.at(1000));
  EXPECT_NE(clipped.at(-16), clipped.at(16));
  EXPECT_THAT(CardText("shaw"), HasSubstr("distances beyond the clip share the last row, nothing becomes zero"));
  EXPECT_THAT(CardText("transformer_xl"), testing::Not(HasSubstr("the clip ")));
}

// "bilinear interpolation of a (256, 256) bias to (1024, 1024)".
TEST(WrongStatements, AnInterpolatedMatrixIsNoBiasOfTheDistance) {
  constexpr int64_t kSize = 8, kLarge = 32;
  AlibiSpec symmetric = Alibi(1);
  symmetric.form = AlibiForm::kSymmetric;
  symmetric.slopes = {0.5};
  const BiasFunction f = FunctionOf(symmetric, 64, DType::kF64);
  // Pixel centres, as image libraries have them.
  const auto source = [](int64_t i) {
    return std::clamp((static_cast<double>(i) + 0.5) / 4 - 0.5, 0.0, static_cast<double>(kSize - 1));
  };
  InputTensor tensor{DType::kF64, {kLarge, kLarge}, {}};
  for (int64_t query = 0; query < kLarge; ++query) {
    for (int64_t key = 0; key < kLarge; ++key) {
      const double y = source(query), x = source(key);
      const auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x), y1 = std::min(y0 + 1, kSize - 1),
                 x1 = std::min(x0 + 1, kSize - 1);
      const double fy = y - static_cast<double>(y0), fx = x - static_cast<double>(x0);
      tensor.values.push_back((1 - fy) * ((1 - fx) * f(0, x0 - y0) + fx * f(0, x1 - y0)) +
                              fy * ((1 - fx) * f(0, x0 - y1) + fx * f(0, x1 - y1)));
    }
  }
  const auto diagnosis = Of({InputContent::kBias, {tensor}, std::nullopt});
  EXPECT_EQ(Reproduced(diagnosis), nullptr);
  EXPECT_THAT(diagnosis.observations, testing::Contains(HasSubstr("rows differ at equal distances")));
  // Four steps of the large matrix are one of the small one: what distance 4 has is what distance 1 had.
  EXPECT_EQ(tensor.values[18 * kLarge + 14], f(0, -1));
  EXPECT_THAT(SymptomText("resized_images_fail"), HasSubstr("it loses its form, distance 1 becomes 4"));
  EXPECT_THAT(SymptomText("resized_images_fail"),
              HasSubstr("Interpolate the table by offset, (2H − 1) × (2W − 1) for each head"));
}

// "extrapolation fails because high frequencies change too fast".
TEST(WrongStatements, LongWavelengthsMeetUnseenPhases) {
  const std::vector<double> frequencies = Frequencies(128, 10000);
  int64_t whole = 0;
  for (const double frequency : frequencies) whole += 4096 * frequency >= 2 * std::numbers::pi ? 1 : 0;
  EXPECT_GT(4096 * frequencies.front() / (2 * std::numbers::pi), 650) << "periods of the fastest pair";
  EXPECT_EQ(whole, 46) << "of 64 pairs have seen a whole period in 4096 positions; the slow ones have not";
  EXPECT_THAT(CardText("rope_default"), HasSubstr("pairs 46 to 63, 18 of 64"));
  EXPECT_THAT(CardText("rope_default"), HasSubstr("Fast pairs have gone through every phase in training"));
}

// "arange int64 divides to 0": the live hazard is 16-bit positions.
TEST(WrongStatements, PositionsInBf16) {
  EXPECT_EQ(RoundTo(DType::kBF16, 15962), 15936);
  EXPECT_EQ(UlpOf(DType::kBF16, 15962), 64);
  EXPECT_NEAR(std::cos(15962.0), -.90802, 5e-6);
  EXPECT_NEAR(std::cos(15936.0), -.26795, 5e-6);
  EXPECT_THAT(CardText("rope_default"), HasSubstr("becomes 15936 and the first pair's cosine −0.26795 instead of −0.90802"));
}

// "a learned table runs out of memory".
TEST(WrongStatements, SizesOfLearnedTables) {
  EXPECT_EQ(3000 * 768 * SizeOf(DType::kF32), 9216000);
  EXPECT_THAT(CardText("learned"), HasSubstr("3000 rows of 768 in float32 are 9.2 MB and cost one addition"));
}

}  // namespace
}  // namespace phasor::server
