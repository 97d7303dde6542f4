// The load generator's arithmetic: when calls are due, which they are, and percentiles. No clock is read.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "client/cli/load_args.h"
#include "client/cli/load_latency.h"
#include "client/cli/load_report.h"
#include "client/cli/load_run.h"
#include "client/cli/load_schedule.h"
#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

std::vector<int64_t> DueTimes(Schedule& schedule, int64_t now_ns) {
  std::vector<int64_t> due;
  while (const auto arrival = schedule.Next(now_ns)) due.push_back(arrival->due_ns);
  return due;
}

TEST(ScheduleTest, AFixedRateDoesNotWaitForTheServer) {
  Schedule schedule({.rate = 400, .requests = 5});
  // Whenever callers come, also long after: the calls were due when the rate says.
  EXPECT_EQ(schedule.Next(0)->due_ns, 0);
  EXPECT_EQ(schedule.Next(100 * kMs)->due_ns, 5 * kMs / 2);
  const auto third = schedule.Next(10'000 * kMs);
  EXPECT_EQ(third->index, 2);
  EXPECT_EQ(third->due_ns, 5 * kMs);
  EXPECT_THAT(DueTimes(schedule, 0), ElementsAre(15 * kMs / 2, 10 * kMs));
  EXPECT_EQ(schedule.missed(), 0);
}

TEST(ScheduleTest, ARunEndsWhenItsTimeIsUp) {
  Schedule schedule({.rate = 1000, .duration_ns = 4 * kMs});
  EXPECT_THAT(DueTimes(schedule, 0), ElementsAre(0, kMs, 2 * kMs, 3 * kMs));
  EXPECT_EQ(schedule.missed(), 0);
}

TEST(ScheduleTest, CallsThatNobodyBeganInTimeAreMissed) {
  Schedule schedule({.rate = 1000, .duration_ns = 100 * kMs});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(schedule.Next(50 * kMs).has_value());
  EXPECT_FALSE(schedule.Next(100 * kMs).has_value());
  EXPECT_EQ(schedule.missed(), 90);  // of the 100 that are due before 100 ms
  Schedule few({.rate = 1000, .requests = 20, .duration_ns = 100 * kMs});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(few.Next(0).has_value());
  EXPECT_FALSE(few.Next(100 * kMs).has_value());
  EXPECT_EQ(few.missed(), 10);
}

TEST(ScheduleTest, WithoutARateACallIsDueWhenACallerIsFree) {
  Schedule schedule({.requests = 2, .duration_ns = 10 * kMs});
  EXPECT_EQ(schedule.Next(3 * kMs)->due_ns, 3 * kMs);
  EXPECT_EQ(schedule.Next(4 * kMs)->index, 1);
  EXPECT_FALSE(schedule.Next(5 * kMs).has_value());
  Schedule timed({.duration_ns = 10 * kMs});
  EXPECT_TRUE(timed.Next(9 * kMs).has_value());
  EXPECT_FALSE(timed.Next(10 * kMs).has_value());
  EXPECT_EQ(timed.missed(), 0);
}

TEST(ScheduleTest, AnIdleGapStandsBeforeEveryCall) {
  Schedule schedule({.gap_ns = 1050 * kMs, .requests = 10, .duration_ns = 3000 * kMs});
  EXPECT_EQ(schedule.Next(0)->due_ns, 1050 * kMs);
  EXPECT_EQ(schedule.Next(1051 * kMs)->due_ns, 2101 * kMs);
  EXPECT_FALSE(schedule.Next(2102 * kMs).has_value());  // it would be due after the end
}

TEST(ScheduleTest, RatesThatAreNoDivisorsStayOnTime) {
  Schedule schedule({.rate = 3, .requests = 3'000'001});
  std::optional<Arrival> last;
  while (const auto arrival = schedule.Next(0)) last = arrival;
  EXPECT_EQ(last->index, 3'000'000);
  EXPECT_EQ(last->due_ns, 1'000'000'000'000'000);  // no error adds up
}

TEST(MixTest, FollowsTheWeightsAndSpreadsThem) {
  const Mix mix({5, 1, 2});
  std::vector<int64_t> counts(3, 0);
  for (int64_t i = 0; i < 8000; ++i) ++counts[mix.Pick(i)];
  EXPECT_THAT(counts, ElementsAre(5000, 1000, 2000));
  const Mix even({1, 1});
  EXPECT_THAT((std::vector<size_t>{even.Pick(0), even.Pick(1), even.Pick(2)}), ElementsAre(0, 1, 0));
}

TEST(LatencyTest, SmallValuesAreExact) {
  LatencyHistogram latency;
  EXPECT_EQ(latency.Quantile(9900), 0);
  for (int64_t ns = 100; ns >= 1; --ns) latency.Add(ns);
  EXPECT_EQ(latency.count(), 100);
  EXPECT_EQ(latency.max(), 100);
  EXPECT_EQ(latency.Quantile(5000), 50);
  EXPECT_EQ(latency.Quantile(9000), 90);
  EXPECT_EQ(latency.Quantile(9900), 99);
  EXPECT_EQ(latency.Quantile(9990), 100);
  EXPECT_EQ(latency.Quantile(10000), 100);
  EXPECT_EQ(latency.Quantile(1), 1);
}

TEST(LatencyTest, QuantilesAreNeverBelowTheTruthAndAtMostOnePart128Above) {
  std::mt19937_64 random(7);
  std::vector<int64_t> values;
  LatencyHistogram latency;
  for (int i = 0; i < 20011; ++i) {
    // All magnitudes, up to 2^62.
    const auto value = static_cast<int64_t>((random() | 1) >> (2 + random() % 60));
    values.push_back(value);
    latency.Add(value);
  }
  std::sort(values.begin(), values.end());
  for (const int64_t share : {1, 100, 2500, 5000, 9000, 9900, 9990, 9999, 10000}) {
    const int64_t rank = (static_cast<int64_t>(values.size()) * share + 9999) / 10000;
    const int64_t exact = values[static_cast<size_t>(rank - 1)], got = latency.Quantile(share);
    EXPECT_GE(got, exact) << share;
    EXPECT_LE(got - exact, exact / 128) << share;
  }
  EXPECT_EQ(latency.max(), values.back());
  EXPECT_EQ(latency.Quantile(10000), values.back());
}

TEST(LatencyTest, MergedIsAsOne) {
  LatencyHistogram one, other, both;
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t value = i * i * 977;
    (i % 3 == 0 ? one : other).Add(value);
    both.Add(value);
  }
  one.Merge(other);
  one.Merge(LatencyHistogram());
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.max(), both.max());
  for (int64_t share = 100; share <= 10000; share += 100) EXPECT_EQ(one.Quantile(share), both.Quantile(share));
}

