#include "kernels/encodings/plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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

template <typename P>
using Changes = std::vector<std::function<void(P&)>>;

// `plan` and each change of it have keys that nothing else has.
template <typename P>
void ExpectAllCount(const P& plan, const Changes<P>& changes) {
  std::set<std::string> keys{PlanKey(plan)};
  for (size_t i = 0; i < changes.size(); ++i) {
    P changed = plan;
    changes[i](changed);
    EXPECT_TRUE(keys.insert(PlanKey(changed)).second) << "change " << i;
  }
}

TEST(PlanKeyTest, EveryFieldOfATableCounts) {
  const FourierPlan fourier{.log = false, .weights = {1, 2, 3, 4}, .axes = 1, .radians = false};
  ExpectAllCount<FourierPlan>(fourier, {[](auto& p) { p.precision = Precision::kCompatF32; }, [](auto& p) { p.log = true; },
                                        [](auto& p) { p.weights[3] = 5; }, [](auto& p) { p.weights.pop_back(); },
                                        [](auto& p) { p.axes = 2; }, [](auto& p) { p.axes = 4; },
                                        [](auto& p) { p.radians = true; }, [](auto& p) { p.axes = 2, p.radians = true; },
                                        [](auto& p) { p.axes = 2, p.precision = Precision::kCompatF32; }});

  GridPlan grid{.grid = {2, 3}, .extra_rows = 0, .columns = 12, .parts = {}};
  grid.parts.push_back({.angles = Angles(Precision::kExact), .axis = 0, .first_column = 0});
  grid.parts.push_back({.angles = Angles(Precision::kExact), .axis = 1, .first_column = 6});
  ExpectAllCount<GridPlan>(
      grid, {[](auto& p) { p.grid = {3, 2}; }, [](auto& p) { p.grid = {}; }, [](auto& p) { p.extra_rows = 1; },
             [](auto& p) { p.parts.pop_back(); }, [](auto& p) { std::swap(p.parts[0].axis, p.parts[1].axis); },
             [](auto& p) { p.parts[1].start = 0.5; }, [](auto& p) { p.parts[1].start = 0.5, p.parts[0].start = 0.5; },
             [](auto& p) { p.parts[1].divisor = 2; }, [](auto& p) { p.parts[1].scale = 2; },
             [](auto& p) { p.parts[1].factor = 2; }, [](auto& p) { p.parts[1].interleaved = true; },
             [](auto& p) { p.parts[1].angles.frequencies[0].limb[0] ^= 1; },
             [](auto& p) { p.grid = {}, p.parts[1].interleaved = true; }});
}

TEST(PlanKeyTest, EveryFieldOfADistilledFunctionCounts) {
  DistilledPlan plan{
      .first_position = 0, .num_positions = 8, .angles = Angles(Precision::kExact), .perceptron = {}, .weights = {}};
  plan.weights = {MakeWeight({1, 2}, {1, 2}), MakeWeight({1}, {3})};
  ExpectAllCount<DistilledPlan>(plan,
                                {[](auto& p) { p.first_position = 1; }, [](auto& p) { p.num_positions = 9; },
                                 [](auto& p) { p.angles.frequencies.pop_back(); }, [](auto& p) { p.weights.pop_back(); },
                                 [](auto& p) { p.weights[0] = MakeWeight({1, 2}, {1, 3}); },
                                 [](auto& p) { p.weights[0] = MakeWeight({2, 1}, {1, 2}); }});
}

TEST(PlanKeyTest, EveryFieldOfBucketsCounts) {
  const BucketPlan plan{
      .num_buckets = 4, .max_distance = 16, .bidirectional = true, .num_heads = 2, .table = {}, .buckets = {}};
  ExpectAllCount<BucketPlan>(
      plan,
      {[](auto& p) { p.num_buckets = 6; }, [](auto& p) { p.max_distance = 15; }, [](auto& p) { p.bidirectional = false; },
       [](auto& p) { p.num_heads = 3; }, [](auto& p) { p.scale = 2; }, [](auto& p) { p.distance_divisor = 2; },
       [](auto& p) { p.distance_divisor = 3; }, [](auto& p) { p.table = MakeWeight({4, 2}, std::vector<double>(8)); },
       [](auto& p) { p.table = MakeWeight({4, 2}, std::vector<double>(8, 1.0)); }});
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
