#include "server/table_cache.h"

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/engine.h"

namespace phasor::server {
namespace {

// A plan whose key is that text; all share one hash, so that only full comparison tells them apart.
std::shared_ptr<const PlanEntry> Plan(const std::string& key, int64_t pairs = 1) {
  auto entry = std::make_shared<PlanEntry>();
  AnglePlan plan;
  plan.frequencies.resize(static_cast<size_t>(pairs));
  entry->resolved.plan = plan;
  entry->key = key;
  entry->key_hash = 1;
  entry->fingerprint = key + std::string(32, '-');
  entry->scheme = "rope_default";
  return entry;
}
TileKey Key(const std::shared_ptr<const PlanEntry>& plan, int64_t index = 0) { return {plan, DType::kF32, false, index}; }

constexpr int64_t kOneTile = 2 * kTileRows * 4;  // one pair, f32

// Remembers what was asked for; tests play the builder.
class ManualBuilder final : public TableCache::Builder {
 public:
  void Start(const TileKey& key, Lane, std::shared_ptr<StageTicket> ticket) override {
    std::lock_guard lock(mutex_);
    started_.push_back(key);
    tickets_.push_back(std::move(ticket));
  }
  void Promote(const std::shared_ptr<StageTicket>& ticket) override {
    std::lock_guard lock(mutex_);
    promoted_.push_back(ticket);
  }
  std::vector<TileKey> started() const {
    std::lock_guard lock(mutex_);
    return started_;
  }
  // Of what was started, in order; and of what was promoted.
  std::vector<std::shared_ptr<StageTicket>> tickets() const {
    std::lock_guard lock(mutex_);
    return tickets_;
  }
  std::vector<std::shared_ptr<StageTicket>> promoted() const {
    std::lock_guard lock(mutex_);
    return promoted_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<TileKey> started_;
  std::vector<std::shared_ptr<StageTicket>> tickets_, promoted_;
};

class Waiter final : public TileWaiter {
 public:
  explicit Waiter(std::shared_ptr<CallContext> context = nullptr) : context_(std::move(context)) {}
  const CallContext* context() const override { return context_.get(); }
  void TileDone(int64_t, absl::StatusOr<TileHandle> tile) override {
    ++calls;
    result = std::move(tile);
  }
  std::atomic<int> calls{0};
  absl::StatusOr<TileHandle> result = absl::UnknownError("not yet");

 private:
  std::shared_ptr<CallContext> context_;
};

class TableCacheTest : public ::testing::Test {
 protected:
  std::shared_ptr<Buffer> Memory() { return *pool_.Allocate(kOneTile); }
  // Builds a tile; the handle is dropped.
  void Build(const TileKey& key) {
    auto waiter = std::make_shared<Waiter>();
    ASSERT_EQ(cache_.Acquire(key, Lane::kSmall, waiter).outcome, TableCache::Outcome::kStarted);
    ASSERT_TRUE(cache_.BeginBuild(key));
    cache_.FinishBuild(key, Memory());
    ASSERT_EQ(waiter->calls, 1);
    ASSERT_TRUE(waiter->result.ok());
  }

