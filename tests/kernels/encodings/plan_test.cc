#include "kernels/encodings/plan.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace phasor {
namespace {

AnglePlan Angles(Precision precision) {
  AnglePlan plan;
  plan.precision = precision;
  for (uint64_t i = 0; i < 3; ++i) {
    plan.frequencies.push_back({{1 + i, 2 + i, 3 + i, i}});
    plan.inv_freq.push_back(0.5 / (i + 1));
    plan.inv_freq_f32.push_back(0.5f / static_cast<float>(i + 1));
  }
  plan.attention_factor = {1.25, 1e-20};
  plan.attention_factor_f32 = 1.25f;
  return plan;
}

BiasPlan Bias() { return {.form = AlibiForm::kCausal, .slopes = {{0.5, 0}, {0.25, 1e-20}}}; }

TEST(PlanKeyTest, EqualPlansHaveEqualKeys) {
  for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
    EXPECT_EQ(PlanKey(Angles(precision)), PlanKey(Angles(precision)));
  }
  EXPECT_EQ(PlanKey(Bias()), PlanKey(Bias()));
}

// Each change of something that decides bits, on its own, gives a key that nothing else has.
TEST(PlanKeyTest, EveryWordCounts) {
  std::set<std::string> keys;
  int plans = 0;
  const auto add = [&](const Plan& plan) {
    keys.insert(PlanKey(plan));
    ++plans;
  };
  const AnglePlan exact = Angles(Precision::kExact);
  add(exact);
  for (size_t i = 0; i < exact.frequencies.size(); ++i) {
    for (size_t limb = 0; limb < 4; ++limb) {
      AnglePlan changed = exact;
      changed.frequencies[i].limb[limb] ^= uint64_t{1} << 63;
      add(changed);
      changed = exact;
      changed.frequencies[i].limb[limb] ^= 1;
      add(changed);
    }
  }
  AnglePlan changed = exact;
  changed.attention_factor.hi = 1.5;
  add(changed);
  changed = exact;
  changed.attention_factor.lo = 0;
  add(changed);
  changed = exact;
  changed.frequencies.pop_back();
  add(changed);

  const AnglePlan compat = Angles(Precision::kCompatF32);
  add(compat);
  for (size_t i = 0; i < compat.inv_freq_f32.size(); ++i) {
    changed = compat;
    changed.inv_freq_f32[i] *= 2;
    add(changed);
  }
  changed = compat;
  changed.attention_factor_f32 = 1.5f;
  add(changed);

  add(Bias());
  BiasPlan bias = Bias();
  bias.form = AlibiForm::kSymmetric;
  add(bias);
  bias = Bias();
  bias.slopes[0].hi = 0.75;
  add(bias);
  bias = Bias();
  bias.slopes[1].lo = 0;
  add(bias);
  bias = Bias();
  bias.slopes.push_back({0.125, 0});
  add(bias);
  EXPECT_EQ(static_cast<int>(keys.size()), plans);
}

// What decides no bit is not in the key: plans that give the same table share it.
TEST(PlanKeyTest, InformationDoesNotCount) {
  AnglePlan exact = Angles(Precision::kExact);
  exact.inv_freq[0] = 7;
  exact.inv_freq_f32[0] = 7;
  exact.attention_factor_f32 = 7;
  EXPECT_EQ(PlanKey(exact), PlanKey(Angles(Precision::kExact)));

  AnglePlan compat = Angles(Precision::kCompatF32);
  compat.inv_freq[0] = 7;
  compat.attention_factor.lo = 0;
  EXPECT_EQ(PlanKey(compat), PlanKey(Angles(Precision::kCompatF32)));
}

}  // namespace
}  // namespace phasor
