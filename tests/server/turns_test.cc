// Stages of one call, one after the other: who waits for a worker gets its turn between them, and so does the end of the
// call.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/work.h"
#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

// Steps that are short one by one, and long together.
class LongWork final : public Work {
 public:
  explicit LongWork(std::function<void(int64_t step)> run) : run_(std::move(run)) {
    outputs = {{Slot::kTable, DType::kF32, {1}, {}, 4, -1}};
  }
  static std::vector<PrecomputeItem> Item(std::function<void(int64_t step)> run) {
    std::vector<PrecomputeItem> items(1);
    items[0].payload_bytes = 4;
    items[0].work = std::make_shared<LongWork>(std::move(run));
    return items;
  }
  static constexpr int64_t kSteps = 300;
  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const>, const WorkMemory&) const override {
    std::vector<ProgramStep> steps;
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto run = [this, step](RowRange, const CancelFlag*) {
        run_(step);
        return absl::OkStatus();
      };
      steps.push_back(ProgramStep::Of(run, 1, 1));
    }
    return steps;
  }

 private:
  const std::function<void(int64_t step)> run_;
};

TEST(TurnsTest, AChainOfShortStepsLetsOthersHaveTheirTurn) {
  EngineOptions options;
  options.worker_threads = 1;
  TestEngine engine(options);
  std::future<Answer<PrecomputeResult>> other;
  bool other_was_first = false;
  const auto run = [&](int64_t step) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    // Rows that the one worker computes.
    if (step == 3) {
      std::vector<PrecomputeItem> items;
      items.push_back(TableItem(Rope(), Range(0, 1000, 3), TableForm::kSinCosInterleaved));
      other = engine.Send(std::move(items));
    }
    if (step == LongWork::kSteps - 1) other_was_first = other.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  EXPECT_TRUE(engine.Call(LongWork::Item(run)).status.ok());
  EXPECT_TRUE(other.get().status.ok());
  EXPECT_TRUE(other_was_first);
}

TEST(TurnsTest, ACallThatIsOverEndsBetweenTwoOfThem) {
  TestEngine engine;
  const auto context = std::make_shared<CallContext>();
  std::atomic<int64_t> last{0};
  const auto run = [&](int64_t step) {
    last = step;
    if (step == 5) context->cancelled.store(true);
  };
  EXPECT_EQ(engine.Send(LongWork::Item(run), context).get().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(last.load(), 5);
}

// Memory that a step cannot get is the item's error.
TEST(TurnsTest, AnAllocationThatFailsIsTheItemsError) {
  TestEngine engine;
  const Answer<PrecomputeResult> answer = engine.Call(LongWork::Item([](int64_t step) {
    if (step == 2) throw std::bad_alloc();
  }));
  ASSERT_EQ(answer.results.size(), 1u);
  EXPECT_EQ(answer.results[0].status.code(), absl::StatusCode::kResourceExhausted) << answer.results[0].status;
}

}  // namespace
}  // namespace phasor::server
