// The vector conversions against kernels/core/narrow.h, on every instruction set.
#include <gtest/gtest.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "tests/kernels/cpu/each_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/convert_test.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void NarrowAll(const float*, int64_t, uint16_t*, uint16_t*, uint16_t*, uint16_t*) {}
void WidenAll(const uint16_t*, int64_t, float*, float*, float*) {}
void OddFromF64(const double*, int64_t, float*) {}
uint64_t DifferencesInF16(uint64_t) { return 0; }
bool HasVectors() { return false; }

#else

bool HasVectors() { return true; }

template <class DF>
void NarrowWith(DF df, const float* from, int64_t count, uint16_t* f16, uint16_t* f16_integer, uint16_t* bf16,
                uint16_t* bf16_pairs) {
  const hn::Rebind<uint16_t, DF> du16;
  const hn::Repartition<uint16_t, DF> packed;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  for (int64_t i = 0; i + 2 * lanes <= count; i += 2 * lanes) {
    for (int64_t j : {i, i + lanes}) {
      const auto v = hn::LoadU(df, from + j);
      hn::StoreU(NarrowToF16(df, v), du16, f16 + j);
      hn::StoreU(NarrowToF16Integer(df, v), du16, f16_integer + j);
      hn::StoreU(NarrowToBF16(df, v), du16, bf16 + j);
    }
    hn::Vec<DF> even, odd;
    hn::LoadInterleaved2(df, from + i, even, odd);
    even = CanonicalizeNaN(df, even);
    odd = CanonicalizeNaN(df, odd);
    hn::StoreU(NarrowToBF16EvenOddAnyNaN(df, even, odd), packed, bf16_pairs + i);
  }
}
void NarrowAll(const float* from, int64_t count, uint16_t* f16, uint16_t* f16_integer, uint16_t* bf16,
               uint16_t* bf16_pairs) {
  // Each width of vectors for a part of the numbers.
  const int64_t third = count / 96 * 32;
  NarrowWith(hn::ScalableTag<float>(), from, third, f16, f16_integer, bf16, bf16_pairs);
  NarrowWith(hn::CappedTag<float, 8>(), from + third, third, f16 + third, f16_integer + third, bf16 + third,
             bf16_pairs + third);
  NarrowWith(hn::CappedTag<float, 4>(), from + 2 * third, third, f16 + 2 * third, f16_integer + 2 * third, bf16 + 2 * third,
             bf16_pairs + 2 * third);
}

void WidenAll(const uint16_t* from, int64_t count, float* f16, float* bf16, float* bf16_pairs) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const hn::Repartition<uint16_t, decltype(df)> packed;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  for (int64_t i = 0; i < count; i += 2 * lanes) {
    for (int64_t j : {i, i + lanes}) {
      const auto v = hn::LoadU(du16, from + j);
      hn::StoreU(CanonicalizeNaN(df, WidenF16(df, v)), df, f16 + j);
      hn::StoreU(CanonicalizeNaN(df, WidenBF16(df, v)), df, bf16 + j);
    }
    hn::Vec<decltype(df)> even, odd;
    WidenBF16EvenOdd(df, hn::LoadU(packed, from + i), even, odd);
    hn::StoreInterleaved2(CanonicalizeNaN(df, even), CanonicalizeNaN(df, odd), df, bf16_pairs + i);
  }
}

void OddFromF64(const double* from, int64_t count, float* to) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(dd));
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(NarrowF64ToOddF32(df, hn::LoadU(dd, from + i)), df, to + i);
}

// How many of the f32 patterns 0, step, 2·step, … give other bits by NarrowToF16 than by integers alone.
uint64_t DifferencesInF16(uint64_t step) {
  const hn::ScalableTag<float> df;
  const hn::RebindToUnsigned<decltype(df)> du;
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const uint64_t lanes = hn::Lanes(df);
  uint64_t differences = 0;
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += lanes * step) {
    const auto bits = hn::Add(hn::Set(du, static_cast<uint32_t>(first)),
                              hn::Mul(hn::Iota(du, 0), hn::Set(du, static_cast<uint32_t>(step))));
    const auto v = hn::BitCast(df, bits);
    const auto same = hn::Eq(NarrowToF16(df, v), NarrowToF16Integer(df, v));
    if (!hn::AllTrue(du16, same)) ++differences;
  }
  return differences;
}

