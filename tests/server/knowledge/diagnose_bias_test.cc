// Biases that the diagnosis knows, and what it says of those that went wrong.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/knowledge/alibi_slopes.h"
#include "tests/server/knowledge/bias_tables.h"

namespace phasor::server {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

Diagnosis Of(InputTable table, std::optional<EncodingSpec> expected = std::nullopt) {
  DiagnoseInput input = InputOf(std::move(table));
  if (expected) input.expected = *Canonicalize(*expected);
  auto diagnosis = DiagnoseTable(TestBackend(), input);
  EXPECT_TRUE(diagnosis.ok()) << diagnosis.status();
  return diagnosis.ok() ? *std::move(diagnosis) : Diagnosis{};
}

std::string FaultsOf(const Diagnosis& diagnosis) {
  std::string names;
  for (const Fault& fault : diagnosis.faults) names += std::string(fault.card->name) + " (" + fault.symptom + ") ";
  return names;
}

AlibiSpec Alibi(int64_t heads) {
  AlibiSpec spec;
  spec.num_heads = heads;
  return spec;
}

template <typename Spec>
const Spec* Found(const Diagnosis& diagnosis) {
  const Hypothesis* hypothesis = Reproduced(diagnosis);
  return hypothesis == nullptr ? nullptr : std::get_if<Spec>(&hypothesis->spec.spec);
}

TEST(DiagnoseBias, AlibiOfAnyHeadCountMaskAndForm) {
  for (const int64_t heads : {1, 2, 8, 12, 40}) {
    for (const double mask : {kMinusInfinity, -3.4028234663852886e38, -1e9, -10000.0}) {
      const auto right = Of(MatrixTable(DType::kF32, heads, 17, 33, FunctionOf(Alibi(heads), 64, DType::kF32), mask));
      const auto* found = Found<AlibiSpec>(right);
      ASSERT_NE(found, nullptr) << heads;
      EXPECT_EQ(found->num_heads, heads);
      EXPECT_EQ(found->max_bias, 8);
      EXPECT_TRUE(right.faults.empty()) << FaultsOf(right);
    }
  }
  for (const AlibiForm form : {AlibiForm::kSymmetric, AlibiForm::kTwoSided}) {
    AlibiSpec spec = Alibi(8);
    spec.form = form;
    if (form == AlibiForm::kTwoSided) spec.future_factor = 0.25;
    const auto both = Of(MatrixTable(DType::kBF16, 8, 20, 20, FunctionOf(spec, 64, DType::kBF16)));
    const auto* found = Found<AlibiSpec>(both);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->form, form);
    if (form == AlibiForm::kTwoSided) {
      EXPECT_NEAR(*found->future_factor, 0.25, 1e-3);
    }
    EXPECT_TRUE(both.faults.empty()) << FaultsOf(both);
  }
}

TEST(DiagnoseBias, AlibiPartialScaledRoundedAndGiven) {
  AlibiSpec partial = Alibi(12);
  partial.biased_heads = 8;
  const auto some = Of(MatrixTable(DType::kF32, 12, 9, 9, FunctionOf(partial, 16, DType::kF32)));
  ASSERT_NE(Found<AlibiSpec>(some), nullptr);
  EXPECT_EQ(Found<AlibiSpec>(some)->biased_heads, 8);

  AlibiSpec falcon = Alibi(71);
  falcon.slope_dtype = DType::kBF16;
  falcon.scale = 0.125;
  const auto rounded = Of(VectorTable(DType::kF32, 71, -200, 201, FunctionOf(falcon, 200, DType::kF32)));
  const auto* found = Found<AlibiSpec>(rounded);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->slope_dtype, DType::kBF16);
  EXPECT_EQ(found->scale, 0.125);
  EXPECT_TRUE(rounded.faults.empty()) << FaultsOf(rounded);

  AlibiSpec given;
  given.slopes = {0.3, 0.7, 0.11};
  const auto free = Of(VectorTable(DType::kF64, 3, -50, 101, FunctionOf(given, 64, DType::kF64)));
  ASSERT_NE(Found<AlibiSpec>(free), nullptr);
  EXPECT_THAT(Found<AlibiSpec>(free)->slopes, testing::ElementsAre(0.3, 0.7, 0.11));
}

