#include "server/memory_keeper.h"

#include <atomic>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// How many looks at unchanging traffic it takes until memory is given back; −1: not within 100.
int LooksUntilGivenBack(QuietWatch& watch, int64_t traffic, int64_t inflight = 0) {
  for (int i = 1; i <= 100; ++i) {
    if (watch.Look(traffic, inflight)) return i;
  }
  return -1;
}

TEST(QuietWatch, GivesBackOnceAfterLargeTraffic) {
  QuietWatch watch;
  EXPECT_FALSE(watch.Look(100 * kMiB, 24 * kMiB));
  EXPECT_EQ(LooksUntilGivenBack(watch, 100 * kMiB), QuietWatch::kQuietLooks);
  EXPECT_EQ(LooksUntilGivenBack(watch, 100 * kMiB), -1);
  EXPECT_FALSE(watch.Look(130 * kMiB, 0));
  EXPECT_EQ(LooksUntilGivenBack(watch, 130 * kMiB), QuietWatch::kQuietLooks);
}

TEST(QuietWatch, WaitsForTrafficAndForCallsInFlight) {
  QuietWatch watch;
  for (int64_t i = 1; i <= 100; ++i) EXPECT_FALSE(watch.Look(i * 24 * kMiB, 0));
  EXPECT_EQ(LooksUntilGivenBack(watch, 2400 * kMiB, 2 * kMiB), -1);  // an answer that a slow client still reads
  EXPECT_EQ(LooksUntilGivenBack(watch, 2400 * kMiB), QuietWatch::kQuietLooks);
}

TEST(QuietWatch, SmallCallsNeitherHinderNorSuffice) {
  QuietWatch watch;
  for (int64_t i = 1; i <= 100; ++i) EXPECT_FALSE(watch.Look(i * 1000, 0));
  EXPECT_FALSE(watch.Look(40 * kMiB, 0));
  int64_t traffic = 40 * kMiB;
  int looks = 1;
  while (!watch.Look(traffic += 1000, 1000) && looks < 100) ++looks;
  EXPECT_EQ(looks, QuietWatch::kQuietLooks);
}

TEST(MemoryKeeper, LooksByItselfAndStops) {
  std::atomic<int> given_back{0};
  {
    MemoryKeeper keeper({[] { return 100 * kMiB; }, [] { return int64_t{0}; }, [&] { ++given_back; }},
                        std::chrono::milliseconds(1));
    for (int i = 0; i < 5000 && given_back == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(given_back, 1);
}

}  // namespace
}  // namespace phasor::server