TEST(LoadTallyTest, FailuresCountByCodeAndNotAsLatencies) {
  LoadTally tally, other;
  tally.Add({absl::OkStatus(), 10, 20}, 5);
  tally.Add({absl::UnavailableError("full"), 10, 0}, 1);
  other.Add({absl::UnavailableError("full again"), 10, 0}, 1);
  other.Add({absl::InternalError("broken"), 10, 0}, 1);
  tally.Merge(other);
  EXPECT_EQ(tally.calls, 4);
  EXPECT_EQ(tally.failed(), 3);
  EXPECT_EQ(tally.sent_bytes, 10);
  EXPECT_EQ(tally.received_bytes, 20);
  EXPECT_EQ(tally.latency.count(), 1);
  EXPECT_EQ(tally.failures.at(absl::StatusCode::kUnavailable).count, 2);
  EXPECT_EQ(tally.failures.at(absl::StatusCode::kUnavailable).message, "full");

  LoadReport report;
  report.names = {"table"};
  report.mode = "rate";
  report.result.scenarios = {tally};
  report.result.all = tally;
  report.result.seconds = 2;
  report.result.missed = 7;
  EXPECT_THAT(report.Text(), HasSubstr("UNAVAILABLE: 2, the first one: full\n"));
  EXPECT_THAT(report.Text(), HasSubstr("7 calls were due and never begun"));
  EXPECT_THAT(report.Json(), HasSubstr("{\"code\":\"UNAVAILABLE\",\"count\":2,\"first_message\":\"full\"}"));
  EXPECT_THAT(report.Json(), HasSubstr("\"bytes_per_second\":15.0"));
}

TEST(LoadArgsTest, Durations) {
  for (const auto& [text, ns] : {std::pair{"1.05s", int64_t{1'050'000'000}},
                                 {"500ms", 500 * kMs},
                                 {"20us", 20'000},
                                 {"2m", 120'000 * kMs},
                                 {"24h", 86'400'000 * kMs},
                                 {"3", 3000 * kMs}}) {
    const auto parsed = ParseDuration("--duration", text);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, ns) << text;
  }
  for (const char* text : {"", "s", "-1s", "1.2.3s", "1 s", "1d", "0", "0s", "25h", "1e3s", "nan", "inf"}) {
    const auto parsed = ParseDuration("--idle-gap", text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(IsUsageError(parsed.status()));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("--idle-gap: given '" + std::string(text) + "'"));
  }
}

TEST(LoadArgsTest, Mixes) {
  const std::vector<std::string> allowed = {"table", "batch"};
  const auto mix = ParseMix("batch=3,table", allowed);
  ASSERT_TRUE(mix.ok()) << mix.status();
  EXPECT_THAT(*mix, ElementsAre(std::pair<std::string, int64_t>("batch", 3), std::pair<std::string, int64_t>("table", 1)));
  EXPECT_TRUE(ParseMix("table=9999,batch", allowed).ok());
  for (const char* text : {"", "tabel", "table=0", "table=-1", "table=", "table=x", "table=1.5", "table,table", "table,",
                           "table=10001", "table=9999,batch=2", "table=99999999999999999999"}) {
    const auto parsed = ParseMix(text, allowed);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_TRUE(IsUsageError(parsed.status())) << text;
  }
}

}  // namespace
}  // namespace phasor::cli