TEST(DiagnoseBias, RowConstantsOfBloomAndMptAreFree) {
  const std::vector<double> slopes = RuleSlopes(8, 8);
  InputTensor bloom{DType::kF32, {8, 1, 64}, {}}, mpt = bloom, rows{DType::kF32, {8, 5, 64}, {}};
  for (const double slope : slopes) {
    for (int key = 0; key < 64; ++key) bloom.values.push_back(slope * key);
    for (int key = 0; key < 64; ++key) mpt.values.push_back(slope * (key - 63));
    for (int query = 0; query < 5; ++query) {
      for (int key = 0; key < 64; ++key) rows.values.push_back(slope * key);
    }
  }
  for (InputTensor* tensor : {&bloom, &mpt, &rows}) {
    const auto diagnosis = Of({InputContent::kBias, {*tensor}, std::nullopt});
    ASSERT_NE(Found<AlibiSpec>(diagnosis), nullptr);
    EXPECT_EQ(Found<AlibiSpec>(diagnosis)->max_bias, 8);
    EXPECT_TRUE(diagnosis.faults.empty()) << FaultsOf(diagnosis);
    if (tensor != &mpt) {
      EXPECT_THAT(Reproduced(diagnosis)->note, testing::HasSubstr("softmax removes"));
    }
  }
}

TEST(DiagnoseBias, ShardsSayWhichHeads) {
  const auto part = Of(MatrixTable(DType::kF32, 8, 16, 16, FunctionOf(Alibi(32), 16, DType::kF32, 16), kMinusInfinity));
  const Hypothesis* hypothesis = Reproduced(part);
  ASSERT_NE(hypothesis, nullptr);
  EXPECT_EQ(std::get<AlibiSpec>(hypothesis->spec.spec).num_heads, 32);
  EXPECT_THAT(hypothesis->note, testing::HasSubstr("heads 16 … 23 of 32"));
  EXPECT_TRUE(part.faults.empty()) << FaultsOf(part);
}

TEST(DiagnoseBias, KerpleSandwichAndBuckets) {
  KerpleSpec kerple;
  kerple.form = KerpleForm::kLog;
  kerple.r1 = {1.5, 0.25};
  kerple.r2 = {0.75, 2};
  const auto log = Of(MatrixTable(DType::kF32, 2, 50, 50, FunctionOf(kerple, 64, DType::kF32), kMinusInfinity));
  ASSERT_NE(Found<KerpleSpec>(log), nullptr);
  EXPECT_THAT(Found<KerpleSpec>(log)->r1, testing::Pointwise(testing::DoubleNear(1e-5), {1.5, 0.25}));
  kerple.form = KerpleForm::kPower;
  EXPECT_EQ(Found<KerpleSpec>(Of(MatrixTable(DType::kF16, 2, 50, 50, FunctionOf(kerple, 64, DType::kF16))))->form,
            KerpleForm::kPower);
  kerple.form = KerpleForm::kNemo;
  kerple.p = {1.25, 0.5};
  ASSERT_NE(Found<KerpleSpec>(Of(MatrixTable(DType::kF32, 2, 50, 50, FunctionOf(kerple, 64, DType::kF32)))), nullptr);

  SandwichSpec sandwich;
  sandwich.num_heads = 8;
  sandwich.dim = 96;
  const auto sum = Of(VectorTable(DType::kF32, 8, -512, 1025, FunctionOf(sandwich, 512, DType::kF32)));
  ASSERT_NE(Found<SandwichSpec>(sum), nullptr);
  EXPECT_EQ(Found<SandwichSpec>(sum)->dim, 96);

  for (const bool both : {true, false}) {
    T5BucketSpec t5;
    t5.bidirectional = both;
    std::mt19937 random(7);
    std::vector<double> table(32 * 4);
    for (double& value : table) value = RoundTo(DType::kBF16, std::normal_distribution<double>()(random));
    t5.table = MakeWeight({32, 4}, table);
    const auto diagnosis = Of(MatrixTable(DType::kBF16, 4, 200, 200, FunctionOf(t5, 200, DType::kBF16)));
    const auto* found = Found<T5BucketSpec>(diagnosis);
    ASSERT_NE(found, nullptr) << both;
    EXPECT_EQ(found->num_buckets, 32);
    EXPECT_EQ(found->max_distance, 128);
    EXPECT_EQ(found->bidirectional, both);
    EXPECT_EQ(found->table->at(1), table[1]);
    EXPECT_TRUE(diagnosis.faults.empty()) << FaultsOf(diagnosis);
  }
}

