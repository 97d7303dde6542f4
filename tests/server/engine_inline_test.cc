// What the thread that reads calls does of a call itself: little, however many items there are of it.
#include <future>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

TEST(EngineInline, CopiesOfACallAreBoundedTogether) {
  std::mutex mutex;
  size_t here = 0, elsewhere = 0;
  TestEngine engine({}, [&, caller = std::this_thread::get_id()](const Task& task, RowRange) {
    if (std::holds_alternative<AssembleTask>(task)) {
      const std::lock_guard lock(mutex);
      ++(std::this_thread::get_id() == caller ? here : elsewhere);
    }
    return absl::OkStatus();
  });
  const PrecomputeItem item = TableItem(Rope(4), Range(0, 128), TableForm::kConcatenated);
  ASSERT_EQ(item.payload_bytes, 4096);
  const Expected expected = ExpectTable(FakeBackend(std::make_shared<FakeBackendState>()), item);
  ExpectSame(expected, engine.One(item));  // makes the tile
  for (const size_t items : {size_t{8}, size_t{40}}) {
    here = elsewhere = 0;
    const auto answer = engine.Call(std::vector<PrecomputeItem>(items, item));
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    for (const PrecomputeResult& result : answer.results) ExpectSame(expected, result);
    EXPECT_EQ(here, 8u) << items;  // 32 KiB
    EXPECT_EQ(elsewhere, items - 8);
  }
}

TEST(EngineInline, SlicesAreNotCopies) {
  TestEngine engine;
  const PrecomputeItem item = TableItem(Rope(4), Range(0, 4096));
  engine.One(item);
  std::promise<std::thread::id> thread;
  Batch<PrecomputeItem> batch;
  for (int i = 0; i < 40; ++i) batch.emplace_back(item);
  engine->Precompute(std::make_shared<CallContext>(),
                     ValidatedAccess::Make(std::move(batch), false, 40 * item.payload_bytes),
                     [&thread](const Answer<PrecomputeResult>&) { thread.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(thread.get_future().get(), std::this_thread::get_id());
}

PositionSet Squares(int64_t count) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(i * i);
  return Ids(std::move(ids));
}

TEST(EngineInline, IdsOfACallAreBoundedTogether) {
  TestEngine engine;
  // Whether items of so many ids each are described on this thread.
  const auto tables_here = [&](std::vector<int64_t> counts) {
    Batch<PrecomputeItem> batch;
    for (const int64_t count : counts) batch.emplace_back(TableItem(Rope(4), Squares(count)));
    std::promise<std::thread::id> thread;
    engine->Precompute(std::make_shared<CallContext>(), ValidatedAccess::Make(std::move(batch), true, 0),
                       [&thread](const Answer<PrecomputeResult>&) { thread.set_value(std::this_thread::get_id()); });
    return thread.get_future().get() == std::this_thread::get_id();
  };
  const auto rotations_here = [&](std::vector<int64_t> counts) {
    Batch<ApplyItem> batch;
    for (const int64_t count : counts) {
      ApplyItem item;
      item.source = Rope(4);
      item.positions = Squares(count);
      batch.emplace_back(std::move(item));
    }
    std::promise<std::thread::id> thread;
    engine->Apply(std::make_shared<CallContext>(), ValidatedAccess::Make(std::move(batch), true, 0),
                  [&thread](const Answer<ApplyResult>&) { thread.set_value(std::this_thread::get_id()); });
    return thread.get_future().get() == std::this_thread::get_id();
  };
  tables_here({1});  // makes the plan
  EXPECT_TRUE(tables_here({2048, 2048}));
  EXPECT_FALSE(tables_here({2048, 2048, 3}));
  EXPECT_TRUE(rotations_here({2048, 2048}));
  EXPECT_FALSE(rotations_here({2048, 2048, 3}));
}

}  // namespace
}  // namespace phasor::server
