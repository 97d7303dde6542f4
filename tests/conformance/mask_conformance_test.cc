// Masks and biases by any positions, bit for bit against the reference, over random rules, shapes, types and cuts.
#include "tests/conformance/mask_cases.h"

namespace phasor {
namespace {

TEST(MaskConformanceTest, InPlace) {
  Random random(31);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const std::vector<Variant> variants = VariantsUnderTest();
  for (int i = 0; i < 600; ++i) {
    const DType dtype = kFloatTypes[i % 4];
    const MaskCase c(dtype, random);
    const Buffer want = c.Run(**reference);
    for (const Variant& variant : variants) {
      ASSERT_EQ(c.Run(variant.Select()).FirstDifference(want, 0, c.elements(), SizeOf(dtype)), -1)
          << variant.name << " " << Name(dtype) << " case " << i;
    }
  }
}

TEST(MaskConformanceTest, BiasMatrices) {
  Random random(32);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  const std::vector<Variant> variants = VariantsUnderTest();
  for (int i = 0; i < 600; ++i) {
    const BiasMatrixCase c(i, random);
    const std::vector<unsigned char> want = c.Run(**reference);
    for (const Variant& variant : variants) {
      ASSERT_EQ(c.Run(variant.Select()), want) << variant.name << " " << Name(c.task().dtype) << " case " << i;
    }
  }
}

TEST(MaskConformanceTest, RefusesAndCancels) {
  for (const Variant& variant : VariantsUnderTest()) {
    const Backend& backend = variant.Select();
    std::vector<float> data(12, 1);
    MaskRule rule;
    rule.causal = true;
    MaskTask good{.heads = 2, .queries = 2, .keys = 3, .rule = &rule, .data = data.data()};
    const CancelFlag cancel = true;
    EXPECT_TRUE(absl::IsCancelled(backend.Run(good, {0, 4}, &cancel)));
    const auto refused = [&](auto change) {
      MaskTask task = good;
      change(task);
      return absl::IsInvalidArgument(backend.Run(task, {0, 4}, nullptr));
    };
    EXPECT_TRUE(refused([](MaskTask& t) { t.rule = nullptr; }));
    EXPECT_TRUE(refused([](MaskTask& t) { t.data = nullptr; }));
    EXPECT_TRUE(refused([](MaskTask& t) { t.dtype = DType::kI32; }));
    EXPECT_TRUE(refused([](MaskTask& t) { t.queries = 1; }));
    const std::vector<int64_t> prefix = {1, 2, 3}, lengths = {0, 2};
    MaskRule bad = rule;
    bad.prefix = prefix;
    EXPECT_TRUE(refused([&](MaskTask& t) { t.rule = &bad; }));
    bad = rule;
    bad.query_cu_seqlens = lengths;
    EXPECT_TRUE(refused([&](MaskTask& t) { t.rule = &bad; }));
    BiasMatrixTask matrix{.heads = 2,
                          .queries = 2,
                          .keys = 3,
                          .vector = data.data(),
                          .vector_head_stride = 4,
                          .first_distance = -1,
                          .out = data.data()};
    EXPECT_TRUE(absl::IsCancelled(backend.Run(matrix, {0, 4}, &cancel)));
    matrix.dtype = DType::kI32;
    matrix.mask = &rule;
    EXPECT_TRUE(absl::IsInvalidArgument(backend.Run(matrix, {0, 4}, nullptr)));
    EXPECT_EQ(data, std::vector<float>(12, 1));
  }
}

// What each mask means, by hand.
std::string Drawn(const MaskRule& rule, int64_t queries, int64_t keys) {
  std::string picture;
  std::vector<float> data(static_cast<size_t>(queries * keys), 0);
  const auto backend = CreateBackend("cpu");
  EXPECT_TRUE((*backend)
                  ->Run(MaskTask{.heads = 1, .queries = queries, .keys = keys, .rule = &rule, .data = data.data()},
                        {0, queries}, nullptr)
                  .ok());
  for (size_t i = 0; i < data.size(); ++i) {
    picture += data[i] == 0 ? 'x' : '.';
    if ((i + 1) % static_cast<size_t>(keys) == 0) picture += ' ';
  }
  return picture;
}

TEST(MaskConformanceTest, MeansWhatItSays) {
  MaskRule causal;
  causal.causal = true;
  EXPECT_EQ(Drawn(causal, 3, 3), "x.. xx. xxx ");
  // Bottom-right alignment of two queries over four keys; top-left (offset 0) hides cached keys.
  causal.query_offset = 2;
  EXPECT_EQ(Drawn(causal, 2, 4), "xxx. xxxx ");
  causal.query_offset = 0;
  EXPECT_EQ(Drawn(causal, 2, 4), "x... xx.. ");

  MaskRule window;
  window.window_before = 2;
  window.causal = true;
  EXPECT_EQ(Drawn(window, 4, 4), "x... xx.. .xx. ..xx ");
  window.window_before = 1;  // itself only
  EXPECT_EQ(Drawn(window, 3, 3), "x.. .x. ..x ");
  window.causal = false;
  window.window_before = window.window_after = 2;
  EXPECT_EQ(Drawn(window, 4, 4), "xx.. xxx. .xxx ..xx ");

  MaskRule chunk;
  chunk.chunk = 2;
  chunk.causal = true;
  EXPECT_EQ(Drawn(chunk, 5, 5), "x.... xx... ..x.. ..xx. ....x ");

  MaskRule prefix;
  const std::vector<int64_t> two = {2};
  prefix.prefix = two;
  prefix.causal = true;
  EXPECT_EQ(Drawn(prefix, 4, 4), "xx.. xx.. xxx. xxxx ");

  // Packing: sequences of 1 and 2 queries over 2 and 3 keys, each aligned bottom-right.
  MaskRule packed;
  const std::vector<int64_t> queries = {0, 1, 3}, keys = {0, 2, 5};
  packed.query_cu_seqlens = queries;
  packed.key_cu_seqlens = keys;
  packed.causal = true;
  EXPECT_EQ(Drawn(packed, 3, 5), "xx... ..xx. ..xxx ");
}

}  // namespace
}  // namespace phasor
