// Additions, bit for bit against the reference: element types, layouts, widths, splits, and everything that can be switched
// on.
#include <random>

#include "tests/conformance/add_cases.h"

namespace phasor {
namespace {

TEST(AddConformanceTest, EveryShapeTypeAndSwitch) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(31);
  for (const AddShape& shape : kAddShapes) {
    for (const DType dtype : kFloatTypes) {
      for (int i = 0; i < 12; ++i) {
        const int switches = i == 0 ? 0 : static_cast<int>(random() % 256);
        const AddCase c(shape, dtype, switches, random);
        const Buffer wanted = c.Run(**reference);
        for (const Variant& variant : VariantsUnderTest()) {
          EXPECT_EQ(c.Run(variant.Select()).FirstDifference(wanted, 0, c.elements(), SizeOf(dtype)), -1)
              << variant.name << " " << Name(dtype) << " batch " << shape.batch << " tokens " << shape.tokens << " dim "
              << shape.dim << " switches " << switches;
        }
      }
    }
  }
}

TEST(AddConformanceTest, WideVectorsAndManyTokens) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(32);
  for (const AddShape& shape : {AddShape{2, 2, 8193}, AddShape{1, 2, 40001}, AddShape{3, 5000, 13}}) {
    for (const int switches : {0, kGate | kEnds, kGate | kPerBatch | kHidden, kDropout | kSequenceFirst}) {
      const AddCase c(shape, DType::kBF16, switches, random);
      const Buffer wanted = c.Run(**reference);
      for (const Variant& variant : VariantsUnderTest()) {
        EXPECT_EQ(c.Run(variant.Select()).FirstDifference(wanted, 0, c.elements(), 2), -1)
            << variant.name << " dim " << shape.dim << " switches " << switches;
      }
    }
  }
}

TEST(AddConformanceTest, AnyCutGivesTheSameBits) {
  std::mt19937_64 random(33);
  for (const Variant& variant : VariantsUnderTest()) {
    const Backend& backend = variant.Select();
    for (int i = 0; i < 60; ++i) {
      const AddShape shape{static_cast<int64_t>(1 + random() % 4), static_cast<int64_t>(1 + random() % 9),
                           static_cast<int64_t>(1 + random() % 70)};
      const DType dtype = kFloatTypes[random() % 4];
      const AddCase c(shape, dtype, static_cast<int>(random() % 256) & ~kBackward, random);
      std::vector<int64_t> cuts;
      for (int64_t row = 0; row < shape.batch * shape.tokens; ++row) {
        if (random() % 3 == 0) cuts.push_back(row);
      }
      EXPECT_EQ(c.Run(backend, cuts).FirstDifference(c.Run(backend), 0, c.elements(), SizeOf(dtype)), -1) << variant.name;
    }
  }
}

TEST(AddConformanceTest, BadTasksAreRefusedAndCancellingStops) {
  const auto cpu = CreateBackend("cpu");
  ASSERT_TRUE(cpu.ok());
  float x[8] = {}, pe[8] = {};
  AddTask good;
  good.tokens = 2;
  good.dim = 4;
  good.x = good.y = x;
  good.x_token_stride = good.y_token_stride = 4;
  good.pe = {pe, 0, 4};
  EXPECT_TRUE((*cpu)->Run(good, {0, 2}, nullptr).ok());
  AddTask bad = good;
  bad.y = nullptr;
  EXPECT_FALSE((*cpu)->Run(bad, {0, 2}, nullptr).ok());
  EXPECT_FALSE((*cpu)->Run(good, {0, 3}, nullptr).ok());
  bad = good;
  bad.other = {pe, 0, 4};  // without a gate
  EXPECT_FALSE((*cpu)->Run(bad, {0, 2}, nullptr).ok());
  bad = good;
  bad.first.data = pe;  // without an index
  EXPECT_FALSE((*cpu)->Run(bad, {0, 2}, nullptr).ok());
  const CancelFlag cancelled{true};
  EXPECT_EQ((*cpu)->Run(good, {0, 2}, &cancelled).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phasor
