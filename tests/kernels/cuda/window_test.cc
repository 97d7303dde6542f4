#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/conformance/window_cases.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

TEST(CudaWindowTest, BitsOfTheReferenceInEveryShapeCutAndOrder) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(41);
  int64_t number = 0;
  for (const TokenWindow& window : kTestedWindows) {
    for (const int64_t size : {2, 4, 8}) {
      const WindowCase c(window, size, random);
      SCOPED_TRACE(testing::Message() << window.height << "x" << window.width << (window.class_token ? "+1" : "") << " of "
                                      << size);
      const auto run = [&](const Backend& backend, int64_t cut) {
        Buffer out(c.elements() * size);
        EXPECT_TRUE(backend.Run(c.TaskTo(out.data()), {0, cut}, nullptr).ok());
        EXPECT_TRUE(backend.Run(c.TaskTo(out.data()), {cut, c.rows()}, nullptr).ok());
        EXPECT_TRUE(out.GuardIntact());
        return out;
      };
      const Buffer want = run(**reference, 0);
      const auto compare = [&](const HostGridBackend& backend) {
        EXPECT_EQ(run(backend, c.rows() / 3).FirstDifference(want, 0, c.elements(), size), -1);
      };
      if (window.tokens() > 20) {
        for (int i = 0; i < 3; ++i) compare(HostGridNumber(number++));
      } else {
        OnEveryHostGrid(compare);
      }
    }
  }
}

TEST(CudaWindowTest, RefusesWhatCannotBeRun) {
  const uint32_t table[9] = {};
  uint32_t out[16] = {};
  const WindowTask good{.window = {2, 2, false}, .heads = 1, .table = table, .table_stride = 9, .out = out};
  const HostGridBackend backend({}, 1);
  EXPECT_TRUE(backend.Run(good, {0, 4}, nullptr).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(backend.Run(good, {0, 5}, nullptr)));
  const auto refused = [&](auto change) {
    WindowTask task = good;
    change(task);
    return absl::IsInvalidArgument(backend.Run(task, {0, 4}, nullptr));
  };
  EXPECT_TRUE(refused([](WindowTask& t) { t.table = nullptr; }));
  EXPECT_TRUE(refused([](WindowTask& t) { t.out = nullptr; }));
  EXPECT_TRUE(refused([](WindowTask& t) { t.element_size = 1; }));
  EXPECT_TRUE(refused([](WindowTask& t) { t.window.width = 0; }));
}

}  // namespace
}  // namespace phasor::cuda
