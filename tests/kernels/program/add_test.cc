// What adding means, in numbers: the factor, dropout, the gate, the ends of a domain; and that it does not matter how it is
// cut.
#include "kernels/program/add.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/core/narrow.h"
#include "kernels/core/philox.h"
#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

struct Sinusoids {
  CanonicalSpec canonical;
  Resolved resolved;

  std::shared_ptr<const RowMaker> Rows(const PositionSource& source, int64_t rows) const {
    AbsolutePositions positions;
    positions.source = source;
    positions.rows = rows;
    return std::make_shared<const RowMaker>(canonical.spec, resolved.plan, positions);
  }
};

Sinusoids Resolve(const SinusoidalSpec& spec) {
  auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto resolved = phasor::Resolve(*canonical, std::nullopt, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return {*std::move(canonical), *std::move(resolved)};
}

SinusoidalSpec Width(int64_t dim) {
  SinusoidalSpec spec;
  spec.dim = dim;
  return spec;
}

std::unique_ptr<Backend> Cpu() {
  auto backend = CreateBackend("cpu");
  EXPECT_TRUE(backend.ok());
  return *std::move(backend);
}

// The encodings of [batch, tokens, dim] zeros: what is added.
AddTask TaskFor(std::vector<float>& x, int64_t batch, int64_t tokens, int64_t dim) {
  AddTask task;
  task.batch = batch;
  task.tokens = tokens;
  task.dim = dim;
  task.x = task.y = x.data();
  task.x_token_stride = task.y_token_stride = task.element_token_stride = dim;
  task.x_batch_stride = task.y_batch_stride = task.element_batch_stride = tokens * dim;
  return task;
}

TEST(AddScaleTest, RootOfTheWidthIsCorrectlyRounded) {
  EXPECT_EQ(AddScale(std::nullopt, 512, std::nullopt, DType::kF32), static_cast<double>(22.6274169979695207808f));
  EXPECT_EQ(AddScale(std::nullopt, 512, std::nullopt, DType::kBF16), static_cast<double>(22.6274169979695207808f));
  EXPECT_EQ(AddScale(std::nullopt, 512, std::nullopt, DType::kF64), 22.6274169979695207808);
  EXPECT_EQ(AddScale(std::nullopt, 1024, std::nullopt, DType::kF32), 32);
  EXPECT_EQ(AddScale(0.1, 1024, std::nullopt, DType::kF32), static_cast<double>(0.1f));
  EXPECT_EQ(AddScale(0.1, 1024, std::nullopt, DType::kF64), 0.1);
  EXPECT_TRUE(std::isinf(AddScale(1e39, 1, std::nullopt, DType::kF32)));
}

// Gemma multiplies by √D rounded to the type of its weights: 62 for D = 3840 in bf16, not 61.9677.
TEST(AddScaleTest, GemmasMultiplierIsRoundedFirst) {
  EXPECT_EQ(AddScale(std::nullopt, 3840, DType::kBF16, DType::kBF16), 62.0);
  EXPECT_EQ(AddScale(std::nullopt, 3840, DType::kBF16, DType::kF32), 62.0);
  const double wrong = AddScale(std::nullopt, 3840, std::nullopt, DType::kBF16);
  EXPECT_EQ(wrong, static_cast<double>(61.96773353931867f));
  // It shows: 62 · 1.109375 = 68.78 is 69 in bf16, 61.9677 · 1.109375 = 68.75 − 0.005 is 68.5.
  EXPECT_EQ(Widen<float>(Narrow<BF16>(62.0f * 1.109375f)), 69);
  EXPECT_EQ(Widen<float>(Narrow<BF16>(static_cast<float>(wrong) * 1.109375f)), 68.5f);
  EXPECT_EQ(AddScale(std::nullopt, 2048, DType::kBF16, DType::kF32), 45.25);   // Gemma-2B: 45.2548
  EXPECT_EQ(AddScale(std::nullopt, 3072, DType::kF16, DType::kF32), 55.4375);  // Gemma-7B in f16: 55.4256
}

TEST(DropoutTest, ThresholdIsRoundedToNearest) {
  EXPECT_EQ(DropoutThreshold(0), 0u);
  EXPECT_EQ(DropoutThreshold(0.5), uint64_t{1} << 31);
  EXPECT_EQ(DropoutThreshold(0.1), 429496730u);         // 429496729.6
  EXPECT_EQ(DropoutThreshold(std::ldexp(1, -33)), 1u);  // a half goes up
  EXPECT_EQ(DropoutThreshold(std::nextafter(std::ldexp(1, -33), 0)), 0u);
  EXPECT_EQ(DropoutThreshold(std::nextafter(1, 0)), uint64_t{1} << 32);
}

TEST(DropoutTest, KeepsWhatTheGeneratorSays) {
  constexpr int64_t kTokens = 7, kDim = 37;
  std::vector<float> x(2 * kTokens * kDim, 3.0f);
  AddTask task = TaskFor(x, 2, kTokens, kDim);
  task.dropout = {true, 42, 1000, DropoutThreshold(0.25), DropoutFactor(0.25, DType::kF32)};
  EXPECT_EQ(task.dropout.factor, static_cast<double>(1.3333333333333333f));
  ASSERT_TRUE(RunProgram(*Cpu(), {{AddStep(task, {})}}).ok());
  int64_t kept = 0;
  for (size_t e = 0; e < x.size(); ++e) {
    const uint32_t word = Philox(42, 1000, e / 4)[e % 4];
    EXPECT_EQ(x[e], word >= 0x40000000u ? 4.0f : 0.0f) << e;
    kept += x[e] != 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / static_cast<double>(x.size()), 0.75, 0.05);
}

TEST(DropoutTest, DropsWhateverTheElementIs) {
  std::vector<float> x = {NAN, INFINITY, NAN, INFINITY, NAN, INFINITY, NAN, INFINITY};
  AddTask task = TaskFor(x, 1, 1, 8);
  task.dropout = {true, 1, 0, uint64_t{1} << 32, 2};
  ASSERT_TRUE(RunProgram(*Cpu(), {{AddStep(task, {})}}).ok());
  for (const float v : x) EXPECT_EQ(BitsOf(v), 0u);  // +0
}

// α·A + (1 − α)·B: 1 gives A and 0 gives B, to the bit; the order of the operations is fixed.
TEST(GateTest, BlendsTwoEncodings) {
  const Sinusoids a = Resolve(Width(12));
  SinusoidalSpec spec = Width(12);
  spec.base = 500;
  spec.layout = SinusoidalLayout::kConcatenated;
  const Sinusoids b = Resolve(spec);
  constexpr int64_t kTokens = 9, kDim = 12;
  const auto rows_of = [&](const Sinusoids& sinusoids) { return sinusoids.Rows({3, 1, {}}, kTokens); };
  const auto run = [&](float alpha) {
    std::vector<float> x(kTokens * kDim, 0.0f);
    AddTask task = TaskFor(x, 1, kTokens, kDim);
    task.gate.data = &alpha;
    EXPECT_TRUE(RunProgram(*Cpu(), {{AddStep(task, {rows_of(a), rows_of(b)})}}).ok());
    return x;
  };
  std::vector<float> only_a(kTokens * kDim), only_b(kTokens * kDim);
  const auto cpu = Cpu();
  ASSERT_TRUE(rows_of(a)->Make(*cpu, {0, kTokens}, DType::kF32, only_a.data(), nullptr).ok());
  ASSERT_TRUE(rows_of(b)->Make(*cpu, {0, kTokens}, DType::kF32, only_b.data(), nullptr).ok());
  EXPECT_EQ(run(1), only_a);
  EXPECT_EQ(run(0), only_b);
  const std::vector<float> mixed = run(0.3f);
  for (size_t i = 0; i < mixed.size(); ++i) {
    EXPECT_EQ(mixed[i], std::fma(0.3f, only_a[i], (1 - 0.3f) * only_b[i])) << i;
  }
  // A gate with nothing on its other side is no gate between two encodings: α·PE + (1 − α)·0 is α·PE.
  EXPECT_NE(mixed[1], 0.3f * only_a[1]);
}

TEST(EndsTest, FirstComesBeforeLastAndBothAreAdded) {
  std::vector<float> x = {1, 1, 1, 1, 1, 1};
  const std::vector<float> zero(2, 0.0f);
  // 2^24 + 1 − 2^24: the order shows.
  const std::vector<float> first = {16777216, 16777216}, last = {-16777216, -16777216};
  const std::vector<int32_t> first_index = {0, 0, -1}, last_index = {-1, 0, 0};
  AddTask task = TaskFor(x, 1, 3, 2);
  task.scale = 1;
  task.pe = {zero.data(), 0, 0};
  task.first = {first.data(), first_index.data(), 0};
  task.last = {last.data(), last_index.data(), 0};
  ASSERT_TRUE(Cpu()->Run(task, {0, 3}, nullptr).ok());
  EXPECT_EQ(x, (std::vector<float>{16777216, 16777216, 1, 1, -16777215, -16777215}));
}

TEST(HiddenTest, HiddenTokensAreZerosAndTheOthersAreNot) {
  std::vector<float> x = {1, 2, NAN, -3};
  const std::vector<float> pe = {10, 10};
  const uint8_t hidden[] = {0, 1};
  AddTask task = TaskFor(x, 1, 2, 2);
  task.pe = {pe.data(), 0, 0};
  task.hidden = hidden;
  ASSERT_TRUE(Cpu()->Run(task, {0, 2}, nullptr).ok());
  EXPECT_EQ(x[0], 11);
  EXPECT_EQ(x[1], 12);
  EXPECT_EQ(BitsOf(x[2]), 0u);
  EXPECT_EQ(BitsOf(x[3]), 0u);
}

// One rounding: to 16 bits from the f32 sum, which is one rounding of scale·x + PE.
TEST(AddTest, RoundsOnceInTheComputeTypeAndOnceToStore) {
  const float pe[] = {0.84147098f};  // sin 1
  BF16 x[] = {Narrow<BF16>(2.5f)};
  AddTask task;
  task.dtype = DType::kBF16;
  task.tokens = task.dim = 1;
  task.x = task.y = x;
  task.scale = 22.6274170f;
  task.pe = {pe, 0, 0};
  ASSERT_TRUE(Cpu()->Run(task, {0, 1}, nullptr).ok());
  EXPECT_EQ(BitsOf(x[0]), BitsOf(Narrow<BF16>(std::fma(22.6274170f, 2.5f, 0.84147098f))));
}

// Every way of cutting the step, of sharing rows and of ordering positions gives the bits of the whole.
TEST(AddStepTest, BitsDoNotDependOnCutsAndRowsAreThoseOfTheTable) {
  SinusoidalSpec spec = Width(1030);
  spec.position_offset = 2;
  spec.padding_row = 153;
  const Sinusoids s = Resolve(spec);
  std::mt19937_64 random(5);
  const auto cpu = Cpu();
  for (const bool per_batch : {false, true}) {
    const int64_t batch = 3, tokens = 301, dim = 1030;
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < batch * tokens; ++i) ids.push_back(static_cast<int64_t>(random() % 1000));
    PositionSource positions{11, 1, {}};
    if (per_batch) positions.ids = ids;
    const auto rows = s.Rows(positions, per_batch ? batch * tokens : tokens);
    std::vector<float> x(static_cast<size_t>(batch * tokens * dim));
    for (float& v : x) v = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 512;
    const std::vector<float> before = x;
    std::vector<float> cut = x;
    const ProgramStep whole = AddStep(TaskFor(x, batch, tokens, dim), {rows, nullptr, per_batch});
    ASSERT_TRUE(RunStep(*cpu, whole, {0, whole.rows}, nullptr).ok());
    const ProgramStep pieces = AddStep(TaskFor(cut, batch, tokens, dim), {rows, nullptr, per_batch});
    for (int64_t begin = 0; begin < pieces.rows;) {
      const int64_t end = std::min<int64_t>(pieces.rows, begin + 1 + static_cast<int64_t>(random() % 200));
      ASSERT_TRUE(RunStep(*cpu, pieces, {begin, end}, nullptr).ok());
      begin = end;
    }
    EXPECT_EQ(std::memcmp(x.data(), cut.data(), x.size() * sizeof(float)), 0);
    std::vector<float> row(static_cast<size_t>(dim));
    int zeros = 0;
    for (int64_t v = 0; v < batch * tokens; v += 7) {
      const int64_t position = per_batch ? ids[static_cast<size_t>(v)] : 11 + v % tokens;
      const auto one = s.Rows({position, 1, {}}, 1);
      ASSERT_TRUE(one->Make(*cpu, {0, 1}, DType::kF32, row.data(), nullptr).ok());
      zeros += position + 2 == 153;
      if (position + 2 == 153) {
        EXPECT_EQ(std::accumulate(row.begin(), row.end(), 0.0f), 0.0f);
      }
      for (int64_t c = 0; c < dim; ++c) {
        const size_t at = static_cast<size_t>(v * dim + c);
        ASSERT_EQ(x[at], before[at] + row[static_cast<size_t>(c)]) << v << " " << c;
      }
    }
    EXPECT_TRUE(per_batch || zeros > 0);
  }
}

}  // namespace
}  // namespace phasor
