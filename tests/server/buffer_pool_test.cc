#include "server/buffer_pool.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace phasor::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(BufferPool, AlignsBySize) {
  BufferPool pool(64 * kMiB);
  for (int64_t size : {int64_t{0}, int64_t{1}, int64_t{4096}, int64_t{5000}, kMiB, 2 * kMiB, 3 * kMiB + 1, 17 * kMiB}) {
    auto buffer = pool.Allocate(size);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ((*buffer)->size(), size);
    const auto address = reinterpret_cast<uintptr_t>((*buffer)->data());
    EXPECT_EQ(address % (size >= 2 * kMiB ? 2 * kMiB : 4096), 0u) << size;
    std::memset((*buffer)->data(), 0x5a, static_cast<size_t>(size));
  }
}

TEST(BufferPool, ReusesABlockOfTheSameClassAndWastesLittle) {
  BufferPool pool(64 * kMiB);
  std::byte* first = (*pool.Allocate(3 * kMiB))->data();
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ(pool.stats().free_bytes, 3 * kMiB);
  auto again = pool.Allocate(3 * kMiB - 100);
  EXPECT_EQ((*again)->data(), first);
  EXPECT_EQ(pool.stats().reused, 1);
  EXPECT_EQ(pool.stats().fresh, 1);
  for (int64_t size = 16 << 10; size < 40 * kMiB; size = size * 9 / 8 + 1) {
    const int64_t before = pool.stats().used_bytes;
    auto buffer = pool.Allocate(size);
    EXPECT_LE(pool.stats().used_bytes - before, size * 5 / 4 + 4096) << size;
  }
}

// What is pinned, and what has been.
struct Pinned final : HostPinning {
  bool Pin(std::byte* memory, int64_t bytes) const override {
    if (refuse) return false;
    EXPECT_TRUE(blocks.emplace(memory, bytes).second);
    ++times;
    return true;
  }
  void Unpin(std::byte* memory) const override { EXPECT_EQ(blocks.erase(memory), 1u); }

  mutable std::map<std::byte*, int64_t> blocks;
  mutable int times = 0;
  bool refuse = false;
};

TEST(BufferPool, PinsLargeBlocksOnceForAsLongAsItHasThem) {
  const auto pinned = std::make_shared<Pinned>();
  std::shared_ptr<Buffer> last;
  {
    BufferPool pool(64 * kMiB, pinned);
    EXPECT_TRUE(pool.Allocate(kMiB / 2).ok());
    EXPECT_EQ(pinned->times, 0);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(pinned->blocks.count((*pool.Allocate(3 * kMiB))->data()), 1u);
    EXPECT_EQ(pinned->times, 1);  // the same block again
    pool.Trim(0);
    EXPECT_TRUE(pinned->blocks.empty());
    pinned->refuse = true;
    EXPECT_TRUE(pool.Allocate(3 * kMiB).ok());  // slower, and no error; nothing to undo
    pool.Trim(0);
    pinned->refuse = false;
    last = *pool.Allocate(5 * kMiB);
  }
  EXPECT_EQ(pinned->blocks.size(), 1u);  // in use after the pool
  last.reset();
  EXPECT_TRUE(pinned->blocks.empty());
}

TEST(BufferPool, KeepsNoMoreThanItMayAndTrims) {
  BufferPool pool(4 * kMiB);
  {
    std::vector<std::shared_ptr<Buffer>> buffers;
    for (int i = 0; i < 8; ++i) buffers.push_back(*pool.Allocate(kMiB));
    EXPECT_EQ(pool.stats().used_bytes, 8 * kMiB);
  }
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ(pool.stats().free_bytes, 4 * kMiB);
  // A block of another class displaces what was unused for longest.
  {
    auto other = pool.Allocate(2 * kMiB);
  }
  EXPECT_EQ(pool.stats().free_bytes, 4 * kMiB);
  pool.Trim(kMiB);
  EXPECT_LE(pool.stats().free_bytes, kMiB);
  pool.Trim(0);
  EXPECT_EQ(pool.stats().free_bytes, 0);
}

TEST(BufferPool, ABlockTooLargeToKeepLeavesTheOthers) {
  BufferPool pool(4 * kMiB);
  {
    auto one = pool.Allocate(kMiB), other = pool.Allocate(2 * kMiB);
  }
  EXPECT_EQ(pool.stats().free_bytes, 3 * kMiB);
  EXPECT_TRUE(pool.Allocate(8 * kMiB).ok());
  EXPECT_EQ(pool.stats().used_bytes, 0);
  EXPECT_EQ(pool.stats().free_bytes, 3 * kMiB);
  {
    auto one = pool.Allocate(kMiB), other = pool.Allocate(2 * kMiB);
    EXPECT_EQ(pool.stats().reused, 2);
  }
  // One that fills what may be kept is kept.
  EXPECT_TRUE(pool.Allocate(4 * kMiB).ok());
  EXPECT_EQ(pool.stats().free_bytes, 4 * kMiB);
}

TEST(BufferPool, RefusesWhatNoMachineHas) {
  BufferPool pool(kMiB);
  EXPECT_EQ(pool.Allocate(int64_t{1} << 60).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

TEST(BufferPool, BuffersOutliveThePool) {
  std::shared_ptr<Buffer> buffer;
  {
    BufferPool pool(kMiB);
    buffer = *pool.Allocate(100000);
  }
  std::memset(buffer->data(), 1, 100000);
  buffer.reset();
}

TEST(BufferPool, ManyThreadsNeverShareABlock) {
  BufferPool pool(8 * kMiB);
  std::vector<std::thread> threads;
  std::atomic<int> mixed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        auto buffer = *pool.Allocate(4096 << (i % 4));
        std::memset(buffer->data(), t + 1, 4096);
        std::this_thread::yield();
        for (int b = 0; b < 4096; ++b) mixed += buffer->data()[b] != static_cast<std::byte>(t + 1);
        // The last reference may die on another thread.
        if (i % 50 == 0) std::thread([last = std::move(buffer)]() mutable { last.reset(); }).join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mixed, 0);
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

}  // namespace
}  // namespace phasor::server
