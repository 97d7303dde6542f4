// What rotations beyond the plain one answer, on every backend, and what they refuse.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/apply_harness.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::Pointwise;

constexpr const char* kBackends[] = {"cpu", "reference"};

std::vector<double> Rotated(ApplyHarness& harness, const std::string& text, const std::vector<double>& x,
                            std::vector<int64_t> shape, DType dtype = DType::kF64) {
  v1::ApplyItem item = ItemFrom(text);
  AddTensor(item, std::move(shape), x, dtype);
  const ApplyResult result = harness.One(item);
  EXPECT_TRUE(result.status.ok()) << text << result.status;
  return result.status.ok() ? ValuesOf(result.tensors[0]) : std::vector<double>();
}

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  EXPECT_THAT(got, Pointwise(DoubleNear(tolerance), want));
}

const std::vector<int64_t> kShape = {2, 3, 2, 8};
std::vector<double> Input() { return SomeValues(96); }

TEST(RotateItemsTest, BackwardIsTheTransposeAndInverseUndoes) {
  ApplyHarness harness("cpu");
  const std::string spec = "spec { rope { head_dim: 8 attention_factor: 1.5 } } positions { list { ids: [5, 6, 9] } } ";
  const std::vector<double> x = Input(), y = Rotated(harness, spec, x, kShape);
  ExpectNear(Rotated(harness, spec + "rotate { inverse: true }", y, kShape), x, 1e-14);
  // A·Rᵀ·A·R = A²: the wrong way round (multiplying by A where it should be divided) is off by 2.25.
  std::vector<double> scaled = x;
  for (double& value : scaled) value *= 2.25;
  ExpectNear(Rotated(harness, spec + "rotate { backward: true }", y, kShape), scaled, 1e-14);
}

TEST(RotateItemsTest, BackwardOfAScaledQueryIsItsGradient) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const std::string spec = "spec { rope { head_dim: 8 attention_factor: 2 } } positions { list { ids: [5, 6, 9] } } ";
    const std::string scale = "query_scale { constant: 0.5 }";
    const std::vector<double> x = Input(), y = Rotated(harness, spec + "rotate { " + scale + " }", x, kShape);
    ExpectNear(Rotated(harness, spec + "rotate { backward: true " + scale + " }", y, kShape), x, 1e-14);  // (A·s)² = 1
    ExpectNear(Rotated(harness, spec + "rotate { inverse: true " + scale + " }", y, kShape), x, 1e-14);
  }
}

TEST(RotateItemsTest, ShiftIsAPureRotationByDeltas) {
  ApplyHarness harness("cpu");
  const std::string spec = "spec { rope { head_dim: 8 attention_factor: 1.25 } } ";
  const std::vector<double> x = Input();
  const std::vector<double> at3 = Rotated(harness, spec + "positions { list { ids: [3, 4, 5] } }", x, kShape);
  const std::vector<double> at9 = Rotated(harness, spec + "positions { list { ids: [10, 2, 5] } }", x, kShape);
  ExpectNear(Rotated(harness, spec + "shift {} positions { list { ids: [7, -2, 0] } }", at3, kShape), at9, 1e-14);
  // One delta per batch row.
  const std::vector<double> moved = Rotated(harness, spec + "shift {} positions { sequence_offsets: [4, -1] }", at3, kShape);
  const std::vector<double> want =
      Rotated(harness, spec + "positions { list { ids: [3, 4, 5] } sequence_offsets: [4, -1] }", x, kShape);
  ExpectNear(moved, want, 1e-14);
}

