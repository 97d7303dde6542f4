// Specs of random, mostly absurd numbers: whatever comes in, the answer names a field or is a plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>

#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A number that is likely to be at the edge of something.
double HostileNumber(std::mt19937_64& random) {
  const double values[] = {0, -0.0, 1, 2, 0.5, -1, 8, 32, 1e-300, 1e300, 5e-324, kNan, kInfinity, -kInfinity, 10000, 1e6};
  return values[random() % std::size(values)];
}
int64_t HostileInteger(std::mt19937_64& random) {
  const int64_t values[] = {0, 1, 2, 3, 4, 8, 64, 128, 4096, 65536, int64_t{1} << 31, INT64_MAX, INT64_MIN, -1};
  return values[random() % std::size(values)];
}
template <typename T, typename Make>
std::optional<T> Maybe(std::mt19937_64& random, Make make) {
  return random() % 2 == 0 ? std::nullopt : std::optional<T>(make(random));
}

RopeSchedule HostileSchedule(std::mt19937_64& random, int64_t pairs) {
  const auto number = [&] { return HostileNumber(random); };
  const auto integer = [&] { return HostileInteger(random); };
  const auto maybe = [&] { return Maybe<double>(random, HostileNumber); };
  switch (random() % 9) {
    case 0:
      return DefaultSchedule{};
    case 1:
      return LinearSchedule{number()};
    case 2:
      return NtkAwareSchedule{number()};
    case 3:
      return DynamicNtkSchedule{number(), integer()};
    case 4:
      return YarnSchedule{number(),
                          integer(),
                          maybe(),
                          maybe(),
                          Maybe<bool>(random, [](auto& r) { return r() % 2 == 0; }),
                          maybe(),
                          maybe(),
                          maybe(),
                          Maybe<bool>(random, [](auto& r) { return r() % 2 == 0; }),
                          maybe(),
                          maybe()};
    case 5:
      return Llama3Schedule{number(), number(), number(), integer()};
    case 6: {
      LongRopeSchedule s;
      s.short_factor.assign(pairs, number());
      s.long_factor.assign(pairs, number());
      s.original_max_position = integer();
      s.factor = maybe();
      s.max_position = Maybe<int64_t>(random, HostileInteger);
      s.short_mscale = maybe();
      s.long_mscale = maybe();
      return s;
    }
    case 7:
      return ProportionalSchedule{number(), maybe()};
    default:
      return Qwen1NtkSchedule{integer()};
  }
}

EncodingSpec HostileSpec(std::mt19937_64& random) {
  const int64_t widths[] = {-2, 0, 2, 4, 6, 7, 64, 128};
  const int64_t head_dim = widths[random() % std::size(widths)];
  if (random() % 4 != 0) {
    RopeSpec rope;
    rope.head_dim = head_dim;
    if (random() % 3 == 0) rope.rotary_dim = widths[random() % std::size(widths)];
    rope.base = Maybe<double>(random, HostileNumber);
    if (random() % 4 == 0) rope.attention_factor = HostileNumber(random);
    rope.schedule = HostileSchedule(random, std::max<int64_t>(0, rope.rotary_dim.value_or(head_dim) / 2));
    return rope;
  }
  if (random() % 2 == 0) {
    SinusoidalSpec s;
    s.dim = head_dim;
    s.base = Maybe<double>(random, HostileNumber);
    s.position_offset = Maybe<int64_t>(random, HostileInteger);
    if (random() % 2 == 0) s.spacing = SinusoidalSpacing::kEndpointInclusive;
    return s;
  }
  AlibiSpec alibi;
  alibi.num_heads = head_dim;
  alibi.max_bias = Maybe<double>(random, HostileNumber);
  if (random() % 2 == 0) alibi.slopes.assign(head_dim < 0 ? 1 : head_dim, HostileNumber(random));
  return alibi;
}

// Whatever comes in: refused with a named field, or canonical for good, and then resolved or refused with a named field.
TEST(HostileSpecTest, RefusedWithAFieldOrResolved) {
  std::mt19937_64 random(7);
  int accepted = 0;
  int resolved_count = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto canonical = Canonicalize(HostileSpec(random));
    if (!canonical.ok()) {
      ASSERT_TRUE(SpecErrorOf(canonical.status()).has_value()) << canonical.status();
      continue;
    }
    ++accepted;
    const auto again = Canonicalize(canonical->spec);
    ASSERT_TRUE(again.ok());
    ASSERT_TRUE(again->spec == canonical->spec);
    const auto resolved = Resolve(*canonical, HostileInteger(random), Precision::kExact);
    if (!resolved.ok()) {
      ASSERT_TRUE(SpecErrorOf(resolved.status()).has_value()) << resolved.status();
      continue;
    }
    ++resolved_count;
    EXPECT_TRUE(std::isfinite(resolved->attention_factor));
    if (const auto* plan = std::get_if<AnglePlan>(&resolved->plan)) {
      for (double f : plan->inv_freq) ASSERT_TRUE(std::isfinite(f) && f >= 0);
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(resolved_count, 500);
}

}  // namespace
}  // namespace phasor