TEST(DiagnoseBias, LearnedNumbersAndOtherThingsAreCalledSo) {
  std::mt19937 random(3);
  std::vector<double> table(99);
  for (double& value : table) value = std::normal_distribution<double>()(random);
  const auto learned =
      Of(VectorTable(DType::kF32, 1, -49, 99, [&](int64_t, int64_t d) { return table[static_cast<size_t>(d + 49)]; }));
  ASSERT_NE(Reproduced(learned), nullptr);
  EXPECT_THAT(Reproduced(learned)->note, testing::HasSubstr("follow no rule"));

  const auto gates =
      Of(MatrixTable(DType::kF32, 1, 20, 20, [&](int64_t, int64_t) { return std::normal_distribution<double>()(random); }));
  EXPECT_EQ(Reproduced(gates), nullptr);
  EXPECT_THAT(gates.observations, testing::Contains(testing::HasSubstr("no bias of the distance only")));

  // Data-dependent ALiBi: sums of gates.
  std::vector<double> sums(21, 0);
  for (size_t i = 1; i < sums.size(); ++i) sums[i] = sums[i - 1] - std::uniform_real_distribution<double>()(random);
  InputTensor forgetting{DType::kF32, {20, 20}, {}};
  for (size_t query = 0; query < 20; ++query) {
    for (size_t key = 0; key < 20; ++key)
      forgetting.values.push_back(key > query ? kMinusInfinity : static_cast<float>(sums[query] - sums[key]));
  }
  EXPECT_THAT(Of({InputContent::kBias, {forgetting}, std::nullopt}).observations,
              testing::Contains(testing::HasSubstr("forgetting_bias")));
}

TEST(DiagnoseBias, WrongSlopesAreNamed) {
  const auto with = [](int64_t heads, auto exponent) {
    return MatrixTable(
        DType::kF32, heads, 40, 40,
        [=](int64_t head, int64_t d) { return std::exp2(-exponent(head)) * static_cast<double>(d); }, kMinusInfinity);
  };
  EXPECT_TRUE(
      Names(Of(with(12, [](int64_t h) { return 8.0 * static_cast<double>(h + 1) / 12; })), "alibi_plain_geometric_slopes"));
  EXPECT_TRUE(
      Names(Of(with(8, [](int64_t h) { return (8.0 + static_cast<double>(h)) / 8; })), "alibi_slopes_step_in_exponent"));
  EXPECT_TRUE(Names(Of(with(8, [](int64_t h) { return static_cast<double>(h); })), "alibi_first_slope_wrong"));
  EXPECT_TRUE(
      Names(Of(with(16, [](int64_t h) { return static_cast<double>(2 * (h % 4 + 1)); })), "alibi_slopes_from_local_heads"));
  // A rank's own list looks right by itself: only the whole model tells.
  const auto local = MatrixTable(DType::kF32, 8, 40, 40, FunctionOf(Alibi(8), 64, DType::kF32), kMinusInfinity);
  EXPECT_TRUE(Of(local).faults.empty());
  EXPECT_TRUE(Names(Of(local, Alibi(32)), "alibi_slopes_from_local_heads"));
  EXPECT_TRUE(Of(MatrixTable(DType::kF32, 8, 40, 40, FunctionOf(Alibi(32), 64, DType::kF32, 8), kMinusInfinity), Alibi(32))
                  .faults.empty());
}