// Keys that were cached before the schedule changed are wrong until they are turned to the new one (transformers#25104,
// vllm#27431): dynamic NTK that has grown, and LongRoPE that has crossed its original length.
TEST(RotateItemsTest, RerotatedKeysEqualFreshOnes) {
  const std::string ntk = "rope { head_dim: 8 dynamic_ntk { factor: 2 max_position: 2048 } }";
  const std::string longrope =
      "rope { head_dim: 8 longrope { short_factor: [1, 1.1, 1.2, 1.3] long_factor: [1, 2, 4, 8.5] "
      "original_max_position: 4096 max_position: 131072 short_mscale: 1.1 long_mscale: 1.3 } }";
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    for (const std::string& spec : {ntk, longrope}) {
      const std::string positions = " positions { list { ids: [100, 2047, -3] } } ";
      const auto at = [&](int length) {
        return Rotated(harness, absl::StrCat("spec { ", spec, " } sequence_length: ", length, positions), Input(), kShape);
      };
      const std::vector<double> before = at(2048), after = at(8192);
      const std::string rerotate = absl::StrCat("spec { ", spec, " } sequence_length: 2048 rerotate { target { ", spec,
                                                " } target_sequence_length: 8192 }", positions);
      ExpectNear(Rotated(harness, rerotate, before, kShape), after, 1e-13);
      double difference = 0;
      for (size_t i = 0; i < before.size(); ++i) difference = std::max(difference, std::fabs(before[i] - after[i]));
      EXPECT_GT(difference, 0.1);  // what not doing it costs
    }
  }
}

TEST(RotateItemsTest, RerotationKeepsFractionalPositions) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    v1::ApplyItem item = ItemFrom("spec { rope { head_dim: 8 } }");
    const std::vector<double> ids = {0.25, 7.5, 1000.125};
    v1::Tensor* tensor = item.mutable_positions()->mutable_ids();
    tensor->set_dtype(v1::DTYPE_F64);
    tensor->add_shape(3);
    tensor->set_data(std::string(reinterpret_cast<const char*>(ids.data()), 24));
    v1::ApplyItem faster = item, turn = item;
    faster.mutable_spec()->mutable_rope()->mutable_linear()->set_factor(0.75);  // frequencies above the source's
    turn.mutable_rerotate()->mutable_target()->CopyFrom(faster.spec());
    AddTensor(item, kShape, Input(), DType::kF64);
    AddTensor(faster, kShape, Input(), DType::kF64);
    const ApplyResult from = harness.One(item), to = harness.One(faster);
    ASSERT_TRUE(from.status.ok()) << from.status;
    AddTensor(turn, kShape, ValuesOf(from.tensors[0]), DType::kF64);
    const ApplyResult turned = harness.One(turn);
    ASSERT_TRUE(turned.status.ok()) << turned.status;
    ExpectNear(ValuesOf(turned.tensors[0]), ValuesOf(to.tensors[0]), 1e-13);
  }
}

// cos and sin of a tensor (1, 0), token by token.
std::vector<double> FirstPair(ApplyHarness& harness, const std::string& text, int64_t tokens, DType dtype = DType::kF64) {
  std::vector<double> x(static_cast<size_t>(2 * tokens), 0);
  for (size_t i = 0; i < x.size(); i += 2) x[i] = 1;
  return Rotated(harness, text, x, {1, tokens, 1, 2}, dtype);
}

TEST(RotateItemsTest, LlamaFourScalesFromPosition8191On) {
  const std::string rule = "rotate { query_scale { floor_scale { coefficient: 0.1 period: 8192 shift: 1 } } } ";
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const std::string positions = "positions { list { ids: [0, 8190, 8191, 16382, 16383] } } ";
    const std::vector<double> y = FirstPair(harness, "spec { rope { head_dim: 2 } } " + rule + positions, 5);
    std::vector<double> norms;
    for (size_t i = 0; i < y.size(); i += 2) norms.push_back(std::hypot(y[i], y[i + 1]));
    ExpectNear(norms, {1, 1, 1 + 0.1 * std::log(2), 1 + 0.1 * std::log(2), 1 + 0.1 * std::log(3)}, 1e-15);
  }
}

TEST(RotateItemsTest, MinistralScalesFromTheOriginalLengthOn) {
  const std::string rule = "rotate { query_scale { floor_scale { coefficient: 0.1 period: 16384 } } } ";
  ApplyHarness harness("cpu");
  const std::string positions = "positions { list { ids: [16383, 16384] } } ";
  const std::vector<double> y = FirstPair(harness, "spec { rope { head_dim: 2 } } " + rule + positions, 2);
  EXPECT_NEAR(std::hypot(y[0], y[1]), 1, 1e-15);
  EXPECT_NEAR(std::hypot(y[2], y[3]), 1.0693147, 1e-7);
}

