// Encodings that differ in two ways at once: shifted and scaled, positions scaled and channels permuted.
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/knowledge/compared_sides.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;

SinusoidalSpec Sinusoid(int64_t dim) {
  SinusoidalSpec spec;
  spec.dim = dim;
  return spec;
}

RopeSpec Rope(Pairing pairing, double factor) {
  RopeSpec rope;
  rope.head_dim = 8;
  rope.pairing = pairing;
  if (factor != 1) rope.schedule = LinearSchedule{factor};
  return rope;
}

TEST(CompareCombined, ASinusoidShiftedAndScaled) {
  SinusoidalSpec other = Sinusoid(16);
  other.position_offset = 3;
  other.scale = 0.25;
  for (const auto& [a, b, shift, scale] :
       {std::tuple{Sinusoid(16), other, 3, 0.25}, std::tuple{other, Sinusoid(16), -3, 4.0}}) {
    const Comparison c = Compared(SideOf(a), SideOf(b), 64);
    EXPECT_EQ(c.transformation.kind, "shifted_positions");
    EXPECT_EQ(c.transformation.shift, shift);
    EXPECT_NEAR(c.transformation.scale, scale, 1e-12);
    EXPECT_THAT(c.transformation.how, HasSubstr("multiply the rows before they are added"));
    EXPECT_THAT(c.transformation.how, HasSubstr("position_offset"));
    EXPECT_THAT(c.verdict, HasSubstr(shift > 0 ? "b is a times 0.25, shifted by 3" : "b is a times 4, shifted by −3"));
  }
  // A negative scale, and rows of a table, whose norms differ from row to row.
  const Side a = Table(InputContent::kSinusoidal, {5, 2}, {1, 2, 3, 5, 7, 11, 13, 17, 19, 23});
  const Side b = Table(InputContent::kSinusoidal, {5, 2}, {-6, -10, -14, -22, -26, -34, -38, -46, 1, 1});
  const Comparison rows = Compared(a, b);
  EXPECT_EQ(rows.transformation.kind, "shifted_positions");
  EXPECT_EQ(rows.transformation.shift, 1);
  EXPECT_NEAR(rows.transformation.scale, -2, 1e-12);
}

TEST(CompareCombined, OneRowThatDiffersIsNoShift) {
  const Side a = Table(InputContent::kSinusoidal, {5, 2}, {1, 2, 3, 5, 7, 11, 13, 17, 19, 23});
  const Side b = Table(InputContent::kSinusoidal, {5, 2}, {6, 10, 14, 22, 26, 35, 38, 46, 1, 1});
  EXPECT_EQ(Compared(a, b).transformation.kind, "none");
  // Two rows would be shifts of anything of one column.
  const Side few = Table(InputContent::kSinusoidal, {3, 1}, {1, 2, 4}),
             others = Table(InputContent::kSinusoidal, {3, 1}, {6, 12, 1});
  EXPECT_EQ(Compared(few, others).transformation.kind, "none");
}

TEST(CompareCombined, OtherPairsAtScaledPositions) {
  const Comparison c = Compared(SideOf(Rope(Pairing::kHalfSplit, 1)), SideOf(Rope(Pairing::kInterleaved, 4)));
  EXPECT_EQ(c.transformation.kind, "scaled_positions");
  EXPECT_DOUBLE_EQ(c.transformation.position_factor, 0.25);
  // Channel 2i of b is channel i of a, channel 2i + 1 is channel i + 4.
  EXPECT_THAT(c.transformation.permutation, testing::ElementsAre(0, 4, 1, 5, 2, 6, 3, 7));
  EXPECT_THAT(c.transformation.how, HasSubstr("row j becomes row permutation[j] of a's"));
  EXPECT_THAT(c.verdict, HasSubstr("at positions times 0.25, with channels in another order."));
  const Comparison alike = Compared(SideOf(Rope(Pairing::kHalfSplit, 1)), SideOf(Rope(Pairing::kHalfSplit, 4)));
  EXPECT_TRUE(alike.transformation.permutation.empty());
  // Read alike, written otherwise.
  const Comparison stored = Compared(SideOf(Rope(Pairing::kInterleaved, 1)), SideOf(Rope(Pairing::kInterleavedToHalf, 4)));
  EXPECT_EQ(stored.transformation.kind, "scaled_positions");
  EXPECT_TRUE(stored.transformation.permutation.empty());
  EXPECT_THAT(stored.transformation.how, HasSubstr("reorder cached keys"));
}

TEST(CompareCombined, WiderHeadsAtScaledPositionsAreOther) {
  RopeSpec wide = Rope(Pairing::kHalfSplit, 4);
  wide.head_dim = 16;
  wide.rotary_dim = 8;
  const Comparison c = Compared(SideOf(Rope(Pairing::kHalfSplit, 1)), SideOf(wide));
  EXPECT_EQ(c.transformation.kind, "none");
}

}  // namespace
}  // namespace phasor::server
