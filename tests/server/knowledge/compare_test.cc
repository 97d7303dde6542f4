// What differs between two encodings, by numbers worked out here.
#include "server/knowledge/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"

namespace phasor::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
constexpr bool kSlowBuild = true;
#else
constexpr bool kSlowBuild = false;
#endif

using testing::ElementsAre;
using testing::HasSubstr;

Side Of(const EncodingSpec& spec, Precision precision = Precision::kExact) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto side = SideOfSpec(*canonical, std::nullopt, precision);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

Comparison Of(const Side& a, const Side& b, int64_t count = 0, std::optional<int64_t> first = std::nullopt) {
  EXPECT_TRUE(CheckComparable(a, b).ok()) << CheckComparable(a, b);
  const auto window = ChooseWindow(a, &b, first, count, kDefaultRows);
  EXPECT_TRUE(window.ok()) << window.status();
  auto comparison = Compare(*MakeCpuBackend(), a, b, *window, 7, nullptr);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return *std::move(comparison);
}

RopeSpec Rope(int64_t head_dim, RopeSchedule schedule = DefaultSchedule{}) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  rope.schedule = std::move(schedule);
  return rope;
}

Side Table(InputContent content, DType dtype, std::vector<int64_t> shape, std::vector<double> values,
           std::vector<double> second = {}, const Side* other = nullptr) {
  InputTable table;
  table.content = content;
  table.tensors.push_back({dtype, shape, std::move(values)});
  if (!second.empty()) table.tensors.push_back({dtype, shape, std::move(second)});
  auto side = SideOfTable(table, other);
  EXPECT_TRUE(side.ok()) << side.status();
  return *std::move(side);
}

std::string ErrorOf(const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  return error ? error->field + ": " + error->given + ": " + error->allowed : status.ToString();
}

TEST(Compare, DefaultAndLinearFour) {
  const Comparison c = Of(Of(Rope(128)), Of(Rope(128, LinearSchedule{4})));
  EXPECT_FALSE(c.same_spec || c.same_bits);
  double largest = 0, squares = 0;
  std::vector<double> columns(64, 0.0);
  for (int64_t m = 0; m < 4096; ++m) {
    for (int64_t i = 0; i < 64; ++i) {
      const double angle = static_cast<double>(m) * std::pow(10000.0, -static_cast<double>(i) / 64);
      for (const double d : {std::cos(angle) - std::cos(angle / 4), std::sin(angle) - std::sin(angle / 4)}) {
        largest = std::max(largest, std::abs(d));
        squares += d * d;
        columns[static_cast<size_t>(i)] = std::max(columns[static_cast<size_t>(i)], std::abs(d));
      }
    }
  }
  EXPECT_NEAR(c.max_difference, largest, 1e-11);
  EXPECT_NEAR(c.rms_difference, std::sqrt(squares / (4096 * 128)), 1e-11);
  ASSERT_EQ(c.by_column.size(), 64u);
  EXPECT_NEAR(c.by_column[63].max, columns[63], 1e-11);
  EXPECT_EQ(c.by_position.size(), 256u);
  EXPECT_EQ(c.by_position[0].max, 0);
  EXPECT_NEAR(c.by_position[1].max, std::sin(1) - std::sin(0.25), 1e-11);
  EXPECT_EQ(c.by_position.back().index, 4095);
  ASSERT_EQ(c.first_differences.size(), 3u);
  for (const FirstDifference& first : c.first_differences) {
    EXPECT_EQ(first.position, 1);
    EXPECT_GT(first.share, 0.9);
    EXPECT_LT(first.share, 1);
  }
  EXPECT_EQ(c.transformation.kind, "scaled_positions");
  EXPECT_DOUBLE_EQ(c.transformation.position_factor, 0.25);
  EXPECT_THAT(c.transformation.how, HasSubstr("m/4"));
}