TEST(RotateItemsTest, LogNScalesBeyondTheTrainingLength) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const std::string text =
        "spec { rope { head_dim: 2 } } rotate { query_scale { log_n_training_length: 2048 } } "
        "positions { list { ids: [0, 2047, 2048, 8191] } }";
    const std::vector<double> y = FirstPair(harness, text, 4);
    std::vector<double> norms;
    for (size_t i = 0; i < y.size(); i += 2) norms.push_back(std::hypot(y[i], y[i + 1]));
    ExpectNear(norms, {1, 1, std::log(2049) / std::log(2048), std::log(8192) / std::log(2048)}, 1e-15);
  }
}

TEST(RotateItemsTest, ScalesTouchQueriesOnly) {
  ApplyHarness harness("cpu");
  const std::string text = "spec { rope { head_dim: 8 } } rotate { query_scale { constant: 3 } } ";
  for (const std::string& roles : {std::string(), std::string("roles: [TENSOR_ROLE_KEY, TENSOR_ROLE_QUERY]")}) {
    v1::ApplyItem item = ItemFrom(text + roles), plain = ItemFrom("spec { rope { head_dim: 8 } }");
    for (v1::ApplyItem* each : {&item, &plain}) {
      AddTensor(*each, kShape, Input(), DType::kF64);
      AddTensor(*each, kShape, Input(), DType::kF64);
    }
    const ApplyResult scaled = harness.One(item), unscaled = harness.One(plain);
    ASSERT_TRUE(scaled.status.ok()) << scaled.status;
    const size_t query = roles.empty() ? 0 : 1;
    EXPECT_EQ(ValuesOf(scaled.tensors[1 - query]), ValuesOf(unscaled.tensors[1 - query]));
    std::vector<double> want = ValuesOf(unscaled.tensors[query]);
    for (double& value : want) value *= 3;
    ExpectNear(ValuesOf(scaled.tensors[query]), want, 1e-15);
  }
}

// q·k with xPos depends on the distance alone, with the decay that pair has; a center that moves with the length does not.
TEST(RotateItemsTest, XposScoresDependOnTheDistance) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const auto score = [&](int query, int key, int query_center, int key_center) {
      const auto one = [&](int position, int center, const char* role) {
        return FirstPair(harness,
                         absl::StrCat("spec { rope { head_dim: 2 xpos { scale_base: 64 center: ", center,
                                      " } } } roles: ", role, " positions { list { ids: ", position, " } }"),
                         1);
      };
      const std::vector<double> q = one(query, query_center, "TENSOR_ROLE_QUERY"),
                                k = one(key, key_center, "TENSOR_ROLE_KEY");
      return q[0] * k[0] + q[1] * k[1];
    };
    const double zeta = 0.4 / 1.4;
    EXPECT_NEAR(score(30, 10, 16, 16), std::cos(20.0) * std::pow(zeta, 20.0 / 64), 1e-15);
    EXPECT_NEAR(score(130, 110, 16, 16), std::cos(20.0) * std::pow(zeta, 20.0 / 64), 1e-14);
    EXPECT_GT(std::fabs(score(130, 110, 64, 16) - score(30, 10, 16, 16)), 0.1);
  }
}

TEST(RotateItemsTest, XposInverseAndShift) {
  ApplyHarness harness("cpu");
  const std::string spec = "spec { rope { head_dim: 8 xpos { scale_base: 32 center: 4 } } } roles: TENSOR_ROLE_KEY ";
  const std::string at = "positions { list { ids: [3, 10, 40] } } ";
  const std::vector<double> x = Input(), y = Rotated(harness, spec + at, x, kShape);
  ExpectNear(Rotated(harness, spec + at + "rotate { inverse: true }", y, kShape), x, 1e-13);
  const std::vector<double> moved = Rotated(harness, spec + "positions { list { ids: [5, 8, 42] } }", x, kShape);
  ExpectNear(Rotated(harness, spec + "shift {} positions { list { ids: [2, -2, 2] } }", y, kShape), moved, 1e-13);
}