#endif  // vectors

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace phasor {
namespace {

HWY_EXPORT(NarrowAll);
HWY_EXPORT(WidenAll);
HWY_EXPORT(OddFromF64);
HWY_EXPORT(DifferencesInF16);
HWY_EXPORT(HasVectors);

template <typename F>
void OnEachVectorTarget(F&& check) {
  OnEachTarget([&] {
    if (HWY_DYNAMIC_DISPATCH(HasVectors)()) check();
  });
}

// Both neighbours and the middle of every two 16-bit numbers, with what is beside the middle; and any patterns.
std::vector<float> Interesting() {
  std::vector<float> values;
  const auto around = [&](float below, float above) {
    if (!std::isfinite(below)) return;
    const double middle = std::isfinite(above) ? below + (static_cast<double>(above) - below) / 2 : below;
    const float m = static_cast<float>(middle);
    for (float v : {below, m, std::nextafter(m, INFINITY), std::nextafter(m, -INFINITY)}) {
      values.push_back(v);
      values.push_back(-v);
    }
  };
  for (uint32_t bits = 0; bits < 0x7fff; ++bits) {
    around(Widen<float>(F16{static_cast<uint16_t>(bits)}), Widen<float>(F16{static_cast<uint16_t>(bits + 1)}));
    around(Widen<float>(BF16{static_cast<uint16_t>(bits)}), Widen<float>(BF16{static_cast<uint16_t>(bits + 1)}));
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < 100000; ++i) values.push_back(FromBits<float>(random()));
  std::shuffle(values.begin(), values.end(), random);
  values.resize(values.size() / 96 * 96);
  return values;
}

TEST(ConvertTest, NarrowingGivesTheScalarBits) {
  const std::vector<float> values = Interesting();
  const size_t n = values.size();
  OnEachVectorTarget([&] {
    std::vector<uint16_t> f16(n), f16_integer(n), bf16(n), bf16_pairs(n);
    HWY_DYNAMIC_DISPATCH(NarrowAll)
    (values.data(), static_cast<int64_t>(n), f16.data(), f16_integer.data(), bf16.data(), bf16_pairs.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(f16[i], Narrow<F16>(values[i]).bits) << std::hexfloat << values[i];
      ASSERT_EQ(f16_integer[i], f16[i]) << std::hexfloat << values[i];
      ASSERT_EQ(bf16[i], Narrow<BF16>(values[i]).bits) << std::hexfloat << values[i];
      ASSERT_EQ(bf16_pairs[i], bf16[i]) << std::hexfloat << values[i];
    }
  });
}

TEST(ConvertTest, WideningGivesTheScalarBits) {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  OnEachVectorTarget([&] {
    std::vector<float> f16(65536), bf16(65536), bf16_pairs(65536);
    HWY_DYNAMIC_DISPATCH(WidenAll)(patterns.data(), 65536, f16.data(), bf16.data(), bf16_pairs.data());
    for (size_t i = 0; i < patterns.size(); ++i) {
      ASSERT_EQ(BitsOf(f16[i]), BitsOf(Widen<float>(F16{patterns[i]})));
      ASSERT_EQ(BitsOf(bf16[i]), BitsOf(Widen<float>(BF16{patterns[i]})));
      ASSERT_EQ(BitsOf(bf16_pairs[i]), BitsOf(bf16[i]));
    }
  });
}

// The instruction that x86 has for it rounds as the integers do, for all 2^32 numbers (a sample under sanitizers).
TEST(ConvertTest, F16InstructionsAgreeWithIntegers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
  constexpr uint64_t kStep = 499;
#else
  constexpr uint64_t kStep = 1;
#endif
  OnEachVectorTarget([&] { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(DifferencesInF16)(kStep), 0u); });
}

TEST(ConvertTest, F64ToSixteenBitsByOddF32IsOneRounding) {
  std::vector<double> values;
  for (float v : Interesting()) {
    if (std::isnan(v)) continue;
    values.push_back(v);
    values.push_back(std::nextafter(static_cast<double>(v), INFINITY));
    values.push_back(std::nextafter(static_cast<double>(v), -INFINITY));
  }
  std::mt19937_64 random(13);
  for (int i = 0; i < 100000; ++i) {
    const double v = FromBits<double>(random());
    if (!std::isnan(v)) values.push_back(v);
  }
  values.resize(values.size() / 64 * 64);
  OnEachVectorTarget([&] {
    std::vector<float> odd(values.size());
    HWY_DYNAMIC_DISPATCH(OddFromF64)(values.data(), static_cast<int64_t>(values.size()), odd.data());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(Narrow<BF16>(odd[i]).bits, Narrow<BF16>(values[i]).bits) << std::hexfloat << values[i];
      ASSERT_EQ(Narrow<F16>(odd[i]).bits, Narrow<F16>(values[i]).bits) << std::hexfloat << values[i];
    }
  });
}

}  // namespace
}  // namespace phasor

#endif  // HWY_ONCE
