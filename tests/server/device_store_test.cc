// What is mapped of other processes' device memory: counted, bounded, and not longer than it is used.
#include "server/device_store.h"

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/refusal.h"

namespace phasor::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Maps every handle of 64 bytes of device 0 but the refused one, and remembers what is mapped.
class Mapper final : public DeviceSharing {
 public:
  std::vector<int> devices() const override { return {0}; }
  absl::StatusOr<DeviceMapping> Open(int device, std::string_view handle) const override {
    const std::lock_guard lock(mutex_);
    ++opens;
    if (!error.ok()) return error;
    EXPECT_EQ(device, 0);
    if (const auto old = replaced_.find(handle[0]); old != replaced_.end() && open_.contains(At(old->second))) {
      return absl::AlreadyExistsError("mapped");
    }
    std::byte* const data = At(handle[0]);
    ++open_[data];
    return DeviceMapping{data, 4};
  }
  void Close(int, std::byte* data) const override {
    const std::lock_guard lock(mutex_);
    if (--open_[data] == 0) open_.erase(data);
  }
  // Handle `number` is of memory at the address of handle `old`.
  void Replace(char number, char old) { replaced_[number] = old; }
  size_t open() const {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }
  bool IsOpen(const std::byte* data) const {
    const std::lock_guard lock(mutex_);
    return open_.contains(const_cast<std::byte*>(data));
  }

  absl::Status error;
  mutable int opens = 0;

 private:
  std::byte* At(char number) const { return &memory_[number % 64 * 4]; }

  std::map<char, char> replaced_;
  mutable std::mutex mutex_;
  mutable std::array<std::byte, 256> memory_;
  mutable std::map<std::byte*, int> open_;
};

std::string Handle(int number) { return std::string(kDeviceHandleBytes, static_cast<char>(number)); }

struct Fixture {
  explicit Fixture(int64_t handles = 2, milliseconds lease = std::chrono::hours(1), int64_t of_peer = 64) {
    DeviceStoreOptions options;
    options.max_handles = handles;
    options.peer_handles = of_peer;
    options.lease = lease;
    store = std::make_unique<DeviceStore>(options, mapper,
                                          [now = now] { return DeviceStore::Clock::time_point(milliseconds(now->load())); });
  }
  std::shared_ptr<Mapper> mapper = std::make_shared<Mapper>();
  std::shared_ptr<std::atomic<int64_t>> now = std::make_shared<std::atomic<int64_t>>(1000);
  std::unique_ptr<DeviceStore> store;
};

TEST(DeviceStoreTest, AHandleIsMappedOnceWhoeverNamesIt) {
  Fixture f;
  const auto one = f.store->Open("unix", 0, Handle(1)), two = f.store->Open("unix", 0, Handle(1));
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(*one, *two);
  EXPECT_EQ((*one)->handle(), Handle(1));
  EXPECT_EQ((*one)->size(), 4);
  EXPECT_EQ(f.mapper->opens, 1);
  const DeviceStore::Stats stats = f.store->stats();
  EXPECT_EQ(stats.open, 1);
  EXPECT_EQ(stats.opened, 1);
  EXPECT_EQ(stats.found, 1);
}

TEST(DeviceStoreTest, WhatIsIdleLongestMakesRoomAndWhatIsHeldDoesNot) {
  Fixture f;
  auto held = *f.store->Open("unix", 0, Handle(1));
  f.now->fetch_add(1);
  f.store->Open("unix", 0, Handle(2)).IgnoreError();
  f.now->fetch_add(1);
  ASSERT_TRUE(f.store->Open("unix", 0, Handle(3)).ok());
  EXPECT_EQ(f.store->stats().open, 2);
  EXPECT_EQ(f.mapper->open(), 2u);
  EXPECT_TRUE(f.mapper->IsOpen(held->data()));
  EXPECT_EQ(*f.store->Open("unix", 0, Handle(1)), held) << "it was not mapped again";

  const auto other = *f.store->Open("unix", 0, Handle(3));
  const auto refused = f.store->Open("unix", 0, Handle(4));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(QuotaSubjectOf(refused.status()), "device memory");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("2 of 2 allocations (--cuda-ipc-handles)"));
  EXPECT_EQ(f.mapper->open(), 2u);
  EXPECT_EQ(f.store->stats().refused, 1);
  held.reset();
  EXPECT_TRUE(f.store->Open("unix", 0, Handle(4)).ok());
}

// A handle of `owner`, or null where it was refused.
std::shared_ptr<const DeviceAllocation> Open(Fixture& f, const std::string& owner, int number) {
  f.now->fetch_add(1);
  const auto opened = f.store->Open(owner, 0, Handle(number));
  return opened.ok() ? *opened : nullptr;
}

