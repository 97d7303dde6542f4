// What PoPE and FoPE take, and what their plans hold.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/weight.h"

namespace phasor {
namespace {

PopeSpec Pope() {
  PopeSpec pope;
  pope.head_dim = 4;
  return pope;
}

FopeSpec Fope() {
  FopeSpec fope;
  fope.head_dim = 8;
  fope.training_length = 100;
  fope.cos_coef = MakeWeight({1, 2, 3}, std::vector<double>(6, 0.5), "cos");
  fope.sin_coef = MakeWeight({1, 2, 3}, std::vector<double>(6, 0.25), "sin");
  return fope;
}

template <typename Spec, typename Change>
void ExpectRefused(Spec spec, Change change, const std::string& field, const std::string& given) {
  change(spec);
  const auto error = SpecErrorOf(Canonicalize(spec).status());
  ASSERT_TRUE(error.has_value()) << field;
  EXPECT_EQ(error->field, field);
  EXPECT_EQ(error->given, given);
}

TEST(PopeTest, FieldsAndFrequencies) {
  ExpectRefused(Pope(), [](PopeSpec& s) { s.head_dim = 0; }, "pope.head_dim", "0");
  ExpectRefused(Pope(), [](PopeSpec& s) { s.base = 0; }, "pope.base", "0");
  ExpectRefused(Pope(), [](PopeSpec& s) { s.delta = MakeWeight({3}, {0, 0, 0}); }, "weights.delta", "[3]");
  const auto canonical = Canonicalize(Pope());
  ASSERT_TRUE(canonical.ok());
  const auto resolved = Resolve(*canonical, {}, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  // Every channel turns alone: half of RoPE's step between neighbours.
  const auto& plan = std::get<AnglePlan>(resolved->plan);
  EXPECT_EQ(plan.inv_freq, (std::vector<double>{1, 0.1, 0.01, 0.001}));
}

TEST(FopeTest, Fields) {
  ExpectRefused(Fope(), [](FopeSpec& s) { s.head_dim = 7; }, "fope.head_dim", "7");
  ExpectRefused(Fope(), [](FopeSpec& s) { s.training_length = 0; }, "fope.training_length", "0");
  ExpectRefused(Fope(), [](FopeSpec& s) { s.training_length = 6; }, "fope.training_length", "6");
  ExpectRefused(Fope(), [](FopeSpec& s) { s.base = 0.5; }, "fope.base", "0.5");
  ExpectRefused(Fope(), [](FopeSpec& s) { s.cos_coef = WeightRef(); }, "weights.cos_coef", "nothing");
  ExpectRefused(Fope(), [](FopeSpec& s) { s.sin_coef = WeightRef(); }, "weights.sin_coef", "nothing");
  ExpectRefused(Fope(), [](FopeSpec& s) { s.training_length = 1000; }, "weights.cos_coef", "[1, 2, 3]");
  ExpectRefused(
      Fope(), [](FopeSpec& s) { s.sin_coef = MakeWeight({1, 2, 2}, std::vector<double>(4)); }, "weights.sin_coef",
      "[1, 2, 2]");
}

TEST(FopeTest, KeyHoldsTheMixtures) {
  const auto key = [](const FopeSpec& spec) { return PlanKey(Resolve(*Canonicalize(spec), {}, Precision::kExact)->plan); };
  FopeSpec other = Fope();
  other.sin_coef = MakeWeight({1, 2, 3}, std::vector<double>(6, 0.125), "other");
  EXPECT_EQ(key(Fope()), key(Fope()));
  EXPECT_NE(key(Fope()), key(other));
  const auto compat = Resolve(*Canonicalize(Fope()), {}, Precision::kCompatF32);
  ASSERT_TRUE(SpecErrorOf(compat.status()));
  EXPECT_EQ(SpecErrorOf(compat.status())->field, "precision");
}

}  // namespace
}  // namespace phasor