TEST(RotateItemsTest, ChannelsBesideTheSlicePassThrough) {
  // MLA's heads: 4 channels without a position, 8 with one, read interleaved and written in halves.
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const std::vector<double> x = SomeValues(2 * 3 * 2 * 12);
    const std::string place = " first_channel: 4 rotary_dim: 8 ";
    const std::string positions = " positions { list { ids: [7, 8, 11] } } ";
    const std::string spec = "spec { rope { head_dim: 12 pairing: PAIRING_INTERLEAVED_TO_HALF" + place + "} }" + positions;
    const std::vector<double> y = Rotated(harness, spec, x, {2, 3, 2, 12});
    std::vector<double> slices;
    for (size_t h = 0; h < x.size(); h += 12) {
      for (size_t c = 0; c < 4; ++c) EXPECT_EQ(y[h + c], x[h + c]);
      slices.insert(slices.end(), x.begin() + static_cast<long>(h) + 4, x.begin() + static_cast<long>(h) + 12);
    }
    const std::vector<double> turned =
        Rotated(harness, "spec { rope { head_dim: 8 pairing: PAIRING_INTERLEAVED } }" + positions, slices, kShape);
    for (size_t h = 0; h < 12; ++h) {
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(y[12 * h + 4 + i], turned[8 * h + 2 * i]);
        EXPECT_EQ(y[12 * h + 8 + i], turned[8 * h + 2 * i + 1]);
      }
    }
    ExpectNear(Rotated(harness, spec + "rotate { inverse: true }", y, {2, 3, 2, 12}), x, 1e-14);
  }
}

TEST(RotateItemsTest, CallersTablesTurnAsTheirRowsSay) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    v1::ApplyItem item = ItemFrom("positions { list { ids: [2, 0] } } table_pairing: PAIRING_INTERLEAVED");
    v1::ApplyItem tables;
    AddTensor(tables, {3, 1}, {1, 0.5, 0}, DType::kF32);
    AddTensor(tables, {3, 1}, {0, 0.25, 1}, DType::kF32);
    *item.mutable_table()->mutable_cos() = tables.tensors(0);
    *item.mutable_table()->mutable_sin() = tables.tensors(1);
    AddTensor(item, {1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
    const ApplyResult result = harness.One(item);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(ValuesOf(result.tensors[0]), (std::vector<double>{-2, 1, 3, 4, 5, 6}));
    v1::ApplyItem beyond = item;
    beyond.mutable_positions()->mutable_list()->set_ids(1, 3);
    ExpectError(harness.One(beyond).status, {kBad, "items[0].positions", "3", "0 … 2, rows of table"}, "beyond");
    v1::ApplyItem inverse = item;
    inverse.mutable_rotate()->set_inverse(true);
    ExpectError(harness.One(inverse).status, {kBad, "items[0].rotate.inverse", "true", "backward"}, "inverse");
  }
}

// Every kind, type and layout: the same bits on both backends, and of one token alone as of many.
TEST(RotateItemsTest, SameBitsOnEveryBackendAndInEveryCut) {
  const std::string specs[] = {
      "spec { rope { head_dim: 8 } } rotate { query_scale { log_n_training_length: 2 } }",
      "spec { rope { head_dim: 8 rotary_dim: 6 first_channel: 1 } } rotate { query_scale { constant: -0.3 } inverse: true }",
      "spec { rope { head_dim: 8 pairing: PAIRING_INTERLEAVED xpos { scale_base: 100 center: 7 } } }",
      "spec { rope { head_dim: 8 } } precision: PRECISION_COMPAT_F32 rotate { query_scale { constant: 1.7 } }",
      "spec { rope { head_dim: 8 } } rerotate { target { rope { head_dim: 8 base: 500 } } }",
      "spec { pope { head_dim: 8 } }"};
  ApplyHarness cpu("cpu"), reference("reference", 1);
  for (const std::string& spec : specs) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      for (const char* layout : {"LAYOUT_BSHD", "LAYOUT_BHSD", "LAYOUT_SBHD"}) {
        const bool heads_first = std::string(layout) == "LAYOUT_BHSD";
        const std::vector<int64_t> shape = heads_first                            ? std::vector<int64_t>{3, 2, 4, 8}
                                           : std::string(layout) == "LAYOUT_SBHD" ? std::vector<int64_t>{4, 3, 2, 8}
                                                                                  : std::vector<int64_t>{3, 4, 2, 8};
        for (const bool per_batch : {false, true}) {
          v1::ApplyItem item = ItemFrom(absl::StrCat(spec, " layout: ", layout, " positions { list { ids: [0, 1, 5, 30] } ",
                                                     per_batch ? "sequence_offsets: [2, 0, 9] " : "", "}"));
          AddTensor(item, shape, SomeValues(192), dtype);
          AddTensor(item, shape, SomeValues(192, 2), dtype);
          const ApplyResult a = cpu.One(item), b = reference.One(item);
          ASSERT_TRUE(a.status.ok()) << spec << a.status;
          for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(BytesOf(a.tensors[i]) == BytesOf(b.tensors[i])) << spec << layout;
          EXPECT_EQ(a.fingerprint, b.fingerprint);
        }
      }
    }
  }
}

