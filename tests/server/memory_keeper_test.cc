#include "server/memory_keeper.h"

#include <atomic>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// How many looks at unchanging traffic and memory it takes until memory is given back; −1: not within 100. It does not help.
int LooksUntilGivenBack(QuietWatch& watch, int64_t traffic, int64_t inflight = 0, int64_t resident = 0) {
  for (int i = 1; i <= 100; ++i) {
    if (!watch.Look(traffic, inflight, resident)) continue;
    watch.GaveBack(resident);
    return i;
  }
  return -1;
}

TEST(QuietWatch, GivesBackOnceAfterLargeTraffic) {
  QuietWatch watch;
  EXPECT_FALSE(watch.Look(100 * kMiB, 24 * kMiB, 0));
  EXPECT_EQ(LooksUntilGivenBack(watch, 100 * kMiB), QuietWatch::kQuietLooks);
  EXPECT_EQ(LooksUntilGivenBack(watch, 100 * kMiB), -1);
  EXPECT_FALSE(watch.Look(130 * kMiB, 0, 0));
  EXPECT_EQ(LooksUntilGivenBack(watch, 130 * kMiB), QuietWatch::kQuietLooks);
}

TEST(QuietWatch, WaitsForTrafficAndForCallsInFlight) {
  QuietWatch watch;
  for (int64_t i = 1; i <= 100; ++i) EXPECT_FALSE(watch.Look(i * 24 * kMiB, 0, 0));
  EXPECT_EQ(LooksUntilGivenBack(watch, 2400 * kMiB, 2 * kMiB), -1);  // an answer that a slow client still reads
  EXPECT_EQ(LooksUntilGivenBack(watch, 2400 * kMiB), QuietWatch::kQuietLooks);
}

TEST(QuietWatch, SmallCallsNeitherHinderNorSuffice) {
  QuietWatch watch;
  for (int64_t i = 1; i <= 100; ++i) EXPECT_FALSE(watch.Look(i * 1000, 0, 0));
  EXPECT_FALSE(watch.Look(40 * kMiB, 0, 0));
  int64_t traffic = 40 * kMiB;
  int looks = 1;
  while (!watch.Look(traffic += 1000, 1000, 0) && looks < 100) ++looks;
  EXPECT_EQ(looks, QuietWatch::kQuietLooks);
}

// Small messages, much memory.
TEST(QuietWatch, GivesBackWhatGrewWithoutTraffic) {
  QuietWatch watch;
  EXPECT_FALSE(watch.Look(1000, 0, 1000 * kMiB));  // what was there at first is no growth
  EXPECT_EQ(LooksUntilGivenBack(watch, 1000, 0, 1000 * kMiB), -1);
  EXPECT_EQ(LooksUntilGivenBack(watch, 2000, 0, 1063 * kMiB), -1);
  EXPECT_FALSE(watch.Look(3000, 0, 2300 * kMiB));
  EXPECT_EQ(LooksUntilGivenBack(watch, 3000, 0, 2300 * kMiB), QuietWatch::kSteadyLooks);
  // It did not help: not again before there is more.
  EXPECT_EQ(LooksUntilGivenBack(watch, 3000, 0, 2300 * kMiB), -1);
  EXPECT_EQ(LooksUntilGivenBack(watch, 3000, 0, 2363 * kMiB), -1);
  EXPECT_EQ(LooksUntilGivenBack(watch, 3000, 0, 2370 * kMiB), QuietWatch::kSteadyLooks + 1);
  // Memory that went by itself and came again is growth.
  EXPECT_EQ(LooksUntilGivenBack(watch, 3000, 0, 100 * kMiB), -1);
  EXPECT_EQ(LooksUntilGivenBack(watch, 3000, 0, 500 * kMiB), QuietWatch::kSteadyLooks + 1);
}

TEST(QuietWatch, WaitsForMemoryThatGrowsAndForCallsInFlight) {
  QuietWatch watch;
  for (int64_t i = 1; i <= 100; ++i) EXPECT_FALSE(watch.Look(1000 * i, 0, i * 8 * kMiB));
  EXPECT_EQ(LooksUntilGivenBack(watch, 100000, 2 * kMiB, 800 * kMiB), -1);
  EXPECT_EQ(LooksUntilGivenBack(watch, 100000, 0, 800 * kMiB), QuietWatch::kSteadyLooks);
}

TEST(MemoryKeeper, GivesBackOnceWhereThatDoesNotHelp) {
  std::atomic<int> given_back{0}, looks{0};
  {
    const auto none = [] { return int64_t{0}; };
    MemoryKeeper keeper({none, none, [&] { return ++looks < 10 ? kMiB : 1000 * kMiB; }, [&] { ++given_back; }},
                        std::chrono::milliseconds(1));
    for (int i = 0; i < 5000 && looks < 200; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(given_back, 1);
}

TEST(MemoryKeeper, LooksByItselfAndStops) {
  std::atomic<int> given_back{0};
  {
    const auto none = [] { return int64_t{0}; };
    MemoryKeeper keeper({[] { return 100 * kMiB; }, none, none, [&] { ++given_back; }}, std::chrono::milliseconds(1));
    for (int i = 0; i < 5000 && given_back == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(given_back, 1);
}

}  // namespace
}  // namespace phasor::server
