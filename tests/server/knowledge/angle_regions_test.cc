// Starts that values alone allow, with no idea of the schedule.
#include "server/knowledge/angle_regions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/angle_float32.h"
#include "tests/server/knowledge/angle_samples.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;

PairTable TableOf(DType dtype, Precision precision, int64_t start, InputContent content = InputContent::kCosAndSin) {
  Sample sample;
  RopeSpec rope;
  rope.head_dim = 64;
  rope.base = 27182.0;  // of no model
  rope.schedule = DefaultSchedule{};
  sample.spec = rope;
  sample.dtype = dtype;
  sample.precision = precision;
  sample.content = content;
  sample.start = start;
  sample.rows = 64;
  return ReadPairs(MakeTable(*MakeCpuBackend(), sample)).front();
}

TEST(TurnRegions, OfAnExactTableOnlyItsStartIsAllowed) {
  for (const InputContent content : {InputContent::kCosAndSin, InputContent::kCos, InputContent::kSin}) {
    for (const int64_t start : {int64_t{0}, int64_t{1234}, int64_t{98765}}) {
      const PairTable table = TableOf(DType::kF32, Precision::kExact, start, content);
      const Estimates estimates = EstimatePairs(table);
      EXPECT_THAT(TurnRegions(table, estimates, false).Starts(int64_t{1} << 17, 10), ElementsAre(start));
    }
  }
}

TEST(TurnRegions, AnglesInFloat32AreAllowedWhereThatIsSaid) {
  const PairTable table = TableOf(DType::kF32, Precision::kCompatF32, 98765);
  const Estimates estimates = EstimatePairs(table);
  EXPECT_FALSE(TurnRegions(table, estimates, false).Allows(98765));
  TurnRegions rounded(table, estimates, true);
  EXPECT_TRUE(rounded.Allows(98765));
  EXPECT_FALSE(rounded.Allows(50000));
}

TEST(TurnRegions, ManyStartsAreTheFirstAndTheLastOnes) {
  const PairTable table = TableOf(DType::kBF16, Precision::kExact, 100);
  Estimates estimates = EstimatePairs(table);
  for (PairEstimate& pair : estimates.pairs) pair = PairEstimate{};  // nothing is known: everything is allowed
  EXPECT_THAT(TurnRegions(table, estimates, false).Starts(999, 4), ElementsAre(0, 1, 999, 500));
}

TEST(Float32Starts, AllowsTheStartOfFloat32AnglesAndFewOthers) {
  const PairTable table = TableOf(DType::kBF16, Precision::kCompatF32, 98765);
  const Estimates estimates = EstimatePairs(table);
  Float32Starts starts(table, estimates, 1);
  EXPECT_TRUE(starts.Allows(98765));
  int allowed = 0;
  for (int64_t start = 90000; start < 91000; ++start) allowed += starts.Allows(start) ? 1 : 0;
  EXPECT_LT(allowed, 20);
}

}  // namespace
}  // namespace phasor::server
