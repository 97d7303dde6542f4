#include "kernels/program/rotation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

RopeSpec Rope(int64_t head_dim, double base, RopeSchedule schedule = DefaultSchedule{}) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.schedule = std::move(schedule);
  return rope;
}

Resolved ResolveOf(const EncodingSpec& spec, std::optional<int64_t> sequence_length = {}) {
  auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  auto resolved = Resolve(*canonical, sequence_length, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  return *std::move(resolved);
}

AnglePlan PlanOf(const EncodingSpec& spec) { return std::get<AnglePlan>(ResolveOf(spec).plan); }

YarnSchedule Yarn(double factor, int64_t original) {
  YarnSchedule yarn;
  yarn.factor = factor;
  yarn.original_max_position = original;
  return yarn;
}

std::map<std::string, Resolved> Schedules() {
  std::map<std::string, Resolved> all;
  all["ntk_fixed"] = ResolveOf(Rope(128, 10000, NtkMixedSchedule{8, {}}));
  all["ntk_mixed"] = ResolveOf(Rope(64, 10000, NtkMixedSchedule{8, 0.625}));
  YarnSchedule grok = Yarn(16, 8192);
  grok.log_blend = true;
  grok.attention_coefficient = 0;
  grok.beta_fast = 8;
  all["grok_1"] = ResolveOf(Rope(128, 10000, grok));
  YarnSchedule ggml = Yarn(8, 4096);
  ggml.extrapolation_factor = 0.5;
  ggml.attention_factor_multiplier = 1.2;
  all["ggml"] = ResolveOf(Rope(64, 10000, ggml));
  YarnSchedule telechat = Yarn(4, 8192);
  telechat.attention_coefficient = 0.07;
  all["telechat3"] = ResolveOf(Rope(128, 1e6, telechat));
  all["ntk_aware"] = ResolveOf(Rope(128, 10000, NtkAwareSchedule{4}));
  all["dynamic_ntk"] = ResolveOf(Rope(128, 10000, DynamicNtkSchedule{2, 2048}), 3000);
  all["qwen1_ntk"] = ResolveOf(Rope(128, 10000, Qwen1NtkSchedule{8192}), 16384);
  FreqFactorsSchedule divisors{{}, 4};
  for (int i = 0; i < 32; ++i) divisors.factors.push_back(1 + i / 4.0);
  all["freq_factors"] = ResolveOf(Rope(64, 500000, divisors));
  RopeSpec pixel = Rope(64, 10000, PixelSchedule{});
  pixel.base.reset();
  all["pixel"] = ResolveOf(pixel);
  return all;
}

double AsDouble(const Real128& value) { return RoundTo<double>(value); }

// 40 digits of the formulas: each double is the nearest one (the strings read back are).
TEST(RotationGoldenTest, SchedulesScalesAndDecays) {
  const std::map<std::string, Resolved> schedules = Schedules();
  Decay decay(32, 512, 16);
  decay.Prepare({0, 32});
  std::ifstream file(PHASOR_GOLDEN_DIR "/rope/exact.txt");
  std::string kind, name, value;
  int lines = 0;
  while (file >> kind >> name) {
    if (kind == "pope" || kind == "fope") {  // polar_golden_test
      std::getline(file, value);
      continue;
    }
    ++lines;
    double got = 0;
    int64_t i = 0, m = 0;
    if (kind == "inv") {
      file >> i >> value;
      got = std::get<AnglePlan>(schedules.at(name).plan).inv_freq.at(static_cast<size_t>(i));
    } else if (kind == "factor") {
      file >> value;
      got = schedules.at(name).attention_factor;
    } else if (kind == "scale") {
      file >> m >> value;
      PositionScale scale{.rule = PositionScale::Rule::kLogN, .training_length = 2048};
      if (name == "FLOOR") {
        scale = {.rule = PositionScale::Rule::kFloor, .coefficient = 0.1, .period = 8192, .shift = 1};
      }
      got = ScaleAt(scale, static_cast<double>(m));
    } else {
      file >> i >> m >> value;
      got = AsDouble(decay.At(i, m, 1));
      EXPECT_NEAR(AsDouble(decay.At(i, m, -1)) * got, 1, 1e-15);
    }
    EXPECT_EQ(got, std::stod(value)) << kind << " " << name << " " << i << " " << m;
  }
  EXPECT_EQ(lines, 78);
}

TEST(ScaleTest, FirstChanges) {
  PositionScale llama{.rule = PositionScale::Rule::kFloor, .coefficient = 0.1, .period = 8192, .shift = 1};
  EXPECT_EQ(ScaleAt(llama, 8190), 1);
  EXPECT_GT(ScaleAt(llama, 8191), 1);
  EXPECT_EQ(ScaleAt(llama, 8190.75), 1);  // the fraction does not reach the next whole position
  llama.shift = 0;
  EXPECT_EQ(ScaleAt(llama, 8191), 1);
  EXPECT_GT(ScaleAt(llama, 8192), 1);
  EXPECT_EQ(ScaleAt(llama, -5), 1);
  const PositionScale log_n{.rule = PositionScale::Rule::kLogN, .training_length = 2048};
  EXPECT_EQ(ScaleAt(log_n, 2047), 1);
  EXPECT_GT(ScaleAt(log_n, 2048), 1);
}

struct Rows {
  std::vector<std::byte> cos, sin;
};

template <typename Make>
Rows Filled(int64_t count, int64_t pairs, DType dtype, Make make) {
  Rows rows{std::vector<std::byte>(static_cast<size_t>(count * pairs * SizeOf(dtype))), {}};
  rows.sin = rows.cos;
  make(rows.cos.data(), rows.sin.data());
  return rows;
}

// The steps' tables (the backend's, where they serve) equal the rows computed one by one.
TEST(TableStepsTest, SameBitsWhoeverFillsThem) {
  RotationTable table;
  table.plan = PlanOf(Rope(32, 10000, Yarn(4, 4096)));
  std::vector<int64_t> ids;
  std::vector<double> fractional;
  for (int i = 0; i < 300; ++i) ids.push_back((i * 7919) % 20000 - 50), fractional.push_back(ids.back() + 0.25 * (i % 4));
  RotationPositions range, listed, fractions;
  range.axes[0] = {.start = 8100, .stride = 1, .ids = {}};
  listed.axes[0].ids = ids;
  fractions.axes[0].fractional_ids = fractional;
  const PositionScale scales[] = {{.constant = 0.75},
                                  {.constant = -2e7},
                                  {.rule = PositionScale::Rule::kLogN, .training_length = 8192},
                                  {.rule = PositionScale::Rule::kFloor, .coefficient = 0.1, .period = 128, .shift = 1}};
  for (const char* name : {"cpu", "reference"}) {
    const auto backend = CreateBackend(name);
    ASSERT_TRUE(backend.ok());
    for (const PositionScale& scale : scales) {
      for (const bool inverse : {false, true}) {
        for (const DType dtype : {DType::kF32, DType::kF64}) {
          for (const RotationPositions& positions : {range, listed, fractions}) {
            auto shared = std::make_shared<RotationTable>(table);
            shared->scale = scale;
            shared->inverse = inverse;
            const auto a = Filled(300, 16, dtype, [&](void* cos, void* sin) {
              const auto steps = TableSteps(shared, positions, 300, dtype, cos, sin);
              EXPECT_TRUE(RunProgram(**backend, steps).ok());
            });
            const auto b = Filled(300, 16, dtype, [&](void* cos, void* sin) {
              const RotationRows rows{shared.get(), positions, dtype, cos, sin, 16};
              EXPECT_TRUE(rows.Fill({0, 100}, nullptr).ok());
              EXPECT_TRUE(rows.Fill({100, 300}, nullptr).ok());
            });
            EXPECT_TRUE(a.cos == b.cos && a.sin == b.sin) << name << static_cast<int>(scale.rule) << inverse;
          }
        }
      }
    }
  }
}

// Frequencies that fall and frequencies that rise, and pairs that stay.
TEST(BetweenSchedulesTest, TurnsByTheDifference) {
  const AnglePlan source = PlanOf(Rope(16, 10000)), target = PlanOf(Rope(16, 10000, Yarn(4, 64)));
  for (const bool forth : {true, false}) {
    const RotationTable table = forth ? BetweenSchedules(source, target) : BetweenSchedules(target, source);
    EXPECT_EQ(table.plan.attention_factor.hi, forth ? target.attention_factor.hi : 1 / target.attention_factor.hi);
    const std::vector<int64_t> ids = {0, 1, -3, 1000, (int64_t{1} << 31) - 1};
    RotationPositions positions;
    positions.axes[0].ids = ids;
    std::vector<double> cos(40), sin(40);
    const RotationRows rows{&table, positions, DType::kF64, cos.data(), sin.data(), 8};
    ASSERT_TRUE(rows.Fill({0, 5}, nullptr).ok());
    for (size_t r = 0; r < 4; ++r) {
      for (size_t i = 0; i < 8; ++i) {
        const double difference = (target.inv_freq[i] - source.inv_freq[i]) * (forth ? 1 : -1);
        const double angle = static_cast<double>(ids[r]) * difference, a = table.plan.attention_factor.hi;
        EXPECT_NEAR(cos[8 * r + i], a * std::cos(angle), 1e-12) << r << " " << i;
        EXPECT_NEAR(sin[8 * r + i], a * std::sin(angle), 1e-12) << r << " " << i;
      }
    }
    EXPECT_EQ(sin[8 * 3], 0);  // pair 0 has one frequency in both
    EXPECT_FALSE(std::signbit(sin[8 * 3]));
  }
}

TEST(RotationRowsTest, RefusesPositionsThatNothingCanTurnBy) {
  RotationTable table;
  table.plan = PlanOf(Rope(4, 10000));
  float cos[2], sin[2];
  RotationPositions positions;
  positions.axes[0].start = int64_t{1} << 31;
  const RotationRows rows{&table, positions, DType::kF32, cos, sin, 2};
  EXPECT_EQ(rows.Fill({0, 1}, nullptr).code(), absl::StatusCode::kInvalidArgument);
  const CancelFlag cancelled = true;
  EXPECT_EQ(rows.Fill({0, 1}, &cancelled).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phasor
