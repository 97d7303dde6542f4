#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

TEST(CudaToeplitzTest, BitsOfTheReferenceInEveryShapeCutAndOrder) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  for (const int64_t size : {2, 4, 8}) {
    for (const auto [heads, queries, keys] : {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7}, {2, 33, 64}, {1, 200, 3}}) {
      ToeplitzTask task;
      task.element_size = size;
      task.heads = heads;
      task.queries = queries;
      task.keys = keys;
      task.vector_stride = queries + keys + 2;
      std::vector<unsigned char> vector(static_cast<size_t>(heads * task.vector_stride * size));
      for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<unsigned char>(i * 37 + i / 251);
      task.vector = vector.data();
      const auto bytes = static_cast<size_t>(heads * queries * keys * size);
      std::vector<unsigned char> expected(bytes), got(bytes + 64, 0xee);
      task.out = expected.data();
      ASSERT_TRUE((*reference)->Run(task, {0, heads * queries}, nullptr).ok());
      task.out = got.data();
      for (const auto order : {ThreadOrder::kForward, ThreadOrder::kReversed, ThreadOrder::kShuffled}) {
        for (const int threads : {1, 3}) {
          for (const int64_t chunk : {1, 4, 1000}) {
            std::fill(got.begin(), got.end(), 0xee);
            ASSERT_TRUE(RunLowered(task, {0, heads * queries}, {order, threads}, chunk).ok());
            EXPECT_EQ(std::memcmp(expected.data(), got.data(), bytes), 0);
            EXPECT_EQ(got[bytes], 0xee);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::cuda
