#include "kernels/cpu/toeplitz.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "absl/status/status.h"

#include "tests/kernels/cpu/each_target.h"
#include "tests/kernels/cpu/guarded_buffer.h"

namespace phasor {
namespace {

struct Case {
  int64_t element_size, heads, queries, keys, vector_gap, misalignment;
  StoreHint hint;
};

void Check(const Case& c) {
  SCOPED_TRACE("size " + std::to_string(c.element_size) + " heads " + std::to_string(c.heads) + " queries " +
               std::to_string(c.queries) + " keys " + std::to_string(c.keys) + " misalignment " +
               std::to_string(c.misalignment));
  ToeplitzTask task;
  task.element_size = c.element_size;
  task.heads = c.heads, task.queries = c.queries, task.keys = c.keys;
  task.vector_stride = c.queries + c.keys - 1 + c.vector_gap;
  task.hint = c.hint;
  GuardedBuffer vector(c.heads * task.vector_stride * c.element_size, c.misalignment % 7);
  std::mt19937_64 random(3);
  for (int64_t i = 0; i < vector.bytes(); ++i) vector.data()[i] = static_cast<uint8_t>(random());
  task.vector = vector.data();

  const int64_t out_bytes = c.heads * c.queries * c.keys * c.element_size;
  GuardedBuffer expected(out_bytes, c.misalignment);
  for (int64_t h = 0; h < c.heads; ++h) {
    for (int64_t q = 0; q < c.queries; ++q) {
      for (int64_t k = 0; k < c.keys; ++k) {
        std::memcpy(expected.data() + ((h * c.queries + q) * c.keys + k) * c.element_size,
                    vector.data() + (h * task.vector_stride + (c.queries - 1 - q) + k) * c.element_size,
                    static_cast<size_t>(c.element_size));
      }
    }
  }
  OnEachTarget([&] {
    GuardedBuffer out(out_bytes, c.misalignment);
    task.out = out.data();
    const int64_t rows = c.heads * c.queries;
    ASSERT_TRUE(RunToeplitz(task, {0, rows / 3}, nullptr).ok());
    ASSERT_TRUE(RunToeplitz(task, {rows / 3, rows}, nullptr).ok());
    EXPECT_TRUE(out.SameAs(expected));
  });
}

TEST(ToeplitzTest, CopiesEveryShapeAtAnyAddress) {
  int64_t misalignment = 0;
  for (int64_t size : {2, 4, 8}) {
    for (int64_t keys : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257}) {
      for (int64_t queries : {1, 2, 5, 33}) {
        for (StoreHint hint : {StoreHint::kKeep, StoreHint::kReadNext}) {
          Check({size, 2, queries, keys, keys % 3, misalignment, hint});
          if (testing::Test::HasFailure()) return;
          misalignment = (misalignment + size) % 64;
        }
      }
    }
  }
}

TEST(ToeplitzTest, AddressesThatSuitNoElement) {
  for (int64_t misalignment : {1, 13, 63}) Check({4, 2, 9, 50, 0, misalignment, StoreHint::kKeep});
}

TEST(ToeplitzTest, NothingToDo) {
  Check({4, 0, 3, 3, 0, 0, StoreHint::kAuto});
  Check({4, 2, 3, 0, 1, 0, StoreHint::kAuto});
}

TEST(ToeplitzTest, RefusesAndCancels) {
  uint32_t vector[3] = {1, 2, 3}, out[4] = {9, 9, 9, 9};
  ToeplitzTask good;
  good.heads = 1, good.queries = 2, good.keys = 2, good.vector = vector, good.vector_stride = 3, good.out = out;
  CancelFlag cancel = true;
  EXPECT_TRUE(absl::IsCancelled(RunToeplitz(good, {0, 2}, &cancel)));
  EXPECT_EQ(out[0], 9u);
  ASSERT_TRUE(RunToeplitz(good, {0, 2}, nullptr).ok());
  EXPECT_EQ(out[0], 2u);
  EXPECT_EQ(out[2], 1u);
  const auto refused = [&](auto change) {
    ToeplitzTask task = good;
    change(task);
    return absl::IsInvalidArgument(RunToeplitz(task, {0, 2}, nullptr));
  };
  EXPECT_TRUE(refused([](ToeplitzTask& t) { t.element_size = 3; }));
  EXPECT_TRUE(refused([](ToeplitzTask& t) { t.out = nullptr; }));
  EXPECT_TRUE(refused([](ToeplitzTask& t) { t.vector = nullptr; }));
  EXPECT_TRUE(refused([](ToeplitzTask& t) { t.keys = -1; }));
  EXPECT_TRUE(refused([](ToeplitzTask& t) { t.queries = 1; }));
  EXPECT_GE(ToeplitzRowsPerSlice(good), 1);
  good.keys = int64_t{1} << 40;
  EXPECT_EQ(ToeplitzRowsPerSlice(good), 1);
}

}  // namespace
}  // namespace phasor
