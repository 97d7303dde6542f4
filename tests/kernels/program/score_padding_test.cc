// Padded keys in scores that sum over keys: CoPE's gates and forgetting biases.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/cpu_target.h"
#include "tests/kernels/program/score_cases.h"

namespace phasor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The scores as numbers, the same on the reference and on every instruction set.
std::vector<double> Scores(const ScoreSettings& s, const std::vector<double>& q, const std::vector<double>& k) {
  const auto reference = CreateBackend("reference");
  const auto expected = RunScores(**reference, s, BytesOf(q, s.tensor_dtype), BytesOf(k, s.tensor_dtype));
  EXPECT_TRUE(expected.ok()) << expected.status();
  if (!expected.ok()) return {};
  const auto cpu = CreateBackend("cpu");
  for (const std::string& target : CpuTargets()) {
    EXPECT_TRUE(ForceCpuTarget(target).ok());
    const auto got = RunScores(**cpu, s, BytesOf(q, s.tensor_dtype), BytesOf(k, s.tensor_dtype));
    EXPECT_TRUE(got.ok() && got->scores == expected->scores) << target;
  }
  EXPECT_TRUE(ForceCpuTarget("auto").ok());
  return NumbersOf(expected->scores, s.dtype);
}

ScoreSettings Base(int64_t batch, int64_t tokens) {
  ScoreSettings s;
  s.shape = {batch, 1, tokens, tokens, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  for (int64_t i = 0; i < tokens; ++i) s.query_positions.ids.push_back(i);
  s.key_positions = s.query_positions;
  s.omit_content = true;
  s.scale = 1;
  return s;
}

// q·k = 0: every key that is there counts ½. With a table of e[p] = p the score is the position.
TEST(ScorePaddingTest, CopeCountsNoPaddedKey) {
  ScoreSettings s = Base(2, 3);
  CopeSpec cope;
  cope.e = MakeWeight({1, 4}, {0, 1, 2, 3});
  cope.max_positions = 4;
  s.terms = {cope};
  const std::vector<double> ones(6, 1), zeros(6, 0);
  const std::vector<double> all = Scores(s, ones, zeros);
  EXPECT_EQ(std::vector<double>(all.begin() + 6, all.begin() + 9), (std::vector<double>{1.5, 1, 0.5}));
  // Row 0 is whole; in row 1 the key in the middle is padding. With it counted, the first would stand at 1½.
  s.masking.key_padding = {1, 1, 1, 1, 0, 1};
  s.masking.key_padding_batch_stride = 3;
  const std::vector<double> padded = Scores(s, ones, zeros);
  EXPECT_EQ(std::vector<double>(padded.begin(), padded.begin() + 9), std::vector<double>(all.begin(), all.begin() + 9));
  EXPECT_EQ(std::vector<double>(padded.begin() + 15, padded.end()), (std::vector<double>{1, -kInfinity, 0.5}));
  // One row of padding for all of the batch.
  s.masking.key_padding = {1, 0, 1};
  s.masking.key_padding_batch_stride = 0;
  const std::vector<double> alike = Scores(s, ones, zeros);
  EXPECT_EQ(std::vector<double>(alike.begin() + 6, alike.begin() + 9), (std::vector<double>{1, -kInfinity, 0.5}));
}

TEST(ScorePaddingTest, ForgettingSumsNoPaddedGate) {
  ScoreSettings s = Base(2, 4);
  ForgettingBiasSpec forgetting;
  forgetting.gates = MakeWeight({1, 4}, {-1, -2, -4, -8});
  s.biases = {forgetting};
  const std::vector<double> ones(8, 1);
  const std::vector<double> all = Scores(s, ones, ones);
  EXPECT_EQ(std::vector<double>(all.begin() + 12, all.begin() + 16), (std::vector<double>{-14, -12, -8, 0}));
  s.masking.key_padding = {1, 1, 1, 1, 1, 1, 0, 1};
  s.masking.key_padding_batch_stride = 4;
  const std::vector<double> padded = Scores(s, ones, ones);
  EXPECT_EQ(std::vector<double>(padded.begin(), padded.begin() + 16), std::vector<double>(all.begin(), all.begin() + 16));
  // The padded key's gate −4 counts nothing.
  EXPECT_EQ(std::vector<double>(padded.begin() + 28, padded.end()), (std::vector<double>{-10, -8, -kInfinity, 0}));
  // Left padding whose tokens stand at 0 as the first real one does: that one's gate counts.
  s.key_positions.ids = {0, 0, 1, 2};
  s.masking.key_padding = {0, 1, 1, 1};
  s.masking.key_padding_batch_stride = 0;
  s.query_positions.ids = {0, 0, 1, 2};
  const std::vector<double> left = Scores(s, ones, ones);
  EXPECT_EQ(std::vector<double>(left.begin() + 12, left.begin() + 16), (std::vector<double>{-kInfinity, -6, -4, 0}));
}

}  // namespace
}  // namespace phasor
