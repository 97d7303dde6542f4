#include "kernels/cuda/convert16.cuh"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/core/narrow.h"

namespace phasor::cuda {
namespace {

template <typename T>
bool SameNarrow(uint32_t bits) {
  const auto value = std::bit_cast<float>(bits);
  return BitsOf(NarrowBits<T>(value)) == BitsOf(Narrow<T>(value));
}

TEST(CudaConvert16Test, EverySixteenBitValueWidens) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const F16 half{static_cast<uint16_t>(bits)};
    const BF16 brain{static_cast<uint16_t>(bits)};
    EXPECT_EQ(BitsOf(CanonicalizeNaN(WidenBits(half))), BitsOf(Widen<float>(half))) << bits;
    EXPECT_EQ(BitsOf(CanonicalizeNaN(WidenBits(brain))), BitsOf(Widen<float>(brain))) << bits;
  }
}

TEST(CudaConvert16Test, FloatsNarrow) {
  // Every exponent and sign with all patterns of the bits that decide, and a stride over all floats.
  int64_t wrong = 0;
  for (uint32_t head = 0; head < 0x10000; ++head) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2000u, 0x3000u, 0x7fffu, 0x8000u,
                               0x8001u, 0xf000u, 0xffffu}) {
      wrong +=
          !SameNarrow<F16>(head << 16 | low) || !SameNarrow<BF16>(head << 16 | low) || !SameNarrow<float>(head << 16 | low);
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 997) {
    wrong += !SameNarrow<F16>(static_cast<uint32_t>(bits)) || !SameNarrow<BF16>(static_cast<uint32_t>(bits));
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(std::bit_cast<uint64_t>(NarrowBits<double>(-std::numeric_limits<double>::quiet_NaN())), 0x7ff8000000000000u);
}

// RoundDouble has one rounding, of a value that no 16-bit type holds the tie of.
template <typename T>
int64_t WrongDoubles() {
  int64_t wrong = 0;
  for (uint64_t i = 0; i < 3000000; ++i) {
    const uint64_t random = i * 0x9e3779b97f4a7c15;
    // Magnitudes from 2^-40 to 2^20; every other one beside a tie of 8, 11 or 24 bits.
    uint64_t bits = (random & 0x800fffffffffffff) | (983 + random % 60) << 52;
    if (i % 2 == 0)
      bits = (bits & ~((uint64_t{1} << 40) - 1)) | (i / 2 % 3 == 0 ? 1 : i / 2 % 3 == 1 ? 0xffffffffff : 1 << 20);
    if (static_cast<uint32_t>(bits) == 0) continue;
    const auto value = std::bit_cast<double>(bits);
    wrong += BitsOf(RoundDouble<T>(value)) != BitsOf(Narrow<T>(value));
  }
  return wrong;
}
TEST(CudaConvert16Test, DoublesRoundOnce) {
  EXPECT_EQ(WrongDoubles<float>(), 0);
  EXPECT_EQ(WrongDoubles<F16>(), 0);
  EXPECT_EQ(WrongDoubles<BF16>(), 0);
}

}  // namespace
}  // namespace phasor::cuda