TEST(RotateItemsTest, PackedHeadsAndTheirChannels) {
  ApplyHarness harness("cpu");
  const std::vector<double> x = SomeValues(3 * 16);
  const std::string positions = " positions { list { ids: [4, 9, 2] } } ";
  const std::string spec = "spec { rope { head_dim: 8 } }" + positions;
  EXPECT_EQ(Rotated(harness, spec + "layout: LAYOUT_T_HD", x, {3, 16}),
            Rotated(harness, spec + "layout: LAYOUT_THD", x, {3, 2, 8}));
  v1::ApplyItem item = ItemFrom(spec + "layout: LAYOUT_T_HD");
  AddTensor(item, {3, 15}, std::vector<double>(45));
  ExpectError(harness.One(item).status, {kBad, "items[0].tensors[0].shape[1]", "15", "a multiple of 8"}, "width");
}

// Phases belong to 32 bits and more: with positions or frequencies in bfloat16, 15962 becomes 15936 (transformers#29285,
// candle#3520).
TEST(RotateItemsTest, BfloatTensorsTurnByExactPhases) {
  ApplyHarness harness("cpu");
  const std::string text = "spec { rope { head_dim: 2 } } positions { list { ids: [15962, 15936] } }";
  const std::vector<double> y = FirstPair(harness, text, 2, DType::kBF16);
  EXPECT_NEAR(y[0], -0.90802, 4e-3);
  EXPECT_NEAR(y[2], -0.26795, 2e-3);
}

// A cache keyed by the length alone gives the second call the first one's window (rotary-embedding-torch#11).
TEST(RotateItemsTest, AnotherOffsetIsAnotherWindow) {
  ApplyHarness harness("cpu");
  const std::string spec = "spec { rope { head_dim: 2 } } rotate { query_scale { constant: 2 } } ";
  const std::vector<double> first = FirstPair(harness, spec + "positions { range { start: 0 } }", 3);
  const std::vector<double> second = FirstPair(harness, spec + "positions { range { start: 1 } }", 3);
  EXPECT_EQ(first[2], second[0]);
  EXPECT_NE(first[0], second[0]);
}

// A partial rotation's exponents run over rotary_dim and its pairs are (i, i + rotary_dim/2) (pie#602).
TEST(RotateItemsTest, PartialRotationsPairAndTurnWithinTheirWidth) {
  ApplyHarness harness("cpu");
  std::vector<double> x(8, 0);
  x[1] = 1;  // pair 1 of (0, 2), (1, 3)
  const std::vector<double> y = Rotated(
      harness, "spec { rope { head_dim: 8 rotary_dim: 4 base: 100 } } positions { list { ids: 1 } }", x, {1, 1, 1, 8});
  EXPECT_NEAR(y[1], std::cos(0.1), 1e-15);  // 100^(−2/4); over head_dim it would be cos(100^(−2/8)) = 0.9504
  EXPECT_NEAR(y[3], std::sin(0.1), 1e-15);
  EXPECT_EQ(y[5], 0);
}

}  // namespace
}  // namespace phasor::server
