#include "server/region_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/refusal.h"

namespace phasor::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr int64_t kPage = 4096;
constexpr int64_t kMiB = int64_t{1} << 20;

RegionOptions Options(int64_t total = 16 * kMiB) {
  RegionOptions options;
  options.total_bytes = total;
  options.peer_bytes = 8 * kMiB;
  return options;
}

// What a program beside the server does: opens the path and maps what it finds there.
class Mapping {
 public:
  Mapping(const Region& region, int flags, int protection) : size_(static_cast<size_t>(region.size())) {
    fd = open(region.path().c_str(), flags | O_CLOEXEC);
    if (fd < 0) return;
    void* mapped = mmap(nullptr, size_, protection, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) data = static_cast<char*>(mapped);
  }
  ~Mapping() {
    if (data != nullptr) munmap(data, size_);
    if (fd >= 0) close(fd);
  }
  int fd = -1;
  char* data = nullptr;

 private:
  const size_t size_;
};

bool PathLeadsTo(const std::string& path, const std::string& name) {
  char text[256] = {};
  return readlink(path.c_str(), text, sizeof(text) - 1) > 0 && absl::StrCat("/memfd:phasor-", name, " (deleted)") == text;
}

// A clock that goes when told to.
struct FakeClock {
  std::shared_ptr<std::atomic<int64_t>> ms = std::make_shared<std::atomic<int64_t>>(1'000'000);
  std::function<RegionStore::Clock::time_point()> now() const {
    return [ms = ms] { return RegionStore::Clock::time_point(milliseconds(ms->load())); };
  }
  void Advance(int64_t by) const { ms->fetch_add(by); }
};

