#include "kernels/core/philox.h"

#include "gtest/gtest.h"

namespace phasor {
namespace {

// Published with the generator: the known answers of Random123 (tests/kat_vectors), which TensorFlow's tests use as well.
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, CountersAreOffsetPlusBlockIn128Bits) {
  constexpr uint64_t kSeed = 0x123456789abcdef0;
  EXPECT_EQ(Philox(kSeed, 5, 7), Philox({12, 0, 0, 0}, {0x9abcdef0, 0x12345678}));
  EXPECT_EQ(Philox(kSeed, uint64_t{1} << 32, 7), Philox({7, 1, 0, 0}, {0x9abcdef0, 0x12345678}));
  EXPECT_EQ(Philox(kSeed, UINT64_MAX, 0), Philox({0xffffffff, 0xffffffff, 0, 0}, {0x9abcdef0, 0x12345678}));
  EXPECT_EQ(Philox(kSeed, UINT64_MAX, 1), Philox({0, 0, 1, 0}, {0x9abcdef0, 0x12345678}));  // carried, not wrapped
}

}  // namespace
}  // namespace phasor
