// The shape of launches: every work once, whatever the size, and no dimension beyond what a device takes.
#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/pieces.cuh"
#include "tests/kernels/cuda/host_grid.h"

namespace phasor::cuda {
namespace {

TEST(CudaLaunchTest, NoDimensionOverflows) {
  EXPECT_EQ(ShapeFor(0, 10), LaunchShape());
  EXPECT_EQ(ShapeFor(1, 10), (LaunchShape{1, kBlockThreads}));
  EXPECT_EQ(ShapeFor(kBlockThreads, 10), (LaunchShape{1, kBlockThreads}));
  EXPECT_EQ(ShapeFor(kBlockThreads + 1, 10), (LaunchShape{2, kBlockThreads}));
  for (const int64_t works : {int64_t{1} << 31, (int64_t{1} << 32) + 7, INT64_MAX}) {
    EXPECT_EQ(ShapeFor(works, 1056, 1).blocks, 1056u);
    EXPECT_EQ(ShapeFor(works, 1056).blocks, 1056u * kFills);
    EXPECT_EQ(ShapeFor(works, 0, 1).blocks, 1u);
    EXPECT_LE(ShapeFor(works, INT64_MAX).blocks, (uint32_t{1} << 31) - 1);
  }
  EXPECT_EQ(ShapeFor(INT64_MAX, INT64_MAX, 1).threads(), ((int64_t{1} << 31) - 1) * kBlockThreads);
  EXPECT_EQ(ShapeFor(INT64_MAX, INT64_MAX).blocks, ((uint32_t{1} << 31) - 1) / kFills * kFills);
}

// Of 132 multiprocessors, as many blocks on each as the registers of a kernel allow (kernels/cuda/README.md). Blocks do the
// same, but for one work a thread: how much of the time in which the device is filled its places have nothing to do, where
// turns follow each other without a gap and the last lasts as long as the others.
TEST(CudaLaunchTest, TheLastTurnIsNoMatter) {
  constexpr int64_t kProcessors = 132, kBytes = int64_t{256} << 20;
  const auto idle = [&](int64_t works, int64_t held) {
    const LaunchShape shape = ShapeFor(works, kProcessors * 2048 / kBlockThreads);
    const int64_t places = kProcessors * held, turns = (shape.blocks + places - 1) / places;
    const int64_t each = (works + shape.threads() - 1) / shape.threads();
    return 1 - static_cast<double>(works) / static_cast<double>(turns * places * each * kBlockThreads);
  };
  for (const int64_t held : {10, 12, 16}) {
    EXPECT_LT(idle(kBytes / 32, held), 0.07) << "rotations, " << held << " blocks a multiprocessor";
    EXPECT_LT(idle(4 * kBytes / 32, held), 0.07) << "larger ones";
    EXPECT_LT(idle(kBytes / 16, held), 0.07) << "copies";
  }
  // Rows of a table are 16 a work: blocks are few, and none is done without.
  for (const int64_t bytes : {kBytes, 8 * kBytes}) {
    const int64_t works = bytes / (16 * 4 * 2 * 4);
    EXPECT_EQ(ShapeFor(works, kProcessors * 2048 / kBlockThreads).threads(), works);
  }
}

TEST(CudaLaunchTest, WorksOfLargeTasksAreCounted) {
  BiasMatrixParams p;
  p.element_size = 2;
  p.rows = int64_t{1} << 21;
  p.keys = (int64_t{1} << 21) + 1;
  EXPECT_EQ(WorksOf(p), ((int64_t{1} << 42) + (int64_t{1} << 21)) / 8);
  AddParams add;
  add.dtype = DType::kF64;
  add.rows = (int64_t{1} << 33) + 1;
  add.dim = 1;
  EXPECT_EQ(WorksOf(add), (int64_t{1} << 32) + 1);
  EXPECT_EQ(PiecesOf(7, 7, 2), 0);
  EXPECT_EQ(PiecesOf(7, 8, 2), 1);
  EXPECT_EQ(PiecesOf(7, 9, 2), 2);
}

// What ForPieces does of an array that begins at a large offset, a thread after the other.
struct CountBody {
  int64_t begin, end, width, origin;
  std::vector<int>* counts;
  bool* sound;

  void operator()(GridThread thread) const {
    const auto count = [&](int64_t i, int64_t row, int64_t column) {
      if (i < begin || i >= end || row * width + column != i || column >= width) {
        *sound = false;
      } else {
        ++(*counts)[static_cast<size_t>(i - origin)];
      }
    };
    ForPieces<uint16_t>(
        thread, begin, end, width,
        [&](int64_t first, int64_t row, int64_t column) {
          if (first % 8 != 0 || column + 8 > width) *sound = false;
          for (int i = 0; i < 8; ++i) count(first + i, row, column + i);
        },
        count);
  }
};

TEST(CudaLaunchTest, EveryElementOnceInAwkwardShapes) {
  for (const int64_t origin : {int64_t{0}, int64_t{3} << 32}) {
    for (const int64_t width : {1, 2, 7, 8, 9, 15, 16, 17, 64, 1000}) {
      for (const auto [first, elements] :
           {std::array<int64_t, 2>{0, 0}, {0, 1}, {0, 8}, {3, 4}, {3, 5}, {5, 100}, {8, 4096}, {1, 20001}}) {
        for (const int64_t resident : {1, 2, 1000}) {
          std::vector<int> counts(static_cast<size_t>(first + elements), 0);
          bool sound = true;
          const int64_t begin = origin + first, end = begin + elements;
          const LaunchShape shape = ShapeFor(PiecesOf(begin, end, 2), resident, resident == 1000 ? kFills : 1);
          EXPECT_EQ(shape.blocks == 0, elements == 0);
          HostGrid{ThreadOrder::kShuffled}.Run(CountBody{begin, end, width, origin, &counts, &sound}, shape);
          EXPECT_TRUE(sound);
          for (int64_t i = 0; i < first + elements; ++i) {
            ASSERT_EQ(counts[static_cast<size_t>(i)], i >= first ? 1 : 0) << "width " << width << " element " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace phasor::cuda