  BufferPool pool_{0};
  ManualBuilder builder_;
  TableCache cache_{8 * kOneTile, &builder_};
};

TEST_F(TableCacheTest, OneBuildForAllWhoWait) {
  const TileKey key = Key(Plan("a"));
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.push_back(std::make_shared<Waiter>());
    EXPECT_EQ(cache_.Acquire(key, Lane::kSmall, waiters.back()).outcome,
              i == 0 ? TableCache::Outcome::kStarted : TableCache::Outcome::kJoined);
  }
  EXPECT_EQ(builder_.started().size(), 1u);
  EXPECT_TRUE(cache_.BeginBuild(key));
  EXPECT_EQ(cache_.Find(key), nullptr);
  cache_.FinishBuild(key, Memory());
  for (const auto& waiter : waiters) {
    EXPECT_EQ(waiter->calls, 1);
    EXPECT_EQ(*waiter->result, *waiters[0]->result);
  }
  const auto again = cache_.Acquire(key, Lane::kSmall, waiters[0]);
  EXPECT_EQ(again.outcome, TableCache::Outcome::kReady);
  EXPECT_EQ(waiters[0]->calls, 1);
  const auto stats = cache_.stats();
  EXPECT_EQ(stats.misses, 1);
  EXPECT_EQ(stats.coalesced, 4);
  EXPECT_EQ(stats.hits, 1);
  EXPECT_EQ(stats.bytes, kOneTile);
}

TEST_F(TableCacheTest, ComparesKeysInFull) {
  // Every key here falls into one bucket chain of equal plan hashes.
  const auto a = Plan("a"), b = Plan("b"), same = Plan("a");
  Build(Key(a));
  EXPECT_EQ(cache_.Find(Key(b)), nullptr);
  EXPECT_NE(cache_.Find(Key(same)), nullptr);  // another spelling of the same plan
  EXPECT_EQ(cache_.Find({a, DType::kF64, false, 0}), nullptr);
  EXPECT_EQ(cache_.Find({a, DType::kF32, true, 0}), nullptr);
  EXPECT_EQ(cache_.Find(Key(a, -1)), nullptr);
}

TEST_F(TableCacheTest, FailureReachesAllWaitersAndLeavesNothing) {
  const TileKey key = Key(Plan("a"));
  auto first = std::make_shared<Waiter>(), second = std::make_shared<Waiter>();
  cache_.Acquire(key, Lane::kSmall, first);
  cache_.Acquire(key, Lane::kSmall, second);
  ASSERT_TRUE(cache_.BeginBuild(key));
  cache_.FinishBuild(key, absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(first->result.status(), absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(second->result.status(), absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(cache_.stats().bytes, 0);
  Build(key);
}

TEST_F(TableCacheTest, ACancelledWaiterDoesNotEndTheBuildOfOthers) {
  const TileKey key = Key(Plan("a"));
  auto context = std::make_shared<CallContext>();
  auto gone = std::make_shared<Waiter>(context), stays = std::make_shared<Waiter>(std::make_shared<CallContext>());
  cache_.Acquire(key, Lane::kSmall, gone);
  cache_.Acquire(key, Lane::kSmall, stays);
  context->cancelled = true;
  ASSERT_TRUE(cache_.BeginBuild(key));
  cache_.FinishBuild(key, Memory());
  EXPECT_TRUE(stays->result.ok());
  EXPECT_EQ(gone->calls, 1);
}

TEST_F(TableCacheTest, ABuildThatNobodyWantsIsDroppedBeforeItBegins) {
  const TileKey key = Key(Plan("a"));
  auto context = std::make_shared<CallContext>();
  auto gone = std::make_shared<Waiter>(context);
  cache_.Acquire(key, Lane::kSmall, gone);
  context->cancelled = true;
  EXPECT_FALSE(cache_.BeginBuild(key));
  EXPECT_EQ(gone->result.status().code(), absl::StatusCode::kCancelled);
  Build(key);
  EXPECT_EQ(builder_.started().size(), 2u);
}

TEST_F(TableCacheTest, ASmallCallTakesALargeBuildToItsLane) {
  const auto plan = Plan("a");
  const auto waiter = std::make_shared<Waiter>();
  for (const int64_t index : {0, 1}) {
    EXPECT_EQ(cache_.Acquire(Key(plan, index), Lane::kLarge, waiter).outcome, TableCache::Outcome::kStarted);
  }
  EXPECT_EQ(cache_.Acquire(Key(plan, 1), Lane::kLarge, waiter).outcome, TableCache::Outcome::kJoined);
  EXPECT_TRUE(builder_.promoted().empty());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache_.Acquire(Key(plan, 1), Lane::kSmall, waiter).outcome, TableCache::Outcome::kJoined);
  }
  ASSERT_EQ(builder_.promoted().size(), 1u);  // the first one was enough
  EXPECT_NE(builder_.promoted()[0], nullptr);
  EXPECT_EQ(builder_.promoted()[0], builder_.tickets()[1]);
  EXPECT_NE(builder_.promoted()[0], builder_.tickets()[0]);
  EXPECT_EQ(builder_.started().size(), 2u);  // one build each, still
  ASSERT_TRUE(cache_.BeginBuild(Key(plan, 1)));
  cache_.FinishBuild(Key(plan, 1), Memory());
  EXPECT_EQ(waiter->calls, 5);
  EXPECT_EQ(cache_.stats().coalesced, 4);
}

TEST_F(TableCacheTest, TheLeastRecentlyUsedLeaveAndUsersKeepThem) {
  const auto plan = Plan("a");
  for (int64_t i = 0; i < 8; ++i) Build(Key(plan, i));
  TileHandle held = cache_.Find(Key(plan, 0));  // now the most recently used
  const TileHandle next = cache_.Find(Key(plan, 1));
  Build(Key(plan, 8));
  EXPECT_EQ(cache_.Find(Key(plan, 2)), nullptr);
  EXPECT_NE(cache_.Find(Key(plan, 0)), nullptr);
  EXPECT_EQ(cache_.stats().bytes, 8 * kOneTile);
  EXPECT_EQ(cache_.stats().evictions, 1);
  EXPECT_EQ(cache_.stats().evicted_in_use_bytes, 0);

  EXPECT_EQ(cache_.Evict({}, true), std::pair(int64_t{8}, 8 * kOneTile));
  EXPECT_EQ(cache_.stats().bytes, 0);
  EXPECT_EQ(cache_.stats().evicted_in_use_bytes, 2 * kOneTile);
  EXPECT_EQ(pool_.stats().used_bytes, 2 * kOneTile);
  held.reset();
  EXPECT_EQ(cache_.stats().evicted_in_use_bytes, kOneTile);
  EXPECT_EQ(pool_.stats().used_bytes, kOneTile);
}

TEST_F(TableCacheTest, ListsAndEvictsByName) {
  const auto a = Plan("a"), b = Plan("b");
  Build(Key(a, 0));
  Build(Key(a, 1));
  Build(Key(b, 0));
  cache_.Find(Key(a, 1));
  const auto tables = cache_.List();
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].name, "612d2d2d2d2d2d2d.f32");
  EXPECT_EQ(tables[0].tiles, 2);
  EXPECT_EQ(tables[0].rows, 2 * kTileRows);
  EXPECT_EQ(tables[0].bytes, 2 * kOneTile);
  EXPECT_EQ(tables[0].hits, 1);
  EXPECT_EQ(tables[0].scheme, "rope_default");
  EXPECT_EQ(tables[0].dtype, "f32");
  EXPECT_TRUE(cache_.Has(tables[1].name));
  EXPECT_EQ(cache_.Evict({tables[0].name, "nothing"}, false).first, 2);
  EXPECT_FALSE(cache_.Has(tables[0].name));
  EXPECT_TRUE(cache_.Has(tables[1].name));
}

TEST_F(TableCacheTest, LargeTilesAreNotKept) {
  EXPECT_TRUE(cache_.Cacheable(2 * kOneTile));
  EXPECT_FALSE(cache_.Cacheable(2 * kOneTile + 1));
  EXPECT_FALSE(TableCache(0, &builder_).Cacheable(1));
}

TEST_F(TableCacheTest, FindAllIsAllOrNothing) {
  const auto plan = Plan("a");
  Build(Key(plan, -1));
  Build(Key(plan, 0));
  std::vector<TileHandle> tiles;
  const std::vector<TileUse> missing = {{-1, 1}, {0, 1}, {1, 1}}, there = {{-1, 1}, {0, 1}};
  EXPECT_FALSE(cache_.FindAll(Key(plan), missing, &tiles));
  EXPECT_TRUE(tiles.empty());
  EXPECT_EQ(cache_.stats().hits, 0);
  EXPECT_TRUE(cache_.FindAll(Key(plan), there, &tiles));
  EXPECT_EQ(tiles.size(), 2u);
  EXPECT_EQ(cache_.stats().hits, 2);
}

// However many calls want tiles at once, and however long they keep them: half the capacity beside what is kept.
TEST_F(TableCacheTest, WhatIsBuiltAndWhatIsHeldAreBounded) {
  const auto plan = std::make_shared<PlanEntry>(*Plan("a"));
  const int64_t bytes = TileBytes(*plan, DType::kF32);
  TableCache cache(8 * bytes, &builder_);
  auto waiter = std::make_shared<Waiter>(std::make_shared<CallContext>());
  for (int64_t index = 0; index < 4; ++index) {
    EXPECT_EQ(cache.Acquire(Key(plan, index), Lane::kSmall, waiter).outcome, TableCache::Outcome::kStarted);
  }
  EXPECT_EQ(cache.stats().building_bytes, 4 * bytes);
  EXPECT_EQ(cache.Acquire(Key(plan, 4), Lane::kSmall, waiter).outcome, TableCache::Outcome::kFull);
  EXPECT_EQ(cache.Acquire(Key(plan, 3), Lane::kSmall, waiter).outcome, TableCache::Outcome::kJoined);
  auto warming = std::make_shared<Waiter>();
  EXPECT_EQ(cache.Acquire(Key(plan, 5), Lane::kLarge, warming).outcome, TableCache::Outcome::kStarted);
  // One is ready, another failed, a third is dropped: there is room again.
  cache.FinishBuild(Key(plan, 0), *pool_.Allocate(bytes));
  cache.FinishBuild(Key(plan, 1), absl::InternalError("no"));
  EXPECT_EQ(cache.stats().building_bytes, 3 * bytes);
  const TileHandle held = cache.Find(Key(plan, 0));
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(cache.Acquire(Key(plan, 6), Lane::kSmall, waiter).outcome, TableCache::Outcome::kStarted);
  // What was evicted counts for as long as somebody has it.
  cache.FinishBuild(Key(plan, 6), absl::InternalError("no"));
  cache.Evict({}, true);
  EXPECT_EQ(cache.Acquire(Key(plan, 7), Lane::kSmall, waiter).outcome, TableCache::Outcome::kFull);
  EXPECT_EQ(cache.Find(Key(plan, 7)), nullptr);
}

// Threads that acquire, hold and drop tiles of a cache that holds fewer than they use, while another evicts.
TEST(TableCacheLoad, StaysBoundedAndConsistent) {
  BufferPool pool(int64_t{1} << 20);
  class InlineBuilder final : public TableCache::Builder {
   public:
    explicit InlineBuilder(BufferPool* pool) : pool_(pool) {}
    void Promote(const std::shared_ptr<StageTicket>&) override {}
    void Start(const TileKey& key, Lane, std::shared_ptr<StageTicket>) override {
      if (!cache->BeginBuild(key)) return;
      auto memory = *pool_->Allocate(kOneTile);
      reinterpret_cast<int64_t*>(memory->data())[0] = key.index;
      cache->FinishBuild(key, std::move(memory));
    }
    TableCache* cache = nullptr;

   private:
    BufferPool* pool_;
  } builder(&pool);
  TableCache cache(8 * kOneTile, &builder);
  builder.cache = &cache;
  const auto plan = Plan("a");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      uint32_t random = static_cast<uint32_t>(t) + 1;
      for (int i = 0; i < 500; ++i) {
        random = random * 1664525u + 1013904223u;
        const int64_t index = (random >> 16) % 16;
        auto waiter = std::make_shared<Waiter>();
        auto acquired = cache.Acquire(Key(plan, index), Lane::kSmall, waiter);
        if (acquired.tile == nullptr) continue;  // built by this thread or waited for: the waiter's business
        wrong += reinterpret_cast<const int64_t*>(acquired.tile->data())[0] != index;
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 50; ++i) {
      cache.Evict({}, true);
      wrong += cache.stats().bytes > 8 * kOneTile;
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  cache.Evict({}, true);
  EXPECT_EQ(cache.stats().bytes, 0);
  EXPECT_EQ(cache.stats().evicted_in_use_bytes, 0);
  EXPECT_EQ(pool.stats().used_bytes, 0);
}

}  // namespace
}  // namespace phasor::server