TEST(RegionStoreTest, ARegionIsPagesOfZerosThatOthersMap) {
  RegionStore store(Options());
  const auto region = store.Create("a", 5000);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ((*region)->size(), 2 * kPage);
  EXPECT_EQ((*region)->name().size(), 32u);
  EXPECT_EQ((*region)->name().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*region)->data()) % kPage, 0u);
  EXPECT_TRUE(std::all_of((*region)->data(), (*region)->data() + 2 * kPage, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(PathLeadsTo((*region)->path(), (*region)->name()));
  const Mapping other(**region, O_RDWR, PROT_READ | PROT_WRITE);
  ASSERT_NE(other.data, nullptr);
  other.data[2 * kPage - 1] = 'x';
  EXPECT_EQ((*region)->data()[2 * kPage - 1], std::byte{'x'});
  (*region)->data()[0] = std::byte{'y'};
  EXPECT_EQ(other.data[0], 'y');
  EXPECT_EQ(store.Find("a", (*region)->name()), *region);
}

TEST(RegionStoreTest, NobodyCanShortenARegion) {
  RegionStore store(Options());
  const auto region = store.Create("a", kPage);
  ASSERT_TRUE(region.ok());
  const Mapping other(**region, O_RDWR, PROT_READ | PROT_WRITE);
  ASSERT_NE(other.data, nullptr);
  EXPECT_NE(ftruncate(other.fd, 0), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(ftruncate(other.fd, 2 * kPage), 0);
  EXPECT_LT(open((*region)->path().c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), 0);
  // Nor keep the others from writing.
  EXPECT_NE(fcntl(other.fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
  // A hole gives pages back; the server finds zeros there, and no fault.
  EXPECT_EQ(fallocate(other.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), 0);
  EXPECT_EQ((*region)->data()[17], std::byte{0});
  struct stat found{};
  ASSERT_EQ(fstat(other.fd, &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST(RegionStoreTest, NamesAreNotToBeGuessed) {
  RegionStore store(Options());
  std::vector<std::string> names;
  for (int i = 0; i < 50; ++i) names.push_back((*store.Create("a", 1))->name());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  // Of 128 random bits, at most a few hexadecimal digits are the same from one name to the next.
  for (size_t i = 1; i < names.size(); ++i) EXPECT_NE(names[i].substr(0, 8), names[i - 1].substr(0, 8));
}

TEST(RegionStoreTest, HostileSizes) {
  RegionStore store(Options());
  for (const int64_t size :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::max() - kPage + 1, 8 * kMiB + 1, int64_t{1} << 46}) {
    const auto region = store.Create("a", size);
    EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted) << size;
  }
  EXPECT_EQ(store.stats().bytes, 0);
  EXPECT_EQ(store.stats().refused, 7);
}

// What the quotas allow and the system does not have must be refused before the first page of it is taken: the kernel would
// end other processes for it. The limit on files keeps this test from taking the machine's memory when that does not hold.
TEST(RegionStoreTest, MoreThanTheSystemHas) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit little{rlim_t{256} << 20, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
  RegionOptions wide = Options(int64_t{1} << 60);
  wide.peer_bytes = int64_t{1} << 60;
  RegionStore rich(wide);
  for (const int64_t size : {int64_t{1} << 44, int64_t{1} << 55}) {
    const auto region = rich.Create("a", size);
    EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted) << region.status();
  }
  EXPECT_EQ(rich.stats().bytes, 0);
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
}

TEST(RegionStoreTest, QuotasAreOfAPeerAndOfAll) {
  RegionStore store(Options());
  const auto a = store.Create("a", 8 * kMiB);
  ASSERT_TRUE(a.ok());
  const auto more = store.Create("a", 1);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(more.status().message()), HasSubstr("--shared-memory-peer-bytes"));
  EXPECT_EQ(QuotaSubjectOf(more.status()), "shared memory");
  ASSERT_TRUE(store.Create("b", 8 * kMiB).ok());
  const auto third = store.Create("c", 1);
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("--shared-memory-bytes"));
  EXPECT_EQ(QuotaSubjectOf(third.status()), "shared memory");
  EXPECT_EQ(std::string(third.status().message()).find((*a)->name()), std::string::npos);
  EXPECT_EQ(store.stats().bytes, 16 * kMiB);
}

TEST(RegionStoreTest, ThereAreSoManyRegionsAtMost) {
  RegionOptions options = Options();
  options.max_regions = 3;
  RegionStore store(options);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(store.Create("a", 1).ok());
  const auto fourth = store.Create("b", 1);
  EXPECT_EQ(fourth.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(fourth.status().message()), HasSubstr("--shared-memory-regions"));
  EXPECT_EQ(QuotaSubjectOf(fourth.status()), "shared memory");
}

TEST(RegionStoreTest, WhatIsSomebodyElsesIsNotThere) {
  RegionStore store(Options());
  const std::string name = (*store.Create("a", 1))->name();
  EXPECT_EQ(store.Find("b", name), nullptr);
  EXPECT_FALSE(store.Release("b", name));
  EXPECT_NE(store.Find("a", name), nullptr);
  for (const std::string& unknown : {std::string(), std::string("x"), name.substr(1), name + "0", std::string(1 << 20, 'a'),
                                     std::string("../../etc"), std::string(1, '\0')}) {
    EXPECT_EQ(store.Find("a", unknown), nullptr);
    EXPECT_FALSE(store.Release("a", unknown));
  }
  EXPECT_TRUE(store.Release("a", name));
  EXPECT_FALSE(store.Release("a", name));
  EXPECT_EQ(store.stats().regions, 0);
}

// The core of the matter: who works on a region goes on, whatever happens to its name.
TEST(RegionStoreTest, ARegionThatIsReleasedWhileItIsUsedLivesToTheEndOfTheUse) {
  RegionStore store(Options());
  auto made = store.Create("a", 8 * kMiB);
  ASSERT_TRUE(made.ok());
  const std::string name = (*made)->name(), path = (*made)->path();
  const Mapping client(**made, O_RDWR, PROT_READ | PROT_WRITE);
  ASSERT_NE(client.data, nullptr);
  client.data[kPage] = 'x';
  std::shared_ptr<Region> used = store.Find("a", name);
  *made = nullptr;
  ASSERT_TRUE(store.Release("a", name));
  EXPECT_EQ(store.Find("a", name), nullptr);
  EXPECT_FALSE(PathLeadsTo(path, name));
  EXPECT_EQ(store.stats().regions, 0);
  EXPECT_EQ(used->data()[kPage], std::byte{'x'});
  std::memset(used->data(), 'z', static_cast<size_t>(used->size()));
  EXPECT_EQ(client.data[8 * kMiB - 1], 'z');
  // Its room is taken until then.
  EXPECT_EQ(store.stats().bytes, 8 * kMiB);
  EXPECT_FALSE(store.Create("a", 1).ok());
  used.reset();
  EXPECT_EQ(store.stats().bytes, 0);
  EXPECT_TRUE(store.Create("a", 8 * kMiB).ok());
  // The memory is the system's again, though the client still maps it.
  EXPECT_EQ(client.data[8 * kMiB - 1], 0);
}

TEST(RegionStoreTest, RegionsThatNobodyUsesAreReleased) {
  const FakeClock clock;
  RegionOptions options = Options();
  options.lease = milliseconds(1000);
  RegionStore store(options, clock.now());
  const std::string used = (*store.Create("a", 1))->name();
  const std::string idle = (*store.Create("a", 1))->name();
  clock.Advance(999);
  EXPECT_NE(store.Find("a", used), nullptr);
  store.DropExpired();
  EXPECT_EQ(store.stats().regions, 2);
  clock.Advance(1);
  // Over is over, also before it is cleared away.
  EXPECT_EQ(store.Find("a", idle), nullptr);
  store.DropExpired();
  EXPECT_EQ(store.stats().regions, 1);
  EXPECT_EQ(store.stats().expired, 1);
  EXPECT_EQ(store.stats().bytes, kPage);
  EXPECT_NE(store.Find("a", used), nullptr);
}

TEST(RegionStoreTest, WhatIsHeldIsInUse) {
  const FakeClock clock;
  RegionOptions options = Options();
  options.lease = milliseconds(1000);
  RegionStore store(options, clock.now());
  std::shared_ptr<Region> held = *store.Create("a", 1);
  const std::string name = held->name();
  clock.Advance(5000);
  store.DropExpired();
  EXPECT_EQ(store.stats().regions, 1);
  held.reset();
  clock.Advance(999);
  store.DropExpired();
  EXPECT_EQ(store.stats().regions, 1);
  clock.Advance(1);
  store.DropExpired();
  EXPECT_EQ(store.stats().regions, 0);
  EXPECT_EQ(store.Find("a", name), nullptr);
}

TEST(RegionStoreTest, ALeaseOfNothingIsAShortOne) {
  RegionOptions options = Options();
  options.lease = milliseconds(0);
  RegionStore store(options);
  const std::shared_ptr<Region> held = *store.Create("a", 1);
  EXPECT_NE(store.Find("a", held->name()), nullptr);
  std::this_thread::sleep_for(3 * kShortestLease);
  store.DropExpired();  // ends, though what is held stays
  EXPECT_EQ(store.stats().regions, 1);
}

TEST(RegionStoreTest, AThreadReleasesThemInTime) {
  RegionOptions options = Options();
  options.lease = milliseconds(20);
  RegionStore store(options);
  ASSERT_TRUE(store.Create("a", 1).ok());
  for (int i = 0; i < 1000 && store.stats().bytes > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(store.stats().bytes, 0);
  EXPECT_EQ(store.stats().expired, 1);
}

TEST(RegionStoreTest, SharedResultsAreMadeOnceAndCannotBeWritten) {
  RegionStore store(Options());
  EXPECT_EQ(store.FindShared("a", "key"), nullptr);
  auto made = store.NewShared("a", 3 * kPage);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(store.Find("a", (*made)->name()), nullptr) << "it has no name before it is filled";
  std::memset((*made)->data(), 's', static_cast<size_t>((*made)->size()));
  const auto shared = store.Share("a", "key", *made);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(*shared, *made);
  EXPECT_TRUE((*shared)->read_only());

  const Mapping writer(**shared, O_RDWR, PROT_READ | PROT_WRITE);
  EXPECT_EQ(writer.data, nullptr) << "a client could write to what others read";
  if (writer.fd >= 0) {
    EXPECT_LT(pwrite(writer.fd, "x", 1, 0), 0);
    EXPECT_NE(fallocate(writer.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), 0);
  }
  const Mapping reader(**shared, O_RDONLY, PROT_READ);
  ASSERT_NE(reader.data, nullptr);
  EXPECT_EQ(reader.data[3 * kPage - 1], 's');

  // Another caller has the same one, and has it for itself.
  EXPECT_EQ(store.FindShared("b", "key"), *shared);
  EXPECT_EQ(store.Find("c", (*shared)->name()), nullptr);
  EXPECT_TRUE(store.Release("a", (*shared)->name()));
  EXPECT_EQ(store.Find("a", (*shared)->name()), nullptr);
  EXPECT_EQ(store.Find("b", (*shared)->name()), *shared);
  EXPECT_TRUE(store.Release("b", (*shared)->name()));
  EXPECT_EQ(store.FindShared("b", "key"), nullptr);
  EXPECT_EQ(reader.data[0], 's') << "what is mapped stays";
}

TEST(RegionStoreTest, WhoComesSecondGetsWhatIsShared) {
  RegionStore store(Options());
  const auto first = store.NewShared("a", 1), second = store.NewShared("b", 1);
  const auto shared = store.Share("a", "key", *first);
  const auto again = store.Share("b", "key", *second);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *shared);
  EXPECT_EQ(store.stats().regions, 1);
  EXPECT_EQ(store.Find("b", (*first)->name()), *first);
}

TEST(RegionStoreTest, TheEndOfTheStoreTakesAllNamesAway) {
  std::shared_ptr<Region> held;
  std::vector<std::pair<std::string, std::string>> places;
  {
    RegionStore store(Options());
    held = *store.Create("a", kPage);
    places.emplace_back(held->path(), held->name());
    for (int i = 0; i < 3; ++i) {
      const auto region = *store.Create("a", kPage);
      places.emplace_back(region->path(), region->name());
    }
    for (const auto& [path, name] : places) EXPECT_TRUE(PathLeadsTo(path, name));
  }
  for (const auto& [path, name] : places) EXPECT_FALSE(PathLeadsTo(path, name));
  std::memset(held->data(), 1, kPage);
}

TEST(RegionStoreTest, OffMeansOff) {
  RegionStore store({});
  EXPECT_FALSE(store.on());
  EXPECT_FALSE(store.Create("a", 1).ok());
  EXPECT_EQ(store.Find("a", "x"), nullptr);
}

TEST(RegionStoreTest, ManyThreads) {
  RegionOptions options = Options(int64_t{64} << 20);
  options.peer_bytes = options.total_bytes;
  options.lease = milliseconds(2);
  {
    RegionStore store(options);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&store, t] {
        const std::string owner = t % 2 == 0 ? "a" : "b";
        for (int i = 0; i < 200; ++i) {
          const auto region = store.Create(owner, kPage * (1 + i % 5));
          if (!region.ok()) continue;
          const auto found = store.Find(owner, (*region)->name());
          if (found != nullptr) std::memset(found->data(), t, static_cast<size_t>(found->size()));
          if (i % 3 == 0) store.Release(owner, (*region)->name());
          const std::string key = absl::StrCat(i % 7);
          if (store.FindShared(owner, key) == nullptr) {
            const auto made = store.NewShared(owner, kPage);
            if (made.ok()) static_cast<void>(store.Share(owner, key, *made));
          }
          if (i % 10 == 0) store.DropExpired();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < 1000 && store.stats().bytes > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(store.stats().bytes, 0);
    EXPECT_EQ(store.stats().regions, 0);
  }
}

}  // namespace
}  // namespace phasor::server
