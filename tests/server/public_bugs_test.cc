// Bugs that other libraries had in public, and traps of rotations as they are applied: the right value and the wrong one.
// tests/conformance/index.json lists all of them with their tests; most stand beside what they are about.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/apply_harness.h"

namespace phasor::server {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;

std::vector<double> Rotated(const v1::ApplyItem& item) {
  ApplyHarness harness("cpu");
  const ApplyResult result = harness.One(item);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return result.status.ok() ? ValuesOf(result.tensors[0]) : std::vector<double>();
}

std::vector<double> Rotated(const std::string& text, const std::vector<int64_t>& shape, const std::vector<double>& x) {
  v1::ApplyItem item = ItemFrom(text);
  AddTensor(item, shape, x, DType::kF64);
  return Rotated(item);
}

double Largest(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

// huggingface/transformers#22161: a left-padded row stands where its tokens would stand without padding, not by column.
TEST(PublicBugs, LeftPaddedRowsTurnByTheirMask) {
  const std::string spec = "spec { rope { head_dim: 4 } } ";
  const std::vector<double> x = SomeValues(8);
  std::vector<double> padded(8, 9.0);
  padded.insert(padded.end(), x.begin(), x.end());  // [1, 4, 1, 4]: two pads, two tokens
  const std::string mask = "positions { mask { mask { dtype: DTYPE_BOOL shape: [1, 4] data: \"\\000\\000\\001\\001\" } } }";
  const std::vector<double> got = Rotated(spec + mask, {1, 4, 1, 4}, padded);
  const std::vector<double> alone = Rotated(spec + "positions { range {} }", {1, 2, 1, 4}, x);
  const std::vector<double> tail(got.begin() + 8, got.end());
  EXPECT_EQ(tail, alone);
  const std::vector<double> by_column = Rotated(spec + "positions { range {} }", {1, 4, 1, 4}, padded);
  EXPECT_GT(Largest(tail, {by_column.begin() + 8, by_column.end()}), 0.5) << "the bug's answer";
}

// microsoft/onnxruntime#29261: a fusion that forgets `interleaved` or the rotary width turns other channels.
TEST(PublicBugs, PairingAndWidthAreCompared) {
  const std::vector<double> x = SomeValues(8);
  const std::string positions = "positions { list { ids: 2 } }";
  const std::vector<double> half = Rotated("spec { rope { head_dim: 8 rotary_dim: 4 } } " + positions, {1, 1, 1, 8}, x);
  EXPECT_NEAR(half[0], x[0] * std::cos(2) - x[2] * std::sin(2), 1e-15);
  EXPECT_EQ(std::vector<double>(half.begin() + 4, half.end()), std::vector<double>(x.begin() + 4, x.end()));
  const std::vector<double> interleaved =
      Rotated("spec { rope { head_dim: 8 rotary_dim: 4 pairing: PAIRING_INTERLEAVED } } " + positions, {1, 1, 1, 8}, x);
  EXPECT_NEAR(interleaved[0], x[0] * std::cos(2) - x[1] * std::sin(2), 1e-15);
  EXPECT_GT(Largest(half, interleaved), 0.1);
  EXPECT_GT(Largest(half, Rotated("spec { rope { head_dim: 8 } } " + positions, {1, 1, 1, 8}, x)), 0.1);
}

// pegainfer-project/pegainfer#220: a table shorter than the context was read beyond its end.
TEST(PublicBugs, TablesAreNotReadBeyondTheirEnd) {
  v1::ApplyItem tables, item = ItemFrom("positions { list { ids: 4095 } } table_pairing: PAIRING_HALF_SPLIT");
  AddTensor(tables, {4096, 1}, SomeValues(4096));
  *item.mutable_table()->mutable_cos() = tables.tensors(0);
  *item.mutable_table()->mutable_sin() = tables.tensors(0);
  AddTensor(item, {1, 1, 1, 2}, {1, 2});
  EXPECT_EQ(Rotated(item).size(), 2u);
  item.mutable_positions()->mutable_list()->set_ids(0, 4096);
  ApplyHarness harness("cpu");
  const absl::Status status = harness.One(item).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("4096"));
}

// DeepSeek-V3 reads pairs interleaved and writes halves: scores are those of interleaved pairs, stored keys are not.
TEST(PairingGotcha, InterleavedToHalfKeepsScoresAndPermutesKeys) {
  const std::vector<double> q = SomeValues(8, 3), k = SomeValues(8, 4);
  const auto turned = [](const char* pairing, int position, const std::vector<double>& x) {
    return Rotated(std::string("spec { rope { head_dim: 8 pairing: ") + pairing +
                       " } } positions { list { ids: " + std::to_string(position) + " } }",
                   {1, 1, 1, 8}, x);
  };
  const auto score = [&](const char* pairing) {
    const std::vector<double> a = turned(pairing, 11, q), b = turned(pairing, 4, k);
    double sum = 0;
    for (size_t i = 0; i < 8; ++i) sum += a[i] * b[i];
    return sum;
  };
  EXPECT_NEAR(score("PAIRING_INTERLEAVED"), score("PAIRING_INTERLEAVED_TO_HALF"), 1e-14);
  const std::vector<double> plain = turned("PAIRING_INTERLEAVED", 4, k);
  const std::vector<double> halves = turned("PAIRING_INTERLEAVED_TO_HALF", 4, k);
  EXPECT_GT(Largest(plain, halves), 0.1);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(halves[i], plain[2 * i]);
    EXPECT_EQ(halves[i + 4], plain[2 * i + 1]);
  }
}

// Weights of interleaved pairs become those of halves by new[i] = old[2i], new[i + d/2] = old[2i + 1] (transformers#25199).
TEST(PairingGotcha, PermutedWeightsTurnInHalves) {
  const std::vector<double> x = SomeValues(8, 5);
  std::vector<double> permuted(8);
  for (size_t i = 0; i < 4; ++i) permuted[i] = x[2 * i], permuted[i + 4] = x[2 * i + 1];
  const std::string at = " } } positions { list { ids: 7 } }";
  const std::vector<double> interleaved =
      Rotated("spec { rope { head_dim: 8 pairing: PAIRING_INTERLEAVED" + at, {1, 1, 1, 8}, x);
  const std::vector<double> half = Rotated("spec { rope { head_dim: 8" + at, {1, 1, 1, 8}, permuted);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(half[i], interleaved[2 * i]);
    EXPECT_EQ(half[i + 4], interleaved[2 * i + 1]);
  }
}

// Pairs whose coordinate restarts: Qwen's image tower has the same frequencies in both halves, M-RoPE goes on.
TEST(AxesGotcha, FrequenciesRestartInImageTowersOnly) {
  const std::vector<double> x = {1, 1, 1, 1, 0, 0, 0, 0};
  const std::string at =
      "positions { multi_axis { axes { dtype: DTYPE_I64 shape: 1 data: \"\\000\\000\\000\\000\\000\\000\\000\\000\" } "
      "axes { dtype: DTYPE_I64 shape: 1 data: \"\\001\\000\\000\\000\\000\\000\\000\\000\" } } }";
  const auto turned = [&](const std::string& layout) {
    return Rotated("spec { rope { head_dim: 8 axes { sections: [2, 2] layout: " + layout + " } } } " + at, {1, 1, 1, 8}, x);
  };
  EXPECT_NEAR(turned("AXIS_LAYOUT_RESET")[2], std::cos(1), 1e-15);
  EXPECT_NEAR(turned("AXIS_LAYOUT_CHUNKED")[2], std::cos(0.01), 1e-15);
}

}  // namespace
}  // namespace phasor::server