TEST(Compare, ScoresAreThoseOfRotatedVectors) {
  // Equal encodings: no change. Another base: changes grow from nothing at distance 0.
  const Comparison none = Of(Of(Rope(64)), Of(Rope(64)));
  EXPECT_TRUE(none.same_spec && none.same_bits);
  ASSERT_TRUE(none.scores);
  EXPECT_EQ(none.scores->max_change, 0);
  // Unit vectors of width d: a score has the variance 1/d, whatever the rotation.
  EXPECT_NEAR(none.scores->rms_score, 1.0 / 8, 0.03);
  RopeSpec other = Rope(64);
  other.base = 1e6;
  const Comparison c = Of(Of(Rope(64)), Of(other));
  ASSERT_TRUE(c.scores);
  EXPECT_EQ(c.scores->samples, 64);
  EXPECT_NEAR(c.scores->by_distance[0].max, 0, 1e-12);
  EXPECT_GT(c.scores->by_distance.back().rms, 0.05);
  EXPECT_EQ(c.scores->by_distance.back().index, 4095);
  // An attention factor of 2 on both sides of the product makes it four times as large.
  RopeSpec twice = Rope(64);
  twice.attention_factor = 2;
  const Comparison scaled = Of(Of(Rope(64)), Of(twice));
  EXPECT_NEAR(scaled.scores->rms_change, 3 * scaled.scores->rms_score, 1e-12);
  EXPECT_EQ(scaled.transformation.kind, "scaled");
  EXPECT_NEAR(scaled.transformation.scale, 2, 1e-15);
  EXPECT_THAT(scaled.transformation.how, HasSubstr("products by 4"));
}

TEST(Compare, YarnKeepsTheFastPairs) {
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 4096;
  const Comparison c = Of(Of(Rope(128)), Of(Rope(128, yarn)));
  EXPECT_EQ(c.transformation.kind, "none");
  // lo = floor(128·ln(4096/(32·2π))/(2·ln 10000)) = 20, hi = ceil(…/(1·2π)) = 46: pairs 0 … 20 keep, 46 … 63 are divided.
  EXPECT_THAT(c.transformation.how, HasSubstr("21 of 64 pairs that turn keep their frequency, 18 turn 0.25 times as fast"));
  EXPECT_THAT(c.transformation.how, HasSubstr("attention factor is 1.13863 in place of 1"));
  EXPECT_THAT(c.verdict, HasSubstr("Neither can be made from the other"));
}

// y of x [2n] at angles of `plan`.
std::vector<double> Rotate(const std::vector<double>& x, const Entries& e, int64_t row, bool half_split) {
  std::vector<double> y(x.size());
  const size_t n = x.size() / 2;
  for (size_t p = 0; p < n; ++p) {
    const size_t a = half_split ? p : 2 * p, b = half_split ? p + n : 2 * p + 1;
    const double c = e.first.at(row, static_cast<int64_t>(p)), s = e.second.at(row, static_cast<int64_t>(p));
    y[a] = x[a] * c - x[b] * s;
    y[b] = x[b] * c + x[a] * s;
  }
  return y;
}

TEST(Compare, PermutationTurnsHalfSplitIntoInterleaved) {
  RopeSpec interleaved = Rope(8);
  interleaved.pairing = Pairing::kInterleaved;
  const Side a = Of(Rope(8)), b = Of(interleaved);
  const Comparison c = Of(a, b);
  EXPECT_FALSE(c.same_bits);
  EXPECT_EQ(c.max_difference, 0);
  EXPECT_EQ(c.transformation.kind, "permuted_channels");
  EXPECT_THAT(c.transformation.permutation, ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(c.transformation.how, HasSubstr("w.view(heads, 2, 4, -1).transpose(1, 2)"));
  EXPECT_GT(c.scores->max_change, 0.1);  // with unchanged weights
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8};
  const auto entries = EntriesOf(*MakeCpuBackend(), a, 0, 10, DType::kF64);
  std::vector<double> moved(8), wanted(8);
  const std::vector<double> rotated = Rotate(x, *entries, 9, true);
  for (size_t j = 0; j < 8; ++j) {
    moved[j] = x[static_cast<size_t>(c.transformation.permutation[j])];
    wanted[j] = rotated[static_cast<size_t>(c.transformation.permutation[j])];
  }
  EXPECT_EQ(Rotate(moved, *entries, 9, false), wanted);
  EXPECT_THAT(Of(b, a).transformation.permutation, ElementsAre(0, 2, 4, 6, 1, 3, 5, 7));
}