TEST(DiagnoseBias, WrongSignsPlacesAndValuesAreNamed) {
  const auto alibi = FunctionOf(Alibi(8), 600, DType::kF32);
  const auto flipped =
      Of(MatrixTable(DType::kF32, 8, 30, 30, [&](int64_t h, int64_t d) { return -alibi(h, d); }, kMinusInfinity));
  EXPECT_TRUE(Names(flipped, "alibi_sign_flipped")) << FaultsOf(flipped);

  AlibiSpec symmetric = Alibi(8);
  symmetric.form = AlibiForm::kSymmetric;
  const auto even = FunctionOf(symmetric, 600, DType::kF32);
  const auto top_left = Of(MatrixTable(DType::kF32, 8, 30, 50, [&](int64_t h, int64_t d) { return even(h, d + 20); }));
  EXPECT_TRUE(Names(top_left, "bias_not_bottom_right_aligned")) << FaultsOf(top_left);
  EXPECT_THAT(top_left.faults.front().symptom, testing::HasSubstr("first query stands at the first key"));

  const auto clamped =
      Of(MatrixTable(DType::kF32, 8, 300, 300, [&](int64_t h, int64_t d) { return std::max(even(h, d), -20.0); }));
  EXPECT_TRUE(Names(clamped, "bias_clamped")) << FaultsOf(clamped);

  const auto narrow = Of(MatrixTable(
      DType::kF32, 8, 2, 600,
      [&](int64_t h, int64_t d) { return alibi(h, static_cast<int64_t>(RoundTo(DType::kBF16, static_cast<double>(d)))); },
      kMinusInfinity));
  EXPECT_TRUE(Names(narrow, "bias_distances_rounded")) << FaultsOf(narrow);

  const auto zero = Of(MatrixTable(DType::kF32, 8, 1, 60, [](int64_t, int64_t) { return 0.0; }));
  EXPECT_TRUE(Names(zero, "bias_without_distance"));

  InputTable nan = MatrixTable(DType::kF32, 1, 8, 8, alibi, kMinusInfinity);
  for (size_t i = 24; i < 32; ++i) nan.tensors[0].values[i] = std::nan("");
  const auto rows = Of(nan);
  ASSERT_TRUE(Names(rows, "bias_not_finite"));
  EXPECT_EQ(rows.faults.front().first_row, 3);
  EXPECT_NE(Reproduced(rows), nullptr) << "the other rows still tell";
}

TEST(DiagnoseBias, T5FaultsAgainstTheExpectedTable) {
  T5BucketSpec t5;
  t5.max_distance = 512;
  std::mt19937 random(11);
  std::vector<double> table(32 * 4);
  for (double& value : table) value = std::normal_distribution<double>()(random);
  t5.table = MakeWeight({32, 4}, table);
  const auto f = FunctionOf(t5, 600, DType::kF32);
  const auto named = [&](const BiasFunction& value, std::string_view fault) {
    const auto diagnosis = Of(MatrixTable(DType::kF32, 4, 300, 300, value), t5);
    EXPECT_TRUE(Names(diagnosis, fault)) << fault << " among " << FaultsOf(diagnosis);
  };
  named([&](int64_t h, int64_t d) { return f(h, -d); }, "t5_sign_flipped");
  named([&](int64_t h, int64_t d) { return f(h, d) * 8; }, "bias_scaled");
  named([&](int64_t h, int64_t d) { return f(h, d - 1); }, "bias_not_bottom_right_aligned");
  named([&](int64_t h, int64_t d) { return f(3 - h, d); }, "bias_heads_in_other_order");
  T5BucketSpec other = t5;
  other.max_distance = 128;
  named(FunctionOf(other, 300, DType::kF32), "t5_max_distance_wrong");
  other = t5;
  other.bidirectional = false;
  named(FunctionOf(other, 300, DType::kF32), "t5_directions_swapped");
  EXPECT_TRUE(Of(MatrixTable(DType::kF32, 4, 300, 300, f), t5).faults.empty());
}

TEST(DiagnoseBias, SlopesByThemselves) {
  const auto of = [](std::vector<double> slopes) {
    const auto count = static_cast<int64_t>(slopes.size());
    return Of({InputContent::kSlopes, {{DType::kF32, {count}, std::move(slopes)}}, std::nullopt});
  };
  std::vector<double> twelve = RuleSlopes(12, 8);
  for (double& slope : twelve) slope = static_cast<float>(slope);
  EXPECT_EQ(Found<AlibiSpec>(of(twelve))->num_heads, 12);
  for (double& slope : twelve) slope = -slope;
  EXPECT_EQ(Found<AlibiSpec>(of(twelve))->num_heads, 12);
  EXPECT_TRUE(
      Names(of({0.5, 0.45850, 0.42045, 0.38555, 0.35355, 0.32421, 0.29730, 0.27263}), "alibi_slopes_step_in_exponent") ||
      Reproduced(of({0.5, 0.45850, 0.42045, 0.38555, 0.35355, 0.32421, 0.29730, 0.27263})) != nullptr);
  EXPECT_TRUE(Names(of({0.5, std::nan("")}), "bias_not_finite"));
}

}  // namespace
}  // namespace phasor::server
