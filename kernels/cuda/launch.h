// The shape of a launch as plain arithmetic. Kernels here are functors over a thread's number: they use no blocks, barriers,
// shared memory or warps, so a device runs them as a grid and a test as a loop, in any order.
#ifndef PHASOR_KERNELS_CUDA_LAUNCH_H_
#define PHASOR_KERNELS_CUDA_LAUNCH_H_

#include <algorithm>
#include <cstdint>

namespace phasor::cuda {

// One of `count` threads of a launch. A kernel body does works index, index + count, index + 2·count … of its `works`, so
// neighbours in a warp touch neighbours in memory, whatever the grid's size.
struct GridThread {
  int64_t index = 0;
  int64_t count = 1;
};

// A one-dimensional grid.
struct LaunchShape {
  uint32_t blocks = 0;
  uint32_t block_threads = 0;

  int64_t threads() const { return static_cast<int64_t>(blocks) * block_threads; }
  friend bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

inline constexpr uint32_t kBlockThreads = 128;
// The launch limit of a grid's first dimension.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

// Enough threads for one work each, but no more blocks than the device holds at once: the rest is done by the loop in the
// body. works ≥ 0 (0: an empty shape, not to be launched); resident_blocks > 0: blocks of kBlockThreads that all
// multiprocessors hold together.
constexpr LaunchShape ShapeFor(int64_t works, int64_t resident_blocks) {
  if (works <= 0) return {};
  const int64_t needed = (works - 1) / kBlockThreads + 1;
  const int64_t blocks = std::min({needed, std::max<int64_t>(resident_blocks, 1), kMaxBlocks});
  return {static_cast<uint32_t>(blocks), kBlockThreads};
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LAUNCH_H_
