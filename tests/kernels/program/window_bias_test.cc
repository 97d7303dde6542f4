// What people get wrong about these biases, shown as the right and the wrong value; and the same bits in every cut.
#include "kernels/program/window_bias.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/core/math.h"
#include "tests/conformance/case_run.h"
#include "tests/kernels/program/golden_weights.h"
#include "tests/kernels/program/window_specs.h"

namespace phasor {
namespace {

const Backend& Cpu() {
  static const std::unique_ptr<Backend> cpu = *CreateBackend("cpu");
  return *cpu;
}

std::vector<std::byte> Slice(const std::vector<std::byte>& bytes, int64_t begin, int64_t count) {
  return {bytes.begin() + begin, bytes.begin() + begin + count};
}

// ---- The same bits everywhere.

TEST(WindowBiasTest, BackendsAndInstructionSetsAgree) {
  const auto reference = CreateBackend("reference");
  std::vector<Case> cases;
  AppendWindowCases(cases);
  for (const Case& c : cases) {
    if (c.name == "window_bias/beit-base" || c.name == "window_bias/swin-window-12") continue;  // long on the reference
    SCOPED_TRACE(c.name);
    for (DType dtype : kFloatTypes) {
      const auto queries = Consecutive(40, 5), keys = Consecutive(0, 77);
      const auto want = RunBias(**reference, c.spec, dtype, queries, keys);
      for (const Variant& variant : VariantsUnderTest()) {
        EXPECT_EQ(RunBias(variant.Select(), c.spec, dtype, queries, keys), want) << variant.name << " " << Name(dtype);
      }
    }
  }
}

TEST(WindowBiasTest, HeadsAndQueriesMayBeCut) {
  std::vector<Case> cases;
  AppendWindowCases(cases);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto traits = TraitsOf(Canonicalize(c.spec)->spec);
    const auto queries = Consecutive(20, 30), keys = Consecutive(0, 50);
    const auto whole = RunBias(Cpu(), c.spec, DType::kF32, queries, keys);
    const int64_t head_bytes = static_cast<int64_t>(whole.size()) / traits->heads;
    const int64_t head = traits->heads - 1;
    EXPECT_EQ(RunBias(Cpu(), c.spec, DType::kF32, queries, keys, head, 1), Slice(whole, head * head_bytes, head_bytes));
    if (traits->tokens > 0) continue;
    const auto last = RunBias(Cpu(), c.spec, DType::kF32, {49}, keys, head, 1);
    EXPECT_EQ(last, Slice(whole, head * head_bytes + 29 * 50 * 4, 50 * 4));
  }
}

TEST(WindowBiasTest, ScatteredPositionsGiveTheBitsOfConsecutiveOnes) {
  std::vector<Case> cases;
  AppendWindowCases(cases);
  for (const Case& c : cases) {
    const auto traits = TraitsOf(Canonicalize(c.spec)->spec);
    if (traits->tokens > 0) continue;
    SCOPED_TRACE(c.name);
    const auto want = RunBias(Cpu(), c.spec, DType::kF64, Consecutive(0, 30), Consecutive(0, 30));
    auto keys = Consecutive(0, 30);
    std::swap(keys[3], keys[20]);
    const auto got = RunBias(Cpu(), c.spec, DType::kF64, Consecutive(0, 30), keys);
    for (int64_t row = 0; row < traits->heads * 30; ++row) {
      EXPECT_EQ(Slice(got, (row * 30 + 3) * 8, 8), Slice(want, (row * 30 + 20) * 8, 8)) << row;
      EXPECT_EQ(Slice(got, (row * 30 + 9) * 8, 8), Slice(want, (row * 30 + 9) * 8, 8)) << row;
    }
  }
}

TEST(WindowBiasTest, VectorsAreRowsOfTheMatrix) {
  std::vector<Case> cases;
  AppendWindowCases(cases);
  for (const Case& c : cases) {
    const auto canonical = Canonicalize(c.spec);
    const auto traits = TraitsOf(canonical->spec);
    if (!traits->by_distance) continue;
    SCOPED_TRACE(c.name);
    const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
    const int64_t queries = 9, keys = 21, count = queries + keys - 1;
    std::vector<float> vector(static_cast<size_t>(traits->heads * count));
    AlignedBytes scratch(BiasScratchBytes(canonical->spec, DType::kF32, traits->heads, 1, count));
    std::vector<ProgramStep> steps;
    AppendBiasVectorSteps(resolved->plan, DType::kF32, 0, traits->heads, -(12 + queries - 1), count, vector.data(),
                          scratch.data(), &steps);
    ASSERT_TRUE(RunProgram(Cpu(), steps).ok());
    const auto full = RunBiasAs<float>(Cpu(), c.spec, Consecutive(12, queries), Consecutive(0, keys));
    for (int64_t h = 0; h < traits->heads; ++h) {
      for (int64_t q = 0; q < queries; ++q) {
        for (int64_t k = 0; k < keys; ++k) {
          ASSERT_EQ(full[(h * queries + q) * keys + k], vector[h * count + queries - 1 - q + k]);
        }
      }
    }
  }
}

TEST(WindowBiasTest, RowsOfTheTableAreThoseOfTheMatrix) {
  std::vector<Case> cases;
  AppendWindowCases(cases);
  int64_t tables = 0;
  for (const Case& c : cases) {
    const auto canonical = Canonicalize(c.spec);
    const auto traits = TraitsOf(canonical->spec);
    const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
    const auto* learned = std::get_if<WindowBiasPlan>(&resolved->plan);
    const auto* continuous = std::get_if<ContinuousWindowBiasPlan>(&resolved->plan);
    if (traits->tokens < 2 || traits->tokens > 200 || traits->indices_only) continue;
    SCOPED_TRACE(c.name);
    ++tables;
    const TokenWindow& window = learned != nullptr ? learned->window : continuous->window;
    // All but the first and the last row, of the last head.
    const RowRange rows{1, window.table_rows() - 1};
    const int64_t count = rows.end - rows.begin, head = traits->heads - 1;
    std::vector<float> table(static_cast<size_t>(count));
    std::vector<double> features(static_cast<size_t>(2 * count));
    std::vector<ProgramStep> steps;
    AppendWindowTableSteps(resolved->plan, DType::kF32, head, 1, rows, table.data(), features.data(), &steps);
    ASSERT_TRUE(RunProgram(Cpu(), steps).ok());
    const int64_t tokens = window.tokens();
    const auto full = RunBiasAs<float>(Cpu(), c.spec, Consecutive(0, tokens), Consecutive(0, tokens));
    for (int64_t q = 0; q < tokens; ++q) {
      for (int64_t k = 0; k < tokens; ++k) {
        const int64_t row = window.row_of(q, k);
        if (row < rows.begin || row >= rows.end) continue;
        ASSERT_EQ(full[(head * tokens + q) * tokens + k], table[row - rows.begin]) << q << " " << k;
      }
    }
  }
  EXPECT_GE(tables, 2);
}

TEST(WindowBiasTest, BatchRowsOfGatesAreThoseOfEach) {
  const auto both = RuleWeight(5, {2, 3, 40});
  const auto values = both->values();
  for (int64_t b : {0, 1}) {
    const ForgettingBiasSpec one{.logits = true,
                                 .gates = MakeWeight({3, 40}, {values.begin() + b * 120, values.begin() + (b + 1) * 120})};
    const ForgettingBiasSpec two{.logits = true, .gates = both};
    const auto positions = Consecutive(0, 40);
    EXPECT_EQ(RunBias(Cpu(), two, DType::kF32, positions, positions, 0, -1, b),
              RunBias(Cpu(), one, DType::kF32, positions, positions));
  }
}

// ---- What each scheme's catalogue row warns of.

// Table row r holds r, so that a bias is its index.
WindowBiasSpec Numbered(int64_t height, int64_t width, bool class_token) {
  const TokenWindow window{height, width, class_token};
  std::vector<double> rows(static_cast<size_t>(window.table_rows()));
  for (size_t r = 0; r < rows.size(); ++r) rows[r] = static_cast<double>(r);
  return {.window_height = height,
          .window_width = width,
          .class_token = class_token,
          .table = MakeWeight({window.table_rows(), 1}, rows)};
}

TEST(WindowBiasGotchaTest, SwinIndexIsQueryMinusKeyRowMajor) {
  const auto bias = RunBiasAs<float>(Cpu(), Numbered(7, 7, false), {}, {});
  EXPECT_EQ(bias[0], 84);         // no offset: the middle of 169
  EXPECT_EQ(bias[1], 83);         // key one to the right: Δx = −1
  EXPECT_EQ(bias[7], 71);         // key one below: Δy = −1, a row of 13 back
  EXPECT_EQ(bias[48 * 49], 168);  // last query, first key
  EXPECT_NE(bias[1], 85);         // key minus query would be this
  const auto wide = RunBiasAs<float>(Cpu(), Numbered(2, 5, false), {}, {});
  EXPECT_EQ(wide[5], 13 - 9);  // a row is 2·width − 1 = 9 wide, whatever the height
  EXPECT_NE(wide[5], 13 - 3);  // with the sides exchanged
}

TEST(WindowBiasGotchaTest, BeitsClassRowsAreTheLastThree) {
  const auto bias = RunBiasAs<float>(Cpu(), Numbered(14, 14, true), {}, {});
  EXPECT_EQ(bias[0], 731);        // class → class
  EXPECT_EQ(bias[1], 729);        // class → token
  EXPECT_EQ(bias[197], 730);      // token → class
  EXPECT_EQ(bias[197 + 1], 364);  // token → itself: 13·27 + 13, not shifted by three rows
  EXPECT_NE(bias[197 + 1], 364 + 3);
}

TEST(WindowBiasGotchaTest, Swinv2DividesByThePretrainedWindow) {
  // One hidden unit that passes the feature of y on, so that the bias is 16·σ(feature).
  ContinuousWindowBiasSpec spec{.window_height = 16,
                                .window_width = 1,
                                .pretrained_height = 12,
                                .pretrained_width = 1,
                                .w1 = MakeWeight({1, 2}, {1, 0}),
                                .b1 = MakeWeight({1}, {0}),
                                .w2 = MakeWeight({1, 1}, {1})};
  const auto bias = RunBiasAs<double>(Cpu(), spec, {}, {});
  const double feature = std::log2(1 + 8 * 15.0 / 11) / 3;
  EXPECT_NEAR(bias[15 * 16], 16 / (1 + std::exp(-feature)), 1e-14);
  const double wrong = std::log2(1 + 8 * 15.0 / 15) / 3;
  EXPECT_GT(std::fabs(bias[15 * 16] - 16 / (1 + std::exp(-wrong))), 0.3);
  EXPECT_EQ(bias[15], 8);  // the other sign: ReLU cuts it, and 16·σ(0) is 8, not 0
}

FireSpec Identity() {  // the bias is the feature
  return {.c = {},
          .threshold = {},
          .epsilon = {},
          .w1 = MakeWeight({1, 1}, {1}),
          .b1 = MakeWeight({1}, {0}),
          .w2 = MakeWeight({1, 1}, {1}),
          .b2 = MakeWeight({1}, {0})};
}

TEST(WindowBiasGotchaTest, FireIsNormedByTheQuerysPosition) {
  const auto decode = RunBiasAs<double>(Cpu(), Identity(), {2047}, Consecutive(0, 2048));
  EXPECT_NEAR(decode[1947], std::log(1 + 0.1 * 100) / (std::log(1 + 0.1 * 2047) + 1e-6), 1e-15);
  // The same distance at an early query, where the threshold holds; and what a row index of 0 would give.
  const auto early = RunBiasAs<double>(Cpu(), Identity(), {100}, Consecutive(0, 101));
  EXPECT_NEAR(early[0], std::log(1 + 0.1 * 100) / (std::log(1 + 0.1 * 512) + 1e-6), 1e-15);
  EXPECT_GT(early[0] - decode[1947], 0.1);
  EXPECT_EQ(decode[2047], 0);
}

TEST(WindowBiasGotchaTest, DynamicPositionBiasIsFedQueryMinusKey) {
  DynamicPositionBiasSpec spec{.log_distance = true, .layer_norm = false, .w = {}, .b = {}, .g = {}, .h = {}};
  spec.w[0] = MakeWeight({1, 1}, {1}), spec.b[0] = MakeWeight({1}, {0});
  spec.w[1] = MakeWeight({1, 1}, {1}), spec.b[1] = MakeWeight({1}, {0});
  const auto bias = RunBiasAs<double>(Cpu(), spec, {10}, Consecutive(0, 21));
  const double x = std::log(1 + 4.0);
  EXPECT_NEAR(bias[6], x / (1 + std::exp(-x)), 1e-15);   // q − k = 4
  EXPECT_NEAR(bias[14], -x / (1 + std::exp(x)), 1e-15);  // q − k = −4: the sign is kept
}

TEST(WindowBiasGotchaTest, ForgettingCountsTheQuerysGateAndNotTheKeys) {
  const ForgettingBiasSpec spec{.logits = false, .gates = MakeWeight({1, 4}, {-1, -2, -4, -8})};
  const auto bias = RunBiasAs<double>(Cpu(), spec, Consecutive(0, 4), Consecutive(0, 4));
  EXPECT_EQ(bias[3 * 4 + 0], -14);  // gates 1, 2, 3
  EXPECT_EQ(bias[3 * 4 + 3], 0);    // itself
  EXPECT_EQ(bias[1 * 4 + 0], -2);
  EXPECT_EQ(bias[0 * 4 + 3], 0);  // later keys are the mask's
}

TEST(WindowBiasGotchaTest, ForgettingKeepsSmallSumsAfterLongOnes) {
  // A long stretch of strong gates, then weak ones: differences of float32 running sums lose all of the weak ones.
  const int64_t count = 20000;
  std::vector<double> gates(count, -700.0);
  for (int64_t j = count - 10; j < count; ++j) gates[j] = -1e-4;
  const ForgettingBiasSpec spec{.logits = false, .gates = MakeWeight({1, count}, gates, "long")};
  const auto bias = RunBiasAs<double>(Cpu(), spec, {count - 1}, Consecutive(0, count));
  EXPECT_NEAR(bias[count - 6], -5e-4, 1e-19);
  float sum = 0, key = 0;
  for (int64_t j = 0; j < count; ++j) {
    sum += static_cast<float>(gates[j]);
    if (j == count - 6) key = sum;
  }
  EXPECT_EQ(sum - key, 0.0f);
}

TEST(WindowBiasGotchaTest, TupeUntiesTheClassTokenFromTheWholeBias) {
  const TupeSpec spec{.num_buckets = {},
                      .max_distance = {},
                      .q = MakeWeight({1, 3, 2}, {1, 2, 3, 4, 5, 6}),
                      .k = MakeWeight({1, 3, 2}, {1, 1, 2, 0, 0, 3}),
                      .bias = MakeWeight({1, 3}, {10, 20, 30}),
                      .untied = MakeWeight({1, 2}, {-1, -2})};
  const auto bias = RunBiasAs<double>(Cpu(), spec, Consecutive(0, 3), Consecutive(0, 3));
  EXPECT_EQ(bias[0], -1);  // class → class is "class → any"
  EXPECT_EQ(bias[2], -1);
  EXPECT_EQ(bias[3], -2);                           // any → class
  EXPECT_EQ(bias[3 + 1], 6.0 / 2 + 20);             // (3, 4)·(2, 0) over √(2·2)
  EXPECT_EQ(bias[3 + 2], 12.0 / 2 + 30);            // one ahead
  EXPECT_EQ(bias[2 * 3 + 1], 10.0 / 2 + 10);        // one behind
  EXPECT_NE(bias[3 + 1], 6.0 / std::sqrt(2) + 20);  // √d alone
}

TEST(WindowBiasTest, IndicesAreTheRule) {
  for (const TokenWindow& window : {TokenWindow{2, 3, true}, TokenWindow{5, 4, false}}) {
    for (DType dtype : {DType::kI64, DType::kI32}) {
      AlignedBytes scratch(window.table_rows() * 8 + 64);
      std::vector<std::byte> out(static_cast<size_t>(window.tokens() * window.tokens() * SizeOf(dtype)));
      const int64_t row_bytes = window.tokens() * SizeOf(dtype), half = window.tokens() / 2;
      for (const RowRange queries : {RowRange{0, half}, RowRange{half, window.tokens()}}) {
        std::vector<ProgramStep> steps;
        AppendWindowIndexSteps(window, dtype, queries, out.data() + queries.begin * row_bytes, scratch.data(), &steps);
        ASSERT_TRUE(RunProgram(Cpu(), steps).ok());
      }
      for (int64_t i = 0; i < window.tokens() * window.tokens(); ++i) {
        int64_t index = 0;
        std::memcpy(&index, out.data() + i * SizeOf(dtype), static_cast<size_t>(SizeOf(dtype)));
        EXPECT_EQ(index, window.row_of(i / window.tokens(), i % window.tokens()));
      }
    }
  }
}

}  // namespace
}  // namespace phasor