TEST(Compare, PartialRotationMovesOnlyWhatTurns) {
  RopeSpec a = Rope(8), b = Rope(8);
  a.rotary_dim = b.rotary_dim = 4;
  b.first_channel = 4;
  const Comparison c = Of(Of(a), Of(b));
  EXPECT_EQ(c.transformation.kind, "permuted_channels");
  EXPECT_THAT(c.transformation.permutation, ElementsAre(4, 5, 6, 7, 0, 1, 2, 3));
}

TEST(Compare, InterleavedToHalfReadsTheSameChannels) {
  RopeSpec a = Rope(8), b = Rope(8);
  a.pairing = Pairing::kInterleaved;
  b.pairing = Pairing::kInterleavedToHalf;
  const Comparison c = Of(Of(a), Of(b));
  EXPECT_EQ(c.transformation.kind, "permuted_channels");
  EXPECT_THAT(c.transformation.permutation, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(c.transformation.how, HasSubstr("reorder cached keys"));
  EXPECT_EQ(c.scores->max_change, 0);
}

TEST(Compare, SinusoidsInTwoOrders) {
  SinusoidalSpec a;
  a.dim = 6;
  SinusoidalSpec b = a;
  b.layout = SinusoidalLayout::kConcatenated;
  const Comparison c = Of(Of(a), Of(b));
  EXPECT_EQ(c.transformation.kind, "permuted_channels");
  EXPECT_THAT(c.transformation.permutation, ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_FALSE(c.scores);
  b.scale = 3;
  const Comparison scaled = Of(Of(a), Of(b));
  EXPECT_EQ(scaled.transformation.kind, "scaled_and_permuted");
  EXPECT_THAT(scaled.transformation.permutation, ElementsAre(0, 2, 4, 1, 3, 5));
  EXPECT_NEAR(scaled.transformation.scale, 3, 1e-12);
}

TEST(Compare, NegativeScalesArePermutedToo) {
  std::vector<double> a, b;
  for (int64_t m = 0; m < 8; ++m) {
    const double x = static_cast<double>(m);
    const std::vector<double> row{std::sin(x), x, std::cos(3 * x)};
    a.insert(a.end(), row.begin(), row.end());
    for (const int64_t column : {2, 0, 1}) b.push_back(-3 * row[static_cast<size_t>(column)]);
  }
  const Comparison c =
      Of(Table(InputContent::kSinusoidal, DType::kF64, {8, 3}, a), Table(InputContent::kSinusoidal, DType::kF64, {8, 3}, b));
  EXPECT_EQ(c.transformation.kind, "scaled_and_permuted");
  EXPECT_THAT(c.transformation.permutation, ElementsAre(2, 0, 1));
  EXPECT_NEAR(c.transformation.scale, -3, 1e-12);
}

// Numbers whose squares are not numbers, or 0.
TEST(Compare, HugeAndTinyNumbers) {
  for (const double size : {1e300, 1e-300}) {
    const Side a = Table(InputContent::kSinusoidal, DType::kF64, {4, 2}, std::vector<double>(8, size));
    const Side b = Table(InputContent::kSinusoidal, DType::kF64, {4, 2}, std::vector<double>(8, -size));
    const Comparison c = Of(a, b);
    EXPECT_EQ(c.max_difference, 2 * size);
    EXPECT_DOUBLE_EQ(c.rms_difference, 2 * size);
    EXPECT_DOUBLE_EQ(c.by_column[1].rms, 2 * size);
    EXPECT_EQ(c.transformation.kind, "scaled");
    EXPECT_DOUBLE_EQ(c.transformation.scale, -1);
  }
}

TEST(Compare, HugeBiasesHaveFiniteEffects) {
  const Comparison c = Of(Table(InputContent::kBiasVector, DType::kF64, {4}, {-3e300, -2e300, -1e300, 0}),
                          Table(InputContent::kBiasVector, DType::kF64, {4}, {-6e300, -4e300, -2e300, 0}));
  EXPECT_TRUE(std::isfinite(c.rms_difference));
  EXPECT_EQ(c.scores->max_change, 3e300);
  EXPECT_NEAR(c.scores->rms_change, std::sqrt(14.0 / 4) * 1e300, 1e288);
  EXPECT_NEAR(c.scores->rms_score, std::sqrt(14.0 / 4) * 1e300, 1e288);
}

TEST(Compare, WhatWasLookedForIsSaid) {
  const Comparison c = Of(Table(InputContent::kSinusoidal, DType::kF64, {3, 1}, {1, 2, 4}),
                          Table(InputContent::kSinusoidal, DType::kF64, {3, 1}, {1, 3, 9}));
  EXPECT_EQ(c.transformation.kind, "none");
  EXPECT_THAT(c.transformation.how, HasSubstr("Looked for were"));
}

TEST(Compare, OffsetsAreShifts) {
  SinusoidalSpec a;
  a.dim = 16;
  SinusoidalSpec b = a;
  b.position_offset = 2;
  const Comparison c = Of(Of(a), Of(b), 100);
  EXPECT_EQ(c.transformation.kind, "shifted_positions");
  EXPECT_EQ(c.transformation.shift, 2);
  EXPECT_EQ(Of(Of(b), Of(a), 100).transformation.shift, -2);
  // Row m of b is row m + 2 of a, which is what the shift says.
  const auto ea = EntriesOf(*MakeCpuBackend(), Of(a), 0, 10, DType::kF64),
             eb = EntriesOf(*MakeCpuBackend(), Of(b), 0, 10, DType::kF64);
  EXPECT_EQ(ea->first.at(7, 3), eb->first.at(5, 3));
}

TEST(Compare, TwoSpellingsOfOnePlan) {
  RopeSpec spelled = Rope(64, LinearSchedule{1});
  const Comparison c = Of(Of(Rope(64)), Of(spelled));
  EXPECT_FALSE(c.same_spec);
  EXPECT_TRUE(c.same_bits);
  EXPECT_EQ(c.transformation.kind, "identical");
  EXPECT_THAT(c.verdict, HasSubstr("Two spellings"));
}

TEST(Compare, CompatIsTheSameScheduleRoundedOnItsWay) {
  const Comparison c = Of(Of(Rope(128)), Of(Rope(128), Precision::kCompatF32));
  EXPECT_TRUE(c.same_spec);
  EXPECT_FALSE(c.same_bits);
  EXPECT_NEAR(c.max_difference, 1.4e-4, 1.2e-4);  // half a unit in the last place of an angle near 4095
  EXPECT_THAT(c.transformation.how, HasSubstr("float32"));
  EXPECT_LT(c.first_differences[0].position.value_or(4096), 16);
}

TEST(Compare, BiasesByDistance) {
  AlibiSpec causal;
  causal.num_heads = 8;
  AlibiSpec symmetric = causal;
  symmetric.form = AlibiForm::kSymmetric;
  const Comparison forms = Of(Of(causal), Of(symmetric));
  EXPECT_EQ(forms.max_difference, 0);
  EXPECT_EQ(forms.future_difference, 256);  // slope 1/2: 128 up against 128 down
  EXPECT_EQ(forms.transformation.kind, "none");
  EXPECT_THAT(forms.transformation.how, HasSubstr("keys after it"));
  AlibiSpec local = causal;
  local.max_bias = 16;
  const Comparison c = Of(Of(causal), Of(local), 11);
  // Slopes 2^−1 … 2^−8 against 2^−2 … 2^−16: head 0 differs most, by a quarter per position.
  EXPECT_EQ(c.max_difference, 10 * 0.25);
  EXPECT_EQ(c.max_position, -10);
  EXPECT_EQ(c.max_column, 0);
  EXPECT_EQ(c.by_position[4].index, -4);
  EXPECT_EQ(c.by_position[4].max, 1);
  EXPECT_NEAR(c.scores->max_change, 2.5, 1e-14);
  AlibiSpec reversed;
  reversed.slopes = {0.125, 0.25, 0.5};
  AlibiSpec scaled;
  scaled.slopes = {1, 0.5, 0.25};
  const Comparison heads = Of(Of(reversed), Of(scaled));
  EXPECT_EQ(heads.transformation.kind, "scaled_and_permuted");
  EXPECT_THAT(heads.transformation.permutation, ElementsAre(2, 1, 0));
  EXPECT_NEAR(heads.transformation.scale, 2, 1e-12);
}

TEST(Compare, ATableAgainstASpec) {
  const Side spec = Of(Rope(8));
  std::vector<double> cos, sin;  // duplicated, f32, from position 3 on
  for (int64_t m = 3; m < 23; ++m) {
    for (int64_t i = 0; i < 8; ++i) {
      const double angle = static_cast<double>(m) * std::pow(10000.0, -static_cast<double>(i % 4) / 4);
      cos.push_back(RoundTo(DType::kF32, std::cos(angle)));
      sin.push_back(RoundTo(DType::kF32, std::sin(angle)));
    }
  }
  const Side table = Table(InputContent::kCosAndSin, DType::kF32, {20, 8}, cos, sin, &spec);
  EXPECT_EQ(table.columns, 4);
  EXPECT_EQ(table.pairing, Pairing::kHalfSplit);
  const Comparison c = Of(spec, table);
  EXPECT_EQ(c.transformation.kind, "shifted_positions");
  EXPECT_EQ(c.transformation.shift, 3);
  EXPECT_GT(*c.max_ulps, 1000);
  // Said where it starts, it is what it should be.
  InputTable placed;
  placed.content = InputContent::kCosAndSin;
  placed.tensors = {{DType::kF32, {20, 8}, cos}, {DType::kF32, {20, 8}, sin}};
  placed.first_position = 3;
  const Comparison right = Of(spec, *SideOfTable(placed, &spec));
  EXPECT_EQ(right.max_ulps, 0);
  EXPECT_EQ(right.transformation.kind, "identical");
  EXPECT_EQ(right.first_differences[0].share, 0);
  EXPECT_THAT(right.verdict, HasSubstr("positions 3 to 22"));
}

TEST(Compare, TablesOfEveryContent) {
  const Side rope = Of(Rope(4));
  const Side inv_freq = Table(InputContent::kUnknown, DType::kF64, {2}, {1, 0.01}, {}, &rope);
  EXPECT_LT(Of(rope, inv_freq).max_difference, 1e-12);
  AlibiSpec alibi;
  alibi.slopes = {0.5, 0.25};
  const Side bias = Of(alibi);
  EXPECT_EQ(Of(bias, Table(InputContent::kSlopes, DType::kF32, {2}, {0.5, 0.25}), 9).max_difference, 0);
  EXPECT_EQ(Of(bias, Table(InputContent::kBiasVector, DType::kF32, {2, 3}, {-1, -0.5, 0, -0.5, -0.25, 0})).max_difference,
            0);
  const double inf = std::numeric_limits<double>::infinity();
  const Side matrix = Table(InputContent::kBias, DType::kF32, {2, 2, 2}, {0, -inf, -0.5, 0, 0, -inf, -0.25, 0});
  EXPECT_EQ(Of(bias, matrix).max_difference, 0);
  // A vector that goes on beyond the query: its first entry is distance −2.
  InputTable beyond;
  beyond.content = InputContent::kBiasVector;
  beyond.tensors = {{DType::kF32, {5}, {-1, -0.5, 0, -9, -9}}};
  beyond.first_position = 2;
  alibi.slopes = {0.5};
  EXPECT_EQ(Of(Of(alibi), *SideOfTable(beyond, nullptr)).max_difference, 0);
  const Side halves = Table(InputContent::kCosSin, DType::kF64, {2, 4},
                            {1, 1, 0, 0, std::cos(1.0), std::cos(0.01), std::sin(1.0), std::sin(0.01)});
  EXPECT_LT(Of(rope, halves).max_difference, 1e-15);
  const Side cosines = Table(InputContent::kCos, DType::kF64, {2, 2}, {1, 1, std::cos(1.0), 0.5});
  const Comparison c = Of(rope, cosines);
  EXPECT_NEAR(c.max_difference, std::cos(0.01) - 0.5, 1e-15);
  EXPECT_FALSE(c.scores);
}

TEST(Compare, RefusesWhatCannotBeCompared) {
  AlibiSpec alibi;
  alibi.num_heads = 8;
  EXPECT_THAT(ErrorOf(CheckComparable(Of(Rope(8)), Of(alibi))), HasSubstr("a bias by distance beside a rotation"));
  EXPECT_THAT(ErrorOf(CheckComparable(Of(Rope(8)), Of(Rope(16)))), HasSubstr("8 pairs beside 4 pairs"));
  const auto error = [](const EncodingSpec& spec) {
    const auto canonical = Canonicalize(spec);
    return ErrorOf(canonical.ok() ? SideOfSpec(*canonical, std::nullopt, Precision::kExact).status() : canonical.status());
  };
  LearnedSpec learned;
  learned.num_positions = 16;
  learned.dim = 8;
  EXPECT_THAT(error(learned), HasSubstr("spec.weights: nothing"));
  T5BucketSpec t5;
  t5.num_heads = 4;
  EXPECT_THAT(error(t5), HasSubstr("spec.weights: nothing"));
  EXPECT_THAT(error(CopeSpec{}), testing::Not(HasSubstr("OK")));
  EXPECT_THAT(error(Rope(8, DynamicNtkSchedule{2, 16})), HasSubstr("sequence_length: nothing"));
  InputTable nan;
  nan.tensors = {{DType::kF32, {2, 2}, {0, 1, std::nan(""), 3}}};
  EXPECT_THAT(ErrorOf(SideOfTable(nan, nullptr).status()), HasSubstr("table.tensors[0].data: nan as element 2"));
  InputTable crooked;
  crooked.content = InputContent::kBias;
  crooked.tensors = {{DType::kF32, {1, 2, 2}, {1, 0, -1, 0}}};
  EXPECT_THAT(ErrorOf(SideOfTable(crooked, nullptr).status()), HasSubstr("depends on the distance alone"));
}

TEST(Compare, WindowsStayWithinLimits) {
  const Side wide = Of(Rope(65536));
  EXPECT_EQ(ChooseWindow(wide, nullptr, std::nullopt, 0, kDefaultRows)->count, kMaxComparedEntries / 32768);
  EXPECT_THAT(ErrorOf(ChooseWindow(wide, nullptr, std::nullopt, 129, kDefaultRows).status()),
              HasSubstr("count: 129: 1 … 128"));
  const Side end = Of(Rope(8));
  EXPECT_EQ(ChooseWindow(end, nullptr, (int64_t{1} << 31) - 3, 0, kDefaultRows)->count, 3);
  EXPECT_THAT(SpacedOut(5, 8), ElementsAre(0, 1, 2, 3, 4));
  for (const int64_t count : {300, 4096, 65536}) {
    const std::vector<int64_t> indices = SpacedOut(count, 256);
    EXPECT_LE(indices.size(), 256u);
    EXPECT_EQ(indices.back(), count - 1);
    EXPECT_TRUE(std::is_sorted(indices.begin(), indices.end(), std::less_equal<>()));
  }
}

TEST(Compare, CancelledSoon) {
  CancelFlag cancel{true};
  const auto status = Compare(*MakeCpuBackend(), Of(Rope(8)), Of(Rope(8)), {0, 8}, 0, &cancel).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(Compare, TakesUnderAQuarterOfASecond) {
  YarnSchedule yarn;
  yarn.factor = 4;
  yarn.original_max_position = 4096;
  const Side a = Of(Rope(128)), b = Of(Rope(128, yarn));
  // Of this thread's processor time, of three: other programs may take the processor.
  const auto milliseconds = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double start = milliseconds();
    (void)Of(a, b);
    best = std::min(best, milliseconds() - start);
  }
  std::printf("two rotations of 128 channels over 4096 positions: %.1f ms\n", best);
  EXPECT_LT(best, kSlowBuild ? 10000 : 250);
}

}  // namespace
}  // namespace phasor::server