TEST(DeviceStoreTest, APeerHasABoundOfItsOwn) {
  Fixture f(8, std::chrono::hours(1), 2);
  const auto one = Open(f, "a", 1), two = Open(f, "a", 2);
  const auto refused = f.store->Open("a", 0, Handle(3));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(QuotaSubjectOf(refused.status()), "device memory");
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("calls of this peer work on 2 of 2 allocations (--cuda-ipc-peer-handles)"));
  EXPECT_EQ(f.mapper->opens, 2) << "refused before the driver was asked";
  EXPECT_EQ(f.store->stats().refused, 1);
  EXPECT_EQ(Open(f, "a", 1), one) << "what it has goes on";
  EXPECT_NE(Open(f, "b", 3), nullptr) << "another peer has its own";
}

TEST(DeviceStoreTest, WhoWantsMoreGivesUpItsOwnAndNobodyElses) {
  Fixture f(3, std::chrono::hours(1), 2);
  std::byte* const of_b = Open(f, "b", 10)->data();
  for (int number = 1; number <= 6; ++number) {
    const auto mine = Open(f, "a", number);
    ASSERT_NE(mine, nullptr);
    EXPECT_TRUE(f.mapper->IsOpen(of_b)) << "though it was used longest ago";
    EXPECT_EQ(f.store->stats().open, number == 1 ? 2 : 3);
  }
  EXPECT_FALSE(f.mapper->IsOpen(of_b - 4 * (10 - 4))) << "its own that was used longest ago went";
}

TEST(DeviceStoreTest, AnAllocationCountsForEveryPeerThatNamedIt) {
  Fixture f(8, std::chrono::hours(1), 2);
  auto of_a = Open(f, "a", 1), of_b = Open(f, "b", 1);
  EXPECT_EQ(of_a, of_b);
  EXPECT_EQ(f.mapper->opens, 1);
  const auto more = Open(f, "b", 2);
  EXPECT_EQ(Open(f, "b", 3), nullptr) << "b's calls hold two";
  EXPECT_EQ(Open(f, "a", 2), more);
  EXPECT_EQ(f.store->stats().open, 2);
  // That a's call holds it keeps nothing of b's taken, and the other way round.
  std::byte* const first = of_b->data();
  of_b.reset();
  EXPECT_NE(Open(f, "b", 3), nullptr);
  EXPECT_TRUE(f.mapper->IsOpen(first));
  of_a.reset();
  Open(f, "a", 4), Open(f, "a", 5);
  EXPECT_FALSE(f.mapper->IsOpen(first)) << "a's alone by then, and the one that it used longest ago";
  EXPECT_TRUE(f.mapper->IsOpen(more->data()));
  EXPECT_EQ(f.store->stats().open, 4) << "b's 2 and 3, a's 4 and 5";
}

TEST(DeviceStoreTest, ItStaysMappedForThePeerThatUsedItLast) {
  Fixture f(8, milliseconds(500));
  Open(f, "a", 1);
  f.now->fetch_add(300);
  Open(f, "b", 1);
  f.now->fetch_add(300);
  f.store->DropIdle();
  EXPECT_EQ(f.mapper->open(), 1u);
  f.now->fetch_add(200);
  f.store->DropIdle();
  EXPECT_EQ(f.mapper->open(), 0u);
}

// What is refused in the end makes no room, and an allocation found in the list takes none.
TEST(DeviceStoreTest, RefusalsAndFindsPushNothingOut) {
  Fixture f(2, std::chrono::hours(1), 2);
  Open(f, "a", 1), Open(f, "a", 2);
  f.mapper->error = absl::InvalidArgumentError("why");
  EXPECT_EQ(Open(f, "a", 3), nullptr);
  EXPECT_EQ(f.store->stats().open, 2);
  EXPECT_NE(Open(f, "b", 1), nullptr) << "it is mapped: the driver is not asked";
  EXPECT_EQ(f.mapper->open(), 2u);
}

TEST(DeviceStoreTest, NoneOfAPeerWithABoundOfNone) {
  Fixture f(2, std::chrono::hours(1), 0);
  EXPECT_EQ(QuotaSubjectOf(f.store->Open("a", 0, Handle(1)).status()), "device memory");
}

TEST(DeviceStoreTest, WhatNobodyUsesIsUnmappedAfterItsLease) {
  Fixture f(4, milliseconds(500));
  auto held = *f.store->Open("unix", 0, Handle(1));
  std::byte* const first = held->data();
  std::byte* const second = (*f.store->Open("unix", 0, Handle(2)))->data();
  f.now->fetch_add(499);
  f.store->DropIdle();
  EXPECT_EQ(f.mapper->open(), 2u);
  f.now->fetch_add(1);
  f.store->DropIdle();
  EXPECT_FALSE(f.mapper->IsOpen(second));
  EXPECT_TRUE(f.mapper->IsOpen(first)) << "a call works on it";
  held.reset();
  EXPECT_TRUE(f.mapper->IsOpen(first));
  f.store->DropIdle();
  EXPECT_EQ(f.mapper->open(), 0u);
  EXPECT_EQ(f.store->stats().open, 0);
}

// The thread does it by itself, here with the clock of the machine.
TEST(DeviceStoreTest, NobodyNeedsToCallForThat) {
  const auto mapper = std::make_shared<Mapper>();
  DeviceStoreOptions options;
  options.max_handles = 2;
  options.lease = milliseconds(1);  // counts as 10
  DeviceStore store(options, mapper);
  auto held = *store.Open("unix", 0, Handle(1));
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(mapper->open(), 1u);
  held.reset();
  for (int i = 0; i < 2000 && mapper->open() > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(mapper->open(), 0u);
}

// Of memory that its process freed within the lease and got again at the same address: what is idle makes way, of whatever
// handle, and what a call works on is waited for by the caller.
TEST(DeviceStoreTest, AnAddressThatWasFreedAndTakenAgain) {
  Fixture f(8);
  f.mapper->Replace(2, 1);  // 2 opens when 1 is closed
  f.mapper->Replace(4, 3);
  Open(f, "a", 1), Open(f, "b", 1);
  auto held = Open(f, "a", 3);
  const auto second = Open(f, "a", 2);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(f.store->stats().open, 2) << "2 and 3";
  EXPECT_TRUE(f.mapper->IsOpen(held->data()));
  const auto refused = f.store->Open("a", 0, Handle(4));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("once that call has ended the handle opens: mapped"));
  EXPECT_EQ(f.store->stats().refused, 1);
  EXPECT_TRUE(f.mapper->IsOpen(held->data()));
  held.reset();
  EXPECT_NE(Open(f, "a", 4), nullptr);
}

TEST(DeviceStoreTest, HoldersOutliveTheStore) {
  Fixture f;
  auto held = *f.store->Open("unix", 0, Handle(1));
  f.store->Open("unix", 0, Handle(2)).IgnoreError();
  f.store.reset();
  EXPECT_EQ(f.mapper->open(), 1u);
  held.reset();
  EXPECT_EQ(f.mapper->open(), 0u);
}

TEST(DeviceStoreTest, RefusalsLeaveNothing) {
  Fixture f;
  for (const auto code : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnavailable, absl::StatusCode::kInternal}) {
    f.mapper->error = absl::Status(code, "why");
    EXPECT_EQ(f.store->Open("unix", 0, Handle(1)).status(), f.mapper->error);
  }
  f.mapper->error = absl::ResourceExhaustedError("why");
  EXPECT_EQ(QuotaSubjectOf(f.store->Open("unix", 0, Handle(1)).status()), "device memory");
  EXPECT_EQ(f.store->stats().open, 0);
  EXPECT_EQ(f.store->stats().refused, 4);
}

TEST(DeviceStoreTest, OffWithoutAFlagOrADevice) {
  const DeviceStore no_flag({}, std::make_shared<Mapper>());
  EXPECT_FALSE(no_flag.on());
  EXPECT_EQ(no_flag.why_off(), "--cuda-ipc-handles is 0");
  DeviceStoreOptions options;
  options.max_handles = 1;
  const DeviceStore no_device(options, nullptr);
  EXPECT_FALSE(no_device.on());
  EXPECT_EQ(no_device.why_off(), "its backend has no devices");
  EXPECT_TRUE(no_device.devices().empty());
}

TEST(DeviceStoreTest, ManyThreads) {
  Fixture f(3, milliseconds(10), 2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const auto opened = f.store->Open(t % 2 == 0 ? "a" : "b", 0, Handle((t + i) % 5));
        if (opened.ok() && !f.mapper->IsOpen((*opened)->data())) ++wrong;
        if (!opened.ok() && !absl::IsResourceExhausted(opened.status())) ++wrong;
        f.now->fetch_add(7);
        if (i % 3 == 0) f.store->DropIdle();
        if (opened.ok() && !f.mapper->IsOpen((*opened)->data())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  f.now->fetch_add(1000);
  f.store->DropIdle();
  EXPECT_EQ(f.mapper->open(), 0u);
}

}  // namespace
}  // namespace phasor::server
